//! Faults: no permission, no tracefs, no disk, other users, values that are refused. Each has a reason that can be read.

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::By;
use dumbwaiter_pilot::{Action, State};

use crate::fake::{FaultRates, Load, World};

const MINUTE: Nanos = Nanos::from_secs(60);

fn state(world: &World) -> State {
    world.fleet.devices().next().unwrap().state().clone()
}

fn explain(world: &World) -> String {
    world.fleet.status(world.now).devices[0].explain()
}

/// A pilot that has changed the settings.
fn acting(seed: u64) -> World {
    let mut world = World::new(seed, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Streams;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "bfq");
    world
}

#[test]
fn another_users_change_is_respected_for_ever() {
    for (attribute, value) in [("scheduler", "kyber"), ("nr_requests", "64"), ("iosched/slice_idle", "0")] {
        let mut world = acting(1);
        world.disk("a").administrator_sets(attribute, value);
        let left = world.disk("a").values.clone();
        world.run(Nanos(30 * MINUTE.0), |_| ());
        assert!(matches!(state(&world), State::HandsOff { .. }), "{attribute}");
        assert!(explain(&world).contains("another user changed"), "{}", explain(&world));
        let told = world.decisions.iter().filter(|(_, action, _)| *action == Action::HandsOff).count();
        assert_eq!(told, 1, "it is said once");
        world.finish();
        assert_eq!(world.disk("a").values, left);
        world.check();
    }
}

#[test]
fn a_change_just_before_the_end_is_respected() {
    let mut world = acting(2);
    world.disk("a").administrator_sets("scheduler", "none");
    world.finish();
    assert_eq!(world.disk("a").scheduler(), "none");
    assert_eq!(world.disk("a").journal, None);
    world.check();
}

#[test]
fn a_change_beside_a_write_that_could_not_be_read_back_is_respected() {
    let mut world = acting(14);
    world.disk("a").unreadable_after = Some("nr_requests");
    world.disk("a").load = Load::Random;
    let mut changed = false;
    world.run(Nanos(5 * MINUTE.0), |world| {
        let mut disk = world.disk("a");
        if !changed && disk.writes.last().is_some_and(|(_, attribute, _)| attribute == "nr_requests") {
            (disk.unreadable_after, changed) = (None, true);
            disk.administrator_sets("iosched/fifo_batch", "3");
        }
    });
    assert!(changed && matches!(state(&world), State::HandsOff { .. }), "{:?}", state(&world));
    world.finish();
    assert_eq!(world.disk("a").values["iosched/fifo_batch"], "3");
    world.check();
}

#[test]
fn a_disk_that_was_left_alone_is_taken_up_on_request() {
    let mut world = acting(3);
    world.disk("a").administrator_sets("scheduler", "none");
    world.run(MINUTE, |_| ());
    assert!(world.fleet.resume("a"));
    assert!(!world.fleet.resume("b"));
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!((world.disk("a").scheduler(), state(&world)), ("bfq", State::Acting));
    world.finish();
    assert_eq!(world.disk("a").scheduler(), "none", "as it was when the user asked");
    world.check();
}

