//! Input that could mislead: what is refused, with which words, and what is said first.

use crate::common::{dumbwaiter, ok, refused, text};

fn file(dir: &tempfile::TempDir, name: &str, content: &[u8]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A trace of 100 reads, `beyond` of them at 1 TiB.
fn trace(dir: &tempfile::TempDir, beyond: u32) -> String {
    let mut lines = "time_us,op,offset_bytes,size_bytes\n".to_owned();
    for i in 0..100u64 {
        let offset = if i < u64::from(beyond) { 1 << 40 } else { i * 4096 };
        lines += &format!("{},R,{offset},4096\n", i * 100);
    }
    file(dir, &format!("{beyond}.csv"), lines.as_bytes())
}

const SMALL: [&str; 4] = ["-d", "ull:optane-900p", "-s", "none,kyber"];

fn compare<'a>(input: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["compare", input], &SMALL[..], more].concat()
}

#[test]
fn more_than_a_hundredth_of_a_trace_is_left_out_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let much = trace(&dir, 2);
    refused(&compare(&much, &[]), &["2 of 100 records (2.0 %)", "--fit scale|wrap|truncate|grow"]);
    for fit in ["scale", "wrap", "grow"] {
        assert!(!ok(&compare(&much, &["--fit", fit])).contains("left out"), "{fit}");
    }
    let told = ok(&compare(&much, &["--fit", "truncate"]));
    assert!(told.lines().take(3).any(|l| l.contains("2 of 100 records")), "{told}");
    let little = ok(&compare(&trace(&dir, 1), &[]));
    assert!(little.lines().take(3).any(|l| l.contains("1 of 100 records (1.0 %)")), "{little}");
    assert!(!ok(&compare(&trace(&dir, 0), &[])).contains("left out"));
    refused(&compare(&much, &["--fit", "stretch"]), &["scale, wrap, truncate or grow"]);
}

