//! A pilot where all goes well: it finds the better settings, keeps its limits, puts back.

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::By;
use dumbwaiter_pilot::{Action, Store, Wanted};

use crate::fake::{Load, World};

const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn trials_find_the_better_scheduler_and_the_end_puts_back_what_was_found() {
    let mut world = World::new(1, &["a"], 1, true, By::Both);
    let found = world.disk("a").values.clone();
    world.disk("a").load = Load::Streams;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "bfq", "{:?}", world.decisions);
    world.disk("a").load = Load::Random;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "mq-deadline");
    assert_eq!(world.finish(), Vec::<String>::new());
    assert_eq!(world.disk("a").values, found);
    assert_eq!(world.disk("a").journal, None);
    world.check();
}

/// The scheduler, and the target of write-back throttling.
fn in_force(world: &World) -> (String, String) {
    let disk = world.disk("a");
    (disk.scheduler().to_owned(), disk.values["wbt_lat_usec"].clone())
}

#[test]
fn write_back_throttling_is_a_candidate_where_it_is_named_and_comes_back() {
    let mut world = World::new(1, &["a"], 1, true, By::Trial);
    let names = ["mq-deadline", "bfq", "mq-deadline+wbt=off"];
    world.config.devices[0].candidates = names.iter().map(|name| Wanted::parse(name).unwrap()).collect();
    world.restart();
    let found = world.disk("a").values.clone();
    world.disk("a").wbt_wanted = vec!["0"];
    world.disk("a").load = Load::WriteBack;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(in_force(&world), ("mq-deadline".to_owned(), "0".to_owned()));
    // bfq is compared without it, as it is by default.
    world.disk("a").load = Load::Streams;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(in_force(&world), ("bfq".to_owned(), "0".to_owned()));
    world.disk("a").load = Load::Random;
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").scheduler(), "mq-deadline");
    assert_eq!(world.finish(), Vec::<String>::new());
    assert_eq!(world.disk("a").values, found);
    world.check();
}

#[test]
fn a_scheduler_that_somebody_sets_while_the_journal_is_flushed_stays() {
    let mut world = World::new(1, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Streams;
    world.disk("a").set_while_noted = Some("kyber");
    world.run(Nanos(5 * MINUTE.0), |_| ());
    assert!(world.disk("a").foreign, "the pilot wanted no exchange");
    assert_eq!(world.disk("a").scheduler(), "kyber", "{:?}", world.decisions);
    assert!(world.decisions.iter().any(|(_, action, _)| *action == Action::HandsOff));
    world.finish();
    assert_eq!(world.disk("a").scheduler(), "kyber");
    world.check();
}

#[test]
fn a_pilot_that_is_started_again_needs_no_trials_of_loads_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let mut world = World::new(1, &["a"], 1, true, By::Both);
    for load in [Load::Random, Load::Streams] {
        world.disk("a").load = load;
        world.run(Nanos(5 * MINUTE.0), |_| ());
    }
    for (device, learned) in world.fleet.learned(world.now) {
        store.keep(device, &learned).unwrap();
    }
    world.finish();
    world.restart();
    world.fleet.recall(&store, |why| panic!("{why}"));
    let known = world.decisions.len();
    world.run(MINUTE, |_| ());
    let switches: Vec<_> = world.decisions[known..].iter().filter(|(_, action, _)| *action == Action::Switch).collect();
    assert_eq!((switches.len(), world.disk("a").scheduler()), (1, "bfq"), "{switches:?}");
    world.check();
}

#[test]
fn advice_writes_nothing_and_names_the_scheduler_that_the_table_expects() {
    let mut world = World::new(2, &["a"], 1, false, By::Both);
    world.disk("a").administrator_sets("scheduler", "none");
    world.disk("a").foreign = false;
    world.run(MINUTE, |_| ());
    let status = world.fleet.status(world.now);
    assert!(status.devices[0].advice_only.is_some());
    assert_eq!(world.disk("a").writes, []);
    world.finish();
    assert_eq!(world.disk("a").writes, []);
    assert_eq!(world.disk("a").scheduler(), "none");
    world.check();
}

#[test]
fn loads_that_alternate_faster_than_they_are_confirmed_cause_no_exchange() {
    let mut world = World::new(3, &["a"], 1, true, By::Both);
    let phase = |world: &mut World| {
        let load = if (world.now.0 / 1_500_000_000).is_multiple_of(2) { Load::Random } else { Load::Streams };
        world.disk("a").load = load;
    };
    world.run(Nanos(10 * MINUTE.0), phase);
    let exchanges = world.decisions.iter().filter(|(_, action, _)| *action == Action::Switch).count();
    assert!(exchanges <= 20, "{exchanges}");
    world.check();
}

#[test]
fn a_steady_hour_settles() {
    let mut world = World::new(4, &["a"], 1, true, By::Both);
    world.run(Nanos(10 * MINUTE.0), |_| ());
    let settled = world.disk("a").writes.len();
    world.run(Nanos(60 * MINUTE.0), |_| ());
    let after = world.disk("a").writes.len();
    assert!(after <= settled + 1, "{settled} {after}");
    world.check();
}

#[test]
fn exchanges_in_an_hour_have_a_limit_whatever_the_load() {
    let mut world = World::new(5, &["a"], 1, true, By::Trial);
    world.config.devices[0].exchanges_per_hour = 12;
    world.restart();
    world.run(Nanos(60 * MINUTE.0), |world| {
        let load = if (world.now.0 / 60_000_000_000).is_multiple_of(2) { Load::Random } else { Load::Streams };
        world.disk("a").load = load;
    });
    let exchanges = world.decisions.iter().filter(|(_, action, _)| *action == Action::Switch).count();
    assert!((1..=12).contains(&exchanges), "{exchanges}");
    world.check();
}

#[test]
fn a_resting_disk_is_left_alone() {
    let mut world = World::new(6, &["a"], 1, true, By::Both);
    world.disk("a").load = Load::Idle;
    world.run(Nanos(30 * MINUTE.0), |_| ());
    assert_eq!(world.disk("a").writes, []);
    assert!(world.decisions.iter().skip(1).all(|(_, action, reason)| (*action, *reason) == (Action::Keep, "idle")));
}
