//! The statistics of every shared trace match the published tables at their precision.

use std::path::PathBuf;

use dumbwaiter_traces::{Format, Measured, Options, StatOptions, TraceStat, open};

fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/traces");
    if !folder.is_dir() {
        println!("skipped: no shared data");
        return None;
    }
    Some(folder)
}

/// Name in the tables, file, format, footprint block.
const TRACES: [(&str, &str, Format, u64); 21] = [
    ("msr-cut/rw_20_80.105", "msr-cut/msr.cut.per_10k.rw_20_80.105.trace.zst", Format::MsrCut, 4096),
    (
        "msr-cut/most_thpt_rand_iops.1006",
        "msr-cut/msr.cut.per_10k.most_thpt_rand_iops.1006.trace.zst",
        Format::MsrCut,
        4096,
    ),
    ("msr-prn_0-order", "msr-prn_0-order/prn_0.order.rows1-60000.csv.zst", Format::Order, 4096),
    ("cloudphysics/part1", "cloudphysics/cloudPhysicsIO.part1.vscsi.zst", Format::Vscsi, 4096),
    ("cloudphysics/part1", "cloudphysics/cloudPhysicsIO.part1.csv.zst", Format::CloudPhysics, 4096),
    ("blkparse-ycsb-a/ext4", "blkparse-ycsb-a/ycsb-a.ext4.blkparse.zst", Format::Blkparse, 4096),
    ("blkparse-ycsb-a/btrfs", "blkparse-ycsb-a/ycsb-a.btrfs.blkparse.zst", Format::Blkparse, 4096),
    ("blkparse-nvme-randread", "blkparse-nvme-randread/sample.blkparse.zst", Format::Blkparse, 4096),
    ("blkparse-nvme-randread", "blkparse-nvme-randread/sample.blktrace.1.zst", Format::Blktrace, 4096),
    ("fiu-mail", "fiu-mail/cheetah.2.rows1-6000.blkparse.zst", Format::Fiu, 4096),
    ("spc-financial1", "spc-financial1/Financial1.rows1-600.spc.zst", Format::Spc, 4096),
    (
        "tencent-cbs/most_rand_iops.537",
        "tencent-cbs/tencent.cut.per_50k.most_rand_iops.537.trace.zst",
        Format::TencentCut,
        4096,
    ),
    (
        "tencent-cbs/most_size_thpt.222",
        "tencent-cbs/tencent.cut.per_50k.most_size_thpt.222.trace.zst",
        Format::TencentCut,
        4096,
    ),
    ("tencent-cbs/rw_65_35.211", "tencent-cbs/tencent.cut.per_50k.rw_65_35.211.trace.zst", Format::TencentCut, 4096),
    ("mqsim/tpcc-small", "mqsim/tpcc-small.trace.zst", Format::Mqsim, 4096),
    ("hplajw/half1", "hplajw/ajw.1week.half1.srt.zst", Format::HpSrt, 1024),
    ("hplajw/half1", "hplajw/ajw.1week.half1.csv.zst", Format::HpCsv, 1024),
    ("disksim-valid/cheetah9LP", "disksim-valid/cheetah9LP.trace.zst", Format::DisksimValid, 512),
    ("disksim-valid/hp_c2490a", "disksim-valid/hp_c2490a.trace.zst", Format::DisksimValid, 512),
    ("disksim-valid/dec_rz26", "disksim-valid/dec_rz26.trace.zst", Format::DisksimValid, 512),
    ("disksim-valid/SYNTHETIC.ascii", "disksim-valid/SYNTHETIC.ascii.first20000.trace.zst", Format::Disksim, 512),
];
/// The other disks, so that all files are tested.
const MORE: [(&str, &str, Format, u64); 3] = [
    ("disksim-valid/barracuda", "disksim-valid/barracuda.trace.zst", Format::DisksimValid, 512),
    ("disksim-valid/atlas_III", "disksim-valid/atlas_III.trace.zst", Format::DisksimValid, 512),
    ("disksim-valid/hp_c2247a", "disksim-valid/hp_c2247a.trace.zst", Format::DisksimValid, 512),
];

