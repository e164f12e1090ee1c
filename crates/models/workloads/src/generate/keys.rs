//! Options of a job by name: one parser and one formatter for fio job files, scenario files and JSON.

use dumbwaiter_block::hint::{nearest, suggest};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::JobSpec;
use super::value::Scalar;
use crate::options::{self, OPTIONS, OptionRow};
use dumbwaiter_text::units::{Prefixes, UnitError};

/// Why an option could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option of this name.
    #[error("unknown option `{key}`{}", suggest(*.nearest))]
    Unknown {
        /// The name.
        key: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// The option does not accept the value.
    #[error("{key}: {value}")]
    Value {
        /// The option.
        key: String,
        /// The value and the expected form.
        value: UnitError,
    },
}

impl JobSpec {
    /// The usual name of every option.
    pub fn keys() -> impl Iterator<Item = &'static str> + Clone {
        OPTIONS.iter().filter(|row| row.job().is_some()).filter_map(|row| row.names().next())
    }

    /// The option that people or other tools call by this name, which is no option.
    pub fn synonym(word: &str) -> Option<&'static str> {
        options::synonym(word)
    }

    /// Whether this is the name of a job option.
    pub fn is_key(key: &str) -> bool {
        options::find(key).is_some_and(|row| row.job().is_some())
    }

    /// Sets the option `key` from its text, as fio reads it.
    pub fn set(&mut self, key: &str, text: &str, prefixes: Prefixes) -> Result<(), OptionError> {
        let Some(option) = options::find(key).and_then(OptionRow::job) else {
            let nearest = JobSpec::synonym(key).or_else(|| nearest(key, JobSpec::keys()));
            return Err(OptionError::Unknown { key: key.to_string(), nearest });
        };
        (option.read)(self, text, prefixes).map_err(|value| OptionError::Value { key: key.to_string(), value })
    }

    /// The options that differ from [`JobSpec::default`], in the order of [`JobSpec::keys`]. [`JobSpec::set`] parses
    /// them back to the same job.
    pub fn entries(&self) -> Vec<(&'static str, Scalar)> {
        let default = JobSpec::default();
        let mut entries = Vec::new();
        for (key, option) in OPTIONS.iter().filter_map(|row| row.names().next().zip(row.job())) {
            let value = (option.show)(self);
            if value != (option.show)(&default) {
                entries.extend(value.map(|value| (key, value)));
            }
        }
        entries
    }
}

impl Serialize for JobSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.entries();
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for (key, value) in entries {
            map.serialize_entry(key, &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JobSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobSpec, D::Error> {
        struct Options;
        impl<'de> Visitor<'de> for Options {
            type Value = JobSpec;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the options of a job")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JobSpec, A::Error> {
                let mut spec = JobSpec::default();
                while let Some((key, value)) = map.next_entry::<String, Scalar>()? {
                    spec.set(&key, &value.text(), Prefixes::Plain).map_err(serde::de::Error::custom)?;
                }
                Ok(spec)
            }
        }
        deserializer.deserialize_map(Options)
    }
}
