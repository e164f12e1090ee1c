//! `deadline`: the single-queue scheduler of Linux up to 4.20, whose algorithm `mq-deadline` took over.
//!
//! One class, no aging, no at-head list of its own, successors remembered instead of positions; a plug arrives sorted by
//! sector; synchronous and asynchronous requests have slots of their own.

use dumbwaiter_block::Setup;

use crate::mq_deadline::{Kernel, MqDeadline};

/// An empty scheduler.
pub fn deadline(setup: Setup) -> MqDeadline {
    MqDeadline::new(setup, Kernel::Legacy)
}
