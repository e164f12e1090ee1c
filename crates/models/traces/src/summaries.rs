//! Output of tools that sum requests up: no trace, but known by its words, so that the answer can say what it tells and what would
//! be a trace.

use crate::histogram_figures::histogram_figures;
use crate::load_figures::load_figures;

/// Output of a tool that has no line for each request.
struct Summary {
    /// The tool.
    name: &'static str,
    /// Sets of words: the start of a file that has all of one set is the tool's.
    words: &'static [&'static [&'static str]],
    /// What it tells.
    tells: &'static str,
}

const RATES: &str = "rates and mean times over an interval";
const TIMES: &str = "how many requests took how long";
const RESULT: &str = "the figures of a finished run";

const SUMMARIES: &[Summary] = &[
    Summary {
        name: "a job or command line of fio",
        words: &[&["fio --"], &["[global]", "rw="], &["ioengine=", "\nrw="]],
        tells: "a load that `dumbwaiter compare FILE` runs",
    },
    Summary {
        name: "fio's result",
        words: &[
            &["(g=", "rw=", "ioengine="],
            &["fio-", "Starting "],
            &["(groupid=", "err="],
            &["\"fio version\"", "\"jobs\""],
            &["IOPS=", "BW=", "clat"],
        ],
        tells: "the figures of a finished run; its command line or job file is a load: dumbwaiter compare -- fio --name=…",
    },
    Summary {
        name: "the output of iostat",
        words: &[
            &["Device", "r/s", "w/s"],
            &["Device", "tps", "kB_read/s"],
            &["avg-cpu", "%iowait", "Device"],
            &["Device", "rrqm/s", "wrqm/s"],
            &["Device", "Blk_read/s"],
        ],
        tells: RATES,
    },
    Summary {
        name: "the output of sar",
        words: &[
            &["DEV", "tps", "rkB/s"],
            &["DEV", "tps", "rd_sec/s"],
            &["DEV", "tps", "rtps"],
            &["rtps", "wtps", "bread/s"],
        ],
        tells: RATES,
    },
    Summary {
        name: "the output of pidstat",
        words: &[&["kB_rd/s", "kB_wr/s", "Command"]],
        tells: "rates of processes",
    },
    Summary {
        name: "the output of vmstat",
        words: &[&["procs", "memory", "swap", "cpu"], &["swpd", "free", "buff", "cache", "bi"]],
        tells: RATES,
    },
    Summary {
        name: "the output of iotop",
        words: &[&["Total DISK READ", "Total DISK WRITE"]],
        tells: "rates of processes",
    },
    Summary { name: "the output of dstat", words: &[&["-dsk/total-"], &["dsk/total", "total-cpu"]], tells: RATES },
    Summary {
        name: "the output of bitesize",
        words: &[&["Process Name", "Kbytes", "distribution"], &["Kbytes", ": count", "distribution"]],
        tells: "how many requests had which size",
    },
    Summary {
        name: "the output of biolatency",
        words: &[
            &["usecs", ": count", "distribution"],
            &["msecs", ": count", "distribution"],
            &["nsecs", ": count", "distribution"],
        ],
        tells: TIMES,
    },
    Summary {
        name: "the output of iolatency",
        words: &[&[">=(ms)", "<(ms)", ": I/O"], &[">=(us)", "<(us)", ": I/O"]],
        tells: TIMES,
    },
    Summary {
        name: "the output of biotop",
        words: &[&["PID", "COMM", "MAJ", "MIN", "DISK", "I/O", "Kbytes"]],
        tells: "sums of processes",
    },
    Summary {
        name: "the output of biopattern",
        words: &[&["%RND", "%SEQ", "COUNT", "KBYTES"]],
        tells: "shares of random and sequential requests",
    },
    Summary {
        name: "the output of biosnoop.bt",
        words: &[&["TIME(ms)", "COMM", "PID", "LAT(ms)"]],
        tells: "times, but neither operation, sector nor size",
    },
    Summary {
        name: "a bpftrace map",
        words: &[&["Attaching ", "@"], &["@", "]: ", "["], &["@", "|@@"]],
        tells: "counts and histograms",
    },
    Summary {
        name: "the output of btt",
        words: &[&["All Devices", "Q2C"], &["D2C", "MIN", "AVG"]],
        tells: "mean times of the parts of a request",
    },
    Summary {
        name: "the output of zpool iostat",
        words: &[&["capacity", "operations", "bandwidth", "alloc"]],
        tells: RATES,
    },
    Summary {
        name: "the output of ioping",
        words: &[&["ioping statistics"], &["requests completed in", "iops"]],
        tells: RESULT,
    },
    Summary { name: "the output of dd", words: &[&["records in", "records out", "copied"]], tells: RESULT },
    Summary { name: "the output of hdparm", words: &[&["Timing ", "reads:", "MB/sec"]], tells: RESULT },
    Summary {
        name: "the output of CrystalDiskMark",
        words: &[&["CrystalDiskMark"], &["Q1T1", "Q32T1"]],
        tells: RESULT,
    },
    Summary {
        name: "the output of bonnie++",
        words: &[&["Sequential Output", "Sequential Input", "Random"]],
        tells: RESULT,
    },
    Summary {
        name: "the output of sysbench",
        words: &[&["sysbench", "fsyncs"], &["File operations", "reads/s"]],
        tells: RESULT,
    },
    Summary { name: "the output of pgbench", words: &[&["transaction type", "tps ="]], tells: RESULT },
    Summary {
        name: "the output of smartctl",
        words: &[&["smartctl ", "SMART"], &["START OF INFORMATION SECTION"]],
        tells: "the state of a drive",
    },
    Summary {
        name: "the sum at the end of blkparse",
        words: &[&["Reads Queued", "Writes Queued"]],
        tells: "sums of a trace; the lines before it are the trace",
    },
];

/// The tool whose output a file is.
pub(crate) struct Found {
    pub(crate) tool: &'static str,
    pub(crate) tells: &'static str,
    pub(crate) figures: Option<String>,
}

/// Bytes of a file that are searched.
const SEARCHED: usize = 16 * 1024;

/// The tool whose output a file begins with, and what it tells.
pub(crate) fn find(start: &[u8]) -> Option<Found> {
    let text = String::from_utf8_lossy(&start[..start.len().min(SEARCHED)]);
    // /proc/diskstats has no words: many numbers behind a name.
    let first: Vec<&str> = text.lines().next().unwrap_or("").split_whitespace().collect();
    let number = |word: &&str| word.parse::<u64>().is_ok();
    if first.len() >= 14
        && number(&first[0])
        && number(&first[1])
        && !number(&first[2])
        && first[3..].iter().all(number)
    {
        return Some(Found { tool: "/proc/diskstats", tells: "sums since the start of the machine", figures: None });
    }
    let all = |words: &&[&str]| words.iter().all(|word| text.contains(word));
    let found = SUMMARIES.iter().find(|s| s.words.iter().any(all))?;
    let figures = load_figures(&text).or_else(|| histogram_figures(&text));
    // There may be more behind it.
    let part = if start.len() > SEARCHED { " (in its first 16 KiB)" } else { "" };
    Some(Found { tool: found.name, tells: found.tells, figures: figures.map(|figures| figures + part) })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn outputs_of_tools_are_known_by_their_words() {
        for (text, name) in [
            (
                "Linux 6.1 (host) \t_x86_64_\n\nDevice            r/s     rkB/s   w/s  wkB/s  %util\nsda 1.0 2.0 3.0 4.0 5.0\n",
                "the output of iostat",
            ),
            (
                "     usecs               : count     distribution\n       0 -> 1          : 0        |       |\n",
                "the output of biolatency",
            ),
            ("Process Name = 'dd'\n     Kbytes              : count     distribution\n", "the output of bitesize"),
            ("12:00:01 AM       DEV       tps     rkB/s     wkB/s\n", "the output of sar"),
            ("test: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=libaio, iodepth=32\nfio-3.33\n", "fio's result"),
            ("@usecs:\n[1]                  4 |@@@@     |\n", "a bpftrace map"),
            ("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n", "/proc/diskstats"),
            ("65536+0 records in\n65536+0 records out\n1 bytes (1 GB) copied, 1 s\n", "the output of dd"),
        ] {
            assert_eq!(find(text.as_bytes()).map(|found| found.tool), Some(name), "{text}");
        }
        let long = format!("@usecs:\n{}", "[1] 4 |@@|\n".repeat(4000));
        let figures = find(long.as_bytes()).and_then(|found| found.figures).unwrap();
        assert!(figures.ends_with("99 % below 2000 ns (in its first 16 KiB)"), "{figures}");
        for text in ["time,op\n1,2\n", "", "8,0 1 1 0.0 1 Q R 1 + 8 [x]\n"] {
            assert!(find(text.as_bytes()).is_none(), "{text}");
        }
    }
}
