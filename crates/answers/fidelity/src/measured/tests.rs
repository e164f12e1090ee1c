use std::path::{Path, PathBuf};

use dumbwaiter_scenario::Profile;
use dumbwaiter_sim::Simulator;

use super::*;

const JOBS: &str = "\
figure,condition,scheduler,devices,role,rw,bs,iodepth,numjobs,cpus,engine,iops,mb_s,lat_mean_us,clat_p50_us,clat_p99_us,cpu_us_per_io
x,n=0,none,1,L,randread,4k,1,1,0,io_uring+fixedbufs,500,2.0,2000,2000,2000,9
x,n=0,mq-deadline,1,L,randread,4k,1,1,0,io_uring,500,2.0,2000,2000,2000,9
x,n=2,none,1,L,randread,4k,1,1,all,io_uring,100,0.4,4000,4000,4100,
x,n=2,none,1,background,randwrite,4k,4,2,all,io_uring,800,3.2,9000,8000,12000,
x,n=2,none,1,total,mix,mix,mix,3,all,io_uring,900,3.6,,,,
x,n=2,mq-deadline,1,L,randread,4k,1,1,all,io_uring,100,0.4,4000,4000,4000,
x,n=2,mq-deadline,1,background,randwrite,4k,4,2,all,io_uring,800,3.2,9000,8000,12000,
y,\"mix,read_lat=2ms\",kyber,1,T-read,randread,4k,4,1,1,io_uring,300,1.2,,,,
y,\"mix,read_lat=2ms\",kyber,1,T-write,randwrite,4k,4,1,1,io_uring,300,1.2,,,,
z,user space,spdk,1,T,randread,4k,1,1,all,spdk,700,2.8,,,,
";

const GRID: &str = "\
drive,stat,write_bw,read_iops,read_latency_ms,clipped
box,p50,0,20,2.0,0
box,p95,0,20,4.0,1
box,p50,4000000,20,2.5,0
";

fn parse_jobs(text: &str) -> Result<Vec<Case>, MeasuredError> {
    jobs_table::cases(&csv::Table::parse(Path::new("cases.csv"), text)?)
}

fn options() -> MeasuredOptions {
    MeasuredOptions {
        devices: vec![(None, "null:0us?latency_ns=2000000&depth=1024".to_owned())],
        host: host(None, Some(4)).unwrap(),
        seconds: Some(0.2),
        warmup: None,
        effort: 1.0,
        replicates: 1,
        figures: Vec::new(),
        verdicts: false,
        scheduler: "none".to_owned(),
    }
}

fn answers(cases: &[Case], options: &MeasuredOptions) -> MeasuredAnswers {
    answer(cases, options, &Simulator::new(2), &Control::default())
}

#[test]
fn every_row_of_a_table_is_answered_once() {
    let cases = parse_jobs(JOBS).unwrap();
    let found = answers(&cases, &options());
    let mut lines: Vec<u64> = found.rows.iter().map(|row| row.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, (2..=11).collect::<Vec<u64>>());
    let outside: Vec<&MeasuredAgainst> = found.rows.iter().filter(|row| !row.was_run()).collect();
    assert_eq!(outside.iter().map(|row| row.scheduler.as_str()).collect::<Vec<_>>(), ["spdk"]);
    let alone = &found.rows[0].figures;
    assert!((alone.iops_ratio.unwrap() - 1.0).abs() < 0.05, "a reader of a drive that takes 2 ms: {alone:?}");
    assert!(found.rows.iter().filter(|row| row.was_run()).all(|row| row.figures.iops_predicted.is_some()));
}

