//! The candidates: schedulers with default settings, and some with one setting changed.

use std::collections::BTreeMap;

use dumbwaiter_controllers::{KernelControls, WbtTarget};

use crate::port::Reading;
use crate::tunables::MOVABLE_TUNABLES;

/// The attribute of write-back throttling.
const WBT: &str = "wbt_lat_usec";
/// The scheduler that switches write-back throttling off.
const WITHOUT_WBT: &str = "bfq";

/// A candidate as a configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As it was written: `kyber`, `mq-deadline+wbt=off`.
    pub name: String,
    /// The scheduler.
    pub scheduler: String,
    /// Target of write-back throttling in µs, 0 for off; `None`: as it was found.
    pub wbt_us: Option<u64>,
}

impl Wanted {
    /// Reads a name: a scheduler, which `+wbt=off` or `+wbt=TIME` may follow, as everywhere. The error says what was expected.
    pub fn parse(name: &str) -> Result<Wanted, String> {
        let (scheduler, controls) = KernelControls::split(name);
        let fail = |why: String| format!("\"{name}\": {why}");
        if scheduler.is_empty() || !scheduler.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(format!("\"{name}\" is not a scheduler name; expected one such as mq-deadline"));
        }
        let controls = controls.map(KernelControls::parse).transpose().map_err(fail)?.unwrap_or_default();
        if (KernelControls { wbt: None, ..controls }) != KernelControls::default() {
            return Err(fail(
                "the pilot changes the scheduler and write-back throttling (+wbt=off, +wbt=TIME); what divides a drive among \
                 groups (io.cost, io.max) is not judged by throughput or mean latency: `compare --on` tries it"
                    .to_owned(),
            ));
        }
        let wbt_us = match controls.wbt {
            None => None,
            Some(_) if scheduler == WITHOUT_WBT => {
                return Err(fail("bfq switches write-back throttling off; name it alone".to_owned()));
            }
            Some(WbtTarget::Default) => {
                return Err(fail("name the scheduler alone for the target as found".to_owned()));
            }
            Some(WbtTarget::Off) => Some(0),
            Some(WbtTarget::Us(us)) => Some(us),
        };
        Ok(Wanted { name: name.to_owned(), scheduler: scheduler.to_owned(), wbt_us })
    }
}

/// A scheduler with settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its name: `kyber`, or `kyber:read_lat_nsec=1000000`.
    pub(crate) name: String,
    /// The scheduler.
    pub(crate) scheduler: String,
    /// Attributes to set after the scheduler, in this order.
    pub(crate) settings: Vec<(String, String)>,
}

/// The order in which attributes are written: `nr_requests` resets others, the scheduler's own come last.
pub(crate) fn in_order(values: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> =
        values.iter().filter(|(name, _)| *name != "scheduler").map(|(k, v)| (k.clone(), v.clone())).collect();
    settings.sort_by_key(|(name, _)| (name.starts_with("iosched/"), name != "nr_requests"));
    settings
}

