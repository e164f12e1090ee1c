//! The kernel's figures in a recording: bytes and latencies, from the arrival of each I/O to its completion.

use std::collections::BTreeMap;

use dumbwaiter_block::Nanos;

use crate::recording::{Row, RowKind};

/// Figures of a recording.
#[derive(Debug, PartialEq)]
pub(super) struct Observed {
    pub(super) mb_per_s: f64,
    pub(super) mean_us: f64,
    pub(super) p95_us: f64,
    pub(super) processes: BTreeMap<i32, Process>,
}

/// One process that submitted I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Bytes of finished I/O.
    pub(super) bytes: u64,
    /// The lowest sector that it asked for.
    pub(super) lowest: u64,
}

/// An I/O under way.
#[derive(Clone, Copy)]
struct Bio {
    at: Nanos,
    pid: i32,
    bytes: u64,
}

/// The figures of a recording's rows; `None` if no I/O of known arrival finished.
pub(super) fn observe(rows: &[Row]) -> Option<Observed> {
    let mut arrived: BTreeMap<u64, Bio> = BTreeMap::new();
    let mut held: BTreeMap<u32, Vec<Bio>> = BTreeMap::new();
    let mut processes: BTreeMap<i32, Process> = BTreeMap::new();
    let (mut latencies, mut bytes, mut end) = (Vec::new(), 0, Nanos::ZERO);
    for row in rows {
        match row.kind {
            RowKind::Arrival => {
                arrived.insert(row.sector, Bio { at: row.at, pid: row.pid, bytes: row.bytes });
                let process = processes.entry(row.pid).or_insert(Process { bytes: 0, lowest: row.sector });
                process.lowest = process.lowest.min(row.sector);
            }
            RowKind::Allocated | RowKind::BackMerge | RowKind::FrontMerge => {
                held.entry(row.req).or_default().extend(arrived.remove(&row.sector));
            }
            RowKind::Absorb(other) => {
                let absorbed = held.remove(&other).unwrap_or_default();
                held.entry(row.req).or_default().extend(absorbed);
            }
            RowKind::Complete => {
                end = row.at;
                for bio in held.remove(&row.req).unwrap_or_default() {
                    latencies.push(row.at.since(bio.at).0);
                    bytes += bio.bytes;
                    if let Some(process) = processes.get_mut(&bio.pid) {
                        process.bytes += bio.bytes;
                    }
                }
            }
            _ => {}
        }
    }
    latencies.sort_unstable();
    let p95 = *latencies.get(latencies.len() * 95 / 100)?;
    let sum: u128 = latencies.iter().map(|ns| u128::from(*ns)).sum();
    Some(Observed {
        mb_per_s: bytes as f64 / end.as_secs_f64() / 1e6,
        mean_us: sum as f64 / latencies.len() as f64 / 1e3,
        p95_us: p95 as f64 / 1e3,
        processes,
    })
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Flags, Ioprio, Op};

    use super::*;

    fn row(us: u64, kind: RowKind, req: u32, sector: u64, pid: i32) -> Row {
        let at = Nanos::from_us(us);
        let (op, flags, ioprio) = (Op::Read, Flags::NONE, Ioprio::DEFAULT);
        Row { at, kind, req, sector, bytes: 4096, op, flags, pid, ioprio, cpu: 0, line: 1 }
    }

    #[test]
    fn latency_counts_from_arrival_for_each_io_of_a_request() {
        let rows = [
            row(0, RowKind::Arrival, 0, 8, 5),
            row(1, RowKind::Allocated, 1, 8, 5),
            row(2, RowKind::Arrival, 0, 16, 5),
            row(3, RowKind::BackMerge, 1, 16, 5),
            row(10, RowKind::Arrival, 0, 24, 6),
            row(11, RowKind::Allocated, 2, 24, 6),
            row(12, RowKind::Absorb(2), 1, 8, 6),
            row(20, RowKind::Arrival, 0, 0, 6),
            row(100, RowKind::Complete, 1, 8, 0),
        ];
        let found = observe(&rows).unwrap();
        assert_eq!(found.mean_us, (100.0 + 98.0 + 90.0) / 3.0);
        assert_eq!(found.p95_us, 100.0);
        assert!((found.mb_per_s - 3.0 * 4096.0 / 100.0).abs() < 1e-9, "{}", found.mb_per_s);
        assert_eq!(found.processes[&5], Process { bytes: 8192, lowest: 8 });
        assert_eq!(found.processes[&6], Process { bytes: 4096, lowest: 0 }, "what has not finished has no bytes");
        assert!(observe(&rows[..4]).is_none(), "nothing finished");
    }
}
