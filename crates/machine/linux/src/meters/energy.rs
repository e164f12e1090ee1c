//! Energy of an interval and its source.

/// The kind of meter that an energy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// RAPL counters through `/sys/class/powercap`: processor packages and memory.
    RaplPowercap,
    /// RAPL counters through perf events: processor packages and memory.
    Perf,
    /// A sensor in `/sys/class/hwmon`: the whole machine for an ACPI power meter, else the part it is wired to.
    Hwmon,
    /// An external logger: everything plugged into it.
    LoggerCsv,
}

/// Energy of an interval.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Energy {
    /// Sum of the parts that do not overlap, J.
    pub joules: f64,
    /// The kind of meter.
    pub source: Source,
    /// Each counter, J; counters may overlap (a package contains its cores).
    pub parts: Vec<(String, f64)>,
    /// Length of the interval, s.
    pub seconds: f64,
    /// Standard error of `joules`, if known.
    pub sigma: Option<f64>,
    /// A reason to distrust the figure, if any.
    pub warning: Option<String>,
}
