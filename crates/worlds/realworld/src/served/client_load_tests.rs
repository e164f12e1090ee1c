use std::time::Duration;

use dumbwaiter_serve::{ExportSettings, ServeSettings, Server, TargetSettings};

use super::*;

const TWO_TASKS: &str = r#"
schedulers = ["none"]
[[tenant]]
name = "a"
[[tenant.task]]
name = "ends"
rw = "randread"
time_based = false
size = "64k"
[[tenant.task]]
name = "goes-on"
rw = "randread"
iodepth = 4
"#;

/// A server of a disk without latency, with the exports of this many tenants.
fn server(folder: &tempfile::TempDir, tenants: usize) -> Server {
    let exports = (0..tenants).map(|n| ExportSettings { shared: true, ..ExportSettings::whole(&export_name(n)) });
    let target = TargetSettings { exports: exports.map(Into::into).collect(), ..TargetSettings::new("null") };
    let settings =
        ServeSettings { targets: vec![target], unix: Some(folder.path().to_owned()), grace_s: 1, ..Default::default() };
    Server::start(settings, |_: &str| {}).unwrap()
}

fn prepared(text: &str) -> Prepared {
    Prepared::new(&Scenario::from_toml(text, "test").unwrap()).unwrap()
}

#[test]
fn a_task_that_has_ended_hangs_up_while_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (server, prepared, control) = (server(&folder, 1), prepared(TWO_TASKS), Control::default());
    let load = prepared.load(1, 1 << 20, 1).unwrap();
    let socket = folder.path().join("nbd.sock");
    let client_load = ClientLoad::new(&prepared, load, server.inspector(), socket, &control).unwrap();
    let connections = || server.inspector().stats().unwrap()[0].exports[0].connections;
    // The server counts a client after the client has its answer.
    let both = (0..1500).any(|_| {
        let both = connections() == 2;
        if !both {
            std::thread::sleep(Duration::from_millis(20));
        }
        both
    });
    assert!(both, "{} connections after 30 s", connections());
    std::thread::scope(|scope| {
        let inspector = server.inspector();
        let cancel = &control.cancel;
        let watcher = scope.spawn(move || {
            let left = (0..1500).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                inspector.stats().unwrap()[0].exports[0].connections == 1
            });
            cancel.store(true, Ordering::Relaxed);
            left
        });
        let ended = client_load.run(false).unwrap();
        assert!(watcher.join().unwrap(), "the task that has ended is still connected after 30 s");
        assert!(ended.cancelled && ended.failure.is_none(), "{:?}", ended.failure);
    });
    server.shut_down(|| true).unwrap();
}

#[test]
fn a_task_whose_i_o_is_refused_is_elsewhere_for_the_time_of_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let (server, control) = (server(&folder, 1), Control::default());
    let prepared = prepared(&TWO_TASKS.replace("64k", "1m"));
    let mut load = prepared.load(1, 1 << 20, 1).unwrap();
    let deadline = Nanos::from_secs(7);
    load.threads.truncate(1);
    load.threads[0].deadline = Some(deadline);
    let socket = folder.path().join("nbd.sock");
    let mut load = ClientLoad::new(&prepared, load, server.inspector(), socket, &control).unwrap();
    load.wakes.start_stage(&mut load.load, Nanos::ZERO);
    load.pump_ready().unwrap();
    assert_eq!(load.load.outstanding(0), 1);
    load.now = Nanos(500);
    // Nothing was sent to the server, so this answer comes from the test alone.
    load.deliver(Answered { cookie: 0, error: Errno::EBUSY.0 as u32 }).unwrap();
    load.pump_ready().unwrap();
    assert_eq!((load.load.outstanding(0), load.wakes.next_wake(&load.load)), (0, Some(Nanos(500) + deadline)));
    load.now = Nanos(500) + deadline;
    load.pump_ready().unwrap();
    assert_eq!(load.load.outstanding(0), 1);
    drop(load);
    server.shut_down(|| true).unwrap();
}