#[test]
fn the_column_list_of_an_unclear_header_can_be_typed() {
    let dir = tempfile::tempdir().unwrap();
    let csv = file(&dir, "t.csv", b"timestamp,type,offset,size\n1000,R,0,4096\n2000,W,4096,4096\n");
    let said = refused(&compare(&csv, &[]), &["timestamp, offset, size", "--columns"]);
    let list = said.split("--columns ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    ok(&compare(&csv, &["--columns", list]));
}

#[test]
fn drives_results_and_misspelt_names_are_recognised() {
    let dir = tempfile::tempdir().unwrap();
    refused(&["compare", "-d", "/dev/sda"], &["--on /dev/sda"]);
    let loops = std::path::Path::new("/dev/loop0").exists();
    if loops {
        refused(&["compare", "/dev/loop0"], &["--on /dev/loop0"]);
        refused(&["recommend", "loop0"], &["did you mean `/dev/loop0`?"]);
    }
    let result = file(&dir, "r.json", br#"{"schema": 2, "scenario": {}, "runs": []}"#);
    refused(&["compare", &result], &["is a result", "dumbwaiter report"]);
    let scenario = file(&dir, "small.toml", b"duratoin = \"1s\"\n");
    refused(&["compare", &scenario], &["duratoin", "did you mean `duration`?"]);
    let misspelt = scenario.replace("small", "smal");
    refused(&["compare", &misspelt], &["did you mean", "small.toml"]);
    refused(&["compare", "-s", "mq-deadline:fifo_bach=1"], &["did you mean `fifo_batch`?"]);
    let job = file(&dir, "j.fio", b"[j]\nfilename=/dev/nvme0n1\nrw=randread\nruntime=1\ntime_based\nramp_time=0\n");
    let told = ok(&compare(&job, &["--duration", "20ms"]));
    let told = told.replace("\n  ", " ");
    assert!(told.contains("simulated on ull:optane-900p; for the drive itself: --on /dev/nvme0n1"), "{told}");
    let told = text(&dumbwaiter(&["compare", &job, "-d", "ssd:850pro-256", "-r", "1", "--duration", "20ms"]).stdout);
    assert!(told.replace("\n  ", " ").contains("ssd:850pro-256 (for NVMe drives: -d nvme); for the drive"), "{told}");
}

#[test]
fn nonsense_has_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let with = |name: &str, head: &str, task: &str| {
        let text = format!("duration = \"10ms\"\n{head}\n[[task]]\nname = \"t\"\nrw = \"randread\"\n{task}\n");
        file(&dir, name, text.as_bytes())
    };
    refused(&compare(&with("bs.toml", "", "bs = \"2g\""), &[]), &["bs", "1 GiB"]);
    refused(&compare(&with("count.toml", "", "count = 65536"), &[]), &["65536", "32768"]);
    let tables = |n: usize, table: &str| (0..n).map(|i| table.replace('#', &i.to_string())).collect::<String>();
    let bomb = tables(200, "[[task]]\nname = \"t#\"\nrw = \"read\"\ncount = 300\n");
    refused(&compare(&file(&dir, "bomb.toml", bomb.as_bytes()), &[]), &["t109", "33000 instances", "32768"]);
    let many = tables(4_097, "[[tenant]]\nname = \"t#\"\n");
    refused(&compare(&file(&dir, "tenants.toml", many.as_bytes()), &[]), &["4097 tenants", "4096"]);
    let apps = "duration = \"1s\"\n[[task]]\nname = \"readers\"\napp = \"10r-seq\"\ncount = 4000\n";
    refused(&compare(&file(&dir, "apps.toml", apps.as_bytes()), &[]), &["readers", "32768 threads"]);
    let long = format!("[a]\nrw={}\n", "y".repeat(200_000));
    let out = dumbwaiter(&["compare", &file(&dir, "long.fio", long.as_bytes())]);
    let said = text(&out.stderr);
    assert!(said.len() < 3_000 && said.contains("long.fio:2: rw") && said.contains("randread"), "{said}");
    let cpus = with("cpus.toml", "[host]\ncpus = 1000\nhw_queues = 1000\n", "");
    refused(&compare(&cpus, &[]), &["1000 CPUs", "65536"]);
    let mut long = b"# ".to_vec();
    long.resize(2 << 20, b'x');
    refused(&["compare", &file(&dir, "long.toml", &long)], &["long.toml:1", "1 MiB"]);
    let big = dir.path().join("big.toml");
    std::fs::File::create(&big).unwrap().set_len(65 << 20).unwrap();
    refused(&["compare", big.to_str().unwrap()], &["3 MiB"]);
    let big = dir.path().join("big.json");
    std::fs::File::create(&big).unwrap().set_len(65 << 20).unwrap();
    let log = file(&dir, "log.csv", b"");
    refused(&["report", "energy", big.to_str().unwrap(), "--power-log", &log], &["64 MiB"]);
}

#[test]
fn checks_of_large_scenarios_take_linear_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = "duration = \"10ms\"\n".to_owned();
    for i in 0..4_096 {
        let parent = if i > 0 { format!("parent = \"t{}\"\n", i - 1) } else { "parent = \"t4095\"\n".to_owned() };
        chain += &format!("[[tenant]]\nname = \"t{i}\"\n{parent}");
    }
    refused(&["compare", &file(&dir, "chain.toml", chain.as_bytes())], &["contains itself"]);
    let jobs: String = (0..4_096).map(|i| format!("[j]\nstonewall\nrw=read\ncgroup=c{i}\n")).collect();
    let jobs = file(&dir, "many.fio", format!("[global]\nruntime=1\n{jobs}").as_bytes());
    assert!(ok(&compare(&jobs, &["--print-config"])).contains("c4095"));
}

#[test]
fn a_recording_without_requests_is_nothing_to_compare() {
    let dir = tempfile::tempdir().unwrap();
    let header = b"ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu\n0,dispatch_none,,,,,,,,0\n";
    let rows = file(&dir, "r.csv", header);
    let about = |period: &str| {
        let text = format!(
            r#"{{"scheduler":"mq-deadline","kernel":"6.12","jiffies":{{"period_ns":{period},"step_at_ns":0}}}}"#
        );
        file(&dir, "r.json", text.as_bytes());
    };
    about("4000000");
    let out = dumbwaiter(&["fidelity", &rows]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("nothing to compare"), "{}", text(&out.stderr));
    assert!(!text(&out.stdout).contains("100"), "{}", text(&out.stdout));
    for period in ["0", "18446744073709551615"] {
        about(period);
        refused(&["fidelity", &rows], &["jiffies.period_ns", period]);
    }
}

#[test]
fn a_recording_that_unpacks_to_gigabytes_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut packed = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    let zeros = vec![0u8; 1 << 20];
    for _ in 0..512 {
        std::io::Write::write_all(&mut packed, &zeros).unwrap();
    }
    let rows = file(&dir, "z.csv.zst", &packed.finish().unwrap());
    file(&dir, "z.json", br#"{"scheduler":"none","kernel":"6.12"}"#);
    refused(&["fidelity", &rows], &["more than 1 MiB"]);
}