/// A number of the tables in base units, and half of its last digit.
fn printed(cell: &str) -> Option<(f64, f64)> {
    let (number, unit) = cell.trim().split_once(' ').unwrap_or((cell.trim(), ""));
    let number = number.replace(',', "");
    let value: f64 = number.parse().ok()?;
    let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
    let half = 0.5 * 10f64.powi(-(decimals as i32));
    let (scale, three_digits) = match unit {
        "" => (1.0, false),
        "µs" => (1e-6, true),
        "ms" => (1e-3, true),
        "s" => (1.0, true),
        "h" => (3600.0, false),
        "d" => (86400.0, false),
        _ => return None,
    };
    // Times are printed with three digits and without trailing zeros.
    let half = if three_digits && value > 0.0 { 0.5 * 10f64.powf(value.log10().floor() - 2.0) } else { half };
    Some((value * scale, half * scale))
}

struct Report {
    cells: usize,
    wrong: Vec<String>,
}

impl Report {
    fn check(&mut self, what: String, cell: &str, got: Option<f64>) {
        let Some((want, half)) = printed(cell) else { return };
        self.cells += 1;
        let got = got.unwrap_or(f64::NAN);
        // Percentiles come from buckets of 1/2048.
        let slack = half * 1.01 + want.abs() / 4096.0 * f64::from(u8::from(what.contains(" p")));
        if (got - want).abs() > slack || got.is_nan() {
            self.wrong.push(format!("{what}: {cell} against {got}"));
        }
    }
}

/// Rows of the table below a heading, as cells.
fn table(text: &str, section: &str) -> Vec<Vec<String>> {
    let part = text.split("\n## ").find(|p| p.starts_with(section)).unwrap_or_else(|| panic!("no section {section}"));
    let rows = part.lines().filter(|l| l.starts_with('|') && !l.starts_with("|---"));
    rows.skip(1).map(|l| l.trim_matches('|').split('|').map(|c| c.trim().to_string()).collect()).collect()
}

fn measured<'a>(stat: &'a TraceStat, what: &str, op: &str) -> Option<&'a Measured> {
    stat.latency.iter().find(|m| m.what == what && m.op == op)
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|x| x * 100.0)
}

fn check_arrivals(report: &mut Report, file: &str, row: &[String], stat: &TraceStat) {
    let of = |column: &str| format!("{file}: {column}");
    let ia = stat.inter_arrival.unwrap();
    let s = |us: f64| Some(us / 1e6);
    report.check(of("duration"), &row[1], stat.duration_s);
    report.check(of("IOPS"), &row[2], stat.mean_iops);
    report.check(of("peak"), &row[3], stat.peak_iops_1s.map(|x| x as f64));
    report.check(of("IA mean"), &row[4], s(ia.mean_us));
    report.check(of("IA CV"), &row[5], Some(ia.cv));
    report.check(of("IA p10"), &row[6], s(ia.p10_us));
    report.check(of("IA p50"), &row[7], s(ia.p50_us));
    report.check(of("IA p90"), &row[8], s(ia.p90_us));
    report.check(of("IA p99"), &row[9], s(ia.p99_us));
    report.check(of("IA max"), &row[10], s(ia.max_us));
    report.check(of("zero"), &row[11], percent(Some(ia.zero_share)));
    report.check(of("IDC"), &row[12], stat.idc);
    report.check(of("busy"), &row[13], percent(stat.busy_share));
}

