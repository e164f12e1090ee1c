//! Classes of schedulers that are written in Python: what they declare, and factories of them.

use std::sync::Arc;

use dumbwaiter_block::{Scheduler, Tunable};
use dumbwaiter_scenario::SchedulerSpec;
use dumbwaiter_schedulers::{Entry, Factory};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::errors::plain;
use crate::failed::Failed;
use crate::policy::Policy;

/// A class, or a function of a setup, that makes schedulers.
pub(crate) struct OwnClass {
    /// Its name in results.
    pub(crate) name: String,
    /// The scheduler whose CPU time a simulation charges.
    pub(crate) like: &'static Entry,
    /// Makes one with the defaults of its settings.
    pub(crate) factory: Factory,
    tunables: &'static [Tunable],
}

impl OwnClass {
    /// Checks a class and reads what it declares. Schedulers of it report to `failed`.
    pub(crate) fn of(class: &Bound<'_, PyAny>, failed: &Failed) -> PyResult<OwnClass> {
        let name = name_of(class)?;
        if !class.is_callable() {
            return Err(plain(format!("scheduler {name}: expected a class, or a function of a setup")));
        }
        let is_word = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        if !is_word || name == "all" || dumbwaiter_schedulers::find(&name).is_some() {
            let why = format!("scheduler {name}: the name is taken or not a word; give the class another `name`");
            return Err(plain(why));
        }
        needs_hooks(class, &name)?;
        let like = match class.getattr_opt("cpu_cost_of")? {
            Some(like) => {
                like.extract().map_err(|_| plain(format!("scheduler {name}: cpu_cost_of: expected a name")))?
            }
            None => "noop".to_owned(),
        };
        let like = dumbwaiter_schedulers::find(&like)
            .ok_or_else(|| plain(format!("scheduler {name}: cpu_cost_of = {like:?} is no scheduler")))?;
        let tunables = tunables_of(class, &name)?;
        let (class, failed) = (class.clone().unbind(), failed.clone());
        let factory: Factory = Arc::new(move |setup| {
            let scheduler = Python::attach(|py| match Policy::new(class.bind(py), tunables, setup, &failed) {
                Ok(policy) => Box::new(policy) as Box<dyn Scheduler>,
                Err(error) => {
                    failed.set(error);
                    Box::new(Policy::dead(&failed))
                }
            });
            scheduler.into()
        });
        Ok(OwnClass { name, like, factory, tunables })
    }

    /// The same scheduler with settings, as `NAME:setting=value,...` says.
    pub(crate) fn with(&self, text: &str) -> PyResult<(String, &'static Entry, Factory)> {
        let spec = SchedulerSpec::parse(text).map_err(|e| plain(format!("schedulers: {e}")))?;
        let wrong = |key: &str, why: String| plain(format!("scheduler {}: {key}: {why}", self.name));
        let mut settings = Vec::new();
        for (key, value) in &spec.tunables {
            let Some(Tunable { min, max, .. }) = self.tunables.iter().find(|tunable| tunable.name == key) else {
                let known: Vec<&str> = self.tunables.iter().map(|tunable| tunable.name).collect();
                return Err(wrong(key, format!("is no setting of it; its `tunables` are: {}", known.join(", "))));
            };
            let number = value.parse::<i128>().ok().filter(|number| (min..=max).contains(&number));
            let expected = || format!("{value:?} was found; expected a whole number from {min} to {max}");
            settings.push((key.clone(), number.ok_or_else(|| wrong(key, expected()))?));
        }
        if !spec.variant.is_empty() {
            return Err(wrong(&spec.variant, "expected a setting such as name=8".into()));
        }
        let factory = Arc::clone(&self.factory);
        let with_settings: Factory = Arc::new(move |setup| {
            let mut scheduler = factory(setup);
            for (key, value) in &settings {
                // Name and range were checked when it was chosen.
                let _ = scheduler.set(key, *value);
            }
            scheduler
        });
        Ok((spec.to_string(), self.like, with_settings))
    }
}

/// The name of a class in results.
pub(crate) fn name_of(class: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Some(name) = class.getattr_opt("name")?.and_then(|name| name.extract::<String>().ok()) {
        return Ok(name);
    }
    match class.getattr_opt("__name__")? {
        Some(name) => name.extract(),
        None => Err(plain(format!("schedulers: {} was found; expected names and classes", class.repr()?))),
    }
}

fn needs_hooks(class: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if class.cast::<PyType>().is_err() {
        return Ok(());
    }
    let base = class.py().import("dumbwaiter._scheduler")?.getattr("Scheduler")?;
    for hook in ["insert", "next"] {
        let own = class.getattr_opt(hook)?;
        if own.is_none_or(|own| base.getattr(hook).is_ok_and(|base| own.is(&base))) {
            return Err(plain(format!("scheduler {name}: has no method `{hook}`, which it needs")));
        }
    }
    Ok(())
}

/// Declarations in a class's `tunables`: for each name a default, or a tuple of default, least and greatest value.
fn tunables_of(class: &Bound<'_, PyAny>, name: &str) -> PyResult<&'static [Tunable]> {
    let Some(declared) = class.getattr_opt("tunables")? else { return Ok(&[]) };
    let wrong = |what: &str| {
        plain(format!(
            "scheduler {name}: tunables: {what}; expected a dict of names with a default, or with (default, least, greatest)"
        ))
    };
    let declared = declared.cast::<PyDict>().map_err(|_| wrong("is no dict"))?;
    let mut tunables = Vec::new();
    for (key, value) in declared {
        let key: String = key.extract().map_err(|_| wrong("a name is no text"))?;
        let (default, min, max) = match value.extract::<i64>() {
            Ok(default) => (default, 0, i64::MAX),
            Err(_) => value.extract().map_err(|_| wrong(&key))?,
        };
        if !(min..=max).contains(&default) {
            return Err(wrong(&format!("{key}: {default} is not from {min} to {max}")));
        }
        let [min, max, default] = [min, max, default].map(i128::from);
        // Schedulers in Rust declare theirs in the program; a class lives about as long.
        let key = Box::leak(key.into_boxed_str());
        tunables.push(Tunable { name: key, unit: "", min, max, default, help: "" });
    }
    Ok(Box::leak(tunables.into_boxed_slice()))
}
