//! Keep what is set, or change it: the rule for one drive.

use super::field::{Answer, Doubt, Field};
use super::rates::Rates;
use super::short::too_short;
use super::{Decision, HARMFUL, LIKELY_GAIN, NEAR, USEFUL_GAIN};
use crate::conditions::{Conditions, KERNEL_SCHEDULERS, name_of};
use crate::confidence::Confidence;
use crate::metric::Metric;
use crate::usage::Usage;

/// Relative difference in processor time below which two schedulers cost the same.
const CPU_EQUAL_WITHIN: f64 = 0.05;

/// The place in the order of equals: the schedulers of kernels, then by name.
fn order(name: &str) -> (usize, &str) {
    let plain = name_of(name);
    let place = KERNEL_SCHEDULERS.iter().position(|known| *known == plain);
    (place.unwrap_or(KERNEL_SCHEDULERS.len()), name)
}

/// The row of what is set: by its name, through the kernel where that ran; `false` where it did not run, and the first in the fixed
/// order stands in for it.
pub(crate) fn incumbent(
    rows: &[(&str, &str)],
    name: Option<&str>,
    can_be_set: &dyn Fn(usize) -> bool,
) -> (usize, bool) {
    let kernel = rows.iter().any(|(_, via)| *via == "kernel");
    let fits = |i: &usize| !kernel || rows[*i].1 == "kernel";
    let named = name.and_then(|name| (0..rows.len()).filter(fits).find(|i| rows[*i].0 == name));
    if let Some(found) = named {
        return (found, true);
    }
    let first = |among: &dyn Fn(&usize) -> bool| {
        (0..rows.len()).filter(|i| among(i)).min_by(|a, b| order(rows[*a].0).cmp(&order(rows[*b].0)).then(a.cmp(b)))
    };
    let stands_in = first(&|i| fits(i) && can_be_set(*i)).or_else(|| first(&|_| true));
    (stands_in.unwrap_or(0), false)
}

/// Decides for one drive.
pub(crate) fn answer(field: &Field<'_>) -> Answer {
    let against = field.all_against(field.incumbent);
    let settable = field.settable();
    let alternatives: Vec<usize> =
        settable.iter().copied().filter(|i| *i != field.incumbent && against[*i].is_some()).collect();
    let usage = Usage::of(
        settable
            .iter()
            .chain([&field.incumbent])
            .flat_map(|i| field.groups[*i].iter().copied())
            .collect::<Vec<_>>()
            .into_iter(),
    );
    let mut found = Answer {
        pick: field.incumbent,
        decision: Decision::Keep,
        confidence: Confidence::Open,
        against,
        alternatives,
        settable,
        doubt: None,
        short: None,
        within_model_error: None,
        usage,
    };
    found.doubt = doubt(field, &found);
    match found.doubt {
        Some(Doubt::NoIo) => found.decision = Decision::TooShort,
        Some(_) => {}
        None => decide(field, &mut found),
    }
    found
}

fn doubt(field: &Field<'_>, found: &Answer) -> Option<Doubt> {
    let runs = || field.groups.iter().flatten();
    if runs().all(|run| run.read.count + run.write.count + run.other.count == 0) {
        return Some(Doubt::NoIo);
    }
    if field.rows.len() < 2 {
        return Some(Doubt::Alone);
    }
    if field.conditions.busy.is_some() {
        return Some(Doubt::Busy);
    }
    if found.settable.is_empty() {
        return Some(Doubt::NothingToSet);
    }
    found.alternatives.is_empty().then_some(Doubt::NothingElseToSet)
}

fn decide(field: &Field<'_>, found: &mut Answer) {
    let of = |i: usize| found.against[i].as_ref().expect("alternatives are compared");
    let worth: Vec<usize> = found
        .alternatives
        .iter()
        .copied()
        .filter(|i| of(*i).gain >= USEFUL_GAIN && of(*i).lo > -HARMFUL && !of(*i).same)
        .collect();
    let target = most_worth(field, &worth, &|i| of(i).gain);
    let short = too_short(field, found, target);
    if let Some(target) = target.filter(|_| short.is_none()) {
        found.decision = Decision::Change;
        found.pick = target;
        let clear = of(target).lo >= HARMFUL && of(target).n > 1;
        found.confidence = if clear { Confidence::Clear } else { Confidence::Likely };
        cap(field, found, &[target]);
        return;
    }
    if short.is_some() {
        (found.decision, found.short) = (Decision::TooShort, short);
        return;
    }
    let most = found.alternatives.iter().map(|i| of(*i).hi).fold(f64::NEG_INFINITY, f64::max);
    found.confidence = match most {
        most if most <= USEFUL_GAIN => Confidence::Clear,
        most if most <= LIKELY_GAIN => Confidence::Likely,
        _ => Confidence::Open,
    };
    // Of those that do the same nothing can turn out otherwise, and what loses by more than the error is worse.
    let others: Vec<usize> = found.alternatives.iter().copied().filter(|i| !of(*i).same).collect();
    cap(field, found, &others);
}

/// *Clear* at most where the simulator's own measured error allows it: a difference that is smaller than that may not be there.
fn cap(field: &Field<'_>, found: &mut Answer, decisive: &[usize]) {
    let within = decisive.iter().copied().find(|i| field.is_within_model_error(found, *i));
    found.within_model_error = within.filter(|_| found.confidence == Confidence::Clear);
    if found.within_model_error.is_some() {
        found.confidence = Confidence::Likely;
    }
}

/// The one that is worth most. Of those that are nearly worth as much the kernel's default for the drive, else the cheaper, else the
/// first in a fixed order: never by the order of the input.
fn most_worth(field: &Field<'_>, among: &[usize], gain: &dyn Fn(usize) -> f64) -> Option<usize> {
    let most = among.iter().map(|i| gain(*i)).reduce(f64::max)?;
    let near: Vec<usize> = among.iter().copied().filter(|i| gain(*i) >= most - NEAR).collect();
    let default = field.conditions.kernel_default(&field.rows[field.incumbent].device);
    if let Some(found) = near.iter().copied().find(|i| default == Some(field.rows[*i].scheduler.as_str())) {
        return Some(found);
    }
    let cpu = |i: usize| field.rows[i].mean(Metric::CpuUsPerIo);
    let cheapest = near.iter().map(|i| cpu(*i)).fold(f64::INFINITY, f64::min);
    let cheap = |i: &usize| !cheapest.is_finite() || cpu(*i).is_nan() || cpu(*i) <= cheapest * (1.0 + CPU_EQUAL_WITHIN);
    near.into_iter()
        .filter(cheap)
        .min_by(|a, b| order(&field.rows[*a].scheduler).cmp(&order(&field.rows[*b].scheduler)).then(a.cmp(b)))
}

/// The rates of a goal, or those that were asked for.
pub(crate) fn rates(goal: crate::Goal, conditions: &Conditions) -> Rates {
    match conditions.rate {
        Some(part) => Rates { shares: Rates::of(goal).shares, ..Rates::worth(part) },
        None => Rates::of(goal),
    }
}