/// The candidates for a disk: first the settings as they were found, then each wanted scheduler with the kernel's defaults
/// and, where `tune` is set, with one setting changed within `bounds`, and those with another write-back throttling.
/// `refused` names those that the kernel rejected.
pub(crate) fn candidates(
    original: &Reading,
    wanted: &[Wanted],
    tune: Option<&BTreeMap<String, (i64, i64)>>,
    refused: &[String],
) -> Vec<Candidate> {
    let found = original.scheduler().to_owned();
    let mut all =
        vec![Candidate { name: found.clone(), scheduler: found.clone(), settings: in_order(&original.values) }];
    let throttled = Throttled::of(original, wanted);
    for scheduler in &original.schedulers {
        if !wanted.is_empty() && !wanted.iter().any(|one| one.wbt_us.is_none() && one.scheduler == *scheduler) {
            continue;
        }
        let settings = throttled.as_found(scheduler);
        if *scheduler != found {
            all.push(Candidate { name: scheduler.clone(), scheduler: scheduler.clone(), settings: settings.clone() });
        }
        let Some(bounds) = tune else { continue };
        for tunable in MOVABLE_TUNABLES.iter().filter(|tunable| tunable.scheduler == scheduler) {
            let (low, high) = bounds.get(&tunable.key()).copied().unwrap_or(tunable.bounds);
            for value in tunable.values.iter().filter(|value| (low..=high).contains(*value)) {
                let attribute = format!("iosched/{}", tunable.name);
                let value = value.to_string();
                if *scheduler == found && original.values.get(&attribute) == Some(&value) {
                    // The settings as found.
                    continue;
                }
                // This scheduler's settings stay as found, except one.
                let mut settings = if *scheduler == found { all[0].settings.clone() } else { settings.clone() };
                settings.retain(|(name, _)| *name != attribute);
                settings.push((attribute, value.clone()));
                let name = format!("{scheduler}:{}={value}", tunable.name);
                all.push(Candidate { name, scheduler: scheduler.clone(), settings });
            }
        }
    }
    for stack in throttled.stacks(original, &all[0]) {
        let same = |other: &Candidate| (&other.scheduler, &other.settings) == (&stack.scheduler, &stack.settings);
        if !all.iter().any(same) {
            all.push(stack);
        }
    }
    let first = all[0].name.clone();
    all.retain(|candidate| candidate.name == first || !refused.contains(&candidate.name));
    all
}

/// The candidates with another write-back throttling than the one found.
struct Throttled<'a> {
    wanted: Vec<(&'a Wanted, String)>,
    /// The target as found; `None` where no candidate changes it.
    found: Option<&'a String>,
}

