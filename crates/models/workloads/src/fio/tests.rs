use dumbwaiter_block::{Ioprio, Nanos};
use proptest::prelude::*;

use super::*;
use crate::generate::{BlockSize, BuildContext, Distribution, PerDir, RateProcess};

fn read(text: &str) -> FioFile {
    parse(text, "j.fio", &Outside::NOTHING).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    parse(text, "j.fio", &Outside::NOTHING).expect_err("it should be refused").to_string()
}

/// All job files of the shared kernel recordings parse and build.
#[test]
fn every_job_file_of_the_recordings_parses() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/data/kernel-dispatch");
    let Ok(files) = std::fs::read_dir(folder) else {
        println!("skipped: no shared data");
        return;
    };
    let (mut jobs, mut texts) = (0, 0);
    for path in files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "json")) {
        let recording: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let entries = recording.as_array().cloned().unwrap_or_else(|| vec![recording]);
        for entry in entries {
            let file = parse(entry["job"].as_str().unwrap(), &path.display().to_string(), &Outside::NOTHING);
            let file = file.unwrap_or_else(|e| panic!("{e}"));
            for job in &file.jobs {
                let context = BuildContext {
                    seed: 1,
                    capacity_sectors: 8 << 21,
                    first_sector: 0,
                    job: 0,
                    instance: 0,
                    replicate: 0,
                };
                job.spec.build(context).unwrap_or_else(|e| panic!("{}: {}: {e}", path.display(), job.name));
                assert!(job.placed && job.spec.longest().is_some());
            }
            jobs += file.jobs.len();
            texts += 1;
        }
    }
    assert!(texts >= 42 && jobs >= 200, "{texts} files, {jobs} jobs");
}

#[test]
fn sections_inherit_the_options_of_global() {
    let text = "\u{feff}; a comment\r\n[global]\r\nioengine=libaio\r\ndirect=1\r\nbs=8k  # here too\r\n\r\n[a]\r\nrw = randread\r\n\
                iodepth=4\r\n[global]\r\nbs=16k\r\nrwmixread=30\r\n[b]\r\nrw=randrw\r\nnumjobs=3\r\nbs=32k\r\nbs=64k\r\nnorandommap\r\n";
    let file = read(text);
    assert_eq!(file.warnings, []);
    let [a, b] = file.jobs.as_slice() else { panic!("two jobs") };
    assert_eq!((a.name.as_str(), a.line, a.numjobs, a.spec.depth()), ("a", 7, 1, 4));
    assert_eq!(a.spec.bs, PerDir::all(BlockSize::Fixed(8192)));
    assert_eq!(b.spec.bs, PerDir::all(BlockSize::Fixed(65536)));
    assert_eq!((b.numjobs, b.spec.rwmixread, b.spec.norandommap, b.spec.iodepth), (3, 30, true, 1));
    assert_eq!((a.spec.rwmixread, a.spec.direct, a.spec.time_based), (50, true, Some(false)));
}

#[test]
fn the_open_loop_job_of_a_recording_parses_completely() {
    let text = "[open1]\nioengine=libaio\ndirect=1\ntime_based=1\nruntime=6\nrw=randrw\nbs=4k\niodepth=64\nrate_iops=240\n\
                rate_process=poisson\ncmdprio_percentage=50\ncmdprio_class=1\ncmdprio=3\noffset=256m\nsize=256m\nstartdelay=283ms\n\
                prioclass=2\nprio=5\n";
    let job = &read(text).jobs[0];
    assert_eq!(job.spec.rate_iops, PerDir::all(Some(240)));
    assert_eq!(job.spec.rate_process, RateProcess::Poisson);
    assert_eq!(job.spec.cmdprio_percentage.read, 50);
    assert_eq!((job.spec.offset, job.spec.size), (Extent::Bytes(256 << 20), Some(Extent::Bytes(256 << 20))));
    assert_eq!(job.spec.longest(), Some(Nanos::from_ms(6306)));
    assert_eq!(job.spec.ioprio(), Ioprio::parse("be/5"));
}

