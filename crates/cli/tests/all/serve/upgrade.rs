//! An upgrade while clients work: the process stays, nobody is refused, and nothing that was acknowledged is lost.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Server, agreed, eventually, greets};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;
/// Upgrades one after the other.
const ROUNDS: u64 = 30;

/// A request of NBD.
fn request(write: bool, block: u64) -> Vec<u8> {
    let head = [&0x2560_9513u32.to_be_bytes()[..], &[0; 2], &u16::from(write).to_be_bytes(), &7u64.to_be_bytes()];
    [&head.concat()[..], &(block * BLOCK as u64).to_be_bytes(), &(BLOCK as u32).to_be_bytes()].concat()
}

fn send(stream: &mut UnixStream, bytes: &[u8], answer: &mut [u8]) -> std::io::Result<()> {
    stream.write_all(bytes)?;
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    assert_eq!(head[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "no error");
    stream.read_exact(answer)
}

/// What a client knows of a block: what it holds, and what was sent and not acknowledged.
#[derive(Clone, Copy, Default)]
struct Known {
    written: u64,
    sent: Option<u64>,
}

/// Connects as often as it must, and each time finds what was acknowledged.
fn work(socket: &Path, stop: &AtomicBool, connections: &AtomicU64, done: &AtomicU64) {
    let mut known = [Known::default(); BLOCKS as usize];
    let mut next = 1;
    while !stop.load(Ordering::Relaxed) {
        // Nobody may be refused. A greeting that does not come is that of a server that ends: the next one is asked.
        let probe = UnixStream::connect(socket).unwrap_or_else(|e| panic!("{}: {e}", socket.display()));
        if !greets(probe) {
            continue;
        }
        let Ok(mut stream) = std::panic::catch_unwind(|| agreed(socket)) else { continue };
        connections.fetch_add(1, Ordering::Relaxed);
        let mut session = || -> std::io::Result<()> {
            let mut data = [0; BLOCK];
            for (block, known) in known.iter_mut().enumerate() {
                send(&mut stream, &request(false, block as u64), &mut data)?;
                let found = u64::from_le_bytes(data[..8].try_into().unwrap());
                let whole = data.chunks(8).all(|word| word == &data[..8]);
                assert!(whole && (found == known.written || Some(found) == known.sent), "block {block}: {found}");
                *known = Known { written: found, sent: None };
            }
            while !stop.load(Ordering::Relaxed) {
                let block = next % BLOCKS;
                known[block as usize].sent = Some(next);
                let data: Vec<u8> = next.to_le_bytes().iter().copied().cycle().take(BLOCK).collect();
                send(&mut stream, &[request(true, block), data].concat(), &mut [])?;
                known[block as usize] = Known { written: next, sent: None };
                next += 1;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let _ = session();
    }
}

/// Puts a file in the place of the program, in one step.
fn install(program: &Path, content: impl FnOnce(&Path)) {
    let new = program.with_extension("new");
    content(&new);
    std::fs::rename(new, program).unwrap();
}

fn script(at: &Path, text: &str) {
    std::fs::write(at, text).unwrap();
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn thirty_upgrades_refuse_nobody_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let (program, disk, own, common) = (path("dumbwaiter"), path("disk.img"), path("own.sock"), path("nbd.sock"));
    let real = |at: &Path| assert!(std::fs::copy(env!("CARGO_BIN_EXE_dumbwaiter"), at).unwrap() > 0);
    install(&program, real);
    std::fs::write(&disk, vec![0; 4 << 20]).unwrap();
    let mut serve = Command::new(&program);
    serve.args(["serve", "--target"]).arg(&disk).arg("--unix").arg(folder.path()).arg("--control").arg(path("control"));
    serve.args(["--cache", "writeback", "--export", "a:size=1M", "--export"]);
    serve.arg(format!("b:offset=1M,size=1M,socket={}", own.display()));
    let mut server = Server::spawn(&mut serve);
    server.ready();
    let stop = AtomicBool::new(false);
    let counts: [(AtomicU64, AtomicU64); 2] = Default::default();
    std::thread::scope(|scope| {
        for (socket, (connections, done)) in [&common, &own].into_iter().zip(&counts) {
            scope.spawn(|| work(socket, &stop, connections, done));
        }
        let all_work = |since: &[u64; 2]| {
            let of = counts.iter().zip(since);
            eventually("both clients work", || {
                of.clone().all(|((_, done), since)| done.load(Ordering::Relaxed) > *since)
            });
        };
        let so_far = || [0, 1].map(|i: usize| counts[i].1.load(Ordering::Relaxed));
        for round in 0..ROUNDS {
            all_work(&so_far());
            // A new file, as packages install it, and the same one again.
            if round == 0 {
                install(&program, real);
            }
            server.signal("USR2");
            server.ready();
        }
        // One that is no program, and one that is gone when it is to begin: the old one serves on.
        install(&program, |at| script(at, "#!/bin/sh\ntouch \"$0.asked\"\necho something else\n"));
        server.signal("USR2");
        eventually("the file is tried", || path("dumbwaiter.asked").exists());
        all_work(&so_far());
        install(&program, |at| script(at, "#!/bin/sh\nrm \"$0\"\necho dumbwaiter 9\n"));
        server.signal("USR2");
        server.ready();
        all_work(&so_far());
        stop.store(true, Ordering::Relaxed);
    });
    for (connections, _) in &counts {
        assert!(connections.load(Ordering::Relaxed) > ROUNDS / 2, "{counts:?}");
    }
    assert!(server.output.buffer().is_empty());
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("not upgraded").count(), 2, "{said}");
    assert!(said.contains("is not this program"), "{said}");
    assert!(!common.exists() && !own.exists());
}

/// What a machine with its disk on NBD sees of it: a wait.
#[test]
fn qemu_works_on_through_upgrades() {
    if Command::new("qemu-img").arg("--version").output().is_err() {
        println!("skipped: qemu-img is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    std::fs::write(&disk, vec![0; 4 << 20]).unwrap();
    let mut serve = crate::common::command();
    serve.args(["serve", "--target"]).arg(&disk).arg("--unix").arg(folder.path()).args(["--export", "a"]);
    serve.args(["--cache", "writeback"]);
    let mut server = Server::spawn(&mut serve);
    server.ready();
    let socket = folder.path().join("nbd.sock");
    let image = format!("driver=nbd,server.type=unix,server.path={},export=a,reconnect-delay=30", socket.display());
    let mut qemu = Command::new("qemu-img");
    qemu.args(["bench", "-w", "--pattern=0x5a", "-s", "4096", "-d", "16", "-c", "40000", "--image-opts", &image]);
    let mut qemu = qemu.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut upgrades = 0;
    while qemu.try_wait().unwrap().is_none() && upgrades < ROUNDS {
        server.signal("USR2");
        server.ready();
        upgrades += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    let done = qemu.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(upgrades > 0);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    assert!(std::fs::read(&disk).unwrap().iter().all(|byte| *byte == 0x5a), "a write is lost");
}
