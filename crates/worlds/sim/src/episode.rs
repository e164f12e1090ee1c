//! A run in periods, between which the scheduler may be exchanged.

use std::sync::Arc;

use dumbwaiter_block::{Handover, Setup};
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::HostCosts;
use dumbwaiter_schedulers::Choice;

use crate::experiment::{Error, start};
use crate::host::{self, Completion};
use crate::run::{Period, PeriodEnd, Run};

/// A run in progress under one of several schedulers.
pub struct Episode<'a> {
    run: Run<'a>,
    profile: HostCosts,
    setup: Setup,
    choices: Arc<[Choice]>,
    current: usize,
    end: PeriodEnd,
}

impl<'a> Episode<'a> {
    /// Starts a run under the scheduler of this number. `replicate` is added to the scenario's seed.
    ///
    /// # Errors
    /// A load that cannot be built.
    pub fn start(
        prepared: &dumbwaiter_scenario::load::Prepared,
        model: &DeviceModel,
        choices: &Arc<[Choice]>,
        first: usize,
        replicate: u32,
        end: PeriodEnd,
        control: &'a Control,
    ) -> Result<Episode<'a>, Error> {
        let started = start(prepared, model, &choices[first], Completion::Interrupt, replicate, control)?;
        let mut run = started.run;
        run.watch();
        Ok(Episode {
            run,
            profile: started.profile,
            setup: started.setup,
            choices: Arc::clone(choices),
            current: first,
            end,
        })
    }

    /// Runs one period under the scheduler of this number, which takes over all queued requests if it is another one than
    /// before. Returns what happened, and whether the run goes on. A control that cancels cuts the period short.
    ///
    /// # Errors
    /// A scheduler or device that breaks its contract.
    pub fn period(&mut self, scheduler: usize) -> Result<(&Period, bool), dumbwaiter_block::Fault> {
        self.run.begin_period();
        if scheduler != self.current {
            let choice = &self.choices[scheduler];
            self.run.replace(
                || choice.build(self.setup),
                host::scheduler_cost(&self.profile, choice.entry().name),
                Handover::Live,
            );
            self.current = scheduler;
        }
        let goes_on = self.run.advance(self.end);
        match self.run.fault() {
            Some(fault) => Err(fault),
            None => Ok((self.run.period(), goes_on)),
        }
    }
}
