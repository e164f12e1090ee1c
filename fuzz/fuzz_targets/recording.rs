//! A dispatch recording of any bytes: rows behind the first NUL, the description before it. What is read is replayed through
//! our scheduler, or our controller; an error or a score, never a panic.
#![no_main]

use std::path::Path;

use dumbwaiter_fidelity::controllers::{Events, Recorded};
use dumbwaiter_fidelity::{Recording, call_by_call, compare, free_running, kernel_order, scheduler_of};
use dumbwaiter_schedulers::Choice;
use libfuzzer_sys::fuzz_target;

const HEADER: &[u8] = b"ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu";

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|b| *b == 0).unwrap_or(0);
    let (description, rows) = bytes.split_at(at);
    let description: &[u8] = match description {
        [] => br#"{"scheduler":"mq-deadline","kernel":"6.12"}"#,
        given => given,
    };
    // Most inputs get past the header, which never changes.
    let mut text = HEADER.to_vec();
    let rows = rows.get(1..).unwrap_or_default();
    // Rows behind a `+` name their group.
    let (group, rows) = rows.strip_prefix(b"+").map_or((&b""[..], rows), |rows| (b",group", rows));
    text.extend([group, b"\n", rows].concat());
    if let Ok(about) = serde_json::from_slice(description) {
        let kinds = Recorded::beside_scheduler(&about).unwrap_or_default();
        let kinds: Vec<Recorded> = kinds.into_iter().chain(Recorded::of(&about)).collect();
        let read = Events::read(Path::new("r.csv"), text.as_slice(), Path::new("r.json"), about);
        let _ = read.map(|events| kinds.iter().for_each(|kind| _ = kind.score(&events, Some(1))));
    }
    let Ok(recording) = Recording::read(Path::new("r.csv"), text.as_slice(), Path::new("r.json"), description) else {
        return;
    };
    let Some(ours) = scheduler_of(&recording) else { return };
    let Ok(choice) = Choice::parse(&ours.to_string()) else { return };
    let make = |setup| choice.scheduler(setup);
    let calls = call_by_call(&recording, &make, Some(1));
    assert!((0.0..=1.0).contains(&calls.agreement()));
    let _ = compare(&kernel_order(&recording), &free_running(&recording, &make));
});
