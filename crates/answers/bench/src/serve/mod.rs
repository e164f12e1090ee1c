//! The disk server beside nbdkit, qemu-nbd and qemu-storage-daemon: one client, one file in the page cache, servers in turns.
//!
//! Server and client each get half of the CPUs' time where control groups allow that, so that a server of many threads gets no
//! larger part of the machine than one of a single thread.

mod cpu_groups;
mod plan;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Failure};
use dumbwaiter_linux::filesystem::TemporaryFolder;
use dumbwaiter_linux::meters::SystemCalls;
use dumbwaiter_measure::median;
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_serve::bench::{ClosedLoop, Endpoint};
use serde::Serialize;

use self::cpu_groups::CpuGroups;
pub use self::plan::Plan;
use self::servers::{Program, RunningServer};

type Result<T> = std::result::Result<T, Failure>;

/// Bytes of the file that is served.
const FILE_BYTES: u64 = 256 << 20;
/// A run before the measured part, so that connections are made and caches are warm.
const WARM_UP: Duration = Duration::from_millis(200);
/// The part of a run's time for which system calls are counted: one over this.
const COUNTED_PART: u32 = 4;

/// The protocol of virtual machines; of the peers only qemu-storage-daemon speaks it.
const VHOST_USER: &str = "vhost-user-blk";

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    protocol: &'static str,
    op: &'static str,
    block_bytes: u32,
    depth: u32,
    connections: u32,
}

const CASES: [Case; 12] = [
    Case { protocol: "nbd+unix", op: "randread 4k", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: "nbd+unix", op: "randread 4k", block_bytes: 4096, depth: 1, connections: 1 },
    Case { protocol: "nbd+unix", op: "randread 4k", block_bytes: 4096, depth: 8, connections: 4 },
    Case { protocol: "nbd+unix", op: "randwrite 4k", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: "nbd+unix", op: "read 1M", block_bytes: 1 << 20, depth: 8, connections: 1 },
    Case { protocol: "nbd+tcp", op: "randread 4k", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: VHOST_USER, op: "randread 4k", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: VHOST_USER, op: "randread 4k", block_bytes: 4096, depth: 1, connections: 1 },
    Case { protocol: VHOST_USER, op: "randread 4k of null", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: VHOST_USER, op: "randread 4k, polled", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: VHOST_USER, op: "randread 4k of null, polled", block_bytes: 4096, depth: 32, connections: 1 },
    Case { protocol: VHOST_USER, op: "read 1M", block_bytes: 1 << 20, depth: 4, connections: 1 },
];

/// Our server beside a peer under one load. Ratios are medians of the ratios of each round, ours over the peer's.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// nbdkit, qemu-nbd or qemu-storage-daemon.
    pub peer: &'static str,
    /// nbd+unix, nbd+tcp or vhost-user-blk.
    pub protocol: &'static str,
    /// Pattern and size. A client sleeps until it is signalled; one that is `polled` looks all the time, so that neither side waits for
    /// the other to wake up.
    pub op: &'static str,
    /// Requests under way on each connection.
    pub depth: u32,
    /// Connections.
    pub connections: u32,
    /// Ours: I/Os per second.
    pub iops: f64,
    /// Ours: CPU time of the server for an I/O, µs.
    pub us_cpu_per_io: f64,
    /// Ours: system calls of the server for an I/O; `null` where they cannot be counted.
    pub syscalls_per_io: f64,
    /// The peer's I/Os per second.
    pub peer_iops: f64,
    /// The peer's CPU time for an I/O, µs.
    pub peer_us_cpu_per_io: f64,
    /// The peer's system calls for an I/O.
    pub peer_syscalls_per_io: f64,
    /// Ratio of I/Os per second.
    pub iops_ratio: f64,
    /// Ratio of CPU time for an I/O.
    pub cpu_ratio: f64,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Figure {
    iops: f64,
    us_cpu_per_io: f64,
    syscalls_per_io: f64,
}

