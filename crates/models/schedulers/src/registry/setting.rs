//! Settings that are chosen when a scheduler is built: words, kernel releases and files.
//!
//! Numbers are [`Tunable`](dumbwaiter_block::Tunable)s: they can also be changed while the scheduler runs.

use std::io::Read;
use std::path::Path;

use super::error::ChoiceError;
use super::factory::Factory;

/// Largest file that a setting may name, bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A setting that cannot change once the scheduler is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, as users type it.
    pub name: &'static str,
    /// Values that it takes.
    pub kind: ParameterKind,
    /// The behaviour that it controls, in one sentence.
    pub help: &'static str,
}

/// Values that a [`Parameter`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// One of these words; the first is the default.
    Word(&'static [&'static str]),
    /// Any Linux release that the scheduler has followed, such as `6.1` or `6.12.117+deb12-cloud-amd64`. Behaviour
    /// changed at these; the first is the default.
    Release(&'static [&'static str]),
    /// Names of other schedulers of the registry, joined by `+`; each may have settings, joined by `;`. This is the default.
    Schedulers(&'static str),
    /// Whole numbers joined by `+`, one for each tenant in the order of the scenario; tenants without one have 0.
    PerTenant {
        /// Unit of the numbers.
        unit: &'static str,
        /// The greatest one.
        max: u64,
    },
    /// The path of a file, which is read when the scheduler is chosen.
    File {
        /// There is no default.
        required: bool,
    },
}

impl ParameterKind {
    /// The values whose behaviour differs, the default first; none for a file.
    pub fn names(&self) -> &'static [&'static str] {
        match self {
            ParameterKind::Word(names) | ParameterKind::Release(names) => names,
            ParameterKind::File { .. } | ParameterKind::Schedulers(_) | ParameterKind::PerTenant { .. } => &[],
        }
    }

    /// The values that it accepts, for error messages.
    pub fn expected(&self) -> String {
        match self {
            ParameterKind::Word(names) => names.join(", "),
            ParameterKind::Release(names) => format!("a Linux release; behaviour differs at {}", names.join(", ")),
            ParameterKind::Schedulers(default) => format!("names of other schedulers, such as {default}"),
            ParameterKind::PerTenant { unit, max } => {
                format!(
                    "whole numbers from 0 to {max} ({unit}) joined by +, one for each tenant in order, such as 500+0+100"
                )
            }
            ParameterKind::File { .. } => "the path of a file".to_owned(),
        }
    }
}

/// A scheduler that a setting names, with its factory.
type Named = (String, Factory);

/// The words and files that were chosen for one scheduler, handed to its factory.
#[derive(Clone)]
pub struct Settings {
    scheduler: &'static str,
    parameters: &'static [Parameter],
    /// By parameter; `None` is the default.
    values: Vec<Option<String>>,
    /// The schedulers that a parameter names, by parameter.
    named: Vec<Vec<Named>>,
}

impl Settings {
    pub(super) fn new(scheduler: &'static str, parameters: &'static [Parameter]) -> Settings {
        Settings {
            scheduler,
            parameters,
            values: vec![None; parameters.len()],
            named: vec![Vec::new(); parameters.len()],
        }
    }

