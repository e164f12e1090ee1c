//! Controllers come, are set and go.

use crate::controller::{Controller, Scope, Stack, device_settings, has_setting, set_control};
use crate::layer::BlockLayer;
use crate::scheduler::{Handover, Tunable, TunableError, set_tunable};
use crate::{Nanos, RequestId};

impl BlockLayer {
    /// Appends a controller to the chain, which I/Os meet last at submission and first when they ask for a request. Of the I/Os
    /// under way it hears only the ends.
    pub fn add_controller(&mut self, now: Nanos, controller: Box<dyn Controller>) {
        self.append(now, controller, false);
    }

    /// Removes the controller of this name, if there is one; everything that it keeps goes on.
    pub fn remove_controller(&mut self, now: Nanos, name: &str) {
        if let Some(at) = self.corridor.links.iter().position(|link| link.controller.name() == name) {
            self.remove_link(now, at);
            self.settle(now);
        }
    }

    /// Exchanges the scheduler, with the controllers that came with it, for another stack, which was made with the set-up that
    /// [`BlockLayer::config`] shows now. A scheduler that a freeze still holds back is dropped for it. Other controllers stay.
    pub fn replace(&mut self, now: Nanos, stack: impl Into<Stack>, how: Handover) {
        let Stack { scheduler, controllers } = stack.into();
        self.remove_stack_controllers(now);
        for controller in controllers {
            self.append(now, controller, true);
        }
        self.exchange_for(now, scheduler, how);
        self.settle(now);
    }

    /// The controllers of a stack go with it.
    fn remove_stack_controllers(&mut self, now: Nanos) {
        self.corridor.next_scheduler = None;
        while let Some(at) = self.corridor.links.iter().rposition(|link| link.of_stack) {
            self.remove_link(now, at);
        }
    }

    fn remove_link(&mut self, now: Nanos, at: usize) {
        let key = self.corridor.links.remove(at).key;
        let kept = self.requests.iter().map(|(id, _)| id).filter(|id| self.corridor.wait(*id).gate == key);
        let mut kept: Vec<RequestId> = kept.collect();
        kept.sort_by_key(|id| self.requests[*id].submit);
        for id in kept {
            self.corridor.wait_mut(id).gate = 0;
            self.go_on(now, id, at, at);
        }
    }

    /// The controller of this name.
    pub fn controller(&self, name: &str) -> Option<&dyn Controller> {
        self.controllers().find(|controller| controller.name() == name)
    }

    /// The chain, in the order in which I/Os meet it at submission.
    pub fn controllers(&self) -> impl Iterator<Item = &dyn Controller> {
        self.corridor.links.iter().map(|link| &*link.controller)
    }

    /// Changes a setting of a controller.
    ///
    /// # Errors
    ///
    /// No controller has such a setting, or the value is out of range.
    pub fn set_control(&mut self, now: Nanos, scope: Scope, name: &str, value: i128) -> Result<(), TunableError> {
        let link = self.corridor.links.iter_mut().find(|link| has_setting(&*link.controller, scope, name));
        let Some(link) = link else {
            let known = self.controllers().flat_map(|c| c.settings()).map(|setting| setting.tunable.name).collect();
            return Err(TunableError::Unknown { name: name.into(), known });
        };
        set_control(&mut *link.controller, scope, name, value, now)?;
        self.tick_controllers(now);
        self.settle(now);
        Ok(())
    }

    /// Writes a text as into the kernel's file of this name. Answers whether a controller has such a file.
    ///
    /// # Errors
    ///
    /// The controller does not take the text.
    pub fn write_control(&mut self, now: Nanos, file: &str, text: &str) -> Result<bool, String> {
        let written = self.corridor.links.iter_mut().find_map(|link| link.controller.write(file, text, now));
        written.clone().transpose()?;
        self.tick_controllers(now);
        self.settle(now);
        Ok(written.is_some())
    }

    /// Settings of the device that can be changed while it runs: those of controllers, and the scheduler's unless a controller
    /// chooses that.
    pub fn tunables(&self) -> Vec<Tunable> {
        let mut found: Vec<Tunable> = device_settings(self.controllers()).collect();
        if !self.controllers().any(|c| c.chooses_scheduler()) {
            found.extend_from_slice(self.scheduler.tunables());
        }
        found
    }

    /// The value of one of [`BlockLayer::tunables`].
    pub fn tunable(&self, name: &str) -> Option<i128> {
        let of_controller = self.controllers().find_map(|c| c.get(Scope::Device, name));
        of_controller.or_else(|| self.scheduler.get(name))
    }

    /// Changes one of [`BlockLayer::tunables`].
    ///
    /// # Errors
    ///
    /// An unknown name, or a value out of range.
    pub fn set_tunable(&mut self, now: Nanos, name: &str, value: i128) -> Result<(), TunableError> {
        if self.controllers().any(|c| has_setting(c, Scope::Device, name)) {
            return self.set_control(now, Scope::Device, name, value);
        }
        set_tunable(&mut *self.scheduler, name, value)
    }

    /// Reports the counters of the scheduler and of controllers by name, for results. Where a controller chooses the scheduler, those
    /// of the one in force say nothing of the run.
    pub fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        if !self.controllers().any(|c| c.chooses_scheduler()) {
            self.scheduler.counters(count);
        }
        for controller in self.controllers() {
            controller.counters(Scope::Device, count);
        }
    }
}
