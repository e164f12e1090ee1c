//! The same I/Os straight through a disk and as the load of a run: the same completions, and a ledger that balances.

use std::sync::Arc;

use crate::drive::common::{filled, open, run_on};
use dumbwaiter_block::{Config, Io, Ioprio, Limits, Op, Setup, Tenant, Tenants};
use dumbwaiter_path::{Data, Disk, DiskOptions, Event, OpenOptions, Target};
use dumbwaiter_realworld::drive::{CompletionMode, Options};
use dumbwaiter_schedulers::Choice;

const DEPTH: u32 = 16;
/// Sectors and lengths of a trace: reads and writes, some of them neighbours, one longer than a request may be.
fn trace() -> Vec<(Op, u64, u32)> {
    let op = |i: u64| if i.is_multiple_of(3) { Op::Write } else { Op::Read };
    let mut ios: Vec<_> = (0..400u64).map(|i| (op(i), i * 37 % 500 * 16, 8 << (i % 2))).collect();
    ios.push((Op::Read, 8192, 2048));
    ios
}

#[test]
fn a_disk_and_a_run_complete_the_same_ios() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let lines: String = trace()
        .iter()
        .map(|(op, sector, sectors)| {
            let letter = if *op == Op::Write { 'W' } else { 'R' };
            format!("0,{letter},{},{}\n", sector * 512, sectors * 512)
        })
        .collect();
    let file = dir.path().join("trace.csv");
    std::fs::write(&file, lines).unwrap();
    let text = format!(
        "queue_depth = {DEPTH}\n[[task]]\nname = \"t\"\ntrace = \"{}\"\ncolumns = \"time_us,op,offset_bytes,size_bytes\"\ndepth = 32\n",
        file.display()
    );
    for scheduler in ["none", "mq-deadline", "bfq", "headway"] {
        let options = Options { allow_writes: true, ..Options::default() };
        let cell = run_on(&open(&path, &options), &text, scheduler, CompletionMode::Interrupt).unwrap();
        let direct = through_a_disk(&path, scheduler);
        let ledger = &cell.result.ledger;
        assert_eq!((ledger.submitted, ledger.completed, ledger.failed), (401, 401, 0), "{scheduler}");
        assert_eq!((cell.result.read.count, cell.result.write.count), (direct[0].0, direct[1].0), "{scheduler}");
        let bytes: u64 = trace().iter().map(|(_, _, sectors)| u64::from(*sectors) * 512).sum();
        assert_eq!(direct[0].1 + direct[1].1, bytes, "{scheduler}");
    }
}

/// Reads and writes that completed, and their bytes.
fn through_a_disk(path: &std::path::Path, scheduler: &str) -> [(u64, u64); 2] {
    let target = Target::open(path, &OpenOptions { allow_writes: true, ..OpenOptions::default() }).unwrap();
    let setup = Setup { device_depth: DEPTH, nr_requests: 256, ..Setup::default() };
    let config = Config { setup, limits: Limits { max_sectors: 1024, ..Limits::default() }, ..Config::default() };
    let mut tenants = Tenants::default();
    let tenant = tenants.add_tenant(Tenant { weight: 100, parent: None });
    let task = tenants.add_task(tenant, Ioprio::DEFAULT);
    let scheduler = Choice::parse(scheduler).unwrap().build(setup);
    let options = DiskOptions { scratch: true, ..DiskOptions::default() };
    let mut disk = Disk::new(Arc::new(target), config, scheduler, tenants, options).unwrap();
    let ios = trace();
    let (mut next, mut seen, mut events) = (0, vec![false; ios.len()], Vec::new());
    let mut done = [(0, 0), (0, 0)];
    while seen.iter().any(|seen| !seen) {
        let outstanding = next - seen.iter().filter(|seen| **seen).count();
        for _ in outstanding..32.min(ios.len() - next + outstanding) {
            let (op, sector, sectors) = ios[next];
            disk.submit(Io { op, sector, sectors, task, tenant, token: next as u64, ..Io::default() }, Data::Scratch)
                .unwrap();
            next += 1;
        }
        disk.turn(None, &mut events).unwrap();
        for event in events.drain(..) {
            let Event::Completed { finished, .. } = event else { panic!("{event:?}") };
            let token = finished.io.token as usize;
            assert!(finished.result.is_ok() && !std::mem::replace(&mut seen[token], true), "I/O {token}");
            let of = &mut done[usize::from(finished.io.op == Op::Write)];
            *of = (of.0 + 1, of.1 + u64::from(finished.io.sectors) * 512);
        }
    }
    assert_eq!(disk.layer().ledger().imbalance(), None);
    done
}