    /// Stores the value of a parameter. Returns `false` if there is no parameter of this name.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<bool, ChoiceError> {
        let Some(i) = self.parameters.iter().position(|p| p.name == key) else { return Ok(false) };
        let known = !matches!(self.parameters[i].kind, ParameterKind::Word(words) if !words.contains(&value));
        if value.is_empty() || !known {
            return Err(self.refuse(key, value, self.parameters[i].kind.expected()));
        }
        self.values[i] = Some(value.to_owned());
        Ok(true)
    }

    /// Is there a parameter of this name that was given no value?
    pub(super) fn lacks(&self, key: &str) -> bool {
        self.parameters.iter().zip(&self.values).any(|(p, value)| p.name == key && value.is_none())
    }

    /// Looks up the schedulers that parameters name. `find` makes a factory from a name with settings.
    pub(super) fn look_up(&mut self, find: impl Fn(&str) -> Result<Factory, ChoiceError>) -> Result<(), ChoiceError> {
        for (i, parameter) in self.parameters.iter().enumerate() {
            let ParameterKind::Schedulers(default) = parameter.kind else { continue };
            let text = self.values[i].as_deref().unwrap_or(default);
            let named = text.split('+').map(|name| Ok((name.trim().to_owned(), find(&name.trim().replace(';', ","))?)));
            self.named[i] = named.collect::<Result<_, ChoiceError>>()?;
        }
        Ok(())
    }

    /// The schedulers that `key` names, with their factories.
    pub fn schedulers(&self, key: &str) -> &[(String, Factory)] {
        let i = self.parameters.iter().position(|p| p.name == key);
        i.map_or(&[], |i| self.named[i].as_slice())
    }

    /// The numbers of `key`, by tenant; empty if none were chosen.
    ///
    /// # Errors
    ///
    /// [`ChoiceError::Value`] if one is no whole number or too great.
    pub fn per_tenant(&self, key: &str) -> Result<Vec<u64>, ChoiceError> {
        let max = match self.parameters.iter().find(|p| p.name == key).map(|p| p.kind) {
            Some(ParameterKind::PerTenant { max, .. }) => max,
            _ => u64::MAX,
        };
        let Some(text) = self.text(key) else { return Ok(Vec::new()) };
        let number = |text: &str| text.trim().parse::<u64>().ok().filter(|n| *n <= max);
        let numbers: Option<Vec<u64>> = text.split('+').map(number).collect();
        numbers.ok_or_else(|| self.refused(key, self.expected(key)))
    }

    /// The value that was chosen for `key`; `None` if none was.
    pub fn text(&self, key: &str) -> Option<&str> {
        let i = self.parameters.iter().position(|p| p.name == key)?;
        self.values[i].as_deref()
    }

    /// The value of `key` as `parse` reads it, or `default` if none was chosen.
    ///
    /// # Errors
    ///
    /// [`ChoiceError::Value`] if `parse` does not know the value.
    pub fn parsed<T>(&self, key: &str, default: T, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, ChoiceError> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => parse(text).ok_or_else(|| self.refused(key, self.expected(key))),
        }
    }

    /// The bytes of the file that `key` names; `None` if no file was chosen and none is required.
    ///
    /// # Errors
    ///
    /// [`ChoiceError::Missing`] without a required file, [`ChoiceError::File`] if it cannot be read or is larger than
    /// 256 MiB.
    pub fn file(&self, key: &str) -> Result<Option<Vec<u8>>, ChoiceError> {
        let Some(path) = self.text(key) else {
            let required = |p: &Parameter| p.name == key && p.kind == ParameterKind::File { required: true };
            if self.parameters.iter().any(required) {
                let (scheduler, key) = (self.scheduler.to_owned(), key.to_owned());
                return Err(ChoiceError::Missing { scheduler, expected: self.expected(&key), key });
            }
            return Ok(None);
        };
        let failed = |why: String| ChoiceError::File {
            scheduler: self.scheduler.to_owned(),
            key: key.to_owned(),
            path: path.into(),
            why,
        };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(Path::new(path)).map_err(|e| failed(e.to_string()))?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| failed(e.to_string()))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(failed(format!("larger than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        Ok(Some(bytes))
    }

    /// The error of a factory that cannot use the value of `key`.
    pub fn refused(&self, key: &str, expected: impl Into<String>) -> ChoiceError {
        self.refuse(key, self.text(key).unwrap_or_default(), expected.into())
    }

    fn refuse(&self, key: &str, value: &str, expected: String) -> ChoiceError {
        ChoiceError::Value {
            scheduler: self.scheduler.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
        }
    }

    fn expected(&self, key: &str) -> String {
        self.parameters.iter().find(|p| p.name == key).map_or_else(String::new, |p| p.kind.expected())
    }
}
