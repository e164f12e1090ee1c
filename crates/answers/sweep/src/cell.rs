//! A cell of a grid: one run, and its key.

use std::collections::BTreeMap;
use std::sync::Arc;

use dumbwaiter_experiment::{Cell, Control, Stack};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec};
use serde_json::Value;

use crate::Error;
use crate::axis::{self, AxisKind};
use crate::key::{self, Key};
use crate::model::MODEL;
use crate::sweep::{Sweep, scenario_of};

/// A cell: places on the axes, and a replicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepCell {
    /// Its number in the grid.
    pub index: u64,
    /// Its place on each axis.
    pub places: Vec<usize>,
    /// Its replicate, from 0.
    pub replicate: u32,
}

impl Sweep {
    /// The cell of a number.
    pub fn cell(&self, index: u64) -> SweepCell {
        let (places, replicate) = self.grid.at(index);
        SweepCell { index, places, replicate }
    }

    /// The values of a cell, for people.
    pub fn told(&self, cell: &SweepCell) -> String {
        let values =
            self.grid.axes.iter().zip(&cell.places).map(|(axis, at)| format!("{}={}", axis.name, axis.text(*at)));
        let replicate = format!("replicate={}", cell.replicate);
        values.chain([replicate]).collect::<Vec<_>>().join(" ")
    }

    /// The text of the axis of this kind at these places.
    pub(crate) fn value(&self, kind: AxisKind, places: &[usize]) -> String {
        let axes = self.grid.axes.iter().zip(places);
        axes.filter(|(axis, _)| axis.kind == kind).map(|(axis, at)| axis.text(*at)).next().unwrap_or_default()
    }

    /// The scenario of a cell; device, scheduler and completion apart.
    pub(crate) fn scenario(&self, places: &[usize]) -> Result<Scenario, Error> {
        let mut keys = self.grid.axes.iter().zip(places).filter(|(axis, _)| axis.kind == AxisKind::Key).peekable();
        let scenario = if keys.peek().is_none() {
            scenario_of(&self.base)?
        } else {
            let mut base: Value = self.base.clone();
            for (axis, at) in keys {
                axis::set(&mut base, &axis.name, &axis.values[*at])?;
            }
            scenario_of(&base)?
        };
        // Names of schedulers and devices are the world's to know; those of the base need not be used at all.
        scenario.validate(&|_| Ok(()), &|_| Ok(())).map_err(|e| Error::input(e.to_string()))?;
        Ok(scenario)
    }
}

/// A scenario of the grid, made once for the neighbours that have it.
struct Variant {
    places: Vec<usize>,
    scenario: Arc<Scenario>,
    canonical: Key,
    prepared: Option<Arc<Prepared>>,
}

/// Resolves cells. Neighbours share their scenario.
pub(crate) struct Resolver<'a> {
    sweep: &'a Sweep,
    /// Ends the reading of traces.
    control: &'a Control,
    /// Number of axes of keys, which come first.
    keys: usize,
    variant: Option<Variant>,
    /// Parameters of devices and hashes of traces, by name.
    devices: BTreeMap<String, Result<String, String>>,
    traces: BTreeMap<String, String>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(sweep: &'a Sweep, control: &'a Control) -> Resolver<'a> {
        let keys = sweep.grid.axes.iter().filter(|axis| axis.kind == AxisKind::Key).count();
        Resolver { sweep, control, keys, variant: None, devices: BTreeMap::new(), traces: BTreeMap::new() }
    }

    fn variant(&mut self, places: &[usize]) -> Result<&mut Variant, Error> {
        let known = self.variant.as_ref().is_some_and(|variant| variant.places == places[..self.keys]);
        if !known {
            let scenario = self.sweep.scenario(places)?;
            let traces = key::of_traces(&scenario, &mut self.traces, self.control)?;
            let canonical = key::hash([key::canonical(&scenario)?.as_str(), &traces]);
            let (places, scenario) = (places[..self.keys].to_vec(), Arc::new(scenario));
            self.variant = Some(Variant { places, scenario, canonical, prepared: None });
        }
        self.variant.as_mut().ok_or_else(|| Error::input("no scenario"))
    }

    /// The key of a cell.
    pub(crate) fn key(&mut self, places: &[usize], replicate: u32) -> Result<Key, Error> {
        let device = self.sweep.value(AxisKind::Device, places);
        let load = || {
            let model = dumbwaiter_devices::load(&device).map_err(|e| e.to_string())?;
            key::of_device(&model).map_err(|e| e.to_string())
        };
        let parameters = self.devices.entry(device.clone()).or_insert_with(load).clone().map_err(Error::Input)?;
        let completion: Completion = self.sweep.value(AxisKind::Completion, places).parse().map_err(Error::Input)?;
        let scheduler = self.sweep.value(AxisKind::Scheduler, places);
        let variant = self.variant(places)?;
        let seed = variant.scenario.seed.wrapping_add(u64::from(replicate)).to_string();
        let (canonical, model) = (variant.canonical.to_string(), MODEL.to_string());
        let completion = completion.to_string();
        let texts = [&model, &canonical, &device, &parameters, &scheduler, &completion, &seed].map(String::as_str);
        let name = scheduler.split(':').next().unwrap_or_default();
        Ok(key::hash(texts.into_iter().chain(self.sweep.versions.get(name).map(String::as_str))))
    }

    /// The cell as worlds run it.
    pub(crate) fn cell(&mut self, places: &[usize], replicate: u32) -> Result<Cell, Error> {
        let device = self.sweep.value(AxisKind::Device, places);
        let scheduler = SchedulerSpec::parse(&self.sweep.value(AxisKind::Scheduler, places)).map_err(Error::Input)?;
        let completion: Completion = self.sweep.value(AxisKind::Completion, places).parse().map_err(Error::Input)?;
        let control = self.control;
        let variant = self.variant(places)?;
        let prepared = match &variant.prepared {
            Some(prepared) => Arc::clone(prepared),
            None => {
                let prepared = Prepared::unless(&variant.scenario, &|| control.cancelled());
                let prepared = Arc::new(prepared.map_err(|e| Error::input(e.to_string()))?);
                Arc::clone(variant.prepared.insert(prepared))
            }
        };
        Ok(Cell { completion, replicate, ..Cell::of(&prepared, &device, Stack::Simulated, scheduler) })
    }

    /// The seed of a cell.
    pub(crate) fn seed(&mut self, places: &[usize], replicate: u32) -> Option<u64> {
        self.variant(places).ok().map(|variant| variant.scenario.seed.wrapping_add(u64::from(replicate)))
    }
}