#[test]
fn jobs_of_one_condition_run_together() {
    let cases = parse_jobs(JOBS).unwrap();
    assert_eq!(cases.len(), 6);
    let mixed = &cases[2];
    assert_eq!((mixed.jobs.len(), mixed.rows.len()), (2, 3));
    assert_eq!(mixed.rows[2].part, case::Part::Total);
    let found = answers(&cases, &options());
    let of = |line: u64| found.rows.iter().find(|row| row.line == line).unwrap();
    let sum = of(4).figures.iops_predicted.unwrap() + of(5).figures.iops_predicted.unwrap();
    assert!((of(6).figures.iops_predicted.unwrap() - sum).abs() < 1.0, "the total is the sum of its jobs");
    assert!((sum / 4500.0 - 1.0).abs() < 0.05, "nine at a time of 2 ms each: {sum}");
    assert!(of(6).total && found.summary.loads.iter().map(|group| group.rows).sum::<usize>() == 9);
}

#[test]
fn reads_and_writes_of_one_job_are_two_rows() {
    let cases = parse_jobs(JOBS).unwrap();
    let case = cases.iter().find(|case| case.figure == "y").unwrap();
    assert_eq!(case.jobs.len(), 1);
    assert!(case.jobs[0].options.contains(&("rw".to_owned(), "randrw".to_owned())));
    assert_eq!(case.stack.as_deref(), Ok("kyber:read_lat_nsec=2000000"));
    let found = answers(std::slice::from_ref(case), &options());
    let iops: Vec<f64> = found.rows.iter().filter_map(|row| row.figures.iops_predicted).collect();
    assert!(iops.len() == 2 && (iops[0] / iops[1] - 1.0).abs() < 0.2, "half reads, half writes: {iops:?}");
}

#[test]
fn a_wrong_cell_names_file_line_and_column() {
    let wrong = |from: &str, to: &str| parse_jobs(&JOBS.replacen(from, to, 1)).unwrap_err().to_string();
    let text = wrong("L,randread,4k,1,1,0,io_uring+fixedbufs,500", "L,randread,4k,1,1,0,io_uring+fixedbufs,many");
    assert_eq!(text, "cases.csv:2: column `iops`: `many`; expected a number, 0 or larger, or nothing");
    assert!(wrong("randread", "randomly").contains("cases.csv:2: column `rw`: `randomly`"));
    assert!(wrong("4k,1,1,0", "4k,0,1,0").contains("column `iodepth`: `0`; expected a whole number from 1 to 65536"));
    assert!(wrong("4k,1,1,0", "4q,1,1,0").contains("column `bs`: `4q`"));
    assert!(wrong("4k,1,1,0", "4k,1,1,few").contains("column `cpus`: `few`"));
    assert!(wrong("none,1,background", "none,2,background").contains("cases.csv:5: column `devices`: `2`"));
    assert!(wrong("900,3.6,,,,", "900,3.6,,,,,").contains("cases.csv:6: 18 cells; expected 17"));
    assert!(wrong("\"mix,read_lat=2ms\",kyber,1,T-read", "\"mix,kyber,1,T-read").contains("cases.csv:9: a quote"));
    assert!(csv::Table::parse(Path::new("a.csv"), "").is_err());
    assert!(
        csv::Table::parse(Path::new("a.csv"), "a,b,a\n").is_err_and(|e| e.to_string().contains("`a` is there twice"))
    );
}

const SETTINGS: &str = "\
experiment,index,weight_of_prioritized,model_amplifier,read_target_us,min_scaling_pct,prio_latency_us,aggregate_GiB_s
tapps,0,1,0.125,25,100.0,34.0,0.281
tapps,1,100,0.125,25,100.0,34.0,0.281
tapps,2,1,0.0625,25,100.0,34.0,0.1405
";

