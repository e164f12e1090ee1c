//! The parameters of a fitted model, each with its origin.

use dumbwaiter_devices::{DeviceModel, Kind, load, models, parse};
use serde::Serialize;
use toml::{Table, Value};

use crate::fit::Error;

/// The origin of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "origin", content = "how")]
pub enum Origin {
    /// The survey determined it; how.
    Measured(String),
    /// Fitted to the survey, whose points the model does not predict: of the right order at best; how.
    Doubtful(String),
    /// The driver says so.
    Driver(String),
    /// The survey cannot determine it: the value is that of a similar drive, or an arbitrary one; why.
    Assumed(String),
}

/// A parameter of the fitted model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name in a parameter file.
    #[serde(skip)]
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// Its origin.
    #[serde(flatten)]
    pub origin: Origin,
}

/// The parameters of a kind: at first those of a built-in device.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    kind: Kind,
    all: Vec<Parameter>,
}

impl Parameters {
    /// Every parameter of a built-in device, as assumed.
    pub(crate) fn like(name: &str) -> Result<Parameters, Error> {
        let unknown = || Error::NoFit(format!("no built-in device {name}"));
        let info = models().iter().find(|info| info.name == name).ok_or_else(unknown)?;
        let table = Table::try_from(load(name).map_err(|_| unknown())?).map_err(|_| unknown())?;
        let assumed = || Origin::Assumed(format!("as {name}"));
        let value = |key: &str| table.get(key).cloned().unwrap_or(Value::Boolean(false));
        let all =
            info.kind.keys().iter().map(|key| Parameter { name: key.name, value: value(key.name), origin: assumed() });
        Ok(Parameters { kind: info.kind, all: all.collect() })
    }

    fn set(&mut self, name: &str, value: impl Into<Value>, origin: Origin) {
        if let Some(found) = self.all.iter_mut().find(|p| p.name == name) {
            (found.value, found.origin) = (value.into(), origin);
        }
    }

    pub(crate) fn measured(&mut self, name: &str, value: impl Into<Value>, how: &str) {
        self.set(name, value, Origin::Measured(how.to_owned()));
    }

    pub(crate) fn driver(&mut self, name: &str, value: impl Into<Value>, how: &str) {
        self.set(name, value, Origin::Driver(how.to_owned()));
    }

    pub(crate) fn assumed(&mut self, name: &str, value: impl Into<Value>, why: &str) {
        self.set(name, value, Origin::Assumed(why.to_owned()));
    }

    /// Changes a value and keeps its origin.
    pub(crate) fn change(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(found) = self.all.iter_mut().find(|p| p.name == name) {
            found.value = value.into();
        }
    }

    /// A number among them.
    pub(crate) fn number(&self, name: &str) -> f64 {
        let value = self.all.iter().find(|p| p.name == name).map(|p| &p.value);
        value.and_then(|v| v.as_float().or_else(|| v.as_integer().map(|i| i as f64))).unwrap_or(0.0)
    }

    /// The model with these parameters.
    pub(crate) fn model(&self) -> Result<DeviceModel, Error> {
        let mut table: Table = self.all.iter().map(|p| (p.name.to_owned(), p.value.clone())).collect();
        table.insert("kind".into(), self.kind.name().into());
        let text = toml::to_string(&table).map_err(|e| Error::NoFit(e.to_string()))?;
        parse(&text, "the fitted model", "").map_err(|e| Error::NoFit(e.to_string()))
    }

    pub(crate) fn into_parts(self) -> (Kind, Vec<Parameter>) {
        (self.kind, self.all)
    }
}

/// A time or rate with four significant digits, which is more than a survey knows.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(4 - value.abs().log10().ceil() as i32);
    (value * scale).round() / scale
}
