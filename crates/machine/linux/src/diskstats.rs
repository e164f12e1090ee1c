//! I/O counters of a disk or partition: `/proc/diskstats`.

use crate::file::read;
use crate::{Error, Roots};

/// Counters since the device appeared; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diskstats {
    /// Completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Sum of the times of all reads, in milliseconds.
    pub read_ms: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Diskstats {
    /// The counters of a device by its number. The kernel keeps them only while `queue/iostats` is 1.
    pub fn of(dev: (u32, u32), roots: &Roots) -> Result<Diskstats, Error> {
        let text = read(&roots.proc.join("diskstats"))?;
        Diskstats::parse(&text, dev)
    }

    /// Reads the counters of a device from the text of the file.
    fn parse(text: &str, (major, minor): (u32, u32)) -> Result<Diskstats, Error> {
        let own = [major.to_string(), minor.to_string()];
        let line = text.lines().find(|line| line.split_whitespace().take(2).eq(own.iter().map(String::as_str)));
        let Some(line) = line else {
            return Err(Error::Refused(format!("/proc/diskstats has no device {major}:{minor}")));
        };
        // Behind number and name: reads, merged, sectors, ms; then the same of writes.
        let fields: Option<Vec<u64>> = line.split_whitespace().skip(3).take(8).map(|f| f.parse().ok()).collect();
        match fields.as_deref() {
            Some([reads, _, read_sectors, read_ms, writes, _, written_sectors, _]) => Ok(Diskstats {
                reads: *reads,
                read_bytes: read_sectors.saturating_mul(dumbwaiter_block::SECTOR_BYTES),
                read_ms: *read_ms,
                writes: *writes,
                written_bytes: written_sectors.saturating_mul(dumbwaiter_block::SECTOR_BYTES),
            }),
            _ => {
                Err(Error::Refused(format!("/proc/diskstats: expected eight numbers behind a name, found \"{line}\"")))
            }
        }
    }

    /// The difference to an earlier reading.
    pub fn since(&self, before: &Diskstats) -> Diskstats {
        Diskstats {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            read_ms: self.read_ms.saturating_sub(before.read_ms),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "   7       4 loop4 294831 8167 20962270 53623 4378 278 603152 37138 0 6964 90789 2 0 819202 0 72 27
   7      41 loop41 1 2 3 4 5 6 7 8 0 0 0
 259       0 nvme0n1 12 0 96 3 1 0 8 0 0 1 3
   8       0 sda 12 0 96 x 1 0 8 0
";

    #[test]
    fn a_device_is_found_by_its_number_and_sectors_become_bytes() {
        let found = Diskstats::parse(TEXT, (7, 4)).unwrap();
        let expected = Diskstats {
            reads: 294_831,
            read_bytes: 20_962_270 * 512,
            read_ms: 53_623,
            writes: 4378,
            written_bytes: 603_152 * 512,
        };
        assert_eq!(found, expected);
        assert_eq!(Diskstats::parse(TEXT, (7, 41)).unwrap().reads, 1);
        assert_eq!(Diskstats::parse(TEXT, (259, 0)).unwrap().since(&found), Diskstats::default());
        assert_eq!(found.since(&Diskstats { reads: 294_830, ..found }).reads, 1);
    }

    #[test]
    fn what_is_missing_or_no_number_is_said() {
        assert!(Diskstats::parse(TEXT, (7, 5)).unwrap_err().to_string().contains("7:5"));
        assert!(Diskstats::parse(TEXT, (8, 0)).unwrap_err().to_string().contains("sda 12 0 96 x"));
        assert!(Diskstats::parse("7 4 loop4 1 2 3\n", (7, 4)).is_err());
    }
}