impl<'a> Throttled<'a> {
    /// None where the kernel has no write-back throttling, or bfq was found: it hides the target that would have to be put back.
    fn of(original: &'a Reading, wanted: &'a [Wanted]) -> Throttled<'a> {
        let target = original.values.get(WBT).filter(|_| original.scheduler() != WITHOUT_WBT);
        let of = |one: &'a Wanted| Some((one, one.wbt_us?.to_string()));
        let is_found = |one: &Wanted, us: &String| one.scheduler == original.scheduler() && target == Some(us);
        let wanted = wanted.iter().filter_map(of).filter(|(one, us)| target.is_some() && !is_found(one, us));
        let wanted: Vec<_> = wanted.collect();
        Throttled { found: target.filter(|_| !wanted.is_empty()), wanted }
    }

    /// What a candidate with the target as found sets: what was set by hand stays in force under every scheduler, and bfq's
    /// default is none.
    fn as_found(&self, scheduler: &str) -> Vec<(String, String)> {
        let target = |found: &String| if scheduler == WITHOUT_WBT { "0".to_owned() } else { found.clone() };
        self.found.map(|found| (WBT.to_owned(), target(found))).into_iter().collect()
    }

    /// The candidates that change it.
    fn stacks(&self, original: &Reading, found: &Candidate) -> Vec<Candidate> {
        let there = self.wanted.iter().filter(|(one, _)| original.schedulers.contains(&one.scheduler));
        let stack = |(one, target): &(&Wanted, String)| {
            let mut settings = if one.scheduler == found.scheduler { found.settings.clone() } else { Vec::new() };
            settings.retain(|(name, _)| name != WBT);
            settings.push((WBT.to_owned(), target.clone()));
            Candidate { name: one.name.clone(), scheduler: one.scheduler.clone(), settings }
        };
        there.map(stack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        let values = [("scheduler", "kyber"), ("nr_requests", "100"), ("iosched/read_lat_nsec", "8000000")];
        Reading {
            sequence: None,
            schedulers: ["none", "mq-deadline", "kyber"].map(str::to_owned).into(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        }
    }

    fn names(all: &[Candidate]) -> Vec<&str> {
        all.iter().map(|candidate| candidate.name.as_str()).collect()
    }

    #[test]
    fn the_settings_as_found_come_first_and_carry_every_value() {
        let all = candidates(&reading(), &[], None, &[]);
        assert_eq!(names(&all), ["kyber", "none", "mq-deadline"]);
        let expected = [("nr_requests", "100"), ("iosched/read_lat_nsec", "8000000")];
        assert_eq!(all[0].settings, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn tunables_stay_in_bounds_and_what_is_found_is_no_variant() {
        let bounds = BTreeMap::from([("mq-deadline/fifo_batch".to_owned(), (1, 16))]);
        let all = candidates(&reading(), &[], Some(&bounds), &[]);
        let expected = ["kyber", "none", "mq-deadline", "mq-deadline:fifo_batch=4", "kyber:read_lat_nsec=1000000"];
        assert_eq!(names(&all), expected);
        assert!(all[4].settings.contains(&("nr_requests".into(), "100".into())));
    }

    #[test]
    fn a_stack_sets_its_target_and_the_others_set_the_one_found() {
        let mut reading = reading();
        reading.schedulers.push("bfq".into());
        reading.values.insert(WBT.into(), "2000".into());
        let names_of = ["none", "bfq", "kyber+wbt=off", "mq-deadline+wbt=75ms", "none+wbt=2ms"];
        let wanted = names_of.map(|name| Wanted::parse(name).unwrap());
        let all = candidates(&reading, &wanted, None, &[]);
        // The last is none with the target as found.
        assert_eq!(names(&all), ["kyber", "none", "bfq", "kyber+wbt=off", "mq-deadline+wbt=75ms"]);
        assert_eq!(names(&candidates(&reading, &wanted[4..], None, &[])), ["kyber", "none+wbt=2ms"]);
        let found = [Wanted::parse("kyber+wbt=2ms").unwrap()];
        assert_eq!(names(&candidates(&reading, &found, None, &[])), ["kyber"], "that is what was found");
        let target = |at: usize| all[at].settings.iter().find(|(name, _)| name == WBT).map(|(_, us)| us.as_str());
        assert_eq!([0, 1, 2, 3, 4].map(target), [Some("2000"), Some("2000"), Some("0"), Some("0"), Some("75000")]);
        assert!(all[3].settings.contains(&("nr_requests".into(), "100".into())), "the others stay as found");
        // Without stacks nothing writes it, and where it cannot be put back there are none.
        assert_eq!(candidates(&reading, &wanted[..2], None, &[])[1].settings, []);
        reading.values.insert("scheduler".into(), "bfq".into());
        assert_eq!(names(&candidates(&reading, &wanted, None, &[])), ["bfq", "none"]);
    }

    #[test]
    fn a_stack_that_the_pilot_does_not_set_names_what_it_does() {
        let said = |name: &str| Wanted::parse(name).unwrap_err();
        assert!(said("none+io.cost").contains("compare --on"));
        assert!(said("bfq+wbt=off").contains("bfq switches write-back throttling off"));
        assert!(said("none+wbt=5").contains("such as 75ms") && said("none+wbt=2m").contains("up to a minute"));
        assert!(said("none+wbt").contains("alone for the target as found"));
        assert!(said("../x").contains("not a scheduler name") && said("+wbt=off").contains("not a scheduler name"));
        assert_eq!(Wanted::parse("none+wbt=500us").unwrap().wbt_us, Some(500));
    }

    #[test]
    fn only_wanted_schedulers_that_the_kernel_has_and_takes() {
        let wanted = ["bfq", "none"].map(|name| Wanted::parse(name).unwrap());
        assert_eq!(names(&candidates(&reading(), &wanted, None, &[])), ["kyber", "none"]);
        assert_eq!(names(&candidates(&reading(), &wanted, None, &["none".into()])), ["kyber"]);
    }
}
