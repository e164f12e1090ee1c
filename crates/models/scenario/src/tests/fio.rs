//! Scenarios from fio job files.

use super::*;

fn from_fio(text: &str) -> (Scenario, Vec<String>) {
    Scenario::from_fio(text, "jobs/mine.fio", &|_| None).unwrap_or_else(|e| panic!("{e}"))
}

fn regions(scenario: &Scenario) -> Vec<(String, u64, u64)> {
    let bytes = |extent| match extent {
        dumbwaiter_workloads::generate::Extent::Bytes(n) => n >> 20,
        other => panic!("{other}"),
    };
    let of = |task: &Task| match &task.work {
        Work::Job(job) => (task.name.clone(), bytes(job.offset), bytes(job.offset_increment)),
        _ => panic!("not a job"),
    };
    scenario.tasks().map(|(_, task)| of(task)).collect()
}

#[test]
fn fio_jobs_become_tasks_with_their_time() {
    let text = "[global]\ndirect=1\ntime_based\nruntime=4\nramp_time=1\n[a]\nrw=randread\nprioclass=3\nnumjobs=2\nsize=10m\n[b]\nstartdelay=2s\n\
                cgroup=slow\ncgroup_weight=200\ncpus_allowed=2\nsize=3m\n[c]\nstonewall\nruntime=10\nramp_time=0\nsize=1m\n[c]\nsize=1m\nfilename=x\n[d]\nsize=2m\nfilename=x\n";
    let (scenario, warnings) = from_fio(text);
    assert_eq!(warnings, Vec::<String>::new());
    scenario.validate(&anything, &anything).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.warmup), ("mine", Nanos::from_secs(1)));
    // 7.04 s of the first stage (b starts in fio's first round after 2 s) and 10 s of the second, minus the warm-up.
    assert_eq!(scenario.duration, Some(Nanos::from_ms(16_040)));
    let names: Vec<(&str, &str, u32, u32)> =
        scenario.tasks().map(|(n, t)| (n.name.as_str(), t.name.as_str(), t.count, t.stage)).collect();
    let expected = [
        ("default", "a", 2, 0),
        ("default", "c", 1, 1),
        ("default", "c (2)", 1, 1),
        ("default", "d", 1, 1),
        ("slow", "b", 1, 0),
    ];
    assert_eq!(names, expected);
    assert_eq!(scenario.tenants[1].weight, 200);
    assert_eq!(scenario.tenants[1].tasks[0].cpu, [2]);
    let (tenant, task) = scenario.tasks().next().unwrap();
    assert_eq!(tenant.ioprio_of(task).to_string(), "idle/0");
    let expected = [("a", 0, 10), ("c", 23, 1), ("c (2)", 24, 0), ("d", 24, 0), ("b", 20, 3)];
    assert_eq!(regions(&scenario), expected.map(|(name, at, step)| (name.to_string(), at, step)));
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap(), scenario);
}

#[test]
fn fio_jobs_with_an_offset_keep_it() {
    let text = "[global]\ndirect=1\n[a]\noffset=4m\noffset_increment=2m\nnumjobs=3\nsize=2m\n[b]\nsize=1m\n[c]\nfilename=/dev/sdx\nsize=5m\n";
    let (scenario, warnings) = from_fio(text);
    assert_eq!(
        warnings,
        ["jobs/mine.fio: not every job has a runtime: a run ends when the jobs have done all their I/O"]
    );
    let expected = [("a", 4, 2), ("b", 10, 1), ("c", 0, 0)];
    assert_eq!(regions(&scenario), expected.map(|(name, at, step)| (name.to_string(), at, step)));
    assert_eq!(scenario.duration, None);
    scenario.validate(&anything, &anything).unwrap();
}

#[test]
fn a_job_with_several_files_has_one_region() {
    let text = "[global]\ndirect=1\n[a]\nsize=4m\nnrfiles=4\n[b]\nsize=2m\nfilename=x:y\n[c]\nsize=2m\nfilename=x:y\n[d]\nfilename=/dev/sdb:/dev/sdc\n";
    let (scenario, _) = from_fio(text);
    let expected = [("a", 0, 4), ("b", 4, 0), ("c", 4, 0), ("d", 0, 0)];
    assert_eq!(regions(&scenario), expected.map(|(name, at, step)| (name.to_string(), at, step)));
    let drives = crate::fio::FioScenario::read(text, "j.fio", &|_| None).unwrap().drives;
    assert_eq!(drives, ["/dev/sdb", "/dev/sdc"]);
}

#[test]
fn fio_iologs_become_traces() {
    let text = "[replay]\ndirect=1\nread_iolog=a.log:b.log\nnumjobs=3\nreplay_no_stall=1\nioengine=libaio\niodepth=8\n";
    let (scenario, _) = from_fio(text);
    let found: Vec<(String, u32, Option<u32>)> = scenario
        .tasks()
        .map(|(_, task)| match &task.work {
            Work::Trace(trace) => (trace.path.clone(), task.count, trace.options.depth),
            _ => panic!("not a trace"),
        })
        .collect();
    assert_eq!(found, [("a.log".to_string(), 2, Some(8)), ("b.log".to_string(), 1, Some(8))]);
}

#[test]
fn a_scenario_may_take_fio_files() {
    let folder = tempfile::tempdir().unwrap();
    let toml = "duration = 5\n[[task]]\nname = \"old\"\ncount = 2\nfio = \"jobs.fio\"\n";
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("s.toml", toml);
    write("jobs.fio", "[a]\ndirect=1\nthread\nsize=1m\n[b]\ndirect=1\nsize=1m\n");
    let path = folder.path().join("s.toml");
    let (scenario, warnings) = Scenario::load(&path).unwrap();
    assert_eq!(warnings, ["jobs.fio:3: ignored fio options, which do not change the I/O here: thread"]);
    let names: Vec<(&str, u32)> = scenario.tasks().map(|(_, t)| (t.name.as_str(), t.count)).collect();
    assert_eq!(names, [("old/a", 2), ("old/b", 2)]);
    scenario.validate(&anything, &anything).unwrap();
    write("jobs.fio", "[a]\nverify=md5\n");
    assert!(Scenario::load(&path).unwrap_err().to_string().starts_with("jobs.fio:2: verify=md5 would change the I/O"));
    write("jobs.fio", "include more.fio\n");
    write("more.fio", "[c]\ndirect=1\nnrfiles=3\nsize=9m\n");
    let (scenario, _) = Scenario::load(&path).unwrap();
    assert_eq!(scenario.tasks().map(|(_, t)| t.name.as_str()).collect::<Vec<_>>(), ["old/c"]);
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap().to_toml(), scenario.to_toml());
    write("jobs.fio", "fio --rw=read --size=1m --direct=1 --name=d\n");
    assert_eq!(Scenario::load(&path).unwrap().0.tasks().next().unwrap().1.name, "old/d");
    std::fs::remove_file(folder.path().join("jobs.fio")).unwrap();
    assert!(matches!(Scenario::load(&path), Err(Error::Io { path, .. }) if path.ends_with("jobs.fio")));
    let unread = Scenario::from_toml(toml, "x").unwrap();
    let error = unread.validate(&anything, &anything).unwrap_err().to_string();
    assert_eq!(error, r#"task "old" of tenant "default": its fio file "jobs.fio" was not read"#);
}
