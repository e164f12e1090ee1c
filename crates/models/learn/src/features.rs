//! Feature sets: the inputs of models.
//!
//! The definition of each set is a text, and a model file carries the text's checksum, so that a model made for other
//! features is refused.

use dumbwaiter_block::{IoTag, Nanos, Op};

use crate::RequestRecord;

/// Completed requests in the history of a model.
pub const HISTORY: usize = 16;
/// Numbers that describe one request.
pub const VECTOR: usize = 6;
/// Numbers of [`Place`].
pub(crate) const PLACE: usize = 7;
/// Size classes of files: the input of one is its number, from 1, over this.
pub(crate) const SIZE_CLASSES: f32 = 11.0;
/// Largest number of inputs of any feature set.
pub const MAX_INPUTS: usize = 128;

/// Inputs known on arrival of a request: `[op, size, tag4]`.
///
/// `op` is 1 for a write; `size` = log2(bytes, at least 512) / 20; `tag4` = metadata, journal, directory or inode table,
/// and the size class of the file from 1/11 to 1 (0: no file data).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestVector(pub [f32; VECTOR]);

impl RequestVector {
    /// The numbers of a request.
    pub fn new(op: Op, bytes: u32, tag: IoTag) -> RequestVector {
        let code = tag.code();
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        let is_data = code >= IoTag::FILE_4KB.code();
        RequestVector([
            flag(op == Op::Write),
            libm::log2f(bytes.max(512) as f32) / 20.0,
            flag((IoTag::META.code()..=IoTag::DATA_DIR.code()).contains(&code)),
            flag(tag == IoTag::JOURNAL),
            flag(tag == IoTag::INODE || tag == IoTag::DATA_DIR),
            if is_data { f32::from(code - IoTag::JOURNAL.code()) / SIZE_CLASSES } else { 0.0 },
        ])
    }

    /// The numbers of a finished request.
    pub fn of(record: &RequestRecord) -> RequestVector {
        RequestVector::new(record.op, record.bytes, record.tag)
    }
}

/// Position of a request relative to the device's state at dispatch: inputs that depend on the order, so they are
/// computed at each dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Sectors from the end of the request sent last to the start of this one.
    pub gap: i64,
    /// Sine and cosine of the platter's angle to its first sector; see [`Spindle`](crate::Spindle).
    pub angle: [f32; 2],
    /// First sector as a share of the device, 0 to 1.
    pub position: f32,
    /// ln of the running latency of its region over that of the device; see [`Regions`](crate::Regions).
    pub region: f32,
    /// Requests in the device.
    pub depth: u32,
}

impl Place {
    /// As inputs.
    pub(crate) fn inputs(&self) -> [f32; PLACE] {
        // Sectors, as a share of 2 GiB: short seeks differ by this more than by the logarithm.
        let linear = (self.gap as f32 / 4_194_304.0).clamp(-4.0, 4.0);
        let [sine, cosine] = self.angle;
        [signed_log2(self.gap), linear, sine, cosine, self.position, self.region, self.depth.min(64) as f32 / 16.0]
    }
}

/// The inputs of [`FeatureSet::Ordered`]. `last`: the latency of the request completed last.
pub fn ordered_row(record: &RequestRecord, delta: i64, last: Nanos) -> [f32; 6] {
    let [op, size, ..] = RequestVector::of(record).0;
    let tag = f32::from(record.tag.code()) / 23.0;
    [record.depth.min(64) as f32 / 16.0, ln_us(last) / 10.0, signed_log2(delta), tag, size, op]
}

/// `sgn(x) log2(1 + |x|) / 24`.
pub fn signed_log2(x: i64) -> f32 {
    let size = libm::log2f(1.0 + x.unsigned_abs() as f32) / 24.0;
    if x < 0 { -size } else { size }
}

/// ln of a latency in microseconds, at least 1 us.
pub fn ln_us(latency: Nanos) -> f32 {
    libm::logf((latency.0 as f32 / 1e3).max(1.0))
}

