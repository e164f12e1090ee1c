//! Binary log record of one I/O.

use std::io::{self, Read, Write};

use dumbwaiter_block::{Nanos, Op};

/// One I/O. Times count from the common start of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The operation.
    pub op: Op,
    /// Number of the task among those of its thread.
    pub task: u16,
    /// First sector, in units of 512 bytes; 0 for one that was unfinished at the end.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// When the task submitted it.
    pub submit: Nanos,
    /// When the kernel received it.
    pub issue: Nanos,
    /// When it completed; [`Nanos::MAX`] for one that was unfinished at the end.
    pub complete: Nanos,
}

const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::SecureErase, Op::WriteZeroes];

impl Record {
    /// Size of a record in the log.
    pub const BYTES: usize = 40;

    /// An I/O that is unfinished at the end.
    pub fn unfinished(op: Op, task: u16, submit: Nanos) -> Record {
        Record { op, task, sector: 0, bytes: 0, submit, issue: submit, complete: Nanos::MAX }
    }

    /// Whether it completed.
    pub fn is_finished(&self) -> bool {
        self.complete != Nanos::MAX
    }

    /// Appends it to a log.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; Record::BYTES];
        bytes[0] = OPS.iter().position(|op| *op == self.op).unwrap_or(0) as u8;
        bytes[2..4].copy_from_slice(&self.task.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.submit.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.issue.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.complete.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sector.to_le_bytes());
        to.write_all(&bytes)
    }

    /// The next record of a log; `None` at its end. A last record that is cut off is left out.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Record>> {
        let mut bytes = [0; Record::BYTES];
        match from.read_exact(&mut bytes) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            Nanos(u64::from_le_bytes(word))
        };
        Ok(Some(Record {
            op: OPS[usize::from(bytes[0]) % OPS.len()],
            task: u16::from_le_bytes([bytes[2], bytes[3]]),
            bytes: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            submit: word(8),
            issue: word(16),
            complete: word(24),
            sector: word(32).0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_as_written() {
        let one = |i: u64| Record {
            op: OPS[i as usize % OPS.len()],
            task: i as u16 * 7,
            sector: i << 33,
            bytes: 4096 << i,
            submit: Nanos(i * 1_000),
            issue: Nanos(i * 1_000 + 1),
            complete: Nanos(u64::MAX - i),
        };
        let mut file = Vec::new();
        for i in 0..6 {
            one(i).write(&mut file).unwrap();
        }
        file.truncate(file.len() - 1);
        let mut from = file.as_slice();
        for i in 0..5 {
            assert_eq!(Record::read(&mut from).unwrap(), Some(one(i)));
        }
        assert_eq!(Record::read(&mut from).unwrap(), None, "the last one is cut off");
    }
}