fn check_places(report: &mut Report, file: &str, row: &[String], stat: &TraceStat) {
    let of = |column: &str| format!("{file}: {column}");
    let mib = |x: Option<u64>| x.map(|x| x as f64 / 1048576.0);
    report.check(of("devices"), &row[1], Some(stat.devices.unwrap_or(1) as f64));
    report.check(of("seq"), &row[2], percent(stat.sequential_share));
    report.check(of("near"), &row[3], percent(stat.near_share));
    report.check(of("32 streams"), &row[4], percent(stat.sequential_32_share));
    report.check(of("R→R"), &row[5], percent(stat.read_read_sequential_share));
    report.check(of("W→W"), &row[6], percent(stat.write_write_sequential_share));
    report.check(of("footprint"), &row[7], mib(stat.footprint_bytes));
    report.check(of("read MiB"), &row[8], mib(stat.read_footprint_bytes));
    report.check(of("write MiB"), &row[9], mib(stat.write_footprint_bytes));
    report.check(of("rewrite"), &row[10], percent(stat.rewrite_share));
    report.check(of("highest"), &row[11], Some(stat.highest_byte as f64 / (1u64 << 30) as f64));
    report.check(of("aligned"), &row[12], percent(Some(stat.aligned_share)));
}

#[test]
fn statistics_match_the_published_tables() {
    let Some(folder) = shared() else { return };
    let text = std::fs::read_to_string(folder.join("CHARACTERISTICS.md")).unwrap();
    let (sizes, arrivals) = (table(&text, "1. "), table(&text, "2. "));
    let (places, times) = (table(&text, "3. "), table(&text, "4. "));
    let mut report = Report { cells: 0, wrong: Vec::new() };
    for (name, file, format, footprint_block) in TRACES.into_iter().chain(MORE) {
        // The tables sort the few rows that are out of order; by default they stay as they are.
        let sort_window = (format == Format::TencentCut).then_some(1 << 16);
        let mut reader = open(&[folder.join(file)], &Options { sort_window, ..Options::default() }).unwrap();
        assert_eq!(reader.format(), format, "{file}");
        let stat = TraceStat::of(&mut reader, &StatOptions { footprint_block, ..StatOptions::default() }).unwrap();
        assert!(stat.skipped.is_empty(), "{file}: {:?}", stat.skipped);
        let kib = |x: Option<f64>| x.map(|x| x / 1024.0);
        let rows = |t: &'_ [Vec<String>]| -> Vec<Vec<String>> { t.iter().filter(|r| r[0] == name).cloned().collect() };

        let row = &rows(&sizes)[0];
        let of = |column: &str| format!("{file}: {column}");
        report.check(of("records"), &row[1], Some(stat.records as f64));
        report.check(of("read %"), &row[2], percent(Some(stat.read_share)));
        report.check(of("read mean"), &row[3], kib(stat.mean_read_bytes));
        report.check(of("read p50"), &row[4], kib(stat.read_size.map(|s| s.p50_bytes)));
        report.check(of("read p95"), &row[5], kib(stat.read_size.map(|s| s.p95_bytes)));
        report.check(of("write mean"), &row[6], kib(stat.mean_write_bytes));
        report.check(of("write p50"), &row[7], kib(stat.write_size.map(|s| s.p50_bytes)));
        report.check(of("write p95"), &row[8], kib(stat.write_size.map(|s| s.p95_bytes)));
        for common in row[9].split(", ").filter(|c| !c.is_empty()) {
            let (bytes, share) = common.trim_end_matches(')').split_once(" (").unwrap();
            let got = stat.commonest_sizes.iter().find(|s| s.bytes.to_string() == bytes);
            report.check(of(&format!("size {bytes}")), share, got.map(|s| s.share * 100.0));
        }

        for row in rows(&arrivals) {
            check_arrivals(&mut report, file, &row, &stat);
        }
        for row in rows(&places) {
            check_places(&mut report, file, &row, &stat);
        }

        for row in rows(&times) {
            let what = match row[1].as_str() {
                "insert → dispatch (scheduler)" => "wait",
                "dispatch → complete (device)" => "device",
                _ => "latency",
            };
            for (op, at) in [("read", 2), ("write", 5)] {
                let m = measured(&stat, what, op);
                let s = |f: fn(&Measured) -> f64| m.map(|m| f(m) / 1e6);
                // In one trace a request was merged after its insert. The tables know ranges that are inserted,
                // issued and completed unchanged; here both parts of the merged one have their times.
                let merged = name == "blkparse-ycsb-a/ext4" && op == "write";
                report.check(of(&format!("{op} {what} p50")), &row[at + 1], s(|m| m.p50_us));
                if !merged {
                    report.check(of(&format!("{op} {what} mean")), &row[at], s(|m| m.mean_us));
                    report.check(of(&format!("{op} {what} p99")), &row[at + 2], s(|m| m.p99_us));
                }
            }
        }
    }
    println!("{} cells compared", report.cells);
    assert!(report.wrong.is_empty(), "{} of {}:\n{}", report.wrong.len(), report.cells, report.wrong.join("\n"));
    assert!(report.cells > 700, "{}", report.cells);
}

