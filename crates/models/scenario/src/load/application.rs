//! Results of applications: start-up times of programs, frames of players.

use dumbwaiter_block::{Nanos, TaskId};
use dumbwaiter_measure::{ApplicationStats, PlayerStats, StartUpStats, TaskSpec, TenantSpec};
use dumbwaiter_workloads::ApplicationOutcome;

/// Statistics of the [outcomes](crate::load::RunningLoad::outcomes) of a run; `tasks` and `tenants` are those of its load.
pub fn applications(
    outcomes: Vec<(TaskId, ApplicationOutcome)>,
    tasks: &[TaskSpec],
    tenants: &[TenantSpec],
) -> Vec<ApplicationStats> {
    let of_task = |(task, outcome): (TaskId, _)| {
        let TaskSpec { name, tenant, .. } = &tasks[task.0 as usize];
        application(name, &tenants[tenant.0 as usize].name, outcome)
    };
    outcomes.into_iter().map(of_task).collect()
}

/// Statistics of the task `name`, which started in `tenant`.
fn application(name: &str, tenant: &str, outcome: ApplicationOutcome) -> ApplicationStats {
    let (kind, start_up, player) = match outcome {
        ApplicationOutcome::StartUps { kind, timeout, started, not_started, cut_off } => {
            let started = started.into_iter().map(Nanos::as_secs_f64).collect();
            let cut_off = cut_off.into_iter().map(Nanos::as_secs_f64).collect();
            (kind, Some(StartUpStats::new(started, not_started, cut_off, timeout.as_secs_f64())), None)
        }
        ApplicationOutcome::Frames { kind, frames, missed, batches } => {
            let batches = batches.into_iter().map(Nanos::as_us_f64).collect();
            (kind, None, Some(PlayerStats::new(frames, missed, batches)))
        }
    };
    ApplicationStats { name: name.to_owned(), tenant: tenant.to_owned(), kind: kind.to_owned(), start_up, player }
}
