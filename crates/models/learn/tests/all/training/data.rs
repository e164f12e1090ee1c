//! Reading recorded runs.

use std::fs;
use std::path::Path;

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::training::data::DataSet;
use dumbwaiter_learn::training::features::rows_by_run;
use dumbwaiter_learn::training::task::Task;

const HEADER: &str = "seg,t_us,op,rwbs,sector,bytes,wait_us,lat_us,qd,tag,ino,who\n";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if name.ends_with(".zst") {
            fs::write(path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        } else {
            fs::write(path, text).unwrap();
        }
    }
    folder
}

fn refusal(text: &str) -> String {
    let folder = folder(&[("r1/readseq.csv", text)]);
    DataSet::read(folder.path(), &[]).unwrap_err().to_string()
}

#[test]
fn a_line_becomes_a_record() {
    let text = format!(
        "{HEADER}0,0,R,RA,8654880,4096,17,140,0,13,262154,db_bench\n0,930,W,WSM,4456624,4096,235,81,1,12,0,jbd2\n\
         1,1041,F,FF,0,0,-1,164,0,0,0,kworker\n"
    );
    let folder = folder(&[("r1/readseq.csv.zst", &text), ("runs.csv", "repeat\nr1\n")]);
    let data = DataSet::read(folder.path(), &[]).unwrap();
    assert_eq!(data.repeats(), ["r1"]);
    let run = &data.runs[0];
    assert_eq!((run.name().as_str(), run.class(), run.segments.len()), ("r1/readseq", Some(0), 2));
    let write = run.segments[0][1];
    assert_eq!((write.arrive, write.issue, write.complete), (Nanos(695_000), Nanos(930_000), Nanos(1_011_000)));
    assert_eq!((write.op, write.tag, write.depth, write.end()), (Op::Write, IoTag::JOURNAL, 1, 4_456_632));
    assert!(!run.segments[1][0].is_learnable());
}

#[test]
fn repeats_are_chosen_by_name() {
    let text = format!("{HEADER}0,0,R,RA,8,4096,1,1,0,13,0,a\n");
    let folder = folder(&[("r1/oltp.csv", &text), ("r2/oltp.csv", &text), ("r2/varmail.csv", &text)]);
    assert_eq!(DataSet::read(folder.path(), &["r2".to_owned()]).unwrap().runs.len(), 2);
    let missing = DataSet::read(folder.path(), &["r9".to_owned()]).unwrap_err().to_string();
    assert!(missing.contains("no repeat `r9`") && missing.contains("r1, r2"), "{missing}");
    // A repeat by itself is data too.
    assert_eq!(DataSet::read(&folder.path().join("r2"), &[]).unwrap().repeats(), ["r2"]);
}

#[test]
fn errors_name_the_file_the_line_and_what_is_wrong() {
    let line = |line: &str| refusal(&format!("{HEADER}{line}\n"));
    for (text, expected) in [
        (refusal(""), "line 1: the file is empty"),
        (refusal("a,b\n"), "no column `t_us`"),
        (line("0,0,X,RA,8,4096,1,1,0,13,0,a"), "line 2: op: `X`"),
        (line("0,0,R,RA,8,4096,1,1,0,24,0,a"), "tag: 24 is not 0 to 23"),
        (line("0,-5,R,RA,8,4096,1,1,0,13,0,a"), "t_us: -5 is below 0"),
        (line("0,0,R,RA,8,99999999999,1,1,0,13,0,a"), "bytes: 99999999999 is too large"),
        (line("0,0,R"), "only 3 fields"),
    ] {
        assert!(text.contains(expected) && text.contains("readseq.csv"), "{text}; expected {expected}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(DataSet::read(empty.path(), &[]).unwrap_err().to_string().contains("<repeat>/<workload>.csv.zst"));
    assert!(DataSet::read(Path::new("/no/such/folder"), &[]).is_err());
}

#[test]
fn runs_that_a_task_does_not_use_are_named_and_none_left_is_an_error() {
    let lines: String = (0..40).map(|i| format!("0,{},R,RA,{},4096,1,100,0,13,0,a\n", 200 * i, 8 * i)).collect();
    let (long, short) = (format!("{HEADER}{lines}"), format!("{HEADER}0,0,R,RA,8,4096,1,1,0,13,0,a\n"));
    let other = folder(&[("r1/overwrite.csv", &long), ("r1/mine.csv", &long)]);
    let rows = |folder: &tempfile::TempDir, task: Task| {
        rows_by_run(&DataSet::read(folder.path(), &[]).unwrap(), task, task.features())
    };
    let error = rows(&other, Task::Latency).unwrap_err().to_string();
    assert!(error.contains("r1/mine") && error.contains("r1/overwrite") && error.contains("varmail"), "{error}");
    let mixed = folder(&[("r1/overwrite.csv", &long), ("r1/oltp.csv", &long), ("r1/readseq.csv", &short)]);
    let found = rows(&mixed, Task::Latency).unwrap();
    let skipped: Vec<&str> = found.skipped.iter().map(|skipped| skipped.run.as_str()).collect();
    assert_eq!(
        (found.runs.len(), found.runs[0].run.as_str(), skipped),
        (1, "r1/oltp", vec!["r1/overwrite", "r1/readseq"])
    );
    assert!(found.skipped[1].why.contains("too few"), "{:?}", found.skipped);
    let error = rows(&mixed, Task::Classify).unwrap_err().to_string();
    assert!(error.contains("r1/oltp: the task classify covers"), "{error}");
}