#[test]
fn every_shared_trace_is_tested() {
    let Some(folder) = shared() else { return };
    let listed: Vec<PathBuf> = TRACES.iter().chain(&MORE).map(|t| folder.join(t.1)).collect();
    for sub in std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        for file in std::fs::read_dir(sub).unwrap().map(|e| e.unwrap().path()) {
            let trace = file.extension().is_some_and(|e| e == "zst");
            assert!(!trace || listed.contains(&file), "{}", file.display());
        }
    }
}

#[test]
fn further_published_facts_hold() {
    let Some(folder) = shared() else { return };
    let stat = |file: &str| {
        let mut reader = open(&[folder.join(file)], &Options::default()).unwrap();
        TraceStat::of(&mut reader, &StatOptions::default()).unwrap()
    };
    for (file, pids) in [
        ("blkparse-ycsb-a/ycsb-a.ext4.blkparse.zst", 27),
        ("blkparse-ycsb-a/ycsb-a.btrfs.blkparse.zst", 27),
        ("blkparse-nvme-randread/sample.blkparse.zst", 1),
        ("blkparse-nvme-randread/sample.blktrace.1.zst", 1),
        ("fiu-mail/cheetah.2.rows1-6000.blkparse.zst", 15),
    ] {
        assert_eq!(stat(file).tasks, Some(pids), "{file}");
    }
    let order = stat("msr-prn_0-order/prn_0.order.rows1-60000.csv.zst");
    assert_eq!(order.missing, ["time", "size"]);
    assert!(order.duration_s.is_none() && order.bytes.is_none() && order.footprint_bytes.is_none());
    assert!((order.highest_byte as f64 / (1u64 << 30) as f64 - 66.3).abs() < 0.05);
}

#[test]
fn text_and_binary_forms_of_a_trace_give_the_same_records() {
    let Some(folder) = shared() else { return };
    for (a, b) in [
        ("cloudphysics/cloudPhysicsIO.part1.vscsi.zst", "cloudphysics/cloudPhysicsIO.part1.csv.zst"),
        ("hplajw/ajw.1week.half1.srt.zst", "hplajw/ajw.1week.half1.csv.zst"),
        ("blkparse-nvme-randread/sample.blktrace.1.zst", "blkparse-nvme-randread/sample.blkparse.zst"),
    ] {
        let read = |file: &str| -> Vec<_> {
            open(&[folder.join(file)], &Options::default()).unwrap().map(Result::unwrap).collect()
        };
        let (left, right) = (read(a), read(b));
        assert_eq!(left.len(), right.len());
        for (mut l, r) in left.into_iter().zip(right) {
            // The text differs only in how it splits major and minor (12 and 20 bits in both).
            l.device = r.device;
            assert_eq!(l, r, "{a}");
        }
    }
}
