//! What the tables of iostat and sar and the end of fio's output tell about drives: whether anything waits there, and so whether a
//! scheduler can matter.

/// Drives that are named.
const SHOWN: usize = 3;

/// One drive in a report.
struct Load {
    name: String,
    per_second: f64,
    kib: Option<f64>,
    in_flight: f64,
    busy_percent: f64,
}

/// The busiest drives of the last report, in words; `None` where the text has no queue lengths.
pub(crate) fn load_figures(text: &str) -> Option<String> {
    let mut loads = table(text).unwrap_or_else(|| disk_stats(text));
    loads.sort_by(|a, b| b.in_flight.total_cmp(&a.in_flight));
    loads.truncate(SHOWN);
    let said: Vec<String> = loads.iter().map(sentence).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The drives of the last table of iostat or sar.
fn table(text: &str) -> Option<Vec<Load>> {
    let is_header = |line: &&str| {
        let mut words = line.split_whitespace();
        words.clone().any(|word| matches!(word, "aqu-sz" | "avgqu-sz"))
            && words.any(|word| word.trim_end_matches(':') == "Device" || word == "DEV")
    };
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().rposition(is_header)?;
    let names: Vec<&str> = lines[at].split_whitespace().map(|name| name.trim_end_matches(':')).collect();
    let rows = lines[at + 1..].iter().take_while(|line| !line.trim().is_empty());
    Some(rows.filter_map(|line| load(&names, line)).collect())
}

/// The drives at the end of fio's output: `sda: ios=9/1, .. in_queue=10, util=4.00%`, sums of its run.
fn disk_stats(text: &str) -> Vec<Load> {
    let Some((before, stats)) = text.rsplit_once("Disk stats (read/write):") else { return Vec::new() };
    // run=10001-10001msec: the groups of jobs run one after the other, each for the longest of its directions.
    let longest = |group: &str| {
        let runs = group.split("run=").skip(1);
        runs.filter_map(|rest| rest.split_once("msec")?.0.rsplit('-').next()?.parse::<f64>().ok()).fold(0.0, f64::max)
    };
    let run_ms: f64 = before.split("Run status group").skip(1).map(longest).sum();
    if run_ms <= 0.0 || !run_ms.is_finite() {
        return Vec::new();
    }
    let of_drive = |line: &str| {
        let (name, rest) = line.trim().split_once(": ios=")?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
        let value = |key: &str| rest.split(", ").find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        let ios = rest.split(',').next()?.split('/').map(number).sum::<Option<f64>>()?;
        Some(Load {
            name: name.to_owned(),
            per_second: ios * 1000.0 / run_ms,
            kib: None,
            in_flight: number(value("in_queue")?)? / run_ms,
            busy_percent: number(value("util")?.trim_end_matches('%'))?,
        })
    };
    stats.lines().filter_map(of_drive).collect()
}

/// The figures of a line under these names of columns.
fn load(names: &[&str], line: &str) -> Option<Load> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let text = |name: &str| words.get(names.iter().position(|other| *other == name)?).copied();
    // Some languages have a decimal comma.
    let number = |name: &str| text(name)?.replace(',', ".").parse::<f64>().ok().filter(|n| n.is_finite());
    if words.len() != names.len() {
        return None;
    }
    let each = ["r/s", "w/s", "d/s", "f/s"].map(|name| number(name).unwrap_or(0.0)).iter().sum::<f64>();
    let per_second = number("tps").unwrap_or(each);
    let kib = ["rkB/s", "wkB/s", "dkB/s"].map(|name| number(name).unwrap_or(0.0)).iter().sum::<f64>();
    Some(Load {
        name: text("Device").or(text("DEV"))?.to_owned(),
        per_second,
        kib: Some(if per_second > 0.0 { kib / per_second } else { 0.0 }),
        in_flight: number("aqu-sz").or(number("avgqu-sz"))?,
        busy_percent: number("%util")?,
    })
}

fn sentence(load: &Load) -> String {
    let Load { name, per_second, kib, in_flight, busy_percent } = load;
    let means = match in_flight {
        n if *n < 1.0 => "little waits there, so a scheduler has hardly a choice",
        n if *n < 4.0 => "few wait at once: a scheduler matters little, or in bursts",
        _ => "requests wait there: a scheduler can matter",
    };
    let size = kib.map_or(String::new(), |kib| format!(" of {kib:.0} KiB"));
    format!("{name}: {per_second:.0} I/Os a second{size}, {in_flight:.1} in flight, {busy_percent:.0} % busy: {means}")
}

#[cfg(test)]
mod tests {
    use super::load_figures;

    #[test]
    fn the_last_report_counts_and_the_longest_queue_comes_first() {
        let old = "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n";
        let text = format!(
            "{old}sda 0 0 9 9 9 9 9 9 9 9 9 9 99\n\n{old}sda 0 1 10.00 30.00 80.00 240.00 16 0.25 1 1 1 1 4.00\n\
             sdb 0 0 100.00 0.00 51200.00 0.00 1024 6.50 1 1 1 1 98.00\n\navg-cpu: %user\n"
        );
        assert_eq!(
            load_figures(&text).unwrap(),
            "sdb: 100 I/Os a second of 512 KiB, 6.5 in flight, 98 % busy: requests wait there: a scheduler can matter; \
             sda: 40 I/Os a second of 8 KiB, 0.2 in flight, 4 % busy: little waits there, so a scheduler has hardly a choice"
        );
    }

    #[test]
    fn the_end_of_fios_output_tells_the_queue_of_its_run() {
        let fio = "Run status group 0 (all jobs):\n   READ: bw=59.4MiB/s (62.3MB/s), io=594MiB (623MB), run=10001-10001msec\n\nDisk stats (read/write):\n  \
                   nvme0n1: ios=150123/12, merge=0/3, ticks=150000/20, in_queue=150020, util=99.05%\n";
        assert_eq!(
            load_figures(fio).unwrap(),
            "nvme0n1: 15012 I/Os a second, 15.0 in flight, 99 % busy: requests wait there: a scheduler can matter"
        );
        let groups = "Run status group 0 (all jobs):\n READ: run=1000-2000msec\n WRITE: run=900-3000msec\nRun status group 1:\n READ: run=5000-5000msec\n\
                      Disk stats (read/write):\n sda: ios=800/0, in_queue=16000, util=99%\n";
        assert!(load_figures(groups).unwrap().starts_with("sda: 100 I/Os a second, 2.0 in flight"));
        assert_eq!(
            load_figures(
                "Run status group 0:\nrun=0-0msec\nDisk stats (read/write):\n sda: ios=1/1, in_queue=1, util=1%\n"
            ),
            None
        );
    }

    #[test]
    fn sar_and_decimal_commas_are_read_and_other_tables_are_not() {
        let sar = "12:00:01 DEV tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util\n12:00:02 nvme0n1 20,00 40,00 40,00 0,00 4,00 2,00 1,00 50,00\n";
        assert!(
            load_figures(sar).unwrap().starts_with("nvme0n1: 20 I/Os a second of 4 KiB, 2.0 in flight, 50 % busy: few")
        );
        for text in ["Device tps kB_read/s\nsda 1 2\n", "Device aqu-sz %util\n", "Device aqu-sz %util\nsda nan\n", ""] {
            assert_eq!(load_figures(text), None, "{text}");
        }
    }
}
