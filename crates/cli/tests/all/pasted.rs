//! What people paste: command lines, tables of tools, headers of archives.

use crate::common::{dumbwaiter, file, ok, refused, text};

/// A short comparison of an input.
fn compare<'a>(input: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let short =
        ["--duration", "20ms", "--warmup", "0s", "--device", "ssd:850pro-256", "--schedulers", "none", "-r", "1"];
    [&["compare", input], short.as_slice(), more].concat()
}

#[test]
fn each_stage_of_a_job_file_has_its_own_line_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    let job = "[global]\nioengine=libaio\ndirect=1\nruntime=1\ntime_based\niodepth=4\nfilename=/dev/sdb\n[seq]\nrw=read\nbs=64k\n\
               [rand]\nstonewall\nrw=randread\n[beside]\nrw=randwrite\n";
    let path = file(dir.path(), "stages.fio", job.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&ok(&compare(&path, &["--json", "-"]))).unwrap();
    let lines = json["suite"]["lines"].as_array().unwrap();
    let names: Vec<&str> = lines.iter().map(|line| line["scenario"].as_str().unwrap()).collect();
    assert_eq!(names, ["seq", "rand + beside"]);
    let said = told(&compare(&path, &[]));
    let of = |begins: &str| said.lines().filter(|line| line.contains(begins)).count();
    assert_eq!((of(" seq "), of(" rand + beside ")), (2, 2), "a verdict and figures of each: {said}");
}

/// The result without its line breaks.
fn told(args: &[&str]) -> String {
    ok(args).replace("\n  ", " ")
}

#[test]
fn jobs_as_fio_means_them_run_and_notes_say_what_is_different() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, options: &str| {
        let text = format!("[a]\nioengine=libaio\ndirect=1\nruntime=1\ntime_based\n{options}");
        told(&compare(&file(dir.path(), name, text.as_bytes()), &[]))
    };
    assert!(run("split.fio", "rw=randread\nbssplit=4k/33:16k/33:64k/32\nsize=1g\n").contains("IOPS"));
    let odd = run("odd.fio", "direct=0\nrw=write\nfdatasync=1\nbs=2300\nsize=22m\n");
    assert!(odd.contains("bs=2300 is no multiple of 512"), "{odd}");
    let drives = run("drives.fio", "rw=randread\niodepth=16\nfilename=/dev/sdb:/dev/sdc\n");
    assert!(
        drives.contains("its 2 drives take the I/Os in turn, 16 at once in all")
            && drives.contains("2 drives ssd:850pro-256 behind one host"),
        "{drives}"
    );
    assert!(drives.contains("filename=/dev/sdc: simulated on"), "{drives}");
    assert!(run("whole.fio", "rw=randread\nsize=0\n").contains("IOPS"));
    assert!(run("trim.fio", "rw=trim\nbs=8g\n").contains("IOPS"));
    file(dir.path(), "common", b"rw=randread\niodepth=4\n");
    assert!(run("include.fio", "include common\n").contains("IOPS"));
    let large = file(dir.path(), "large.fio", b"[a]\nrw=randread\ndirect=1\nsize=10t\nruntime=1\n");
    let out = dumbwaiter(&compare(&large, &[]));
    let said = text(&out.stderr) + &text(&out.stdout);
    assert!(out.status.success() && said.contains("reaches to 10240.0 GiB"), "{said}");
}

#[test]
fn a_command_line_is_an_input_in_a_file_and_behind_two_dashes() {
    let dir = tempfile::tempdir().unwrap();
    let pasted = "[root@host ~]# fio --filename=/dev/sdq --direct=1 --rw=randread \\\n  --bs=4k --runtime=2 --time_based --name=iops\niops: (g=0): rw=randread\n";
    let pasted = file(dir.path(), "case.txt", pasted.as_bytes());
    let printed = told(&compare(&pasted, &[]));
    assert!(printed.contains("filename=/dev/sdq: simulated on ssd:850pro-256"), "{printed}");
    let words = [
        "--",
        "fio",
        "--filename=/dev/sdq",
        "--direct=1",
        "--rw=randread",
        "--bs=4k",
        "--runtime=2",
        "--time_based",
        "--name=iops",
    ];
    let config = ["compare", "--schedulers", "none", "--print-config"];
    let typed = ok(&[config.as_slice(), words.as_slice()].concat());
    let of_file = ok(&["compare", &pasted, "--schedulers", "none", "--print-config"]);
    let jobs = |text: &str| text.split_once("[[").unwrap().1.to_owned();
    assert_eq!(jobs(&typed), jobs(&of_file));
    refused(&["compare", "--", "fio", "--rw=sideways", "--name=a"], &["fio command:1", "rw", "sideways", "randread"]);
}

#[test]
fn tables_of_tools_are_read_and_say_first_what_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let rwbs = "worker 71 RA 8,0 9096 4096 2.5\nworker 71 WSM 8,0 27288 4096 2.5\nworker 71 FF 8,0 0 0 2.5\nworker 71 XX 8,0 8 8 2.5\n";
    let rwbs = file(dir.path(), "rwbs.txt", rwbs.as_bytes());
    let out = dumbwaiter(&["trace", "head", &rwbs, "--columns", "comm,pid,op,_,sector,bytes,latency_ms"]);
    let (said, shown) = (text(&out.stderr), text(&out.stdout));
    assert!(said.contains("note: 1 records: line does not parse"), "{said}");
    assert!(said.contains("line 4: \"worker 71 XX 8,0 8 8 2.5\" has \"XX\""), "{said}");
    assert!(shown.contains("read") && shown.contains("write") && shown.contains("flush"), "{shown}");
    let snoop = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n0.010000    db 411 sdb R 1048576 8192 9.00\n0.012000    my app 412 sdb W 881208 4096 11.50\n";
    let snoop = file(dir.path(), "snoop.txt", snoop.as_bytes());
    let shown = ok(&["trace", "head", &snoop]);
    assert!(shown.find("881208") < shown.find("1048576"), "arrivals are in their order: {shown}");
    let bad: String = (0..1000).map(|i| format!("{i},R,{},4096\n", i * 4096)).collect();
    let bad = file(
        dir.path(),
        "bad.csv",
        ("time_us,op,offset_bytes,size_bytes\n".to_owned() + &bad + "9,X,0,1\n").as_bytes(),
    );
    let out = dumbwaiter(&["compare", &bad, "--device", "ssd:850pro-256", "--schedulers", "none"]);
    let said = text(&out.stderr).replace("\n  ", " ") + &text(&out.stdout).replace("\n  ", " ");
    assert!(said.contains("1 of 1,001 records") && said.contains("line 1002: \"9,X,0,1\""), "{said}");
    let archive =
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003000000,srv,0,Read,4096,8192,41300\n";
    let archive = file(dir.path(), "msr.csv", archive.as_bytes());
    assert!(ok(&["trace", "head", &archive]).contains("4.13 ms"));
}

#[test]
fn summaries_are_answered_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (content, name) in [
        (
            "Device            r/s     rkB/s     w/s     wkB/s  %util\nsda              1.00     64.00    2.00      8.00   3.10\n",
            "iostat",
        ),
        (
            "     usecs               : count     distribution\n         0 -> 1          : 0        |                    |\n",
            "biolatency",
        ),
        (
            "test: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=libaio, iodepth=32\nfio-3.33\nStarting 1 process\n",
            "fio's result",
        ),
    ] {
        let path = file(dir.path(), "summary.txt", content.as_bytes());
        refused(&["compare", &path], &["summary.txt", name, "A trace has a line for each request", "blktrace"]);
        refused(&["trace", "stat", &path], &[name]);
    }
}