/// The inputs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureSet {
    /// The last 16 completions, each `r` and LBA delta: the classifier's.
    Window,
    /// As [`FeatureSet::Window`] with each latency: the paper's classifier.
    WindowWithLatency,
    /// The request and the last 16 completions, independent of the order of service: the latency predictor's.
    Unordered,
    /// [`FeatureSet::Unordered`] with the mean of the 16 ln latencies: for linear models.
    UnorderedWithMean,
    /// Depth, previous latency, LBA delta, tag, size, op: the paper's ordered predictor, a diagnostic.
    Ordered,
    /// [`FeatureSet::Unordered`] with [`Place`] and the 16 latencies: the position-aware predictor's, for use at dispatch.
    Positioned,
}

impl FeatureSet {
    /// All of them.
    pub const ALL: [FeatureSet; 6] = [
        FeatureSet::Window,
        FeatureSet::WindowWithLatency,
        FeatureSet::Unordered,
        FeatureSet::UnorderedWithMean,
        FeatureSet::Ordered,
        FeatureSet::Positioned,
    ];

    /// Number of inputs.
    pub const fn inputs(self) -> usize {
        match self {
            FeatureSet::Window => HISTORY * (VECTOR + 1),
            FeatureSet::WindowWithLatency => HISTORY * (VECTOR + 2),
            FeatureSet::Unordered => VECTOR + HISTORY * VECTOR,
            FeatureSet::UnorderedWithMean => VECTOR + HISTORY * VECTOR + 1,
            FeatureSet::Ordered => 6,
            FeatureSet::Positioned => VECTOR + PLACE + HISTORY * (VECTOR + 1),
        }
    }

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            FeatureSet::Window => "window",
            FeatureSet::WindowWithLatency => "window-with-latency",
            FeatureSet::Unordered => "unordered",
            FeatureSet::UnorderedWithMean => "unordered-with-mean",
            FeatureSet::Ordered => "ordered",
            FeatureSet::Positioned => "positioned",
        }
    }

    /// The set of a name.
    pub fn named(name: &str) -> Option<FeatureSet> {
        FeatureSet::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Its definition. Any change of the numbers changes this text.
    pub const fn definition(self) -> &'static str {
        match self {
            FeatureSet::Window => {
                "16 completed, oldest first: op, log2(max(bytes,512))/20, tag 1-11, tag 12, tag 6|11, (tag-12)/11, \
                 sgn(d)*log2(1+|d|)/24 with d = sector - sector issued before"
            }
            FeatureSet::WindowWithLatency => {
                "16 completed, oldest first: op, log2(max(bytes,512))/20, tag 1-11, tag 12, tag 6|11, (tag-12)/11, \
                 ln(max(us,1))/10, sgn(d)*log2(1+|d|)/24 with d = sector - sector issued before"
            }
            FeatureSet::Unordered => {
                "request, then 16 completed before its arrival, oldest first: op, log2(max(bytes,512))/20, tag 1-11, \
                 tag 12, tag 6|11, (tag-12)/11"
            }
            FeatureSet::UnorderedWithMean => {
                "request, then 16 completed before its arrival, oldest first: op, log2(max(bytes,512))/20, tag 1-11, \
                 tag 12, tag 6|11, (tag-12)/11; then mean ln us of the 16/10"
            }
            FeatureSet::Ordered => {
                "depth/16, ln(max(us of the completed last,1))/10, sgn(d)*log2(1+|d|)/24 with d = sector - sector issued \
                 before, tag/23, log2(max(bytes,512))/20, op"
            }
            FeatureSet::Positioned => {
                "request, sgn(g)*log2(1+|g|)/24 with g = sector - end issued before, clamp(g/2^22,-4,4), \
                 sine and cosine of the angle to the sector, sector/device, ln(region/device), min(depth,64)/16, then 16 completed, oldest first: op, \
                 log2(max(bytes,512))/20, tag 1-11, tag 12, tag 6|11, (tag-12)/11, \
                 ln(max(us,1))/10"
            }
        }
    }

    /// Checksum of [`FeatureSet::definition`], as model files carry it.
    pub fn hash(self) -> String {
        format!("{:08x}", crc32c::crc32c(self.definition().as_bytes()))
    }
}
