//! Every scheduler there is: name, source, settings and how to make one.

use dumbwaiter_block::{Scheduler, Setup, Tunable, TunableError, set_tunable};

use crate::bfq::Generation;
use crate::cfq::{self, Cfq, Version};
use crate::mq_deadline::{self, Kernel, MqDeadline};
use crate::{bfq, c_look, headway, kyber, none, noop, sstf};

/// One scheduler.
pub struct Entry {
    /// Its name, as users type it.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its settings.
    pub tunables: &'static [Tunable],
    /// Versions of which one can be chosen, if it has any.
    pub variants: Variants,
    /// Its manual, in Markdown.
    pub manual: &'static str,
    /// Of this variant, if it is known; the default for the empty text.
    make: fn(Setup, &str) -> Option<Box<dyn Scheduler>>,
}

/// Versions of a scheduler; one is chosen with `key=name`, or with the bare name as the first setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variants {
    /// The setting that chooses.
    pub key: &'static str,
    /// Those that differ, the default first.
    pub names: &'static [&'static str],
}

impl Variants {
    const NONE: Variants = Variants { key: "", names: &[] };

    const fn kernels(names: &'static [&'static str]) -> Variants {
        Variants { key: "kernel", names }
    }

    const fn generations(names: &'static [&'static str]) -> Variants {
        Variants { key: "generation", names }
    }

    /// What can be asked for, in words.
    pub fn known(&self) -> String {
        let names = self.names.join(", ");
        if self.key == "kernel" { format!("a Linux release; behaviour differs at {names}") } else { names }
    }
}

impl Entry {
    /// Linux releases whose behaviour differs, the default first; empty if none can be chosen.
    pub fn kernels(&self) -> &'static [&'static str] {
        if self.variants.key == "kernel" { self.variants.names } else { &[] }
    }
}

/// Schedulers in the order in which they are listed.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "none",
        summary: "no policy: straight to the device, per-CPU queues for what it refuses",
        source: "Linux 6.18 (blk-mq)",
        tunables: &[],
        variants: Variants::NONE,
        manual: include_str!("none.md"),
        make: |setup, _| Some(Box::new(none::None::new(setup))),
    },
    Entry {
        name: "noop",
        summary: "first in, first out, with merging and sorted plugs",
        source: "Linux up to 4.20",
        tunables: &[],
        variants: Variants::NONE,
        manual: include_str!("noop.md"),
        make: |_, _| Some(Box::new(noop::Noop::default())),
    },
    Entry {
        name: "deadline",
        summary: "batches in sector order with soft deadlines, single queue",
        source: "Linux up to 4.20",
        tunables: mq_deadline::LEGACY_TUNABLES,
        variants: Variants::NONE,
        manual: include_str!("deadline.md"),
        make: |setup, _| Some(Box::new(crate::deadline::deadline(setup))),
    },
    Entry {
        name: "mq-deadline",
        summary: "batches in sector order with soft deadlines and three priority classes",
        source: "Linux 4.11 to 6.18",
        tunables: mq_deadline::TUNABLES,
        variants: Variants::kernels(&["6.18", "6.5", "6.1", "5.15", "5.13"]),
        manual: include_str!("mq_deadline.md"),
        make: |setup, release| {
            let kernel = if release.is_empty() { Kernel::V6_18 } else { Kernel::parse(release)? };
            Some(Box::new(MqDeadline::new(setup, kernel)))
        },
    },
    Entry {
        name: "kyber",
        summary: "reads before writes by tokens per kind, steered by latency targets",
        source: "Linux 4.20 to 6.18",
        tunables: kyber::TUNABLES,
        variants: Variants::NONE,
        manual: include_str!("kyber.md"),
        make: |setup, _| Some(Box::new(kyber::Kyber::new(setup))),
    },
    Entry {
        name: "cfq",
        summary: "time slices for every task by priority, nested weighted tenants, idling for the next request",
        source: "Linux 3.10 to 4.20",
        tunables: cfq::TUNABLES,
        variants: Variants::kernels(&["3.18", "4.20", "3.10"]),
        manual: include_str!("cfq.md"),
        make: |setup, release| {
            let version = if release.is_empty() { Version::K318 } else { Version::parse(release)? };
            Some(Box::new(Cfq::new(setup, version)))
        },
    },
    Entry {
        name: "a-cfq",
        summary: "cfq with tenants shared by sectors and waited for, for flash",
        source: "A+CFQ (2020), on Linux 3.18",
        tunables: cfq::A_CFQ_TUNABLES,
        variants: Variants::NONE,
        manual: include_str!("a_cfq.md"),
        make: |setup, _| Some(Box::new(Cfq::anticipating(setup))),
    },
    Entry {
        name: "bfq",
        summary: "a queue a process, served by budget in shares by weight; idles and raises for low latency",
        source: "Linux 5.x to 6.18; Valente, Avanzini 2015",
        tunables: bfq::tunables(Generation::Mainline, false),
        variants: Variants::generations(Generation::NAMES),
        manual: include_str!("bfq.md"),
        make: |setup, name| Some(Box::new(bfq::Bfq::new(setup, generation(name, Generation::Mainline)?))),
    },
    Entry {
        name: "h-bfq",
        summary: "bfq with budgets that carry over what was not used, and short slots for who exhausts them",
        source: "H+BFQ (2020), on BFQ v7r8",
        tunables: bfq::tunables(Generation::V7r8, true),
        variants: Variants::generations(&["v7r8", "mainline", "v1", "original"]),
        manual: include_str!("h_bfq.md"),
        make: |setup, name| Some(Box::new(bfq::Bfq::with_history(setup, generation(name, Generation::V7r8)?))),
    },
    Entry {
        name: "sstf",
        summary: "the nearest request first; fast on a disk, and unfair",
        source: "Denning 1967",
        tunables: &[],
        variants: Variants::NONE,
        manual: include_str!("sstf.md"),
        make: |_, _| Some(Box::new(sstf::Sstf::default())),
    },
    Entry {
        name: "c-look",
        summary: "upwards through the sectors, then again from the lowest",
        source: "Merten 1970",
        tunables: &[],
        variants: Variants::NONE,
        manual: include_str!("c_look.md"),
        make: |_, _| Some(Box::new(c_look::CLook::default())),
    },
    Entry {
        name: "headway",
        summary: "shares by tenant weight with the device kept full, and quick starts",
        source: "ours",
        tunables: headway::TUNABLES,
        variants: Variants::NONE,
        manual: include_str!("headway.md"),
        make: |setup, _| Some(Box::new(headway::Headway::new(setup))),
    },
];