/// Measures every load with each server in turns until `control` cancels; `progress` receives lines for people.
pub fn run(plan: &Plan, control: &Control, progress: &dyn Fn(&str)) -> Result<Vec<Row>> {
    if plan.time < Nanos::from_ms(100) || plan.rounds == 0 {
        return Err(Failure::refused("--time: expected 100ms at least, and one round"));
    }
    let peers: Vec<Program> = Program::PEERS.into_iter().filter(|peer| peer.is_installed()).collect();
    for missing in Program::PEERS.into_iter().filter(|peer| !peers.contains(peer)) {
        progress(&format!("{} is not installed and is left out", missing.name()));
    }
    let work = Work::new(plan, progress)?;
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| plan.depths.is_empty() || plan.depths.contains(&case.depth)) {
        let programs: Vec<Program> = std::iter::once(Program::Ours)
            .chain(peers.iter().copied().filter(|peer| peer.speaks(case.protocol)))
            .collect();
        let mut figures: Vec<Vec<Figure>> = vec![Vec::new(); programs.len()];
        for round in 0..plan.rounds {
            progress(&format!(
                "{} {}, depth {}, {} connections: round {} of {}",
                case.protocol,
                case.op,
                case.depth,
                case.connections,
                round + 1,
                plan.rounds
            ));
            let mut order: Vec<usize> = (0..programs.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for which in order {
                if control.cancelled() {
                    return Ok(rows);
                }
                figures[which].push(work.one(programs[which], case)?);
            }
        }
        for (which, peer) in programs.iter().enumerate().skip(1) {
            rows.push(row(peer.name(), case, &figures[0], &figures[which]));
        }
    }
    Ok(rows)
}

fn row(peer: &'static str, case: &Case, ours: &[Figure], peers: &[Figure]) -> Row {
    let of = |figures: &[Figure], value: fn(&Figure) -> f64| median(figures.iter().map(value).collect());
    let ratio = |value: fn(&Figure) -> f64| {
        median(ours.iter().zip(peers).map(|(ours, peer)| value(ours) / value(peer)).collect())
    };
    Row {
        peer,
        protocol: case.protocol,
        op: case.op,
        depth: case.depth,
        connections: case.connections,
        iops: of(ours, |f| f.iops),
        us_cpu_per_io: of(ours, |f| f.us_cpu_per_io),
        syscalls_per_io: of(ours, |f| f.syscalls_per_io),
        peer_iops: of(peers, |f| f.iops),
        peer_us_cpu_per_io: of(peers, |f| f.us_cpu_per_io),
        peer_syscalls_per_io: of(peers, |f| f.syscalls_per_io),
        iops_ratio: ratio(|f| f.iops),
        cpu_ratio: ratio(|f| f.us_cpu_per_io),
    }
}

/// The file that is served, and the groups of server and client.
struct Work<'a> {
    plan: &'a Plan,
    folder: TemporaryFolder,
    groups: Option<CpuGroups>,
}

impl<'a> Work<'a> {
    fn new(plan: &'a Plan, progress: &dyn Fn(&str)) -> Result<Work<'a>> {
        let folder = TemporaryFolder::inside(&plan.folder).map_err(Failure::refused)?;
        let groups = CpuGroups::new();
        if groups.is_none() {
            progress("no control groups for CPU time here: servers of many threads get more of it than others");
        }
        if let Err(why) = SystemCalls::of(std::process::id()) {
            progress(&format!("system calls are not counted: {why}"));
        }
        let work = Work { plan, folder, groups };
        fill(&work.file()).map_err(|e| Failure::refused(format!("{}: {e}", work.file().display())))?;
        Ok(work)
    }

    fn file(&self) -> PathBuf {
        self.folder.dir().join("disk.img")
    }

    /// One server under one load.
    fn one(&self, program: Program, case: &Case) -> Result<Figure> {
        // A disk that does nothing shows what the server itself costs.
        let target = if case.op.contains("of null") { PathBuf::from("null") } else { self.file() };
        let server = RunningServer::start(program, self.plan, self.folder.dir(), &target, case.protocol)?;
        if let Some(groups) = &self.groups {
            groups.add_server(server.pid());
        }
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients: Vec<_> = (0..case.connections)
            .map(|number| {
                let load = ClosedLoop {
                    endpoint: endpoint(&server, case),
                    writes: case.op.contains("write"),
                    sequential: !case.op.starts_with("rand"),
                    block_bytes: case.block_bytes,
                    depth: case.depth,
                    seed: u64::from(number),
                };
                let (stop, done) = (stop.clone(), done.clone());
                std::thread::spawn(move || load.run(&stop, &done))
            })
            .collect();
        let figure = measure(&server, &done, Duration::from_nanos(self.plan.time.0));
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            let report = client.join().map_err(|_| Failure::device("a client ended badly"))?;
            let report = report.map_err(|e| Failure::device(format!("{}: {e}", program.name())))?;
            if report.errors > 0 {
                return Err(Failure::device(format!("{}: {} requests failed", program.name(), report.errors)));
            }
        }
        Ok(figure)
    }
}