/// A drive that takes far more than the model and always misses the target, so that the rate is the least, which is all of it.
#[test]
fn a_table_of_io_cost_settings_has_a_reader_and_all_together_in_each_row() {
    let read = |text: &str| isolation_table::cases(&csv::Table::parse(Path::new("s.csv"), text)?);
    let cases = read(SETTINGS).unwrap();
    assert_eq!(cases[1].scheduler, "weight 100, model x 0.125, rlat=25 min=100");
    let mut options = options();
    options.devices = vec![(None, "null:0us?latency_ns=40000".to_owned())];
    options.seconds = Some(0.6);
    let found = answers(&cases, &options);
    let roles: Vec<(u64, &str)> = found.rows.iter().map(|row| (row.line, row.role.as_str())).collect();
    assert_eq!(roles, [(2, "first"), (2, "all"), (3, "first"), (3, "all"), (4, "first"), (4, "all")]);
    for row in found.rows.iter().filter(|row| row.role == "all") {
        let ratio = row.figures.iops_ratio.unwrap();
        assert!((ratio - 1.0).abs() < 0.1, "{}: the model at its own rate is the limit: {ratio}", row.scheduler);
    }
    let first = |line: u64| found.rows.iter().find(|row| row.line == line && row.role == "first").unwrap();
    assert!(
        first(3).figures.iops_predicted > first(4).figures.iops_predicted,
        "half of half the drive is too little for it"
    );
    assert_eq!((found.summary.order_iops.pairs, found.summary.order_iops.right), (2, 2));
    let wrong = |from: &str, to: &str| read(&SETTINGS.replacen(from, to, 1)).unwrap_err().to_string();
    assert_eq!(wrong("tapps", "rq"), "s.csv:2: column `experiment`: `rq`; expected tapps");
    assert!(wrong("0,1,0.125", "0,0,0.125").contains("column `weight_of_prioritized`: `0`"));
    assert!(wrong("1,0.125", "1,0").contains("column `model_amplifier`: `0`"));
    assert!(wrong("100.0", "200").contains("column `min_scaling_pct`: `200`"));
}

#[test]
fn a_grid_has_a_row_for_each_cell() {
    let table = csv::Table::parse(Path::new("grid.csv"), GRID).unwrap();
    let cases = grid_table::cases(&table).unwrap();
    assert_eq!(cases.iter().map(|case| case.jobs.len()).collect::<Vec<_>>(), [1, 2]);
    assert!(cases[0].rows[0].clipped.p95 && !cases[0].rows[0].clipped.p50);
    let found = answers(&cases, &MeasuredOptions { seconds: Some(2.0), ..options() });
    let alone = &found.rows[0];
    assert!((alone.figures.p50_ratio.unwrap() - 1.0).abs() < 0.05, "{alone:?}");
    let loads = &found.summary.loads;
    assert_eq!(
        loads.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(),
        ["reads-of-one-drive", "reads-beside-writes"]
    );
    assert!(loads[0].errors.iter().all(|(name, _)| *name != "p95"), "what is only a bound has no error");
    let twice = GRID.replace("box,p95,0,20", "box,p50,0,20");
    let error = grid_table::cases(&csv::Table::parse(Path::new("grid.csv"), &twice).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("grid.csv:3: column `stat`"), "{error}");
}

#[test]
fn a_figure_of_the_table_may_have_its_own_device() {
    let cases = parse_jobs(JOBS).unwrap();
    let devices = vec![(Some("x".to_owned()), "null:0us?latency_ns=2000000&depth=1024".to_owned())];
    let found = answers(&cases, &MeasuredOptions { devices, ..options() });
    let mut starved = found.rows.clone();
    starved[0].figures.p99_us_predicted = None;
    starved[0].figures.p99_ratio = None;
    let p99 = |rows: &[MeasuredAgainst]| {
        summary::summary(rows).loads[0].errors.iter().find(|e| e.0 == "p99").unwrap().1.clone()
    };
    assert_eq!(p99(&starved).rows, p99(&found.rows).rows, "a job that got nothing stays in the count");
    assert!(p99(&starved).within_2x < p99(&found.rows).within_2x);
    let reason = |figure: &str| found.rows.iter().find(|row| row.figure == figure).unwrap().reason.clone();
    assert_eq!(reason("x"), None);
    assert!(reason("y").unwrap().contains("--device y=MODEL"));
}