/// A scheduler that can be made any number of times: an entry with settings.
#[derive(Clone)]
pub struct Choice {
    entry: &'static Entry,
    /// As it was asked for; empty for the default.
    variant: String,
    values: Vec<(&'static str, i128)>,
    /// As it was asked for.
    label: String,
}

/// Why there is no such scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No entry of this name.
    #[error("unknown scheduler `{name}`{hint}; known: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// A remark on names that are well known elsewhere, or the nearest name.
        hint: String,
        /// What there is.
        known: String,
    },
    /// A setting is not `name=integer`.
    #[error("scheduler `{scheduler}`: `{text}` is not a setting; expected name=integer, such as fifo_batch=8")]
    Malformed {
        /// The scheduler.
        scheduler: String,
        /// What was found.
        text: String,
    },
    /// A version that is not known for this scheduler.
    #[error("scheduler `{scheduler}`: {key} `{name}` is not known; expected {known}")]
    Variant {
        /// The scheduler.
        scheduler: String,
        /// What kind of version it has.
        key: &'static str,
        /// What was asked for.
        name: String,
        /// What can be asked for.
        known: String,
    },
    /// An unknown setting, or a value out of range.
    #[error("scheduler `{scheduler}`: {error}")]
    Tunable {
        /// The scheduler.
        scheduler: String,
        /// What is wrong with it.
        error: Box<TunableError>,
    },
}

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|e| e.name == name)
}

impl Choice {
    /// Reads `name` or `name:setting=value,…`. `kernel=5.15` or `generation=v7r8` is a setting of those that have
    /// versions; the bare `5.15` or `v7r8` as the first setting is the same.
    pub fn parse(text: &str) -> Result<Choice, ChoiceError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let entry = find(name.trim()).ok_or_else(|| unknown(name.trim()))?;
        let mut choice = Choice { entry, variant: String::new(), values: Vec::new(), label: text.trim().to_owned() };
        for (i, setting) in settings.split(',').map(str::trim).filter(|s| !s.is_empty()).enumerate() {
            let malformed = || ChoiceError::Malformed { scheduler: entry.name.into(), text: setting.into() };
            let key = entry.variants.key;
            match setting.split_once('=') {
                Some((key, value)) => choice.with(key.trim(), value.trim())?,
                None if i == 0 && !key.is_empty() => choice.with(key, setting)?,
                None => return Err(malformed()),
            }
        }
        Ok(choice)
    }

    /// Adds one setting, given as text.
    pub fn with(&mut self, key: &str, value: &str) -> Result<(), ChoiceError> {
        let scheduler = || self.entry.name.to_owned();
        let variants = &self.entry.variants;
        if key == variants.key && !variants.names.is_empty() {
            if value.is_empty() || (self.entry.make)(Setup::default(), value).is_none() {
                let (key, known) = (variants.key, variants.known());
                return Err(ChoiceError::Variant { scheduler: scheduler(), key, name: value.into(), known });
            }
            self.variant = value.into();
            return Ok(());
        }
        let number: i128 = value
            .parse()
            .map_err(|_| ChoiceError::Malformed { scheduler: scheduler(), text: format!("{key}={value}") })?;
        let mut probe = self.build(Setup::default());
        set_tunable(&mut *probe, key, number)
            .map_err(|error| ChoiceError::Tunable { scheduler: scheduler(), error: Box::new(error) })?;
        let name = self.entry.tunables.iter().find(|t| t.name == key).expect("set_tunable knew it").name;
        self.values.push((name, number));
        Ok(())
    }

    /// A new scheduler.
    pub fn build(&self, setup: Setup) -> Box<dyn Scheduler> {
        let mut scheduler = (self.entry.make)(setup, &self.variant).expect("the variant was known when it was chosen");
        for (name, value) in &self.values {
            scheduler.set(name, *value);
        }
        scheduler
    }

    /// The registry's entry.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The text it was read from: the name under which results are shown.
    pub fn label(&self) -> &str {
        &self.label
    }
}