/// Where the clients of a case find the disk.
fn endpoint(server: &RunningServer, case: &Case) -> Endpoint {
    match case.protocol {
        VHOST_USER => Endpoint::Vhost { socket: server.socket().to_owned(), poll: case.op.ends_with("polled") },
        _ => Endpoint::Nbd(server.address().clone(), server.export().to_owned()),
    }
}

/// The figures of a server under a load that runs.
///
/// System calls are counted afterwards: the counter makes each call slower, and so a server the more calls it makes.
fn measure(server: &RunningServer, done: &AtomicU64, time: Duration) -> Figure {
    std::thread::sleep(WARM_UP);
    let (cpu, begun, before) = (server.cpu_us(), Instant::now(), done.load(Ordering::Relaxed));
    std::thread::sleep(time);
    let (seconds, cpu_us) = (begun.elapsed().as_secs_f64(), server.cpu_us() - cpu);
    let ios = ios_since(before, done);
    let (counters, before) = (SystemCalls::of(server.pid()).ok(), done.load(Ordering::Relaxed));
    std::thread::sleep(time / COUNTED_PART);
    // Both at once: taking the counters away takes tens of milliseconds.
    let (calls, counted) = (counters.as_ref().and_then(SystemCalls::read), ios_since(before, done));
    let syscalls_per_io = calls.map_or(f64::INFINITY, |calls| calls as f64 / counted);
    Figure { iops: ios / seconds, us_cpu_per_io: cpu_us / ios, syscalls_per_io }
}

/// At least one, as a divisor.
fn ios_since(before: u64, done: &AtomicU64) -> f64 {
    (done.load(Ordering::Relaxed) - before).max(1) as f64
}

/// A file of bytes that nothing can shorten, in the page cache.
fn fill(path: &Path) -> std::io::Result<()> {
    let written = dumbwaiter_text::write(path, |file| {
        use std::io::Write;
        let mut state = 1u64;
        let mut block = vec![0u8; 1 << 20];
        for _ in 0..FILE_BYTES >> 20 {
            for word in block.chunks_exact_mut(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&state.to_le_bytes());
            }
            file.write_all(&block)?;
        }
        Ok(())
    });
    // Nothing of it is left to be written while servers are measured.
    written.and_then(|()| std::fs::File::open(path)?.sync_all())
}

/// The rows as a table: our server under each load, and below it the others, with ratios of ours to theirs.
pub fn text(rows: &[Row], style: Style) -> String {
    let header = [
        ("load, server", Align::Left),
        ("IOPS", Align::Right),
        ("ratio", Align::Right),
        ("CPU us", Align::Right),
        ("ratio", Align::Right),
        ("calls", Align::Right),
    ];
    let calls = |number: f64| if number.is_finite() { format!("{number:.2}") } else { "–".into() };
    let mut cells: Vec<Vec<String>> = Vec::new();
    let mut last = String::new();
    for row in rows {
        let Row { protocol, op, depth, connections, .. } = row;
        let load = format!("{} {op} d{depth} x{connections}", protocol.trim_end_matches("-user-blk"));
        if load != last {
            let (iops, cpu) = (format!("{:.0}", row.iops), format!("{:.2}", row.us_cpu_per_io));
            cells.push(vec![load.clone(), iops, String::new(), cpu, String::new(), calls(row.syscalls_per_io)]);
            last = load;
        }
        cells.push(vec![
            format!("- {}", row.peer),
            format!("{:.0}", row.peer_iops),
            format!("{:.2}", row.iops_ratio),
            format!("{:.2}", row.peer_us_cpu_per_io),
            format!("{:.2}", row.cpu_ratio),
            calls(row.peer_syscalls_per_io),
        ]);
    }
    table(&header, &cells, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_our_server_once_for_each_load_and_fits_a_terminal() {
        let figure = |iops, syscalls_per_io| Figure { iops, us_cpu_per_io: 1.25, syscalls_per_io };
        let mut rows = Vec::new();
        for case in &CASES[8..] {
            let (ours, peers) = ([figure(1_000_000.0, f64::INFINITY)], [figure(500_000.0, 2.0)]);
            rows.extend(["qemu-storage-daemon", "qemu-nbd"].map(|peer| row(peer, case, &ours, &peers)));
        }
        let text = text(&rows, Style::default());
        assert_eq!(text.lines().count(), 1 + 3 * 4, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let counted = |line: &&str| line.contains("–") && line.contains("1000000");
        assert_eq!(text.lines().filter(counted).count(), 4, "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("2.00") && line.contains("500000")).count(), 8, "{text}");
    }
}
