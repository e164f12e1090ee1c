//! What an I/O costs: the linear model, and the parameters that Linux knows by itself.

use dumbwaiter_block::{Dir, Op};

/// Virtual time of a second of the device.
pub const VTIME_PER_S: u64 = 1 << 37;
/// Rate of 100 %, in virtual time per µs.
pub const VTIME_PER_US: u64 = VTIME_PER_S / 1_000_000;
/// Virtual time per ns.
pub(super) const VTIME_PER_NS: u64 = VTIME_PER_S / 1_000_000_000;
/// Sectors of a page, the unit of size and distance.
const PAGE_SECTORS: u64 = 8;
/// An I/O further away than this, in pages, is random.
const RANDOM_PAGES: u64 = 4096;

/// What a device does in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bytes a second in large sequential I/Os.
    pub bps: u64,
    /// Sequential I/Os of 4 KiB a second.
    pub seqiops: u64,
    /// Random I/Os of 4 KiB a second.
    pub randiops: u64,
}

/// `io.cost.model`: reads and writes.
pub type Model = [Rates; 2];

/// Costs in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coefficients {
    /// Of each 4 KiB.
    pub page: u64,
    /// On top, of a sequential I/O.
    pub sequential: u64,
    /// On top, of a random I/O.
    pub random: u64,
}

impl Coefficients {
    /// Those of a device with these rates.
    pub fn of(rates: Rates) -> Coefficients {
        let page = match rates.bps {
            0 => 0,
            bps => VTIME_PER_S.div_ceil(bps.div_ceil(4096)),
        };
        let base = |iops: u64| match iops {
            0 => 0,
            iops => VTIME_PER_S.div_ceil(iops).saturating_sub(page),
        };
        Coefficients { page, sequential: base(rates.seqiops), random: base(rates.randiops) }
    }

    /// Cost of an I/O of `sectors` at `start` of a group whose last one ended at `cursor`; 0: there was none.
    pub fn cost(&self, start: u64, sectors: u32, cursor: u64) -> u64 {
        let distance = if cursor == 0 { 0 } else { start.abs_diff(cursor) / PAGE_SECTORS };
        let base = if distance > RANDOM_PAGES { self.random } else { self.sequential };
        self.pages(sectors) + base
    }

    /// Cost of an I/O that joined a request.
    pub fn pages(&self, sectors: u32) -> u64 {
        (u64::from(sectors) / PAGE_SECTORS).max(1) * self.page
    }

    /// How long the transfer of a request of `sectors` takes by the model, ns.
    pub(super) fn transfer_ns(&self, sectors: u32) -> u64 {
        u64::from(sectors) / PAGE_SECTORS * self.page / VTIME_PER_NS
    }
}

/// Reads and writes cost; nothing else does.
pub(super) fn charged_direction(op: Op) -> Option<Dir> {
    match op {
        Op::Read => Some(Dir::Read),
        Op::Write => Some(Dir::Write),
        _ => None,
    }
}

/// `io.cost.qos`: what the device's rate follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Share of reads and of writes that must meet the latency, in millionths; 0: it is not looked at.
    pub pct_ppm: [u32; 2],
    /// The latency, µs. It sets the period even where the share is 0.
    pub lat_us: [u32; 2],
    /// Lowest and highest rate, in millionths of the model's.
    pub min_ppm: u32,
    /// See `min_ppm`.
    pub max_ppm: u32,
}

/// A kind of device whose parameters Linux knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// Rotational.
    Hdd,
    /// Flash that takes one request at a time.
    SsdDepth1,
    /// Flash.
    SsdDefault,
    /// Flash that proved to be much faster than the default.
    SsdFast,
}

impl DeviceClass {
    /// Its model.
    pub const fn model(self) -> Model {
        const fn rates(bps: u64, seqiops: u64, randiops: u64) -> Rates {
            Rates { bps, seqiops, randiops }
        }
        match self {
            DeviceClass::Hdd => [rates(174_019_176, 41_708, 370), rates(178_075_866, 42_705, 378)],
            DeviceClass::SsdDepth1 => [rates(245_855_193, 61_575, 6_946), rates(141_365_009, 33_716, 26_796)],
            DeviceClass::SsdDefault => [rates(488_636_629, 8_932, 8_518), rates(427_891_549, 28_755, 21_940)],
            DeviceClass::SsdFast => [rates(3_102_524_156, 724_816, 778_122), rates(1_742_780_862, 425_702, 443_193)],
        }
    }

    /// Its quality of service: no share of I/Os is looked at, any rate from 1 % to 10000 %.
    pub const fn qos(self) -> Qos {
        let lat_us = match self {
            DeviceClass::Hdd => 250_000,
            DeviceClass::SsdDepth1 | DeviceClass::SsdDefault => 25_000,
            DeviceClass::SsdFast => 5_000,
        };
        Qos { pct_ppm: [0; 2], lat_us: [lat_us; 2], min_ppm: RATE_MIN_PPM, max_ppm: RATE_MAX_PPM }
    }
}

/// Lowest rate that can be asked for: 1 %.
pub const RATE_MIN_PPM: u32 = 10_000;
/// Highest rate that can be asked for: 10000 %.
pub const RATE_MAX_PPM: u32 = 100_000_000;
