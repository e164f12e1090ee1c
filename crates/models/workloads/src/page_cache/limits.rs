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

    /// The unit of [`Thresholds::position`].
    pub const POSITION_ONE: u64 = 1024;

    /// Where `total` pages dirty or under write-back are, as a factor for the rate of writers: 1 at the setpoint, up to 2 below, 0
    /// at the limit. `bandwidth`: what the device writes, pages per second.
    pub fn position(&self, total: u64, bandwidth: u64) -> u64 {
        const ONE: i64 = Thresholds::POSITION_ONE as i64;
        if total >= self.limit {
            return 0;
        }
        let (total, setpoint, limit) = (total as i64, self.setpoint as i64, self.limit as i64);
        let x = (setpoint - total) * ONE / (limit - setpoint).max(1);
        let factor = (ONE + x * x / ONE * x / ONE).clamp(0, 2 * ONE);
        // The device's own line, which is nearly flat for an only device: to 0 within eight seconds' worth of writing.
        let span = 8 * bandwidth.max(1) as i64;
        let left = (setpoint + span - total).max(span / 4);
        (i128::from(factor) * i128::from(left) / i128::from(span)) as u64
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
