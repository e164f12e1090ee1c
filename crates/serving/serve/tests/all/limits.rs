//! Limits of exports, and exports that cannot be.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_serve::bench::ClosedLoop;
use dumbwaiter_serve::{ExportSettings, ServeSettings, Server, TargetSettings};

use crate::running::Running;

#[test]
fn a_limit_holds_and_is_not_undercut() {
    let running = Running::start("null", &["a:limit_iops=2000"]);
    let load = ClosedLoop::reads(running.socket(), "a", 32, 1);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| load.run(&stop, &done).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let (before, begun) = (done.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(Duration::from_millis(1500));
        let rate = (done.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        // A machine that gives this test no time may stay below; none may go above.
        assert!(rate < 2050.0 && rate > 1000.0, "{rate} IOPS");
    });
}

#[test]
fn exports_that_cannot_be_are_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.img");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let start = |exports: &[&str]| {
        let mut target = TargetSettings::new(&file.display().to_string());
        target.exports = exports.iter().map(|text| ExportSettings::parse(text).unwrap().into()).collect();
        let unix = Some(folder.path().to_owned());
        Server::start(ServeSettings { targets: vec![target], unix, ..ServeSettings::default() }, |_| {}).map(drop)
    };
    for (exports, reason) in [
        (&["a", "a"][..], "two exports have this name"),
        (&["a", "b"], "overlaps"),
        (&["a:size=512k", "b:offset=256k"], "overlaps"),
        (&["a:size=2M"], "beyond the end of the target"),
        (&["a:offset=1M"], "beyond the end of the target"),
        (&["a:offset=100"], "expected a multiple"),
        (&["a:offset=512,block_size=4k"], "expected a multiple of 4096"),
        (&[], "no export"),
    ] {
        let error = start(exports).unwrap_err().to_string();
        assert!(error.contains(reason), "{exports:?}: {error}");
    }
    start(&["a:size=512k", "b:offset=512k"]).unwrap();
    // A target that keeps no data has nothing to spoil. The folder of the sockets is made where it is missing.
    let mut null = TargetSettings::new("null");
    null.exports = ["a", "b"].map(|text| ExportSettings::parse(text).unwrap().into()).into();
    let sockets = folder.path().join("sockets");
    let settings = ServeSettings { targets: vec![null], unix: Some(sockets.clone()), ..ServeSettings::default() };
    drop(Server::start(settings, |_| {}).unwrap());
    assert!(sockets.is_dir());
    if std::path::Path::new("/dev/ublk-control").exists() {
        println!("skipped: a block device without its driver: the driver is there");
    } else {
        let error = start(&["a:ublk=0"]).unwrap_err().to_string();
        assert!(error.contains("modprobe ublk_drv"), "{error}");
    }
    start(&["a:shared", "b:shared"]).unwrap();
    start(&["a:readonly", "b"]).unwrap();
}

#[test]
fn an_export_has_blocks_of_its_own_size() {
    let running = Running::start("file", &["small:size=1M", "large:offset=1M,size=1M,block_size=4k"]);
    let (mut small, mut large) = (running.connect("small"), running.connect("large"));
    let sizes = &large.offer.block_sizes;
    assert_eq!((sizes.minimum, sizes.preferred), (4096, 4096));
    const EINVAL: u32 = 22;
    assert_eq!((small.call(Command::Read, 512, 512).0, large.call(Command::Read, 512, 512).0), (0, EINVAL));
    assert_eq!((small.write(1024, &[1; 1024]), large.write(1024, &[1; 1024])), (0, EINVAL));
    assert_eq!(large.call(Command::Read, 4096, 4096), (0, vec![0x11; 4096]));
    assert!(running.end());
}

#[test]
fn slices_see_their_own_part_of_the_target() {
    let running = Running::start("file", &["a:size=1M", "b:offset=1M,size=1M"]);
    let (mut a, mut b) = (running.connect("a"), running.connect("b"));
    assert_eq!((a.offer.size, b.offer.size), (1 << 20, 1 << 20));
    assert_eq!(b.write(0, &[0x22; 4096]), 0);
    assert_eq!(b.call(Command::Read, 0, 4096).1, [0x22; 4096]);
    assert_eq!(a.call(Command::Read, 0, 4096).1, [0x11; 4096]);
    assert_eq!(a.call(Command::Read, (1 << 20) - 512, 1024).0, 22, "beyond the slice");
    assert_eq!(b.call(Command::Flush, 0, 0).0, 0);
    let image = std::fs::read(running.folder.path().join("disk.img")).unwrap();
    assert!(image[1 << 20..(1 << 20) + 4096].iter().all(|byte| *byte == 0x22));
}

#[test]
fn zeroes_and_trims_read_back_as_zeroes_or_not_at_all() {
    for target in ["file", "emulate:ssd:850pro-256"] {
        let running = Running::start(target, &["a:size=4M"]);
        let mut client = running.connect("a");
        assert_eq!(client.write(0, &vec![5; 64 << 10]), 0);
        assert_eq!(client.call(Command::WriteZeroes, 4096, 8192).0, 0);
        let (_, data) = client.call(Command::Read, 0, 16 << 10);
        assert!(data[..4096].iter().chain(&data[12288..]).all(|byte| *byte == 5), "{target}");
        assert!(data[4096..12288].iter().all(|byte| *byte == 0), "{target}");
        assert_eq!(client.call(Command::Trim, 0, 4096).0, 0);
    }
}

#[test]
fn data_through_the_page_cache_is_what_was_written() {
    for memory in [false, true] {
        let folder = if memory { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
        let Ok(folder) = folder else {
            eprintln!("skipped: no file system in memory");
            continue;
        };
        let file = folder.path().join("disk.img");
        std::fs::write(&file, vec![0x11; 4 << 20]).unwrap();
        let running = Running::with(&file.display().to_string(), &["a"], |settings| {
            settings.targets[0].cache = dumbwaiter_serve::Cache::Writeback;
        });
        let mut client = running.connect("a");
        for place in 0..64u8 {
            assert_eq!(client.write(u64::from(place) << 14, &vec![place; 12 << 10]), 0);
        }
        client.send(dumbwaiter_protocols::nbd::wire::command_flag::FUA, Command::Write, 1 << 21, 512, &[0xee; 512]);
        assert_eq!(client.reply().0, 0);
        assert_eq!(client.call(Command::Flush, 0, 0).0, 0);
        for place in 0..64u8 {
            assert_eq!(client.call(Command::Read, u64::from(place) << 14, 12 << 10), (0, vec![place; 12 << 10]));
        }
        let image = std::fs::read(&file).unwrap();
        assert!(image[1 << 21..(1 << 21) + 512].iter().all(|byte| *byte == 0xee));
        drop(client);
        assert!(running.end());
    }
}
