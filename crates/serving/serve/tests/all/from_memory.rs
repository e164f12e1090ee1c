//! Large reads of a target in the page cache, whose pages go to the socket.

use std::path::Path;
use std::time::Duration;

use dumbwaiter_path::{OpenOptions, Target};
use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_protocols::nbd::client::Wish;
use dumbwaiter_serve::Cache;

use crate::running::{Client, Running};

const MIB: usize = 1 << 20;

/// Serves two slices of a file of 8 MiB through the page cache, in which each 8 bytes have their own number; with the file's bytes.
fn running(folder: &Path) -> (Running, Vec<u8>) {
    let file = folder.join("disk.img");
    let bytes: Vec<u8> = (0..MIB as u64).flat_map(u64::to_le_bytes).collect();
    std::fs::write(&file, &bytes).unwrap();
    let running = Running::with(&file.display().to_string(), &["low:size=2M", "high:offset=2M,size=6M"], |settings| {
        settings.targets[0].cache = Cache::Writeback;
    });
    (running, bytes)
}

/// The tenant of this client has the target for itself from now on.
fn alone(client: &mut Client) {
    assert_eq!(client.call(Command::Read, 0, 4096).0, 0);
    std::thread::sleep(Duration::from_millis(150));
}

fn buffers_of(running: &Running) -> u64 {
    let disks = running.server().inspector().stats().unwrap();
    disks.iter().map(|disk| disk.buffer_bytes + disk.free_buffer_bytes).sum()
}

#[test]
fn large_reads_are_what_the_file_holds_and_take_no_buffer() {
    for memory in [false, true] {
        let folder = if memory { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
        let Ok(folder) = folder else {
            eprintln!("skipped: no file system in memory");
            continue;
        };
        let (running, bytes) = running(folder.path());
        let high = &bytes[2 * MIB..];
        let mut client = running.connect("high");
        alone(&mut client);
        let reads = [(0, MIB), (MIB + 512, 64 << 10), (4096, 2 * MIB), (3 * MIB + 1536, 200 << 10), (5 * MIB, MIB)];
        for (offset, length) in reads {
            client.send(0, Command::Read, offset as u64, length as u32, &[]);
        }
        // The socket takes only a part; the rest goes as the client reads.
        std::thread::sleep(Duration::from_millis(100));
        for _ in reads {
            let (cookie, error, data) = client.any_reply();
            let (offset, length) = reads[cookie as usize - 2];
            assert_eq!((error, data.len()), (0, length));
            assert!(data == high[offset..offset + length], "{length} bytes at {offset}");
        }
        let cached =
            Target::open(&folder.path().join("disk.img"), &OpenOptions { direct: false, ..OpenOptions::default() });
        if cached.unwrap().is_in_memory(0, 8 * MIB as u64) {
            assert!(buffers_of(&running) < 64 << 10, "{}", buffers_of(&running));
            // Another tenant's request: copies again, whose order is the scheduler's.
            let mut low = running.connect("low");
            assert_eq!(low.call(Command::Read, 0, 4096).0, 0);
            assert_eq!(client.call(Command::Read, 0, MIB as u32).0, 0);
            assert!(buffers_of(&running) >= MIB as u64);
        } else {
            eprintln!("skipped: this kernel cannot tell what is in memory");
        }
        // Reads return written data, small replies keep their place between large ones, and clients without structured replies get it too.
        assert_eq!(client.write(MIB as u64, &[7; 4096]), 0);
        let mut simple =
            Client::connect_as(&running.socket(), Wish { export: "high".into(), structured: false, allocation: false });
        for (offset, length) in [(MIB, 4096), (MIB, MIB), (0, 4096), (0, MIB)] {
            let (error, data) = simple.call(Command::Read, offset as u64, length as u32);
            let mut expected = high[offset..offset + length].to_vec();
            if offset == MIB {
                expected[..4096].fill(7);
            }
            assert!(error == 0 && data == expected, "{length} bytes at {offset}");
        }
        assert_eq!(client.call(Command::Read, 6 * MIB as u64 - 4096, MIB as u32).0, 22, "past the end");
        drop((client, simple));
        assert!(running.end());
    }
}

#[test]
fn a_file_that_shrinks_under_a_reply_costs_its_client_the_connection_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let (running, bytes) = running(folder.path());
    let (mut low, mut high) = (running.connect("low"), running.connect("high"));
    alone(&mut high);
    for place in 0..6 {
        high.send(0, Command::Read, place * MIB as u64, MIB as u32, &[]);
    }
    // No more than the socket takes is sent by now.
    std::thread::sleep(Duration::from_millis(200));
    let file = std::fs::File::options().write(true).open(folder.path().join("disk.img")).unwrap();
    file.set_len(2 * MIB as u64).unwrap();
    assert!(high.rest().len() < 6 * MIB);
    for _ in 0..3 {
        let (error, data) = low.call(Command::Read, 0, MIB as u32);
        assert!(error == 0 && data == bytes[..MIB]);
    }
    // Reads that come now fail before a reply has begun.
    let mut again = running.connect("high");
    assert_eq!(again.call(Command::Read, 0, MIB as u32).0, 5);
    drop((low, again));
    running.end();
}
