use std::sync::{Arc, atomic::{AtomicBool, AtomicU64, Ordering}};
use std::time::{Duration, Instant};
use dumbwaiter_serve::*;
fn cpu(name: &str) -> f64 {
    let mut t = 0;
    for e in std::fs::read_dir("/proc/self/task").unwrap() {
        let p = e.unwrap().path();
        if std::fs::read_to_string(p.join("comm")).unwrap().trim() == name {
            let s = std::fs::read_to_string(p.join("schedstat")).unwrap();
            t += s.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    t as f64
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (target, depth, bytes, poll) = (&a[1], a[2].parse().unwrap(), a[3].parse().unwrap(), a[4] == "poll");
    let dir = std::path::PathBuf::from("/tmp/vbdir"); let _ = std::fs::remove_dir_all(&dir); std::fs::create_dir(&dir).unwrap();
    let mut t = TargetSettings::new(target);
    t.scheduler = a.get(5).cloned().unwrap_or("headway".into()); t.cache = Cache::Writeback;
    t.exports.push(ExportSettings::whole("x"));
    let s = ServeSettings { targets: vec![t], vhost_user: Some(dir.clone()), unix: Some(dir.clone()), ..ServeSettings::default() };
    let server = Server::start(s, |l| eprintln!("{l}")).unwrap();
    let load = VhostLoad { socket: dir.join("x.vhost"), writes: false, sequential: bytes > 65536, block_bytes: bytes, depth, seed: 1, span: Some(256<<20), poll };
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (s2, d2) = (stop.clone(), done.clone());
    let nbd = a[4] == "nbd"; let nl = NbdLoad { address: Address::Unix(dir.join("nbd.sock")), export: "x".into(), writes: false, sequential: bytes > 65536, block_bytes: bytes, depth: depth as u32, seed: 1, span: Some(256<<20) };
    let h = std::thread::Builder::new().name("client".into()).spawn(move || if nbd { nl.run(&s2, &d2) } else { load.run(&s2, &d2) }).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        let (c, k, d, t) = (cpu("disk-0"), cpu("client"), done.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(Duration::from_millis(1000));
        let n = (done.load(Ordering::Relaxed) - d) as f64;
        println!("{:.0} IOPS, server {:.3} us/io, client {:.3}", n / t.elapsed().as_secs_f64(), (cpu("disk-0") - c) / n / 1e3, (cpu("client") - k) / n / 1e3);
    }
    stop.store(true, Ordering::Relaxed);
    let _ = h.join();
    let _ = server.shut_down(|| true);
}
