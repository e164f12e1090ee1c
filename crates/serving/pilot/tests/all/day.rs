//! A day, and random days, with everything going wrong now and then: never a wrong write.

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::By;
use dumbwaiter_pilot::Action;
use proptest::prelude::*;

use crate::fake::{FaultRates, Load, Random, World};

/// Rates of trouble of the disks, in a million turns.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    faults: FaultRates,
    load_changes: u64,
    vanishes: u64,
    crashes: u64,
    administrator: u64,
}

const NAMES: [&str; 3] = ["a", "b", "bystander"];

/// Runs two disks, and one that is not in the configuration, for so long. Whatever happens, the judge of each disk looks at
/// every write.
fn live(seed: u64, length: Nanos, trouble: Trouble, acts: bool) -> World {
    let mut world = World::new(seed, &NAMES, 2, acts, By::Both);
    let mut random = Random(seed ^ 0x5eed);
    world.run(length, |world| {
        for name in NAMES {
            let mut disk = world.disk(name);
            disk.rates = trouble.faults;
            if random.chance(trouble.load_changes) {
                disk.load = [Load::Idle, Load::Random, Load::Streams][(random.next() % 3) as usize];
            }
            if random.chance(trouble.vanishes) {
                disk.vanish();
            }
            if !disk.present && random.chance(50_000) {
                disk.appear();
            }
            if disk.present && random.chance(trouble.administrator) {
                let (attribute, value) =
                    [("scheduler", "none"), ("scheduler", "kyber"), ("nr_requests", "64"), ("iosched/fifo_batch", "3")]
                        [(random.next() % 4) as usize];
                disk.administrator_sets(attribute, value);
            }
            if random.chance(trouble.crashes) {
                disk.crash_in = Some((random.next() % 50) as u32 + 1);
            }
        }
        restart_a_dead_one(world);
        if random.chance(trouble.administrator) {
            world.fleet.resume("a");
        }
    });
    world.check();
    world
}

/// One process pilots all disks.
fn restart_a_dead_one(world: &mut World) {
    if NAMES.iter().any(|name| world.disk(name).crashed) {
        NAMES.iter().for_each(|name| world.disk(name).crashed = true);
        world.restart();
    }
}

/// Ends it in good order. What was found is back, unless another user, or a disk that went away, came in between.
fn end(mut world: World) {
    for name in NAMES {
        let mut disk = world.disk(name);
        (disk.rates, disk.crash_in) = (FaultRates::default(), None);
    }
    restart_a_dead_one(&mut world);
    let foreign: Vec<bool> = NAMES.iter().map(|name| world.disk(name).foreign).collect();
    world.finish();
    world.check();
    let status = world.fleet.status(world.now);
    let hands_off = status.devices.iter().filter(|device| device.state_name() == "hands-off");
    let hands_off: Vec<String> = hands_off.map(|device| device.device.clone()).collect();
    for (name, foreign) in NAMES.iter().zip(foreign) {
        let disk = world.disk(name);
        assert_eq!(disk.journal, None, "{name}");
        if *name == "bystander" {
            assert_eq!(disk.writes, []);
        }
        // A rounded value that could not be read back is not told from another user's: it is left alone.
        let left = foreign || (disk.rounded && hands_off.contains(&name.to_string()));
        if disk.present && !left {
            assert_eq!(disk.values, disk.found, "{name}");
        }
    }
}

#[test]
fn a_day_with_faults_passes_without_a_wrong_write() {
    let trouble = Trouble {
        faults: FaultRates { read: 2_000, write: 20_000, lost: 5_000 },
        load_changes: 2_000,
        vanishes: 100,
        crashes: 100,
        administrator: 50,
    };
    let world = live(42, Nanos::from_secs(24 * 3600), trouble, true);
    let count = |wanted: Action| world.decisions.iter().filter(|(_, action, _)| *action == wanted).count();
    // It was a day of work, not one of standing aside.
    assert!(count(Action::Switch) > 100, "{} switches", count(Action::Switch));
    assert!(count(Action::HandsOff) > 0 && count(Action::Failed) > 10 && count(Action::Missing) > 0);
    end(world);
}

#[test]
fn a_day_of_advice_writes_nothing() {
    let trouble = Trouble {
        faults: FaultRates { read: 2_000, write: 0, lost: 5_000 },
        load_changes: 5_000,
        vanishes: 100,
        crashes: 50,
        administrator: 200,
    };
    let world = live(43, Nanos::from_secs(24 * 3600), trouble, false);
    assert!(NAMES.iter().all(|name| world.disk(name).writes.is_empty()));
    end(world);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_goes_wrong_no_write_is_wrong(
        seed in any::<u64>(),
        read in 0u64..100_000,
        write in 0u64..300_000,
        lost in 0u64..100_000,
        load_changes in 0u64..50_000,
        vanishes in 0u64..5_000,
        crashes in 0u64..5_000,
        administrator in 0u64..3_000,
    ) {
        let faults = FaultRates { read, write, lost };
        let trouble = Trouble { faults, load_changes, vanishes, crashes, administrator };
        end(live(seed, Nanos::from_secs(20 * 60), trouble, true));
    }
}
