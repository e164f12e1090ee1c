//! The load of one point of a survey.

use serde::Serialize;

/// Where a load's I/Os go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "pattern")]
pub enum Pattern {
    /// Uniform over the span, aligned to the I/O's size.
    Random,
    /// Sequential streams, spread over the span and taking turns.
    Sequential {
        /// Number of streams.
        streams: u32,
    },
    /// Each I/O ends where the one before it began; after 16 of them, elsewhere. On a disk each waits for almost a whole revolution.
    Backward,
    /// Alternating between two places at a distance; both vary a little.
    Alternate {
        /// Sectors between the two ends.
        distance: u64,
    },
    /// A write at a random place, then a flush, and so on.
    WriteFlush,
}

/// The load of one point: a closed loop that keeps `depth` I/Os in flight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// A name for people, unique in a plan.
    pub name: String,
    /// Where the I/Os go.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// Sizes in sectors (512 bytes); each I/O has one of them, equally often.
    pub sectors: Vec<u32>,
    /// Fraction of reads; the rest are writes.
    pub reads: f64,
    /// I/Os in flight.
    pub depth: u32,
    /// First sector of the span.
    pub start: u64,
    /// Sectors of the span.
    pub span: u64,
}

impl Load {
    /// Random 4 KiB reads over the first `span` sectors.
    pub fn random_reads(name: impl Into<String>, depth: u32, span: u64) -> Load {
        Load { name: name.into(), pattern: Pattern::Random, sectors: vec![8], reads: 1.0, depth, start: 0, span }
    }

    /// The same load with I/Os of this size.
    #[must_use]
    pub fn of_kib(self, kib: u32) -> Load {
        Load { sectors: vec![kib * 2], ..self }
    }

    /// The same load as writes.
    #[must_use]
    pub fn writing(self) -> Load {
        Load { reads: 0.0, ..self }
    }

    /// The same load with its I/Os elsewhere.
    #[must_use]
    pub fn with(self, pattern: Pattern) -> Load {
        Load { pattern, ..self }
    }

    /// Largest I/O, in sectors.
    pub fn max_sectors(&self) -> u32 {
        self.sectors.iter().copied().max().unwrap_or(8)
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.reads < 1.0 || self.pattern == Pattern::WriteFlush
    }
}
