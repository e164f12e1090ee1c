//! Schedulers with their tunables, as text or as a table.

use std::collections::BTreeMap;
use std::fmt;

use dumbwaiter_controllers::KernelControls;
use dumbwaiter_workloads::generate::Scalar;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A scheduler and the tunables that differ from its defaults. The scheduler registry checks names and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSpec {
    /// Its name.
    pub name: String,
    /// Its version, such as `v7r8` of bfq or `5.15` of mq-deadline; empty for the default.
    pub variant: String,
    /// Values by tunable, with the names and units of sysfs.
    pub tunables: BTreeMap<String, String>,
    /// The kernel's controllers that stand before it, where somebody asked for them.
    pub controls: KernelControls,
}

impl SchedulerSpec {
    /// The scheduler with its defaults.
    pub fn named(name: &str) -> SchedulerSpec {
        let (variant, tunables, controls) = Default::default();
        SchedulerSpec { name: name.to_string(), variant, tunables, controls }
    }

    /// Parses `mq-deadline` or `mq-deadline:fifo_batch=8,read_expire=100`; a word without `=` after the colon is a
    /// version. Controllers follow with `+`: `mq-deadline+wbt=off`.
    pub fn parse(text: &str) -> Result<SchedulerSpec, String> {
        let (text, controls) = KernelControls::split(text);
        let (name, tunables) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let name = name.trim();
        if name.is_empty() || name.contains(['=', ',']) {
            return Err(format!(
                "{text:?} is not a scheduler such as mq-deadline or mq-deadline:fifo_batch=8,read_expire=100"
            ));
        }
        let mut spec = SchedulerSpec::named(name);
        spec.controls = controls.map(KernelControls::parse).transpose()?.unwrap_or_default();
        for (i, pair) in tunables.into_iter().flat_map(|t| t.split(',')).enumerate() {
            if i == 0 && !pair.contains('=') && !pair.trim().is_empty() {
                spec.variant = pair.trim().to_string();
                continue;
            }
            let (key, value) = match pair.split_once('=').map(|(k, v)| (k.trim(), v.trim())) {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => (key, value),
                _ => return Err(format!("{pair:?} in {text:?} is not a tunable such as fifo_batch=8")),
            };
            if spec.tunables.insert(key.to_string(), value.to_string()).is_some() {
                return Err(format!("{key:?} is given twice in {text:?}"));
            }
        }
        Ok(spec)
    }

    /// Parses a comma-separated list: `none,mq-deadline:fifo_batch=8,read_expire=100,kyber`. A part with `=` and no
    /// colon before it is a tunable of the previous scheduler.
    pub fn parse_list(text: &str) -> Result<Vec<SchedulerSpec>, String> {
        let mut texts: Vec<String> = Vec::new();
        for part in text.split(',') {
            let tunable = part.find('=').is_some_and(|at| !part[..at].contains([':', '+']));
            match texts.last_mut().filter(|_| tunable) {
                Some(last) => *last += &format!(",{part}"),
                None => texts.push(part.to_string()),
            }
        }
        texts.iter().map(|text| SchedulerSpec::parse(text)).collect()
    }
}

/// In the syntax of [`SchedulerSpec::parse`].
impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let variant = Some(self.variant.clone()).filter(|v| !v.is_empty());
        let settings = self.tunables.iter().map(|(key, value)| format!("{key}={value}"));
        for (i, setting) in variant.into_iter().chain(settings).enumerate() {
            write!(f, "{}{setting}", if i == 0 { ':' } else { ',' })?;
        }
        let controls = self.controls.text();
        if controls.is_empty() { Ok(()) } else { write!(f, "+{controls}") }
    }
}

impl Serialize for SchedulerSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SchedulerSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SchedulerSpec, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            name: String,
            #[serde(default)]
            tunables: BTreeMap<String, Scalar>,
        }
        struct TextOrTable;
        impl<'de> Visitor<'de> for TextOrTable {
            type Value = SchedulerSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scheduler as text or as a table with name and tunables")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SchedulerSpec, E> {
                SchedulerSpec::parse(text).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SchedulerSpec, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let mut spec = SchedulerSpec::parse(&table.name).map_err(serde::de::Error::custom)?;
                spec.tunables.extend(table.tunables.into_iter().map(|(key, value)| (key, value.text())));
                Ok(spec)
            }
        }
        deserializer.deserialize_any(TextOrTable)
    }
}
