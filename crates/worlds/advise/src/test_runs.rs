//! Results whose figures tests set or know.

use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
use dumbwaiter_measure::{Completed, Recorder, RecorderConfig, RunFacts, RunResult};

/// A read by the first task of the first tenant, for which the scheduler did not wait.
pub(crate) fn read(submit: Nanos, latency: Nanos, bytes: u64) -> Completed {
    Completed {
        op: Op::Read,
        task: TaskId(0),
        tenant: TenantId(0),
        sector: 0,
        bytes,
        submit,
        insert: submit,
        issue: submit,
        device_done: submit + latency,
        complete: submit + latency,
    }
}

/// A run of one second with `reads` reads of 100 us, 10 us apart, whose figures the tests then set.
pub(crate) fn template(reads: u64) -> RunResult {
    let config = RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_secs(1), tenants: vec![], tasks: vec![] };
    let mut recorder = Recorder::new(config);
    for i in 0..reads {
        recorder.record(&read(Nanos::from_us(i * 10), Nanos::from_us(100), 4096));
    }
    recorder.finish(Nanos::from_secs(1), RunFacts { device: "d".into(), ..RunFacts::default() })
}