#[test]
fn a_verdict_is_judged_by_what_was_measured() {
    let cases = parse_jobs(JOBS).unwrap();
    let found = answers(&cases, &MeasuredOptions { verdicts: true, replicates: 3, ..options() });
    let conditions: Vec<&str> = found.verdicts.iter().map(|v| v.condition.as_str()).collect();
    assert_eq!(conditions, ["n=0", "n=2"], "each that was measured under several schedulers");
    assert!(found.verdicts.iter().all(|v| v.focus == "L" && v.outcome == Outcome::Right && v.loss.unwrap() < 0.03));
    assert_eq!(found.entries().len(), found.rows.len() + 2);
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A result of fio with one job of two processes, which it lists one by one.
fn fio_result(name: &str, rw: &str) -> String {
    let part = |iops: f64| {
        serde_json::json!({ "iops": iops, "bw_bytes": iops * 4096.0, "lat_ns": { "mean": 2_000_000.0 },
            "clat_ns": { "percentile": { "50.000000": 1_900_000, "95.000000": 2_000_000, "99.000000": 2_100_000 } } })
    };
    let (read, write) = if rw == "randread" { (250.0, 0.0) } else { (0.0, 250.0) };
    let options = serde_json::json!({ "rw": rw, "numjobs": "2", "filename": "/dev/nvme0n1", "runtime": "60" });
    let job = serde_json::json!({ "jobname": name, "job options": options, "read": part(read), "write": part(write),
        "usr_cpu": 1.0, "sys_cpu": 1.5 });
    let global = serde_json::json!({ "bs": "4k", "ioengine": "io_uring", "direct": "1", "iodepth": "2" });
    serde_json::json!({ "fio version": "fio-3.35", "global options": global, "jobs": [job, job] }).to_string()
}

#[test]
fn results_of_fio_are_rebuilt_as_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let reads = write(folder.path(), "reads.json", &fio_result("r", "randread"));
    let writes = write(folder.path(), "writes.json", &format!("fio: a note\n{}", fio_result("w", "randwrite")));
    let case = fio_results::case(&[reads.clone(), writes.clone()], "none").unwrap();
    assert_eq!(case.jobs.iter().map(|job| (job.numjobs, job.iodepth)).collect::<Vec<_>>(), [(2, 2), (2, 2)]);
    let row = &case.rows[0];
    assert_eq!((row.figures.iops, row.figures.mean_us, row.figures.cpu_us), (Some(500.0), Some(2000.0), Some(100.0)));
    // The same two processes as a group: twice the rate in one job, whose CPU time is their mean.
    let mut group: serde_json::Value = serde_json::from_str(&fio_result("g", "randread")).unwrap();
    group["jobs"] = serde_json::json!([group["jobs"][0]]);
    group["jobs"][0]["job options"]["group_reporting"] = "1".into();
    group["jobs"][0]["read"]["iops"] = 500.0.into();
    let group = write(folder.path(), "group.json", &group.to_string());
    let grouped = fio_results::case(&[group], "none").unwrap();
    assert_eq!((grouped.jobs[0].numjobs, grouped.rows[0].figures.cpu_us), (2, Some(100.0)));
    let source = format!("{},{}", reads.display(), writes.display());
    let found = measured(&source, &options(), &Simulator::new(1), &Control::default()).unwrap();
    assert_eq!(found.rows.iter().map(|row| row.role.as_str()).collect::<Vec<_>>(), ["r", "w"]);
    assert!(found.rows.iter().all(MeasuredAgainst::was_run), "{:?}", found.rows[0].reason);
    let broken = write(folder.path(), "broken.json", "{\n\"jobs\": [,]}");
    let error = fio_results::case(&[broken], "none").unwrap_err().to_string();
    assert!(error.contains("broken.json:2: not fio's JSON"), "{error}");
}

