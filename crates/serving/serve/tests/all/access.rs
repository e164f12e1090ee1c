//! Who may open which export.

use std::path::Path;

use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_serve::{ExportSettings, Order, send_order};

use crate::running::{Client, Running};

#[test]
fn a_client_opens_and_sees_only_what_it_may() {
    let user = rustix::process::geteuid().as_raw();
    let mine = format!("mine:size=1G,users={user}");
    let exports =
        ["others:offset=1G,size=1G,users=4000000", &mine, "secret:offset=2G,size=1G,hidden", "open:offset=3G,size=1G"];
    let control = tempfile::tempdir().unwrap();
    let control = control.path().join("control");
    let running = Running::with("null", &exports, |settings| settings.control = Some(control.clone()));
    let opens = |name: &str| Client::try_connect(&running.socket(), name).is_some();
    assert!(opens("mine") && opens("secret") && opens("open"));
    assert!(!opens("others"), "another user's");
    // The empty name is the first that it may open.
    assert_eq!(running.connect("").offer.size, 1 << 30);
    let set = |settings: &str| {
        let order = Order::Set { export: Some("others".into()), settings: vec![settings.into()], disk: 0 };
        send_order(&control, &order).unwrap();
    };
    set(&format!("users=7+{user}"));
    assert!(opens("others"), "from now on");
    set("users=none");
    set("groups=4000000");
    assert!(!opens("others"));
    // What it may not open is not in the list either, and neither is what is hidden.
    let uri = format!("nbd+unix:///?socket={}", running.socket().display());
    match std::process::Command::new("nbdinfo").args(["--list", &uri]).output() {
        Err(_) => eprintln!("skipped: nbdinfo is not installed"),
        Ok(listed) => {
            let text = String::from_utf8_lossy(&listed.stdout);
            assert!(text.contains("mine") && text.contains("open"), "{text}");
            assert!(!text.contains("others") && !text.contains("secret"), "{text}");
        }
    }
    assert!(running.end());
}

/// What an export with a socket of its own is: alone at its address, which comes and goes with it.
#[test]
fn an_export_with_a_socket_is_at_no_other_address() {
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str| folder.path().join(format!("{name}.sock"));
    let (first, second) = (own("first"), own("second"));
    let customer = format!("a:size=1G,socket={}", first.display());
    let also = format!("b:offset=1G,size=2G,socket={}", first.display());
    let control = folder.path().join("control");
    let running = Running::with("null", &[&customer, &also, "open:offset=3G,size=1G"], |settings| {
        settings.control = Some(control.clone());
    });
    let order = |order: Order| send_order(&control, &order);
    let set = |export: &str, setting: String| {
        order(Order::Set { export: Some(export.into()), settings: vec![setting], disk: 0 })
    };
    let opens = |socket: &Path, name: &str| Client::try_connect(socket, name).is_some();
    let common = running.socket();
    assert!(opens(&first, "a") && opens(&first, "b") && opens(&common, "open"));
    assert!(!opens(&common, "a") && !opens(&common, "b") && !opens(&first, "open"));
    assert_eq!(Client::connect(&first, "").offer.size, 1 << 30, "the empty name is the first one there");
    assert_eq!(running.connect("").offer.size, 1 << 30);
    let uris = running.server().uris();
    assert_eq!(uris.iter().filter(|uri| uri.contains("/a?socket=")).count(), 1, "{uris:?}");
    assert!(uris.contains(&format!("nbd+unix:///a?socket={}", first.display())), "{uris:?}");
    // It moves; the old address stays as long as another export is there. Who is connected stays so.
    let mut there = Client::connect(&first, "b");
    set("b", format!("socket={}", second.display())).unwrap();
    assert!(opens(&second, "b") && !opens(&first, "b") && opens(&first, "a"));
    assert_eq!(there.call(Command::Read, 0, 4096).0, 0);
    set("a", "socket=none".into()).unwrap();
    assert!(!first.exists() && opens(&common, "a"));
    // What cannot be opened is refused, and nothing has changed.
    for (path, part) in [
        (folder.path().join("none/such.sock"), "such.sock"),
        (control.clone(), "another use for it"),
        (common.clone(), "another use for it"),
    ] {
        let error = set("b", format!("socket={}", path.display())).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(opens(&second, "b"));
    }
    let export = ExportSettings::parse(&format!("c:offset=4G,size=1G,socket={}", first.display())).unwrap();
    order(Order::Add { export, disk: 0 }).unwrap();
    assert!(opens(&first, "c") && !opens(&common, "c"));
    order(Order::Remove { export: "c".into(), hard: true }).unwrap();
    assert!(!first.exists());
    drop(there);
    assert!(running.end());
    assert!(!second.exists());
}
