//! A scheduler chosen by name and settings, as text.

use std::sync::Arc;

use dumbwaiter_block::{Scheduler, Setup, Stack, Tunable};
use dumbwaiter_controllers::KernelControls;

use super::entry::Entry;
use super::error::ChoiceError;
use super::factory::Factory;
use super::list::{REGISTRY, find};
use super::setting::{ParameterKind, Settings};

/// A scheduler with settings, of which any number can be built.
#[derive(Clone)]
pub struct Choice {
    entry: &'static Entry,
    settings: Settings,
    /// Numbers, in the order in which they were given: some of them change others.
    numbers: Vec<(&'static str, i128)>,
    factory: Factory,
    /// What stands before it.
    controls: KernelControls,
    /// The text that was parsed.
    label: String,
}

impl Choice {
    /// Reads `name` or `name:setting=value,…`. Of a scheduler with versions, the first setting may be the bare version:
    /// `mq-deadline:5.15` is `mq-deadline:kernel=5.15`. A value cannot contain a comma; see [`Choice::with`].
    ///
    /// # Errors
    ///
    /// An unknown scheduler or setting, a value that the setting does not take, or a file that cannot be used.
    pub fn parse(text: &str) -> Result<Choice, ChoiceError> {
        if let (scheduler, Some(controls)) = KernelControls::split(text) {
            return Err(ChoiceError::Value {
                scheduler: scheduler.trim().into(),
                key: "+".into(),
                value: controls.into(),
                expected: "the scheduler alone: nothing stands before it here".into(),
            });
        }
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let entry = find(name.trim()).ok_or_else(|| unknown_scheduler(name.trim()))?;
        Choice::of(entry, settings, text.trim())
    }

    /// As [`Choice::parse`], with the kernel's controllers that stand before the scheduler: `mq-deadline+wbt=off`,
    /// `none+io.cost:qos=rlat=5000 min=50`.
    ///
    /// # Errors
    ///
    /// As [`Choice::parse`], and of a controller that is unknown or a value that it does not take.
    pub fn parse_stack(text: &str) -> Result<Choice, ChoiceError> {
        let (scheduler, controls) = KernelControls::split(text);
        let mut choice = Choice::parse(scheduler)?;
        if let Some(controls) = controls {
            choice.controls = KernelControls::parse(controls).map_err(ChoiceError::Controls)?;
            choice.label = text.trim().to_owned();
        }
        Ok(choice)
    }

    /// The controllers that somebody asked for before this scheduler. Whoever builds the block layer adds them.
    pub fn controls(&self) -> KernelControls {
        self.controls
    }

    /// The scheduler of `entry` with settings such as `kernel=5.15,fifo_batch=8`. `label` names its results.
    ///
    /// # Errors
    ///
    /// As [`Choice::parse`].
    pub fn of(entry: &'static Entry, settings: &str, label: &str) -> Result<Choice, ChoiceError> {
        let mut chosen = Settings::new(entry.name, entry.parameters);
        let mut numbers = Vec::new();
        for (i, text) in settings.split(',').map(str::trim).filter(|s| !s.is_empty()).enumerate() {
            let (key, value) = match (text.split_once('='), entry.version()) {
                (Some((key, value)), _) => (key.trim(), value.trim()),
                (None, Some(version)) if i == 0 => (version.name, text),
                _ => return Err(ChoiceError::Malformed { scheduler: entry.name.into(), text: text.into() }),
            };
            if !chosen.set(key, value)? {
                numbers.push((key, value));
            }
        }
        chosen.look_up(candidate)?;
        let factory = (entry.make)(&chosen)?;
        let controls = KernelControls::default();
        let mut choice =
            Choice { entry, settings: chosen, numbers: Vec::new(), factory, controls, label: label.to_owned() };
        for (key, value) in numbers {
            choice.with(key, value)?;
        }
        Ok(choice)
    }

    /// A scheduler that is not in the registry, by the name that its results have. It takes no settings; a simulation charges
    /// it the CPU time of `like`.
    pub fn own(name: &str, like: &'static Entry, factory: Factory) -> Choice {
        let settings = Settings::new(like.name, &[]);
        let controls = KernelControls::default();
        Choice { entry: like, settings, numbers: Vec::new(), factory, controls, label: name.to_owned() }
    }

