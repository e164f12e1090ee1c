//! Initial states of the flash, built without timing and shared by all devices of the same dimensions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ftl::{FRESH, Ftl, Shape, UNMAPPED};
use super::params::Params;
use crate::rng::Stage;

/// Seed of the states, which depend on the parameters alone and not on the seed of a run.
const SEED: u64 = 0x5ead;
/// Most states cached for further devices of the same dimensions.
const STATES_CACHED_MAX: usize = 2;
/// Relative difference of two successive windows below which write amplification is steady.
const STEADY_WITHIN: f64 = 0.02;
/// Most windows, each of half the logical space.
const WINDOWS_MAX: u32 = 16;

type StateCache = BTreeMap<String, Arc<Ftl>>;

static STATES: Mutex<StateCache> = Mutex::new(BTreeMap::new());

fn key(params: &Params) -> String {
    format!("{} {} {:?}", params.state, params.steady_kib, Shape::new(params))
}

/// The flash in the initial state `params.state`.
pub(crate) fn state(params: &Params) -> Ftl {
    let key = key(params);
    // Locked while a state is built, so that parallel replicates build it once.
    let mut states = STATES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = states.get(&key) {
        return Ftl::clone(kept);
    }
    let shape = Shape::new(params);
    match params.state.as_str() {
        "empty" => return Ftl::new(shape, UNMAPPED),
        "fresh" => return Ftl::new(shape, FRESH),
        _ => {}
    }
    let mut ftl = Ftl::new(shape, UNMAPPED);
    fill(&mut ftl);
    if params.state == "steady" {
        overwrite_until_steady(&mut ftl, units_at_once(params));
    }
    insert(&mut states, key, ftl.clone());
    ftl
}

fn insert(states: &mut StateCache, key: String, ftl: Ftl) {
    if !states.contains_key(&key) && states.len() >= STATES_CACHED_MAX {
        states.pop_first();
    }
    states.insert(key, Arc::new(ftl));
}

/// Writes every unit once, in order, with program units round-robin over the dies.
pub(crate) fn fill(ftl: &mut Ftl) {
    let Shape { dies, units_per_program, logical_units, .. } = ftl.shape;
    for unit in 0..logical_units {
        let (die, _) = die_with_room(ftl, unit / units_per_program % dies);
        ftl.append(die, unit);
    }
}

/// Units of an overwrite on the way to the steady state.
pub(crate) fn units_at_once(params: &Params) -> u32 {
    ((params.steady_kib / 4.0) as u32).max(1)
}

/// Overwrites at random, `at_once` units each, until the write amplification is steady; returns it.
pub(crate) fn overwrite_until_steady(ftl: &mut Ftl, at_once: u32) -> f64 {
    let Shape { dies, units_per_program, logical_units, .. } = ftl.shape;
    let draw = Stage::new(SEED, 1);
    let window = u64::from(logical_units / 2).max(1);
    let mut before = 0.0;
    for round in 0..u64::from(WINDOWS_MAX) {
        let mut moved = 0;
        for n in round * window..(round + 1) * window {
            let turn = (n / u64::from(units_per_program) % u64::from(dies)) as u32;
            let (die, units) = die_with_room(ftl, turn);
            moved += units;
            let (places, place) = (logical_units.div_ceil(at_once), n / u64::from(at_once));
            let first = ((u128::from(draw.bits(place)) * u128::from(places)) >> 64) as u32 * at_once;
            let unit = first + (n % u64::from(at_once)) as u32;
            ftl.append(die, unit.min(logical_units - 1));
        }
        let amplification = 1.0 + moved as f64 / window as f64;
        if round > 2 && (amplification - before).abs() <= STEADY_WITHIN * before {
            return amplification;
        }
        before = amplification;
    }
    before
}

/// Fewest free blocks with which a die can go on: one that collection moves units to, and one for what is written.
const FREE_LEAST: u32 = 2;

/// The die for the next unit, after its collection, and the units that this moved: the one whose `turn` it is, or the next that can be collected.
/// Overwrites at random move valid units among the dies, and a die that holds nothing else would collect without end.
fn die_with_room(ftl: &mut Ftl, turn: u32) -> (u32, u64) {
    let mut moved = 0;
    // The dies together have room beside the fewest free blocks, so one of them ends the search.
    for free in [ftl.shape.low, FREE_LEAST] {
        for die in (turn..ftl.shape.dies).chain(0..turn) {
            if make_room(ftl, die, free, &mut moved) {
                return (die, moved);
            }
        }
    }
    (turn, moved)
}

/// Collects garbage before a block must be opened, until `free` blocks are free; whether that succeeds.
fn make_room(ftl: &mut Ftl, die: u32, free: u32, moved: &mut u64) -> bool {
    while ftl.is_full(die) && ftl.free_blocks(die) < free {
        if ftl.has_no_garbage(die) {
            return false;
        }
        *moved += u64::from(ftl.collect(die).units);
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A small drive with few spare blocks.
    fn params(over_provisioning: f64, channels: u32, ftl_gib: f64, gc_low: f64) -> Params {
        let name = format!(
            "ssd:sata-mlc?channels={channels}&planes=1&pages_per_block=8&ftl_gib={ftl_gib}&over_provisioning={over_provisioning}&\
             gc_low={gc_low}&gc_high=0.9&state=steady"
        );
        match crate::load(&name).unwrap().params() {
            crate::Params::Ssd(params) => params.clone(),
            _ => unreachable!("an SSD"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Preconditioning ends, for any share of spare space, and leaves every unit in one place and room on each die that is written next.
        #[test]
        fn preconditioning_ends(
            over_provisioning in 0.02..0.6_f64,
            channels in 1..12u32,
            ftl_gib in 0.01..0.08_f64,
            gc_low in 0.005..0.85_f64,
        ) {
            let mut ftl = Ftl::new(Shape::new(&params(over_provisioning, channels, ftl_gib, gc_low)), UNMAPPED);
            fill(&mut ftl);
            let amplification = overwrite_until_steady(&mut ftl, 1);
            prop_assert!(amplification >= 1.0, "{amplification}");
            prop_assert!((0..ftl.shape.logical_units).all(|unit| ftl.lookup(unit) < UNMAPPED));
        }
    }
}
