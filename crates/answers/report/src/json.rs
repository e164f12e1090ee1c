//! Reads and writes documents of results.

use std::io::{Read, Write};
use std::path::Path;

use dumbwaiter_advise::{Document, ParseError};

use crate::file::{Error, write_file};

/// Largest result that is read.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// Writes the document's JSON to a file, completely or not at all.
pub fn write_json(document: &Document, path: &Path) -> Result<(), Error> {
    write_file(path, |out| out.write_all(document.to_json().as_bytes()))
}

/// Reads a document that [`write_json`] wrote.
pub fn read_json(path: &Path) -> Result<Document, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(RESULT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > RESULT_BYTES_MAX {
        return Err(failed(std::io::Error::other("more than 64 MiB; expected a result of `compare --json`")));
    }
    // A byte that is no text is no JSON either, and the parser names its place.
    Document::from_json(&String::from_utf8_lossy(&bytes)).map_err(|error| match error {
        ParseError::Json(source) => Error::Parse { path: path.to_path_buf(), source },
        ParseError::Schema { found, expected } => Error::Schema { path: path.to_path_buf(), found, expected },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;
    use serde_json::Value;

    #[test]
    fn json_has_the_keys_that_users_rely_on() {
        let v: Value = serde_json::from_str(&document().to_json()).unwrap();
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        insta::assert_snapshot!(keys(&v), @r"goal notes provenance ranking recommendation runs scenario schema title verdict versions");
        let run = &v["runs"][0];
        insta::assert_snapshot!(keys(run), @r"applications bandwidth completed completion cpu depth device device_counters duration_s ended_unix_ns energy errors fairness host_counters iops latency_cdf latency_nested_us latency_us ledger maps mb_per_s merges oldest_unfinished_s other phases_us read rejected replicate requests same_load scheduler scheduler_counters seed series started_unix_ns tasks tasks_omitted tenants time_parts_us unfinished variant via warmup_completed world write");
        let parts = ["latency_us", "read", "fairness", "cpu", "series"];
        let parts = parts.map(|part| format!("{part}: {}", keys(&run[part]))).join("\n");
        insta::assert_snapshot!(parts, @r"
        latency_us: known_to max mean p50 p95 p99 p99_9 samples stddev unfinished
        read: count iops known_to max mb_per_s mean p50 p95 p99 p99_9 samples stddev time_parts_us unfinished
        fairness: jain pv pv_share reversals_s share_error
        cpu: busy_s ctx_per_io irq_s poll_s scheduler_s submit_s sys_s us_per_io usr_s utilisation
        series: depth_device depth_scheduler interval_s iops mb_per_s p99_us pv tenants times
        ");
        insta::assert_snapshot!(keys(&run["tenants"][0]), @r"bandwidth count focus ideal_share iops latency_us mb_per_s name share time_parts_us weight");
        insta::assert_snapshot!(keys(&v["ranking"][0]), @r"can_be_set completion device keeps_throughput metrics raised_s rank replicates scheduler variant verdict via worth");
        let p99 = &v["ranking"][0]["metrics"]["focus_p99_us"];
        insta::assert_snapshot!(keys(p99), @r"at_least ci95 mean n p starved test verdict");
        let verdict = v["verdict"].as_object().unwrap().values().next().unwrap();
        for key in ["decision", "incumbent", "frontier", "why", "recommended", "confidence", "apply", "undo", "caveats"]
        {
            assert!(!verdict[key].is_null() || key == "recommended", "{key}: {verdict}");
        }
        insta::assert_snapshot!(keys(&verdict["frontier"][0]), @r"focus_mean_us focus_p99_us focus_requests latency_change scheduler throughput_change throughput_mb_s");
    }

    #[test]
    fn undefined_figures_in_lists_are_read_back() {
        let mut d = document();
        for series in d.runs.iter_mut().map(|run| &mut run.series) {
            // As in runs of the kernel's schedulers.
            for list in [&mut series.depth_scheduler, &mut series.depth_device, &mut series.mb_per_s, &mut series.iops]
            {
                list.push(f64::NAN);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write_json(&d, &path).unwrap();
        assert_eq!(read_json(&path).unwrap().to_json(), d.to_json());
    }

    #[test]
    fn documents_read_back_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let d = document();
        write_json(&d, &path).unwrap();
        assert_eq!(read_json(&path).unwrap().to_json(), d.to_json());
    }

    #[test]
    fn files_that_are_not_documents_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        assert!(matches!(read_json(&path), Err(Error::Read { .. })));
        std::fs::write(&path, "{\"schema\": 9}").unwrap();
        assert!(matches!(read_json(&path), Err(Error::Schema { found: 9, .. })));
        std::fs::write(&path, "{\"schema\": 1, \"runs\": 3}").unwrap();
        let message = read_json(&path).unwrap_err().to_string();
        assert!(message.contains("r.json"), "{message}");
    }
}
