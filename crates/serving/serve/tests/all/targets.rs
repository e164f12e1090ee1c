//! Targets that fail, shrink, are removed or full, and sockets that cannot be made: one tenant's trouble is its own, and is counted and said.

use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_serve::{ExportSettings, ServeSettings, Server, TargetSettings};

use crate::patience::Patience;
use crate::running::Running;

const MIB: u64 = 1 << 20;
/// Errors of NBD.
const EIO: u32 = 5;
const ENOSPC: u32 = 28;

/// Errors of an export so far.
fn errors(running: &Running, name: &str) -> u64 {
    let stats = running.server().inspector().stats().unwrap();
    stats.iter().flat_map(|disk| &disk.exports).find(|export| export.name == name).unwrap().errors
}

/// Waits until a line with this text was logged; how many there are.
fn logged(running: &Running, text: &str) -> usize {
    let count = || running.log.lock().unwrap().iter().filter(|line| line.contains(text)).count();
    let mut patience = Patience::new(std::time::Duration::from_secs(20));
    while count() == 0 && !patience.is_over() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    count()
}

#[test]
fn a_target_that_shrinks_fails_what_lies_beyond_its_end_and_nothing_else() {
    let running = Running::start("file", &["low:size=1M", "high:offset=3M,size=1M"]);
    let (mut low, mut high) = (running.connect("low"), running.connect("high"));
    assert_eq!(high.call(Command::Read, 0, 4096).0, 0);
    let file = std::fs::File::options().write(true).open(running.folder.path().join("disk.img")).unwrap();
    file.set_len(2 * MIB).unwrap();
    for _ in 0..30 {
        assert_eq!(high.call(Command::Read, 0, 4096).0, EIO);
        assert_eq!(low.call(Command::Read, 0, 4096), (0, vec![0x11; 4096]));
    }
    assert_eq!((errors(&running, "high"), errors(&running, "low")), (30, 0));
    let lines = logged(&running, "disk.img");
    assert!((1..=10).contains(&lines), "{lines} lines: {:?}", running.log.lock().unwrap());
    // A disk that comes back is served again.
    file.set_len(4 * MIB).unwrap();
    assert_eq!(high.call(Command::Read, 0, 4096), (0, vec![0; 4096]));
    assert_eq!(high.call(Command::Flush, 0, 0).0, 0);
    assert!(running.end());
}

#[test]
fn a_file_that_is_removed_is_served_to_the_end() {
    let running = Running::start("file", &["a"]);
    let mut client = running.connect("a");
    std::fs::remove_file(running.folder.path().join("disk.img")).unwrap();
    assert_eq!(client.write(0, &[7; 4096]), 0);
    assert_eq!(running.connect("a").call(Command::Read, 0, 4096), (0, vec![7; 4096]));
    assert_eq!(client.call(Command::Flush, 0, 0).0, 0);
    assert!(running.end());
}

#[test]
fn a_full_target_refuses_new_data_and_keeps_what_it_has() {
    let running =
        Running::with("emulate:null:0us?latency_ns=1000", &["a:size=8M", "b:offset=8M,size=1M"], |settings| {
            settings.emulated_memory = 2 * MIB;
        });
    let (mut a, mut b) = (running.connect("a"), running.connect("b"));
    assert_eq!(b.write(0, &[9; 4096]), 0);
    let written: Vec<u32> = (0..8).map(|at| a.write(at * MIB, &vec![1; MIB as usize])).collect();
    assert_eq!((written[0], written[7]), (0, ENOSPC));
    assert_eq!(b.call(Command::Read, 0, 4096), (0, vec![9; 4096]));
    assert_eq!(b.write(0, &[8; 4096]), 0, "it has this memory");
    assert_eq!(errors(&running, "a"), written.iter().filter(|error| **error == ENOSPC).count() as u64);
    assert_eq!(errors(&running, "b"), 0);
    // Space that is given back can be written again.
    assert_eq!(a.call(Command::Trim, 0, MIB as u32).0, 0);
    assert_eq!(a.write(7 * MIB, &[1; 4096]), 0);
    assert!(running.end());
}

#[test]
fn a_socket_in_use_or_without_a_folder_is_named_and_the_server_there_goes_on() {
    let running = Running::with("null", &["a"], |settings| {
        let folder = settings.unix.clone().unwrap();
        settings.control = Some(folder.join("control"));
        settings.vhost_user = Some(folder);
        settings.http = Some("127.0.0.1:0".parse().unwrap());
    });
    let folder = running.folder.path();
    let other = tempfile::tempdir().unwrap();
    let with = |change: &dyn Fn(&mut ServeSettings)| {
        let mut target = TargetSettings::new("null");
        target.exports = vec![ExportSettings::whole("a").into()];
        let unix = Some(other.path().to_owned());
        let mut settings = ServeSettings { targets: vec![target], unix, ..ServeSettings::default() };
        change(&mut settings);
        Server::start(settings, |_| {}).map(drop).unwrap_err().to_string()
    };
    let file = other.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let http = running.server().http_address();
    let refused = [
        (with(&|settings| settings.unix = Some(folder.to_owned())), "nbd.sock"),
        (with(&|settings| settings.control = Some(folder.join("control"))), "control"),
        (with(&|settings| settings.vhost_user = Some(folder.to_owned())), "a.vhost"),
    ];
    for (error, named) in refused {
        assert!(error.contains(named) && error.contains("another server listens on this socket"), "{error}");
    }
    for (error, named) in [
        (with(&|settings| settings.unix = Some(other.path().join("missing/below"))), "missing/below"),
        (with(&|settings| settings.unix = Some(file.clone())), "file"),
        (with(&|settings| settings.control = Some(file.join("control"))), "file/control"),
        (with(&|settings| settings.vhost_user = Some(file.clone())), "file/a.vhost"),
        (with(&|settings| settings.http = http), "--http 127.0.0.1"),
        (with(&|settings| settings.tcp = http), "--tcp 127.0.0.1"),
    ] {
        assert!(error.contains(named), "{named}: {error}");
    }
    assert_eq!(running.connect("a").call(Command::Read, 0, 4096).0, 0);
    assert!(running.end());
}

#[test]
fn a_sparse_image_is_served_without_advice_for_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("sparse.img");
    std::fs::File::create(&image).unwrap().set_len(4 * MIB).unwrap();
    let running = Running::start(image.to_str().unwrap(), &["a"]);
    assert_eq!(running.connect("a").call(Command::Read, 0, 4096), (0, vec![0; 4096]));
    let said = running.log.lock().unwrap().clone();
    assert!(!said.iter().any(|line| line.contains("holes")), "{said:?}");
    assert!(running.end());
}
