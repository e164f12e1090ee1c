//! Drives of which only the limits were measured, from one table; the rest is by class.

const TABLE: &str = include_str!("../params/catalogue.csv");

/// The rates that were measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) read_mb_per_s: f64,
    pub(crate) random_reads_per_s: f64,
    pub(crate) write_mb_per_s: f64,
    pub(crate) random_writes_per_s: f64,
}

/// A drive of the catalogue as a parameter file. Its texts live as long as the program, which makes them once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) toml: &'static str,
}

/// All drives of the table.
pub(crate) fn entries() -> impl Iterator<Item = Entry> {
    rows().map(|row| row.entry())
}

/// What was measured of a drive of the catalogue.
pub(crate) fn limits(name: &str) -> Option<Limits> {
    let bare = name.strip_prefix(PREFIX)?;
    rows().find(|row| row.name == bare).map(|row| row.limits)
}

/// How the names of the catalogue begin.
const PREFIX: &str = "iocost:";
/// Bytes that all dies of `ssd:nvme-tlc` and of `ssd:pm893-960` program at once.
const PROGRAMMED: [f64; 2] = [1_048_576.0, 1_048_576.0];

struct Row {
    name: &'static str,
    drive: &'static str,
    sectors: u64,
    sata: bool,
    limits: Limits,
}

/// The rows; a test reads them all, so none is left out.
fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let (name, drive) = (fields.next()?, fields.next()?);
        let sectors = fields.next()?.parse().ok()?;
        let sata = fields.next()? == "sata";
        let mut rate = || fields.next()?.parse::<f64>().ok();
        let limits = Limits {
            read_mb_per_s: rate()?,
            random_reads_per_s: rate()?,
            write_mb_per_s: rate()?,
            random_writes_per_s: rate()?,
        };
        Some(Row { name, drive, sectors, sata, limits })
    })
}

impl Row {
    /// A parameter file that has the limits.
    fn entry(&self) -> Entry {
        let Limits { read_mb_per_s, random_reads_per_s, write_mb_per_s, random_writes_per_s } = self.limits;
        let base = if self.sata { "ssd:pm893-960" } else { "ssd:nvme-tlc" };
        let fastest = read_mb_per_s.max(write_mb_per_s);
        let about = format!("{}: limits measured by the io.cost benchmark, the rest by class", self.drive);
        let toml = format!(
            "kind = \"ssd\"\nbase = \"{base}\"\ndescription = \"{about}\"\n\
             # Limits: medians of the io.cost benchmark (github.com/iocost-benchmark/iocost-benchmarks, Apache-2.0) [F]; all else is of {base} [E].\n\
             capacity_sectors = {}\n\
             channel_mb_per_s = {:.0} # not below the limits [E]\n\
             link_mb_per_s = {} # the larger sequential rate [F]\n\
             firmware_read_us = {:.4} # random reads [F]\n\
             firmware_write_us = {:.4} # at most as for reads [E]\n\
             t_program_us = {:.1} # sequential writes [F]\n\
             drain_mb_per_s = {:.1} # random writes [F]\n",
            self.sectors,
            (fastest / 5.0).max(if self.sata { 800.0 } else { 667.0 }),
            fastest,
            1e6 / random_reads_per_s,
            (1e6 / random_reads_per_s).min(2.0),
            PROGRAMMED[usize::from(self.sata)] / write_mb_per_s,
            random_writes_per_s * 4096.0 / 1e6,
        );
        let (name, about, toml) = (format!("{PREFIX}{}", self.name).leak(), about.leak(), toml.leak());
        Entry { name, about, toml }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_drive() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count() - 1;
        assert_eq!(entries().count(), lines);
    }
}
