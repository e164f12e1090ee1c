//! A virtual machine's driver in this process against a server in this process.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dumbwaiter_vhost_user::front_end::{FrontEnd, Options};
use dumbwaiter_vhost_user::wire::request_type;

use crate::running::Running;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

fn serve(target: &str, exports: &[&str]) -> Running {
    Running::with(target, exports, |settings| settings.vhost_user.clone_from(&settings.unix))
}

fn socket(running: &Running, export: &str) -> PathBuf {
    running.folder.path().join(format!("{export}.vhost"))
}

fn connect(running: &Running, export: &str) -> FrontEnd {
    FrontEnd::connect(&socket(running, export), &Options::default()).unwrap()
}

#[test]
fn what_is_written_is_read_and_seen_by_nbd_clients() {
    for options in [
        Options::default(),
        Options { event_index: false, ..Options::default() },
        Options { write_back: false, inflight: false, ..Options::default() },
        Options { queues: 4, queue_size: 16, slot_bytes: 1 << 16, ..Options::default() },
    ] {
        let running = serve("file", &["a"]);
        let mut machine = FrontEnd::connect(&socket(&running, "a"), &options).unwrap();
        assert_eq!(machine.disk_bytes().unwrap(), 4 << 20);
        let mut data: Vec<u8> = (0..options.slot_bytes).map(|at| at as u8).collect();
        assert_eq!(machine.call(request_type::WRITE, 8, &mut data.clone()).unwrap(), OK);
        assert_eq!(machine.call(request_type::FLUSH, 0, &mut []).unwrap(), OK);
        let written = std::mem::replace(&mut data, vec![0; options.slot_bytes as usize]);
        assert_eq!(machine.call(request_type::READ, 8, &mut data).unwrap(), OK);
        assert_eq!(data, written);
        assert_eq!(running.connect("a").call(dumbwaiter_nbd::Command::Read, 4096, 4096).1, written[..4096]);
        let mut id = [0xff; 20];
        assert_eq!(machine.call(request_type::GET_ID, 0, &mut id).unwrap(), OK);
        assert_eq!(id, *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        drop(machine);
        assert!(running.end());
    }
}
