//! Checks against a wrong scheduler, a wrong driver and a device that makes no progress.

use crate::layer::BlockLayer;
use crate::layer::fault::{Culprit, FailedAttempts, Fault};
use crate::request::State;
use crate::{Nanos, RequestId};

impl BlockLayer {
    /// Why nothing is sent any more, if so: [`BlockLayer::poll`] answers `None` from then on.
    pub fn fault(&self) -> Option<&Fault> {
        self.checks.fault.as_ref()
    }

    /// Is this request where the caller says? If not, that is the layer's fault from now on.
    pub(super) fn expect_state(&mut self, id: RequestId, state: State, fault: fn(Culprit) -> Fault) -> bool {
        let request = self.requests.get(id);
        let right = request.is_some_and(|r| r.state == state);
        if !right {
            self.set_fault_about(id, fault);
        }
        right
    }

    #[cold]
    pub(super) fn set_fault_about(&mut self, id: RequestId, fault: fn(Culprit) -> Fault) {
        self.set_fault(fault(Culprit::new(id, self.requests.get(id))));
    }

    #[cold]
    fn set_fault(&mut self, fault: Fault) {
        self.checks.fault.get_or_insert(fault);
    }

    /// The device gave request `id` back at `now`; that must not go on for ever.
    pub(super) fn note_refusal(&mut self, now: Nanos, id: RequestId) {
        if self.checks.failed_attempts.too_many(now) {
            self.set_fault_about(id, Fault::DeviceRefuses);
        }
    }

    /// The scheduler holds requests and sends none.
    pub(super) fn note_stall(&mut self, now: Nanos) {
        if self.in_device() > 0 {
            self.checks.failed_attempts = FailedAttempts::default();
        } else if self.checks.failed_attempts.too_many(now) {
            self.set_fault(Fault::SchedulerStalls { waiting: self.queued() });
        }
    }
}
