//! What the histograms of biolatency, bitesize, iolatency and bpftrace tell: below which time or size half and 99 % of the
//! requests were.

/// Histograms that are told.
const SHOWN: usize = 3;

/// What a histogram counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// So many nanoseconds.
    Ns(u64),
    /// So many bytes.
    Bytes(u64),
}

/// One histogram: limits above the values of each row, with how many there were.
struct Counts {
    label: String,
    unit: Unit,
    /// Does a row end in its last value (bcc), or in the first of the next row (bpftrace, iolatency)?
    inclusive: bool,
    rows: Vec<(u64, u64)>,
}

impl Counts {
    fn all(&self) -> u64 {
        self.rows.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The limit below which `per_cent` of the values are.
    fn below(&self, per_cent: u64) -> u64 {
        let (all, mut sum) = (u128::from(self.all()), 0);
        let enough = |(_, count): &&(u64, u64)| {
            sum += u128::from(*count);
            sum * 100 >= all * u128::from(per_cent)
        };
        self.rows.iter().find(enough).map_or(0, |(limit, _)| *limit)
    }

    fn sentence(&self) -> String {
        let show = |limit: u64| match self.unit {
            Unit::Ns(unit) => match u128::from(limit) * u128::from(unit) {
                ns if ns < 10_000 => format!("{ns} ns"),
                ns if ns < 10_000_000 => format!("{} us", ns / 1000),
                ns if ns < 10_000_000_000 => format!("{} ms", ns / 1_000_000),
                ns => format!("{} s", ns / 1_000_000_000),
            },
            Unit::Bytes(unit) => match u128::from(limit) * u128::from(unit) {
                bytes if bytes < 10 << 10 => format!("{bytes} bytes"),
                bytes if bytes < 10 << 20 => format!("{} KiB", bytes >> 10),
                bytes => format!("{} MiB", bytes >> 20),
            },
        };
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        format!(
            "{label}{} requests, half below {}, 99 % below {}",
            self.all(),
            show(self.below(50)),
            show(self.below(99))
        )
    }
}

/// The largest histograms of a text, in words; `None` if it has none whose unit is known.
pub(crate) fn histogram_figures(text: &str) -> Option<String> {
    let (mut found, mut label) = (Vec::<Counts>::new(), String::new());
    for line in text.lines() {
        if let Some((name, unit)) = title(line) {
            let label = if name.is_empty() { std::mem::take(&mut label) } else { name };
            found.push(Counts { label, unit, inclusive: !line.contains("<("), rows: Vec::new() });
        } else if let Some(last) = found.last_mut()
            && let Some(row) = row(line, last.inclusive)
        {
            last.rows.push(row);
        } else if let Some((_, name)) = line.split_once(" = ") {
            // A disk, process or flag before a histogram of bcc.
            name.trim().trim_matches('\'').clone_into(&mut label);
        }
    }
    found.retain(|counts| counts.all() > 0);
    found.sort_by_key(|counts| std::cmp::Reverse(counts.all()));
    found.truncate(SHOWN);
    let said: Vec<String> = found.iter().map(Counts::sentence).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The title of a histogram: its label, and what it counts.
fn title(line: &str) -> Option<(String, Unit)> {
    let (name, label) = if let Some(map) = line.trim_end().strip_prefix('@') {
        // bpftrace: `@usecs:`, `@bytes[fio]:`.
        let map = map.strip_suffix(':')?;
        let (name, key) = map.split_once('[').unwrap_or((map, ""));
        (name, key.trim_end_matches(']'))
    } else {
        let (name, rest) = line.split_once(':')?;
        let counted = ["count", "I/O"].iter().any(|word| rest.trim_start().starts_with(word));
        (counted && rest.to_ascii_lowercase().contains("distribution")).then_some((name.trim(), ""))?
    };
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name == *word || name.ends_with(&format!("_{word}")));
    let below = |unit: &str| name.ends_with(&format!("<({unit})"));
    let unit = match () {
        () if has(&["usecs", "us", "usec"]) || below("us") => Unit::Ns(1000),
        () if has(&["msecs", "ms", "msec"]) || below("ms") => Unit::Ns(1_000_000),
        () if has(&["nsecs", "ns", "nsec"]) => Unit::Ns(1),
        () if has(&["kbytes", "kb", "kib"]) => Unit::Bytes(1024),
        () if has(&["bytes", "size", "bitesize"]) => Unit::Bytes(1),
        () => return None,
    };
    Some((label.to_owned(), unit))
}

/// The limit above a row's values, and their number: `256 -> 511 : 35 |**`, `[1K, 2K) 35 |@@`, `[7] 35 |@@`. `inclusive`: the first
/// form ends in its last value.
fn row(line: &str, inclusive: bool) -> Option<(u64, u64)> {
    let line = line.trim();
    let (limit, rest) = match line.strip_prefix('[') {
        Some(rest) => {
            let (range, rest) = rest.split_once([')', ']'])?;
            let limit = match range.split_once(',') {
                Some((_, "...")) => return None,
                Some((_, high)) => scaled(high)?,
                None => scaled(range)?.checked_add(1)?,
            };
            (limit, rest)
        }
        None => {
            let (_, rest) = line.split_once("->")?;
            let (high, rest) = rest.split_once(':')?;
            (high.trim().parse::<u64>().ok()?.checked_add(u64::from(inclusive))?, rest)
        }
    };
    let count = rest.split_whitespace().next()?;
    Some((limit, count.parse().ok()?))
}

/// A number of bpftrace, such as `4K`.
fn scaled(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 10),
        (at, 'M') => (&text[..at], 20),
        (at, 'G') => (&text[..at], 30),
        (at, 'T') => (&text[..at], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::histogram_figures;

    #[test]
    fn half_and_99_percent_are_below_the_limits_of_their_rows() {
        let bcc = "disk = nvme0n1\n     usecs               : count     distribution\n         0 -> 1          : 0        |   |\n\
                   64 -> 127        : 15       |***|\n       128 -> 255        : 35       |**|\n       256 -> 511        : 1        |  |\n";
        assert_eq!(histogram_figures(bcc).unwrap(), "nvme0n1: 51 requests, half below 256 us, 99 % below 512 us");
        let map = "Attaching 3 probes...\n\n@usecs: \n[256, 512)             2 |    |\n[1K, 2K)             426 |@@@|\n[2K, 4K)             230 |@@|\n\
                   @bytes[fio]: \n[4K, 8K)   700 |@@|\n@other: 7\n@ns:\n[3] 4 |@|\n";
        assert_eq!(
            histogram_figures(map).unwrap(),
            "fio: 700 requests, half below 8192 bytes, 99 % below 8192 bytes; 658 requests, half below 2048 us, 99 % below 4096 us; \
             4 requests, half below 4 ns, 99 % below 4 ns"
        );
        let sizes = "Process Name = 'dd'\n     Kbytes              : count     distribution\n        64 -> 127        : 9        |*|\n       \
                     512 -> 1023       : 991      |****|\n";
        assert_eq!(histogram_figures(sizes).unwrap(), "dd: 1000 requests, half below 1024 KiB, 99 % below 1024 KiB");
        let perf_tools = "  >=(ms) .. <(ms)   : I/O      |Distribution                          |\n       0 -> 1       : 2104     |####|\n       \
                          1 -> 2       : 280      |###|\n";
        assert_eq!(histogram_figures(perf_tools).unwrap(), "2384 requests, half below 1000 us, 99 % below 2000 us");
        let fast = "     usecs               : count     distribution\n         0 -> 1          : 9        |   |\n";
        assert_eq!(histogram_figures(fast).unwrap(), "9 requests, half below 2000 ns, 99 % below 2000 ns");
    }

    #[test]
    fn what_has_no_unit_or_no_rows_tells_nothing() {
        for text in [
            "",
            "@:\n[1] 4 |@|\n",
            "@[R]: 107\n",
            "usecs : count distribution\n",
            "@us:\n[18446744073709551615] 3 |@|\n",
        ] {
            assert_eq!(histogram_figures(text), None, "{text}");
        }
    }
}