#[test]
fn without_permission_it_only_advises() {
    let mut world = World::new(4, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Streams;
    world.disk("a").forbidden = true;
    world.run(Nanos(30 * MINUTE.0), |_| ());
    assert!(matches!(state(&world), State::NotPermitted { .. }));
    assert!(explain(&world).contains("EACCES"));
    assert_eq!(world.disk("a").writes.len(), 1, "one try");
    world.finish();
    world.check();
}

#[test]
fn what_was_set_before_permission_was_lost_stays_known_and_is_put_back() {
    let mut world = acting(10);
    let found = world.disk("a").found.clone();
    world.disk("a").forbidden = true;
    world.disk("a").load = Load::Random;
    world.run(Nanos(30 * MINUTE.0), |_| ());
    assert!(matches!(state(&world), State::NotPermitted { .. }));
    // Still not permitted: what is in force is not taken for what was found.
    assert!(world.fleet.resume("a"));
    world.run(MINUTE, |_| ());
    assert!(matches!(state(&world), State::NotPermitted { .. }));
    world.disk("a").forbidden = false;
    assert_eq!(world.finish(), Vec::<String>::new());
    assert_eq!(world.disk("a").values, found);
    world.check();
}

#[test]
fn what_was_learned_of_a_disk_that_went_away_is_kept() {
    let mut world = acting(11);
    let learned = world.fleet.learned(world.now).count();
    world.disk("a").vanish();
    world.run(MINUTE, |_| ());
    assert!(matches!(state(&world), State::Missing { .. }));
    assert_eq!((learned, world.fleet.learned(world.now).count()), (1, 1));
}

#[test]
fn a_pilot_that_was_stopped_for_a_while_draws_no_conclusion_from_it() {
    let mut world = acting(12);
    let (before, reverts) = (world.disk("a").writes.len(), world.fleet.status(world.now).devices[0].counts.reverts);
    for _ in 0..10 {
        // The disk rests while the pilot has no CPU.
        world.disk("a").load = Load::Idle;
        world.now += Nanos(3 * MINUTE.0);
        let now = world.now;
        world.disk("a").rest_until(now);
        world.disk("a").load = Load::Streams;
        world.run(Nanos::from_secs(20), |_| ());
    }
    let status = world.fleet.status(world.now);
    assert_eq!((world.disk("a").scheduler(), status.devices[0].counts.reverts), ("bfq", reverts));
    assert_eq!(world.disk("a").writes.len(), before);
    world.check();
}

#[test]
fn a_load_has_no_name_where_events_are_missing() {
    let class = |loses: u64| {
        let mut world = World::new(13, &["a"], 1, true, By::Both);
        let mut disk = world.disk("a");
        (disk.load, disk.loses, disk.shown) = (Load::Streams, loses, 80);
        drop(disk);
        world.run(Nanos::from_secs(5), |_| ());
        world.fleet.devices().next().unwrap().last().unwrap().class.clone()
    };
    assert!(class(0).is_some());
    assert_eq!(class(1), None, "one of 240: decided, but no window spans the place");
}

#[test]
fn without_tracefs_it_watches_decides_nothing_and_says_why() {
    let mut world = World::new(5, &["a"], 1, true, By::Both);
    world.disk("a").blind = Some("tracefs is not mounted".into());
    world.run(MINUTE, |_| ());
    assert_eq!(world.disk("a").writes, []);
    assert!(explain(&world).contains("tracefs is not mounted"));
    // It is mounted later.
    world.disk("a").blind = None;
    world.disk("a").load = Load::Streams;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "bfq");
}

#[test]
fn a_missing_disk_is_taken_up_when_it_appears_and_a_returning_one_anew() {
    let mut world = World::new(6, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Streams;
    world.disk("a").vanish();
    world.run(MINUTE, |_| ());
    assert!(matches!(state(&world), State::Missing { .. }));
    assert!(explain(&world).contains("no such device"));
    world.disk("a").appear();
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "bfq");
    // Away and back between two looks: another disk, whose settings are its own.
    world.disk("a").vanish();
    world.disk("a").appear();
    let found = world.disk("a").values.clone();
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "bfq");
    assert_eq!(world.finish(), Vec::<String>::new());
    assert_eq!(world.disk("a").values, found);
    world.check();
}

#[test]
fn a_value_that_the_kernel_refuses_is_not_tried_again() {
    let mut world = World::new(7, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Streams;
    world.disk("a").refuses = vec!["bfq".into(), "4".into()];
    world.run(Nanos(30 * MINUTE.0), |_| ());
    let tries = |value: &str| world.disk("a").writes.iter().filter(|(_, _, written)| written == value).count();
    assert_eq!((tries("bfq"), tries("4")), (1, 1));
    world.finish();
    world.check();
}

#[test]
fn lost_events_decide_nothing() {
    let mut world = World::new(8, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Streams;
    world.disk("a").rates = FaultRates { lost: 1_000_000, ..FaultRates::default() };
    world.run(Nanos(10 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").writes, []);
    assert!(world.decisions.iter().skip(1).all(|(_, _, reason)| *reason == "lost-events"));
}

#[test]
fn the_next_process_puts_back_what_a_dead_one_left_at_any_point() {
    for call in 1..60 {
        let mut world = World::new(9, &["a"], 1, true, By::Both);
        world.disk("a").load = Load::Streams;
        let found = world.disk("a").values.clone();
        world.run(Nanos::from_secs(8), |_| ());
        world.disk("a").crash_in = Some(call * 3);
        world.run(MINUTE, |_| ());
        world.restart();
        assert_eq!(world.disk("a").values, found, "dead at call {call}");
        world.check();
    }
}
