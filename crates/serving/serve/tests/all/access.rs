//! Who may open which export.

use std::process::Command;

use dumbwaiter_serve::{Order, send_order};

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
    match Command::new("nbdinfo").args(["--list", &uri]).output() {
        Err(_) => eprintln!("skipped: nbdinfo is not installed"),
        Ok(listed) => {
            let text = String::from_utf8_lossy(&listed.stdout);
            assert!(text.contains("mine") && text.contains("open"), "{text}");
            assert!(!text.contains("others") && !text.contains("secret"), "{text}");
        }
    }
    assert!(running.end());
}
