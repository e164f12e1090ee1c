//! The four generations and their constants. Mechanisms that can be switched are in `settings`.

/// A generation of BFQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// The first release, for Linux 2.6.29: shares of sectors, additive budgets.
    Original,
    /// The first release with heuristics for low latency.
    V1,
    /// v7r8, for Linux 3.18, with its companion patch for merging queues early.
    V7r8,
    /// Linux 5.x to 6.18.
    Mainline,
}

/// Constants that differ between generations. Raises' reference rates are sectors per µs × 2¹⁶.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    pub(super) generation: Generation,
    pub(super) weight_per_level: u32,
    pub(super) default_weight: u32,
    /// Ratio of a soft real-time queue's raise to an interactive one's.
    pub(super) soft_rt_factor: u32,
    pub(super) burst_size: usize,
    pub(super) burst_ms: u64,
    /// `None`: that of sync requests.
    pub(super) timeout_async_ms: Option<u64>,
    /// Requests of an async queue in the device while others are busy.
    pub(super) async_quantum: u32,
    /// The same for a sync queue.
    pub(super) sync_quantum: u32,
    /// More requests than this in the device show that it queues them.
    pub(super) queueing: u32,
}

/// Limit of outstanding requests of a queue that is alone, as a multiple of its quantum.
pub(super) const ALONE: u32 = 4;

impl Constants {
    /// Does it follow this generation or a later one?
    pub(super) fn is(&self, generation: Generation) -> bool {
        self.generation >= generation
    }
}

impl Generation {
    /// As users type them, the default first.
    pub const NAMES: &[&str] = &["mainline", "v7r8", "v1", "original"];

    /// By name.
    pub fn parse(name: &str) -> Option<Generation> {
        Some(match name {
            "original" => Generation::Original,
            "v1" => Generation::V1,
            "v7r8" => Generation::V7r8,
            "mainline" => Generation::Mainline,
            _ => return None,
        })
    }

    pub(super) const fn constants(self) -> Constants {
        const UNLIMITED: u32 = u32::MAX / ALONE;
        let old = Constants {
            generation: self,
            weight_per_level: 1,
            default_weight: 4,
            soft_rt_factor: 1,
            burst_size: 11,
            burst_ms: 500,
            timeout_async_ms: Some(40),
            async_quantum: 4,
            sync_quantum: 4,
            queueing: 4,
        };
        match self {
            Generation::Original | Generation::V1 => old,
            Generation::V7r8 => Constants { sync_quantum: UNLIMITED, ..old },
            Generation::Mainline => Constants {
                generation: self,
                weight_per_level: 10,
                default_weight: 40,
                soft_rt_factor: 100,
                burst_size: 8,
                burst_ms: 180,
                timeout_async_ms: None,
                async_quantum: UNLIMITED,
                sync_quantum: UNLIMITED,
                queueing: 3,
            },
        }
    }
}
