//! Deadlines in scenarios: refused I/Os are counted, nothing else counts them, and the others keep their deadline better.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

fn run(deadline: &str, scheduler: &str) -> RunResult {
    let text = format!(
        r#"
duration = "3s"
[[tenant]]
name = "clients"
{deadline}
[[tenant.task]]
name = "reader"
rw = "randread"
bs = "4k"
thinktime = "5ms"
[[tenant]]
name = "backup"
[[tenant.task]]
name = "scan"
rw = "randread"
bs = "64k"
iodepth = 16
"#
    );
    let scenario = Scenario::from_toml(&text, "test").unwrap();
    scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
    let model = dumbwaiter_devices::load("hdd:st1000dm003").unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

#[test]
fn a_tenant_with_a_deadline_is_refused_in_time() {
    for scheduler in ["none", "mq-deadline", "bfq"] {
        let (without, with) = (run("", scheduler), run("deadline = \"40ms\"", scheduler));
        assert_eq!(without.rejected, 0);
        assert!(with.rejected > 0, "{scheduler}");
        assert_eq!(with.ledger.rejected, with.rejected);
        assert_eq!(with.ledger.submitted, with.ledger.completed);
        assert_eq!((with.errors, with.requests), (0, with.warmup_completed + with.completed + with.unfinished));
        let count = |r: &RunResult| r.tenants[0].count;
        assert!(count(&with) > 0, "{scheduler}: probes at least");
        assert_eq!(with.rejected, run("deadline = \"40ms\"", scheduler).rejected, "one seed, one result");
    }
}

#[test]
fn a_scenario_keeps_its_deadlines() {
    let text = "duration = \"1s\"\n[[tenant]]\nname = \"a\"\ndeadline = \"10ms\"\n[[tenant.task]]\nname = \"t\"\nrw = \"randread\"\ndeadline = \"2ms\"\n";
    let scenario = Scenario::from_toml(text, "test").unwrap();
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);
    let zero = Scenario::from_toml(&text.replace("2ms", "0"), "test").unwrap();
    let why = zero.validate(&|_| Ok(()), &|_| Ok(())).unwrap_err().to_string();
    assert!(why.contains("a deadline of 0 refuses every I/O that waits"), "{why}");
}