#[test]
fn a_predicted_tie_of_schedulers_counts_as_half() {
    let cases = parse_jobs(JOBS).unwrap();
    let mut rows = answers(&cases, &options()).rows;
    rows.retain(|row| row.condition == "n=0");
    let set = |row: &mut MeasuredAgainst, measured: f64, predicted: f64| {
        row.figures.iops_measured = Some(measured);
        row.figures.iops_predicted = Some(predicted);
    };
    set(&mut rows[0], 100.0, 200.0);
    let mut order = |measured: f64, predicted: f64| {
        set(&mut rows[1], measured, predicted);
        summary::summary(&rows).order_iops
    };
    assert_eq!(order(104.0, 400.0).pairs, 0, "equal where they were measured");
    assert_eq!(order(120.0, 200.5).share(), 0.5);
    assert_eq!(order(120.0, 240.0).share(), 1.0);
    assert_eq!(order(120.0, 150.0).share(), 0.0);
}

#[test]
fn the_published_tables_are_read_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/reality");
    for (name, rows) in [("icpe24.csv", 744), ("diskplorer.csv", 0)] {
        let path = folder.join(name);
        if !path.exists() {
            println!("skipped: no shared data");
            return;
        }
        let cases = read(&path.display().to_string(), "none").unwrap();
        let found: usize = cases.iter().map(|case| case.rows.len()).sum();
        assert!(rows == 0 || found == rows, "{name}: {found} rows");
        let plan = |case: &Case| scenario::scenario(case, "null:0us", &Host::default(), scenario::length(case, 1.0), 1);
        let refused: Vec<String> = cases.iter().filter_map(|case| plan(case).err()).collect();
        assert!(refused.iter().all(|reason| reason.contains("spdk")), "{name}: {refused:?}");
    }
}

#[test]
fn a_fit_finds_the_parameter_that_made_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let header = "figure,condition,scheduler,devices,role,rw,bs,iodepth,numjobs,iops,lat_mean_us,clat_p50_us\n";
    // A drive of 1.5 ms a command.
    let row = |i: u32| format!("f,d={i},none,1,T,randread,4k,{i},1,{},1500,1500\n", f64::from(i) / 0.0015);
    let text = header.to_owned() + &(1..=4).map(row).collect::<String>();
    let table = write(folder.path(), "made-up.csv", &text);
    let options = FitOptions {
        like: "null:0us?latency_ns=4000000&depth=64".to_owned(),
        host: Host { profile: Profile::Named("free".to_owned()), ..host(None, Some(4)).unwrap() },
        figures: Vec::new(),
        parameters: vec!["latency_ns".to_owned()],
        scheduler: "none".to_owned(),
    };
    let found = fit(&[table.display().to_string()], &options, &Simulator::new(2), &Control::default()).unwrap();
    assert_eq!((found.fitted.len(), found.kept_back.len()), (3, 1));
    let fitted = &found.parameters[0];
    assert!((fitted.value / 1.5e6 - 1.0).abs() < 0.03, "{fitted:?}");
    let model = dumbwaiter_devices::parse(&found.device_file, "fitted.toml", "").unwrap();
    assert_eq!(model.kind(), dumbwaiter_devices::Kind::Null);
    assert!(found.device_file.contains("# kept back  f d=4 none T"), "{}", found.device_file);
    let unknown = FitOptions { parameters: vec!["speed".to_owned()], ..options };
    let error = fit(&[table.display().to_string()], &unknown, &Simulator::new(1), &Control::default()).unwrap_err();
    assert!(error.to_string().starts_with("--parameters speed: expected some of "), "{error}");
}

#[test]
fn the_table_of_errors_has_a_row_for_each_kind_of_load() {
    let cases = parse_jobs(JOBS).unwrap();
    let options = MeasuredOptions { devices: vec![(None, "ssd:850pro-256".to_owned())], ..options() };
    let found = answers(&cases, &options);
    let text = error_table(&found.rows, "cases.csv");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], dumbwaiter_advise::ERROR_COLUMNS.join(","));
    let kinds: Vec<String> =
        lines[1..].iter().map(|line| line.split(',').take(4).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kinds, ["cases.csv flash reads-of-one-drive 2", "cases.csv flash reads-beside-writes 6"]);
}

