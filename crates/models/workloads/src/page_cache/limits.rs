//! How many pages may be dirty (Linux 6.12 and 6.18: `dirty_ratio` and its siblings in `/proc/sys/vm`).

/// An amount of dirty data: a part of the memory, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Percent of the memory that can be dirty.
    Percent(u32),
    /// Bytes.
    Bytes(u64),
}

impl Amount {
    fn pages(self, memory_pages: u64) -> u64 {
        match self {
            Amount::Percent(percent) => memory_pages * u64::from(percent) / 100,
            Amount::Bytes(bytes) => bytes / super::PAGE_BYTES,
        }
    }
}

/// Thresholds, in pages. Pages that are dirty and those under write-back count together, but for `background`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Above this the flusher writes; dirty pages alone count.
    pub background: u64,
    /// Below this no writer is paused.
    pub freerun: u64,
    /// Where the writers' pauses hold the number.
    pub setpoint: u64,
    /// Here writers stop.
    pub limit: u64,
}

impl Thresholds {
    /// Those of a memory. The memory does not change during a run, and so neither do they.
    pub fn new(memory_pages: u64, dirty: Amount, background: Amount) -> Thresholds {
        let limit = dirty.pages(memory_pages).max(1);
        let background = Some(background.pages(memory_pages)).filter(|pages| *pages < limit).unwrap_or(limit / 2);
        let freerun = (limit + background) / 2;
        Thresholds { background, freerun, setpoint: (freerun + limit) / 2, limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_those_of_the_kernel() {
        let [memory, mib] = [8 << 18, 256];
        let t = Thresholds::new(memory, Amount::Percent(20), Amount::Percent(10));
        assert_eq!((t.background / mib, t.freerun / mib, t.setpoint / mib, t.limit / mib), (819, 1228, 1433, 1638));
        let t = Thresholds::new(memory, Amount::Bytes(48 << 20), Amount::Bytes(16 << 20));
        assert_eq!((t.background, t.freerun, t.setpoint, t.limit), (16 * mib, 32 * mib, 40 * mib, 48 * mib));
        // The default background of 10 % is more than the limit: half of that.
        assert_eq!(Thresholds::new(memory, Amount::Bytes(48 << 20), Amount::Percent(10)).background, 24 * mib);
    }
}