/// In two recordings jobs with these delays began at 0 and 207 ms after the first, and at 0, 207 and 417 ms.
#[test]
fn jobs_start_in_rounds_as_recorded() {
    let starts = |delays: &[&str]| -> Vec<u64> {
        let text: String = delays.iter().map(|d| format!("[a]\nsize=1m\nstartdelay={d}\n")).collect();
        read(&text).jobs.iter().map(|job| job.spec.startdelay.0.0 / 1_000_000).collect()
    };
    let kyber_bursts = starts(&["143ms", "202ms", "278ms", "254ms", "198ms", "229ms"]);
    assert_eq!(kyber_bursts, [204, 204, 408, 408, 204, 408]);
    let deadline_bursts = starts(&["0ms", "218ms", "191ms", "232ms", "28ms", "230ms"]);
    assert_eq!(deadline_bursts, [0, 408, 204, 408, 204, 408]);
    assert_eq!(starts(&["2s", "4s", "1s", "0"]), [2040, 4080, 1020, 0]);
    assert_eq!(starts(&["301ms", "1s-2s"]), [306, 1000]);
}

#[test]
fn values_have_the_meaning_of_fio() {
    let job = |options: &str| read(&format!("[j]\ndirect=1\n{options}\n")).jobs.remove(0);
    assert_eq!(job("size=1m").spec.size, Some(Extent::Bytes(1 << 20)));
    assert_eq!(job("size=1m\nkb_base=1000").spec.size, Some(Extent::Bytes(1_000_000)));
    assert_eq!(job("size=(4k*2 + 2^3*512)").spec.size, Some(Extent::Bytes(12_288)));
    assert_eq!(job("size=8*$pagesize").spec.size, Some(Extent::Bytes(32_768)));
    assert_eq!(job("thinktime=(2*5)").spec.thinktime, Nanos::from_us(10));
    assert_eq!(job("runtime=(1s/2)").spec.runtime, Some(Nanos::from_ms(500)));
    assert_eq!(job("thinktime=500").spec.thinktime, Nanos::from_us(500));
    assert_eq!(job("runtime=2m").spec.runtime, Some(Nanos::from_secs(120)));
    assert_eq!(job("bs=8k,32k,").spec.bs.trim, BlockSize::Fixed(4096));
    assert_eq!(job("bsrange=1k:4k/2k-8k").spec.bs.write, BlockSize::Range(2048, 8192));
    assert_eq!(
        job("bssplit=2k/50:4k/50,4k/90:8k/10").spec.bs.write,
        BlockSize::Split(vec![(4096, 90.0), (8192, 10.0)])
    );
    assert_eq!(job("rate=,500k").spec.rate, PerDir { read: None, write: Some(512_000), trim: Some(512_000) });
    assert_eq!(job("rate=500k,").spec.rate, PerDir { read: Some(512_000), write: None, trim: None });
    assert_eq!(job("random_distribution=zipf").spec.random_distribution.read, Distribution::Zipf(1.1, None));
    assert_eq!(job("cpus_allowed=0,5,8-10").cpus, [0, 5, 8, 9, 10]);
    assert_eq!(job("cpumask=34").cpus, [1, 5]);
    assert_eq!(job("filesize=1m\nsize=4m").spec.io_size, Some(Extent::Bytes(4 << 20)));
    assert_eq!(job("nice=19").spec.ioprio(), Ioprio::parse("be/7"));
    let trace = job("read_iolog=a.log:b\\:c.log\nreplay_no_stall=1\nreplay_time_scale=200").trace.unwrap();
    assert_eq!((trace.paths, trace.no_stall, trace.time_scale), (vec!["a.log".into(), "b:c.log".into()], true, 200));
}