/// A table of what the simulator says of these cases on a host.
fn simulated(cases: &[(&str, &str, u32, u32)], host: Host, device: &str) -> String {
    let header = "figure,condition,scheduler,devices,role,rw,bs,iodepth,numjobs,iops,lat_mean_us,cpu_us_per_io\n";
    let row = |(condition, scheduler, depth, jobs): &(&str, &str, u32, u32), figures: &str| {
        format!("f,{condition},{scheduler},1,reads,randread,4k,{depth},{jobs},{figures}\n")
    };
    let asked = header.to_owned() + &cases.iter().map(|case| row(case, "100000,,")).collect::<String>();
    let options = MeasuredOptions { devices: vec![(None, device.to_owned())], host, ..options() };
    let found = measured_text(&asked, "asked", &options, &Simulator::new(2), &Control::default()).unwrap();
    let figures = |row: &MeasuredAgainst| {
        let f = &row.figures;
        let known = [f.iops_predicted, f.mean_us_predicted, f.cpu_us_predicted].map(Option::unwrap);
        known.map(|figure| figure.to_string()).join(",")
    };
    header.to_owned()
        + &cases.iter().zip(&found.rows).map(|(case, found)| row(case, &figures(found))).collect::<String>()
}

#[test]
fn a_fit_finds_the_host_that_made_the_figures() {
    let base = Profile::Named("icpe24".to_owned()).costs().unwrap();
    let mut made = base.in_parts(150, 60, 220);
    made.schedulers.insert("mq-deadline".to_owned(), dumbwaiter_scenario::SchedulerNs { read: 900, write: 1000 });
    let of = |costs| Host { profile: Profile::Given(Arc::new(costs)), ..host(None, Some(4)).unwrap() };
    let cases = [
        ("sleeping", "none", 1, 1),
        ("saturated", "none", 64, 1),
        ("saturated", "mq-deadline", 64, 1),
        ("4", "mq-deadline", 64, 4),
        ("between kept back", "none", 4, 1),
        ("3 kept back", "mq-deadline", 64, 3),
    ];
    let device = "null:0us?latency_ns=20000&depth=4096&queues=4";
    let table = simulated(&cases, of(made), device);
    let options = HostFitOptions {
        host: of((*base).clone()),
        devices: vec![(None, device.to_owned())],
        figures: Vec::new(),
        parameters: Vec::new(),
        scheduler: "none".to_owned(),
        name: "found".to_owned(),
        notes: vec!["made up".to_owned()],
    };
    let fit = |options: &HostFitOptions| {
        fit_host_to_table(&table, "made-up.csv", options, &Simulator::new(2), &Control::default())
    };
    let found = fit(&options).unwrap();
    let value = |name: &str| found.parameters.iter().find(|p| p.name == name).map(|p| p.value);
    for (name, expected) in
        [("work_percent", 150.0), ("sleep_percent", 60.0), ("mq-deadline.read_ns", 900.0), ("lock_percent", 220.0)]
    {
        let value = value(name).unwrap_or_else(|| panic!("{name}: {:?}", found.parameters));
        assert!((value / expected - 1.0).abs() < 0.15, "{name}: {value} for {expected}");
    }
    assert!(found.undetermined.contains(&"mq-deadline.write_ns".to_owned()), "{:?}", found.undetermined);
    assert_eq!((found.fitted.len(), found.kept_back.len()), (4, 2));
    for row in found.fitted.iter().chain(&found.kept_back) {
        let ratios = [row.figures.iops_ratio, row.figures.cpu_ratio].map(Option::unwrap);
        assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.08), "{}: {ratios:?}", row.condition);
    }
    let again = Profile::from_toml(&found.host_file, "found.toml").unwrap().costs().unwrap();
    assert_eq!((again.name.as_str(), again.vary_percent), ("found", 15));
    assert!(found.host_file.contains("# made up\n"), "{}", found.host_file);
    let unknown = HostFitOptions { parameters: vec!["speed".to_owned()], ..options };
    let error = fit(&unknown).unwrap_err().to_string();
    assert!(error.starts_with("--parameters speed: expected some of work_percent, sleep_percent"), "{error}");
}
