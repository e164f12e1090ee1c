//! A store whose readers prefer recent data (YCSB's workloads at the device).

use dumbwaiter_block::{Flags, Nanos, Op, SECTOR_BYTES};

use crate::generate::random::{Random, Zipf};
use crate::{Next, Want, Workload};

/// Mean pause of a thread between two operations; the pauses are exponentially distributed. Four stores together ask for
/// less than a SATA SSD gives, and for more than one of its channels.
const THINK_TIME: Nanos = Nanos::from_us(5000);
/// Sectors of a read, and of an append.
const READ_SECTORS: u32 = 8;
const APPEND_SECTORS: u32 = 32;

/// Reads of 4 KiB, Zipf-distributed (0.99) by their distance from the end of a log, and appends of 16 KiB to it. The
/// log wraps in its region, which is full from the start. Between two operations a thread thinks.
pub(super) struct Latest {
    start: u64,
    /// Length of the region, in reads.
    blocks: u64,
    /// The block after the newest.
    end: u64,
    zipf: Zipf,
    random: Random,
    append_percent: u64,
    outstanding: bool,
    /// It thinks until then.
    thinking: Nanos,
}

impl Latest {
    /// A store on `length` bytes from byte `start`.
    pub(super) fn new(start: u64, length: u64, append_percent: u64, random: Random) -> Latest {
        let appends = length / SECTOR_BYTES / u64::from(APPEND_SECTORS);
        let blocks = appends * u64::from(APPEND_SECTORS / READ_SECTORS);
        let start = start / SECTOR_BYTES;
        let zipf = Zipf::new(blocks, 0.99);
        Latest { start, blocks, end: 0, zipf, random, append_percent, outstanding: false, thinking: Nanos::ZERO }
    }
}

impl Workload for Latest {
    fn next(&mut self, now: Nanos) -> Next {
        if self.outstanding {
            return Next::Blocked;
        }
        if now < self.thinking {
            return Next::Wait(self.thinking);
        }
        self.outstanding = true;
        let (op, block, sectors, flags) = if self.random.below(100) >= self.append_percent {
            let behind = self.zipf.draw(&mut self.random) + 1;
            (Op::Read, (self.end + self.blocks - behind) % self.blocks, READ_SECTORS, Flags::NONE)
        } else {
            let at = self.end;
            self.end = (self.end + u64::from(APPEND_SECTORS / READ_SECTORS)) % self.blocks;
            (Op::Write, at, APPEND_SECTORS, Flags::SYNC.with(Flags::IDLE))
        };
        let sector = self.start + block * u64::from(READ_SECTORS);
        Next::Issue(Want { op, sector, sectors, flags, ioprio: None, stream: 0, task: 0 })
    }

    fn completed(&mut self, now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding = false;
        self.thinking = now + Nanos((self.random.exponential() * THINK_TIME.0 as f64) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_data_is_read_most() {
        let mut l = Latest::new(1 << 20, 1 << 30, 3, Random::new(&[5]));
        let (mut reads, mut near, mut appends, n) = (0u32, 0u32, 0u32, 100_000);
        for _ in 0..n {
            let end = l.end;
            let Next::Issue(want) = l.next(Nanos::MAX) else { panic!() };
            l.completed(Nanos::ZERO, 0, Nanos::ZERO);
            let block = (want.sector - l.start) / 8;
            if want.op == Op::Read {
                reads += 1;
                near += u32::from((end + l.blocks - 1 - block) % l.blocks < 100);
            } else {
                assert_eq!(block, end);
                appends += 1;
            }
        }
        assert!((f64::from(appends) / f64::from(n) - 0.03).abs() < 0.003, "{appends}");
        // Of 262,144 ranks the first hundred have about 40 % of the weight of Zipf's law at 0.99.
        let share = f64::from(near) / f64::from(reads);
        assert!((0.35..0.45).contains(&share), "{share}");
    }
}