fn generation(name: &str, default: Generation) -> Option<Generation> {
    if name.is_empty() { Some(default) } else { Generation::parse(name) }
}

fn unknown(name: &str) -> ChoiceError {
    let known: Vec<&str> = REGISTRY.iter().map(|e| e.name).collect();
    let hint = match name {
        "" => " (empty name)".to_owned(),
        _ => {
            let nearest = known.iter().map(|k| (distance(name, k), *k)).min();
            nearest.filter(|(d, _)| *d <= 2).map_or(String::new(), |(_, k)| format!("; did you mean `{k}`?"))
        }
    };
    ChoiceError::Unknown { name: name.into(), hint, known: known.join(", ") }
}

/// Edits between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_is_none_is_refused_not_guessed() {
        for release in ["6", "6.banana", "6.1.x", "banana", "", "3.10", "6.", "-5.15"] {
            assert!(Choice::parse(&format!("mq-deadline:kernel={release}")).is_err(), "{release}");
        }
        for release in ["5.15", "6.1.0-18-amd64", "6.18.44-fc-v595", "6.12"] {
            assert!(Choice::parse(&format!("mq-deadline:kernel={release}")).is_ok(), "{release}");
        }
    }

    #[test]
    fn errors_say_what_to_do() {
        let say = |text: &str| Choice::parse(text).err().unwrap().to_string();
        let known: Vec<&str> = REGISTRY.iter().map(|e| e.name).collect();
        assert_eq!(
            say("mq-deadlin"),
            format!("unknown scheduler `mq-deadlin`; did you mean `mq-deadline`?; known: {}", known.join(", "))
        );
        assert_eq!(
            say("mq-deadline:fifo_bach=3"),
            "scheduler `mq-deadline`: unknown tunable `fifo_bach`; known: read_expire, write_expire, fifo_batch, writes_starved, front_merges, async_depth, prio_aging_expire, compat_expiry"
        );
        assert_eq!(
            say("kyber:read_lat_nsec=-1"),
            "scheduler `kyber`: read_lat_nsec = -1 is out of range: expected 0 to 18446744073709551615 (ns)"
        );
        assert!(say("kyber:read_lat_nsec=fast").contains("expected name=integer"));
        assert!(say("mq-deadline:kernel=two").contains("kernel `two` is not known"));
        assert!(Choice::parse("mq-deadline:kernel=6.12.117+deb12-cloud-amd64").is_ok());
        assert_eq!(
            say("bfq:v9"),
            "scheduler `bfq`: generation `v9` is not known; expected mainline, v7r8, v1, original"
        );
        assert!(say("h-bfq:generation=x,low_latency=0").contains("expected v7r8, mainline, v1, original"));
        assert!(say("bfq:low_latency=0,v7r8").contains("`v7r8` is not a setting"));
        assert!(say("kyber:v7r8").contains("`v7r8` is not a setting"));
        assert_eq!(Choice::parse("bfq:v7r8,low_latency=0").unwrap().label(), "bfq:v7r8,low_latency=0");
        assert!(say("none:x=1").contains("this scheduler has none"));
    }

    #[test]
    fn settings_round_trip() {
        for entry in REGISTRY {
            let mut s = Choice::parse(entry.name).unwrap().build(Setup::default());
            assert_eq!(s.tunables(), entry.tunables, "{}", entry.name);
            for t in entry.tunables {
                for value in [t.min.max(-1), t.default.max(4), t.min.max(0) + 1] {
                    let value = value.min(t.max);
                    set_tunable(&mut *s, t.name, value).unwrap();
                    let read = s.get(t.name).unwrap();
                    let rounded = t.unit == "ms" && read >= value && read < value + 4;
                    let default_depth = t.name == "async_depth" && value == 0;
                    assert!(read == value || rounded || default_depth, "{} {}: {value} -> {read}", entry.name, t.name);
                }
            }
        }
    }
}
