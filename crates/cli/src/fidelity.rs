//! `fidelity`: our schedulers against recordings of the kernel's.

use std::path::Path;

use anyhow::Result;
use dumbwaiter_fidelity::recording::Recording;
use dumbwaiter_fidelity::{call_by_call, compare, free_running, kernel_order, scheduler_of};
use dumbwaiter_report::{Align, table};
use dumbwaiter_schedulers::Choice;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args::Fidelity;
use crate::{Ended, closed_loop, output};

/// A recording with its score.
struct Scored {
    json: Value,
    scheduler: String,
    agreement: Option<f64>,
    explanation: Option<String>,
}

impl Scored {
    fn is_unsupported(&self) -> bool {
        self.json["unsupported"] == true
    }

    /// Whether the recording has no request to compare.
    fn is_empty(&self) -> bool {
        self.agreement.is_none() && !self.is_unsupported()
    }
}

/// Replays every recording and prints or writes the scores.
pub(crate) fn run(args: &Fidelity) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if args.closed_loop {
        return closed_loop::run(args);
    }
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(jobs) = args.jobs {
        pool = pool.num_threads(jobs);
    }
    let pool = pool.build()?;
    let scored: Vec<Result<Scored>> =
        pool.install(|| args.files.par_iter().with_max_len(1).map(|path| score(path, args.explain)).collect());
    let scored: Vec<Scored> = scored.into_iter().collect::<Result<_>>()?;
    let document = json!({
        "files": scored.iter().map(|s| s.json.clone()).collect::<Vec<_>>(),
        "summary": summary(&scored),
    });
    match &args.json {
        Some(path) => output::write_json(path, &document)?,
        None => output::print(&text(&scored))?,
    }
    for s in &scored {
        if let Some(explanation) = &s.explanation {
            crate::tell!("{explanation}");
        } else if args.explain.is_some() {
            crate::tell!("{}: it has fewer differences", s.json["file"].as_str().unwrap_or_default());
        }
    }
    let empty: Vec<&str> = scored.iter().filter(|s| s.is_empty()).filter_map(|s| s.json["file"].as_str()).collect();
    if empty.is_empty() {
        return Ok(Ended::Done);
    }
    crate::tell!(
        "dumbwaiter: nothing to compare: no request in {}; record a device while it is used",
        empty.join(", ")
    );
    Ok(Ended::Failed)
}

fn score(path: &Path, explain: Option<u64>) -> Result<Scored> {
    let recording = Recording::open(path)?;
    let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let scheduler = recording.scheduler.clone();
    let Some(ours) = scheduler_of(&recording) else {
        let json = json!({
            "file": file, "scheduler": scheduler, "kernel": recording.kernel, "unsupported": true,
        });
        return Ok(Scored { json, scheduler, agreement: None, explanation: None });
    };
    let choice = Choice::parse(&ours.to_string())?;
    let make = |setup| choice.build(setup);
    let calls = call_by_call(&recording, &make, explain);
    let free = compare(&kernel_order(&recording), &free_running(&recording, &make));
    let order = free.order;
    // Without a request, no answer was right or wrong.
    let compared = calls.dispatches > 0;
    let agreement = compared.then(|| calls.agreement());
    let json = json!({
        "file": file,
        "scheduler": scheduler,
        "kernel": recording.kernel,
        "calls": calls.calls(),
        "call_agreement": agreement,
        "dispatch_agreement": compared.then(|| calls.dispatch_agreement()),
        "none_agreement": compared.then(|| calls.none_agreement()),
        "differences": calls.differences.len(),
        "identical_share": order.map(|o| o.identical_share),
        "kendall_tau_distance": order.map(|o| o.kendall_tau_distance),
        "mean_displacement": order.map(|o| o.mean_displacement),
        "missing": free.missing,
        "extra": free.extra,
        "first_difference": calls.differences.first(),
    });
    Ok(Scored { json, scheduler, agreement, explanation: calls.explanation })
}

/// Per scheduler: files, median and worst call agreement; `null` where it is unsupported.
fn summary(scored: &[Scored]) -> Vec<Value> {
    let mut names: Vec<&str> = scored.iter().map(|s| s.scheduler.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &str| {
        let mut shares: Vec<f64> = scored.iter().filter(|s| s.scheduler == name).filter_map(|s| s.agreement).collect();
        shares.sort_by(f64::total_cmp);
        let n = shares.len();
        let median = match n {
            0 => None,
            n if n % 2 == 1 => Some(shares[n / 2]),
            n => Some((shares[n / 2 - 1] + shares[n / 2]) / 2.0),
        };
        let files = scored.iter().filter(|s| s.scheduler == name).count();
        let unsupported = scored.iter().filter(|s| s.scheduler == name).all(Scored::is_unsupported);
        json!({ "scheduler": name, "files": files, "median": median, "worst": shares.first(), "unsupported": unsupported })
    };
    names.into_iter().map(of).collect()
}

fn text(scored: &[Scored]) -> String {
    let percent = |v: &Value| v.as_f64().map_or("–".to_owned(), |s| format!("{:.3} %", s * 100.0));
    let rows: Vec<Vec<String>> = scored
        .iter()
        .map(|s| {
            let j = &s.json;
            if s.agreement.is_none() {
                let why = if s.is_unsupported() { "unsupported" } else { "nothing to compare" };
                return vec![plain(&j["file"]), plain(&j["kernel"]), why.to_owned()];
            }
            vec![
                plain(&j["file"]),
                plain(&j["kernel"]),
                output::grouped(j["calls"].as_u64().unwrap_or_default()),
                percent(&j["call_agreement"]),
                plain(&j["differences"]),
                percent(&j["identical_share"]),
                j["kendall_tau_distance"].as_f64().map_or("–".to_owned(), |k| format!("{k:.6}")),
                j["mean_displacement"].as_f64().map_or("–".to_owned(), |k| format!("{k:.2}")),
                plain(&j["missing"]),
                plain(&j["extra"]),
            ]
        })
        .collect();
    let header = [
        ("recording", Align::Left),
        ("kernel", Align::Left),
        ("calls", Align::Right),
        ("same answer", Align::Right),
        ("differ", Align::Right),
        ("free: same place", Align::Right),
        ("Kendall", Align::Right),
        ("displaced", Align::Right),
        ("missing", Align::Right),
        ("extra", Align::Right),
    ];
    let mut text = table(&header, &rows, output::style());
    text.push('\n');
    for s in summary(scored) {
        text += &format!(
            "{}: {} recordings, median {}, worst {}\n",
            plain(&s["scheduler"]),
            s["files"],
            percent(&s["median"]),
            percent(&s["worst"])
        );
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
