//! Detection of the depth of the device.

/// Whether the device queues requests itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepthSense {
    /// 1: yes, for good; 0: no; -1: not known.
    pub(super) tag: i8,
    pub(super) most: u32,
    pub(super) samples: u32,
}

impl DepthSense {
    pub(super) const UNKNOWN: DepthSense = DepthSense { tag: -1, most: 0, samples: 0 };
}