#[test]
fn variables_come_from_the_environment() {
    let home = |name: &str| (name == "SIZE").then(|| "64m".to_string());
    let file = parse("[j]\nsize=${SIZE}\n", "j.fio", &Outside { variable: &home, ..Outside::NOTHING }).unwrap();
    assert_eq!(file.jobs[0].spec.size, Some(Extent::Bytes(64 << 20)));
    let error = parse("[j]\nsize=${SZIE}\n", "j.fio", &Outside { variable: &home, ..Outside::NOTHING })
        .unwrap_err()
        .to_string();
    assert_eq!(error, r#"j.fio:2: "${SZIE}": the environment variable "SZIE" is not set"#);
    let secret = |name: &str| (name == "TOKEN").then(|| "hunter2:x".to_string());
    for option in [
        "rw=${TOKEN}",
        "bs=${TOKEN}",
        "bssplit=${TOKEN}",
        "cpus_allowed=${TOKEN}",
        "zonemode=${TOKEN}",
        "ioengine=a${TOKEN}",
    ] {
        let outside = Outside { variable: &secret, ..Outside::NOTHING };
        let error = parse(&format!("[j]\n{option}\n"), "j.fio", &outside).unwrap_err().to_string();
        assert!(error.starts_with(&format!("j.fio:2: {option}: ")) && !error.contains("hunter2"), "{error}");
    }
    assert_eq!(refused("[j]\nsize=${SIZE\n"), r#"j.fio:2: "${SIZE" has a ${ without its }"#);
}

#[test]
fn stonewalls_make_stages() {
    let stages = |text: &str| read(text).jobs.iter().map(|j| j.stage).collect::<Vec<_>>();
    assert_eq!(stages("[a]\ndirect=1\n[b]\n[c]\nstonewall\n[d]\n[e]\nwait_for_previous\n"), [0, 0, 1, 1, 2]);
    assert_eq!(stages("[global]\nstonewall=1\n[a]\n[b]\n"), [0, 1]);
}

#[test]
fn harmless_options_are_named_in_warnings() {
    let text =
        "[global]\ndirect=1\ngroup_reporting\n[j]\nwrite_bw_log=mine\nthread\nioengine=psync\niodepth=32\nsize=4KiB\n";
    let warnings: Vec<String> = read(text).warnings.iter().map(|w| w.to_string()).collect();
    assert_eq!(
        warnings,
        [
            "j.fio:3: ignored fio options, which do not change the I/O here: group_reporting, write_bw_log, thread",
            "j.fio:4: job \"j\": psync does one I/O at a time; iodepth=32 has no effect",
            "j.fio:9: size=4KiB: with kb_base=1024, fio takes KiB as a power of 1000",
        ]
    );
    let buffered = read("[a]\nrw=read\n[b]\nrw=write\n[c]\nrw=rw\n");
    assert_eq!(buffered.warnings.len(), 1);
    assert!(
        buffered.warnings[0]
            .text
            .starts_with("jobs \"a\", \"c\": direct=0: in simulation its reads go through a page cache")
    );
}

#[test]
fn errors_name_line_option_value_and_expected_form() {
    for (text, expected) in [
        ("", "j.fio:1: there is no job: no section with options"),
        ("[global]\n\n", "j.fio:2: there is no job: no section with options"),
        ("bs=4k\n", "j.fio:1: bs appears before the first section; put [global] or a job's name above it"),
        ("[a\n", r#"j.fio:1: "[a" is not a section title such as [job1]"#),
        ("[]\n", r#"j.fio:1: "[]" is not a section title such as [job1]"#),
        ("[a]\n=4\n", r#"j.fio:2: "=4" is not an option such as bs=4k"#),
        ("[a]\nread 4k\n", r#"j.fio:2: "read 4k" is not an option such as bs=4k"#),
        ("[a]\nbs=4q\n", r#"j.fio:2: bs: "4q" is not a size such as 4096, 4k, 64KiB or 1.5GiB"#),
        ("[a]\niodepth=\n", r#"j.fio:2: iodepth: "" is not a whole number from 1 to 1048576"#),
        ("[a]\ndirect=yes\n", r#"j.fio:2: direct: "yes" is not true (1) or false (0)"#),
        ("[a]\niodpeth=4\n", "j.fio:2: unknown option `iodpeth`; did you mean `iodepth`?"),
        ("[a]\nburst_on=1s\n", r#"j.fio:2: unknown option `burst_on`"#),
        ("[a]\ninclude other.fio\n", "j.fio:2: include other.fio: other.fio: no such file"),
        (
            "[a]\nverify=crc32c\n",
            "j.fio:2: verify=crc32c would change the I/O and is not supported: data is not kept here; leave it out",
        ),
        (
            "[a]\nexitall\n",
            "j.fio:2: exitall=1 would change the I/O and is not supported: give all jobs the same runtime with time_based",
        ),
        (
            "[a]\nwait_for=b\n",
            "j.fio:2: wait_for=b would change the I/O and is not supported: use stonewall to run jobs after each other",
        ),
        ("[a]\nfilename=a::b\n", r#"j.fio:2: filename: "a::b" is not a name, or several with colons between"#),
        (
            "[a]\nsize=8*$mb_memory\n",
            r#"j.fio:2: size: "8*$mb_memory" depends on the machine through $mb_memory; write the number"#,
        ),
        ("[a]\nsize=(4k*\n", r#"j.fio:2: size: "(4k*" has "" where a number was expected"#),
        ("[a]\nsize=(4k/0)\n", r#"j.fio:2: size: "(4k/0)" divides by 0"#),
        ("[a]\nsize=(1-2)\n", r#"j.fio:2: size: "(1-2)" comes to -1, which is not a number from 0 below 2^63"#),
        ("[a]\nnumjobs=0\n", r#"j.fio:2: numjobs: "0" is not a whole number from 1 to 65535"#),
        (
            "[a]\n\n[b]\nbs=1000\ndirect=1\n",
            "j.fio:3: job \"b\": bs: 1000 bytes is not a multiple of 512; a block device has 512-byte sectors, and direct I/O takes \
             whole ones (buffered: direct=0)",
        ),
        ("[a]\nkb_base=10\n", r#"j.fio:2: kb_base: "10" is not 1000 or 1024"#),
        ("[a]\ncpus_allowed=3-1\n", r#"j.fio:2: cpus_allowed: "3-1" is not a list of processors such as 0,5,8-15"#),
    ] {
        assert_eq!(refused(text), expected);
    }
    assert!(
        refused("[a]\nioengine=cpuio\n")
            .starts_with("j.fio:2: ioengine: \"cpuio\" is not an I/O engine that does block I/O")
    );
}

/// Of 10,000 draws fio 3.33 gave 4 KiB 69.6 %, 8 KiB 20.2 % and 16 KiB 10.2 %; of three equal parts the last got the rest.
#[test]
fn the_rest_of_a_split_goes_to_the_last_of_its_largest_parts() {
    let split = |text: &str| read(&format!("[a]\nbssplit={text}\n")).jobs.remove(0).spec.bs.read;
    assert_eq!(split("4k/50:8k/20:16k/10"), BlockSize::Split(vec![(4096, 70.0), (8192, 20.0), (16384, 10.0)]));
    assert_eq!(split("4k/33:16k/33:64k/33"), BlockSize::Split(vec![(4096, 33.0), (16384, 33.0), (65536, 34.0)]));
    assert_eq!(split("4k:16k"), BlockSize::Split(vec![(4096, 50.0), (16384, 50.0)]));
    assert!(refused("[a]\nbssplit=4k/60:8k/60\n").contains("these sum to 120"));
}

/// As fio 3.33 reads them: 4 KiB for `4k/15:1m:85`, the first size of a range, a number up to the sign behind it.
#[test]
fn what_fio_leaves_out_of_a_value_is_left_out_and_a_note_says_so() {
    let one = |option: &str| {
        let mut file = read(&format!("[a]\nrw=randrw\ndirect=1\nioengine=libaio\n{option}\n"));
        assert_eq!(file.warnings.len(), 1, "{option}");
        (file.jobs.remove(0).spec, file.warnings.remove(0).text)
    };
    let (spec, note) = one("bssplit=8k/40:12k-16k/5.:64k/55,16k/75:20k-128/25");
    assert_eq!(spec.bs.read, BlockSize::Split(vec![(8192, 40.0), (12288, 5.0), (65536, 55.0)]));
    assert_eq!(spec.bs.write, BlockSize::Split(vec![(16384, 75.0), (20480, 25.0)]));
    assert_eq!(note, "bssplit: of 12k-16k/5. fio reads 12k/5., and of 1 more such a part; so it is taken here");
    let (spec, note) = one("bs=,4k/15:1m:85,");
    assert_eq!(
        (spec.bs.write, note.as_str()),
        (BlockSize::Fixed(4096), "bs: of 4k/15:1m:85 fio reads 4k; so it is taken here")
    );
    assert_eq!(one("blocksize=8k-64k").0.bs.read, BlockSize::Fixed(8192));
    assert_eq!(one("iodepth=60?").0.iodepth, 60);
    let (spec, note) = one("size=200%");
    assert_eq!(spec.size, Some(Extent::Percent(100.0)));
    assert_eq!(note, "size: 200% is more than the device: 100% is taken");
    assert!(refused("[a]\niodepth=?6\n").contains("is not a whole number"));
    assert!(refused("[a]\nbs=x4k/8k\n").contains("bs: \"x4k\" is not a size"));
}

#[test]
fn globals_alone_are_one_job_and_a_note_says_so() {
    let file = read("[global]\nrw=randread\ndirect=1\niodepth=8\nnumjobs=4\nioengine=libaio\n");
    let [job] = file.jobs.as_slice() else { panic!("one job") };
    assert_eq!((job.name.as_str(), job.numjobs, job.spec.iodepth), ("job", 4, 8));
    let notes: Vec<String> = file.warnings.iter().map(|w| w.to_string()).collect();
    assert_eq!(
        notes,
        [
            "j.fio:1: no section beside [global], where fio finds no job: taken as one job, as `fio FILE --name=job` does"
        ]
    );
    let two = read("[global]\ndirect=1\n[global]\nrw=randread\n");
    assert_eq!((two.jobs.len(), two.warnings.len()), (1, 1));
}

#[test]
fn files_and_drives_take_the_ios_in_turn_and_a_note_says_so() {
    let file = read(
        "[a]\ndirect=1\nioengine=libaio\niodepth=16\nfilename=/dev/sdb:/dev/sdc\n[b]\ndirect=1\nnrfiles=4\nsize=1m\n",
    );
    let [a, b] = file.jobs.as_slice() else { panic!("two jobs") };
    assert_eq!((a.filenames.len(), a.spec.nrfiles, a.spec.size, b.spec.nrfiles), (2, 2, None, 4));
    let notes: Vec<String> = file.warnings.iter().map(|w| w.to_string()).collect();
    assert_eq!(
        notes,
        [
            "j.fio:1: job \"a\": its 2 drives take the I/Os in turn, 16 at once in all",
            "j.fio:6: job \"b\": its 4 files are equal parts of the one device, and take the I/Os in turn",
        ]
    );
    let two =
        read("[a]\ndirect=1\nfilename=/dev/sdb\n[b]\ndirect=1\nfilename=/dev/sdc\n[c]\ndirect=1\nfilename=/dev/sdb\n");
    assert_eq!(two.warnings, []);
    let sizes = read("[a]\ndirect=1\nnrfiles=4\nfilesize=1m-3m\nfile_service_type=sequential\n");
    assert_eq!((sizes.jobs[0].spec.size, sizes.jobs[0].spec.nrfiles), (Some(Extent::Bytes(8 << 20)), 1));
}

#[test]
fn included_files_are_read_in_place_and_errors_name_them() {
    let file = |from: &str, name: &str| match name {
        "common.fio" => Ok((format!("{from}+common"), "bs=8k\n[x]\niodepth=3\ninclude deep\n".to_string())),
        "deep" => Ok(("deep".to_string(), "rw=randread\nbad\n".to_string())),
        "again" => Ok(("again".to_string(), "include again\n".to_string())),
        _ => Err("no such file".to_string()),
    };
    let outside = Outside { file: &file, ..Outside::NOTHING };
    let text = "[global]\ndirect=1\ninclude common.fio\nrw=read\n";
    let error = parse(text, "j.fio", &outside).unwrap_err().to_string();
    assert_eq!(error, "deep:2: unknown option `bad`; did you mean `ba`?");
    let fine = |from: &str, name: &str| file(from, name).map(|(path, text)| (path, text.replace("bad\n", "")));
    let jobs = parse(text, "j.fio", &Outside { file: &fine, ..Outside::NOTHING }).unwrap().jobs;
    assert_eq!((jobs[0].name.as_str(), jobs[0].spec.iodepth, jobs[0].spec.rw.to_string().as_str()), ("x", 3, "read"));
    assert_eq!(jobs[0].spec.bs.read, BlockSize::Fixed(8192));
    let error = parse("include again\n", "j.fio", &outside).unwrap_err().to_string();
    assert_eq!(error, "again:1: include again: more than 16 files include each other");
}

/// However a command line is pasted, it is the job file of the same options.
#[test]
fn a_command_line_is_a_job_file() {
    let expected =
        read("[global]\nfilename=/dev/sdq\nrw=randrw\ndirect=1\n[iops]\nbs=4k\nruntime=2\ntime_based\n").jobs;
    let plain = "fio --filename=/dev/sdq --rw=randrw --direct=1 --name=iops --bs=4k --runtime=2 --time_based";
    let wrapped = plain.replace(" --", " \\\n  --");
    for text in [
        plain.to_string(),
        format!("$ {plain}"),
        format!("[root@host ~]# {plain} --eta-newline=1 --output=x.json --output-format json"),
        format!("user@host:~$ sudo /usr/bin/{wrapped} | tee log"),
        plain.replace(" --", "\n> --"),
        plain.replace(" --", "\n  --"),
        plain.replace("--", "–").replace("/dev/sdq", "“/dev/sdq”"),
        plain.replace("--", "-"),
        plain.replace('=', " "),
        format!("{plain} > out.txt 2>&1"),
        format!("I ran this:\n\n{plain}\niops: (g=0): rw=randrw, bs=(R) 4096B-4096B\nfio-3.33\n"),
    ] {
        let jobs = read(&text).jobs;
        let of = |job: &FioJob| (job.name.clone(), job.spec.clone(), job.filenames.clone());
        assert_eq!(jobs.iter().map(of).collect::<Vec<_>>(), expected.iter().map(of).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn what_a_shell_was_told_is_no_part_of_a_job_file() {
    for text in [
        "$ cat j.fio\n[a]\nrw=randread\nbs=8k\n",
        "cat <<EOF > j.fio\n[a]\nrw=randread\nbs=8k\nEOF\nfio --output=x j.fio\n",
    ] {
        let jobs = read(text).jobs;
        assert_eq!((jobs.len(), jobs[0].spec.bs.read.clone()), (1, BlockSize::Fixed(8192)));
    }
    assert!(refused("[a]\ncat=1\n").contains("unknown option `cat`"));
}

#[test]
fn command_lines_have_several_jobs_files_and_variables() {
    let home = |name: &str| (name == "BS").then(|| "8k".to_string());
    let file = |_: &str, name: &str| Ok((name.to_string(), "[x]\niodepth=2\n[y]\niodepth=3\n".to_string()));
    let outside = Outside { variable: &home, file: &file };
    let text = "fio --bs=$BS --filename=$DISK --name=a --name=b --rw=write && fio mine.fio --section=y\n";
    let jobs = parse(text, "t", &outside).unwrap().jobs;
    let found: Vec<_> = jobs.iter().map(|j| (j.name.as_str(), j.stage, j.spec.iodepth, j.spec.fio_job)).collect();
    assert_eq!(found, [("a", 0, 1, Some(1)), ("b", 0, 1, Some(2)), ("y", 1, 3, Some(1))]);
    assert_eq!((jobs[1].spec.bs.read.clone(), jobs[1].filenames[0].as_str()), (BlockSize::Fixed(8192), "$DISK"));
    assert_eq!(read("fio --rw=read --size=1g --direct=1").jobs[0].name, "fio");
    assert_eq!(refused("fio --iodpeth=4 --name=a"), "j.fio:1: unknown option `iodpeth`; did you mean `iodepth`?");
    let notes = read("output:\n# ionice -c3 fio --name=a --direct=1 --size=1m\nbw=4\nmore\n").warnings;
    assert_eq!(
        notes[1].to_string(),
        "j.fio:2: ionice before fio is left out: give the job prioclass, nice or cpus_allowed"
    );
    assert_eq!(notes[0].text, "lines that are no fio command are left out: 3, the first \"output:\"");
}

#[test]
fn each_option_has_one_meaning() {
    let mut names: Vec<&str> = OPTIONS.iter().flat_map(|row| row.names()).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|w| w[0] == w[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn page(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(name)
}

#[test]
fn the_manual_has_the_table_of_all_options() {
    let page = page("fio-options.md");
    let written = std::fs::read_to_string(&page).unwrap();
    let (before, _) = written.split_once("| options |").expect("the page has the table");
    let made = format!("{before}{}", option_table());
    if std::env::var_os("DUMBWAITER_UPDATE_DOCS").is_some() {
        return std::fs::write(&page, &made).unwrap();
    }
    assert!(written == made, "docs/fio-options.md is not as the code says; DUMBWAITER_UPDATE_DOCS=1 writes it");
}

#[test]
fn the_manual_explains_every_option_of_a_job() {
    let scenarios = std::fs::read_to_string(page("scenario.md")).unwrap();
    for row in OPTIONS.iter().filter(|row| row.job().is_some()) {
        for name in row.names() {
            assert!(scenarios.contains(&format!("`{name}`")), "docs/scenario.md does not explain `{name}`");
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for deep in ["(".repeat(100_000), format!("(1{}", "^-1".repeat(100_000)), format!("({}1)", "-".repeat(100_000))] {
        assert!(refused(&format!("[a]\nsize={deep}\n")).ends_with("is nested too deeply"));
    }
}

const SAMPLE: &str = "[global]\nioengine=libaio\ndirect=1\ntime_based=1\nruntime=6\nrandseed=4\n[a]\nrw=randrw:8\nrwmixread=70\n\
bssplit=4k/50:8k/25:64k/25,4k/\noffset=10%\nsize=(256m*2)\nrate_iops=12,,5\nprio=4\ncpus_allowed=0-3\n[b]\nrw=read:-8k\nstonewall\n\
bsrange=1k-64k\nrandom_distribution=zoned:60/10:40/90\nread_iolog=x:y\nstartdelay=1s-2s\nthinktime=5000\nfsync=32\nsize=${HOME}\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_command_line_panics(words in prop::collection::vec("(--name=a|--bs=[0-9]k?|[-–]{0,2}[a-z$\"'\\\\{}();|>^ =]{0,8}|\n)", 0..12)) {
        let _ = parse(&format!("fio --rw=read {}", words.join(" ")), "j.fio", &Outside::NOTHING);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&String::from_utf8_lossy(&bytes), "j.fio", &Outside::NOTHING);
    }

    /// A valid file with a few bytes changed is refused, or gives jobs that build or are refused.
    #[test]
    fn no_mutation_panics(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 0..10)) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => { bytes.remove(at); }
                _ => bytes[at] = b"0123456789kmg%/:,.=-()[]\n"[byte as usize % 25],
            }
        }
        let home = |name: &str| (name == "HOME").then(|| "1g".to_string());
        if let Ok(file) = parse(&String::from_utf8_lossy(&bytes), "j.fio", &Outside { variable: &home, ..Outside::NOTHING }) {
            for job in file.jobs {
                let context = BuildContext { seed: 1, capacity_sectors: 8 << 21, first_sector: 0, job: 0, instance: 1, replicate: 0 };
                if let Ok(mut workload) = job.spec.build(context) {
                    for i in 0..20 {
                        workload.next(Nanos::from_secs(i));
                        workload.completed(Nanos::from_secs(i), 0, Nanos(1));
                    }
                }
            }
        }
    }
}
