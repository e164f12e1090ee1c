//! The fio job-file reader on arbitrary bytes: a job, or an error that names its line; never a panic, and what it accepts
//! can be built and asked.
#![no_main]

use dumbwaiter_block::Nanos;
use dumbwaiter_workloads::fio;
use dumbwaiter_workloads::generate::BuildContext;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let environment = |name: &str| (name.len() < 8).then(|| "1m".to_string());
    match fio::parse(&text, "fuzz.fio", &fio::Outside { variable: &environment, ..fio::Outside::NOTHING }) {
        Err(error) => assert!(error.line >= 1 && !error.reason.is_empty()),
        Ok(file) => {
            for job in file.jobs.iter().take(2) {
                let context = BuildContext { seed: 1, capacity_sectors: 1 << 16, first_sector: 0, job: 0, instance: 1, replicate: 0 };
                let Ok(mut workload) = job.spec.build(context) else { continue };
                for second in 0..16 {
                    let _ = workload.next(Nanos::from_secs(second));
                    workload.completed(Nanos::from_secs(second), 0, Nanos(1));
                }
            }
        }
    }
});