    /// Adds one setting. The label stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Choice::parse`]; the choice is then as before.
    pub fn with(&mut self, key: &str, value: &str) -> Result<(), ChoiceError> {
        let mut settings = self.settings.clone();
        if settings.set(key, value)? {
            settings.look_up(candidate)?;
            self.factory = (self.entry.make)(&settings)?;
            self.settings = settings;
            return Ok(());
        }
        let tunables = (self.factory)(Setup::default()).tunables();
        let tunable = tunables.iter().find(|t| t.name == key).ok_or_else(|| self.unknown_setting(key, &tunables))?;
        let number = value.parse().ok().filter(|n| (tunable.min..=tunable.max).contains(n));
        let number = number.ok_or_else(|| ChoiceError::Value {
            scheduler: self.entry.name.into(),
            key: key.into(),
            value: value.into(),
            expected: format!("a whole number from {} to {} ({})", tunable.min, tunable.max, tunable.unit),
        })?;
        self.numbers.push((tunable.name, number));
        Ok(())
    }

    /// The same on a host with this Linux release, where the scheduler differs by release and the choice names none.
    #[must_use]
    pub fn on_kernel(mut self, release: &str) -> Choice {
        // Of a release that it does not know, such as one older than the scheduler, it stays as it is.
        let _ = self.settings.lacks("kernel") && self.with("kernel", release).is_ok();
        self
    }

    /// Builds the scheduler for a device, with the controllers that come with it.
    pub fn build(&self, setup: Setup) -> Stack {
        self.build_over(setup, &[])
    }

    /// As [`Choice::build`], with other defaults for some of its tunables. What the choice says goes before them.
    pub fn build_over(&self, setup: Setup, defaults: &[(&str, i128)]) -> Stack {
        let mut stack = (self.factory)(setup);
        for (name, value) in defaults.iter().chain(&self.numbers) {
            // Names and ranges were checked when they were chosen.
            let _ = stack.set(name, *value);
        }
        stack
    }

    /// Builds the scheduler alone, or the first one of a controller that chooses it.
    pub fn scheduler(&self, setup: Setup) -> Box<dyn Scheduler> {
        self.build(setup).scheduler
    }

    /// Does it, or a scheduler that it may choose, use the classes of a drive?
    pub fn uses_classes(&self, setup: Setup) -> bool {
        let candidates = self.entry.parameters.iter().flat_map(|p| self.settings.schedulers(p.name));
        let uses = |scheduler: Box<dyn Scheduler>| scheduler.class_weights().is_some();
        uses(self.scheduler(setup)) || candidates.into_iter().any(|(_, factory)| uses(factory(setup).scheduler))
    }

    /// The registry's entry.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The text that was parsed, which names the results.
    pub fn label(&self) -> &str {
        &self.label
    }

    fn unknown_setting(&self, key: &str, tunables: &[Tunable]) -> ChoiceError {
        let parameters = self.entry.parameters.iter().map(|p| p.name);
        let known: Vec<&str> = parameters.chain(tunables.iter().map(|t| t.name)).collect();
        ChoiceError::UnknownSetting { scheduler: self.entry.name.into(), key: key.into(), known }
    }
}

/// The factory of a scheduler that another one may use: not one that uses others itself.
fn candidate(text: &str) -> Result<Factory, ChoiceError> {
    let name = text.split(':').next().unwrap_or_default();
    let nested =
        find(name).is_some_and(|e| e.parameters.iter().any(|p| matches!(p.kind, ParameterKind::Schedulers(_))));
    if nested {
        let (scheduler, key, value) = (name.to_owned(), "candidates".to_owned(), text.to_owned());
        let expected = "schedulers that do not use others".to_owned();
        return Err(ChoiceError::Value { scheduler, key, value, expected });
    }
    let choice = Choice::parse(text)?;
    Ok(Arc::new(move |setup| choice.build(setup)))
}

fn unknown_scheduler(name: &str) -> ChoiceError {
    let known: Vec<&str> = REGISTRY.iter().map(|e| e.name).collect();
    ChoiceError::Unknown { name: name.into(), known }
}
