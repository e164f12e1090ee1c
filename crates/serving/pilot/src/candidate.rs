//! The candidates: schedulers with default settings, and some with one setting changed.

use std::collections::BTreeMap;

use crate::port::Reading;
use crate::tunables::MOVABLE_TUNABLES;

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
/// and, where `tune` is set, with one setting changed within `bounds`. `refused` names those that the kernel rejected.
pub(crate) fn candidates(
    original: &Reading,
    wanted: &[String],
    tune: Option<&BTreeMap<String, (i64, i64)>>,
    refused: &[String],
) -> Vec<Candidate> {
    let found = original.scheduler().to_owned();
    let mut all =
        vec![Candidate { name: found.clone(), scheduler: found.clone(), settings: in_order(&original.values) }];
    for scheduler in &original.schedulers {
        if !wanted.is_empty() && !wanted.contains(scheduler) {
            continue;
        }
        if *scheduler != found {
            all.push(Candidate { name: scheduler.clone(), scheduler: scheduler.clone(), settings: Vec::new() });
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
                let mut settings = if *scheduler == found { all[0].settings.clone() } else { Vec::new() };
                settings.retain(|(name, _)| *name != attribute);
                settings.push((attribute, value.clone()));
                let name = format!("{scheduler}:{}={value}", tunable.name);
                all.push(Candidate { name, scheduler: scheduler.clone(), settings });
            }
        }
    }
    let first = all[0].name.clone();
    all.retain(|candidate| candidate.name == first || !refused.contains(&candidate.name));
    all
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
    fn only_wanted_schedulers_that_the_kernel_has_and_takes() {
        let wanted = ["bfq", "none"].map(str::to_owned);
        assert_eq!(names(&candidates(&reading(), &wanted, None, &[])), ["kyber", "none"]);
        assert_eq!(names(&candidates(&reading(), &wanted, None, &["none".into()])), ["kyber"]);
    }
}
