//! The calls of a host, and the events of the arm up to each.

use dumbwaiter_block::Nanos;

use super::{Arm, Barrier, Hdd, Held};
use crate::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};

impl Hdd {
    fn arm_event(&self) -> Option<Nanos> {
        match self.arm {
            Arm::Idle { since } if self.dirty.is_empty() => {
                self.shingled.as_ref().filter(|s| s.has_cached()).map(|s| since + s.t_idle)
            }
            Arm::Idle { since } => Some(since + self.t_idle),
            Arm::Overhead { until }
            | Arm::Read { until, .. }
            | Arm::Write { until, .. }
            | Arm::Ahead { until, .. }
            | Arm::Flushed { until } => Some(until),
        }
    }

    /// Processes the events of the arm up to and including `now`.
    fn run(&mut self, now: Nanos) {
        while let Some(at) = self.arm_event().filter(|at| *at <= now) {
            self.step(at);
        }
    }

    fn step(&mut self, now: Nanos) {
        match self.arm {
            Arm::Idle { .. } if self.dirty.is_empty() => self.clean_now(now),
            Arm::Idle { .. } => self.write_back(now),
            Arm::Overhead { .. } => self.serve(now),
            Arm::Read { lba, from, end, .. } => {
                let segment = self.buffer.fill(lba, from, end);
                if self.continuing(now).is_some() || !self.read_on(now, segment, from, end) {
                    self.dispatch(now);
                }
            }
            Arm::Write { returns, .. } => {
                self.returning -= returns;
                self.arm = Arm::Idle { since: now };
                self.admit_waiting(now);
                self.dispatch(now);
            }
            Arm::Ahead { segment, from, end, .. } => {
                self.buffer.extend(segment, end);
                if end > from {
                    self.here = self.geometry.place(end - 1);
                    self.next_lba = end;
                    self.passed_at = now;
                }
                self.dispatch(now);
            }
            Arm::Flushed { .. } => {
                if let Some(Barrier { held, began }) = self.barrier.take() {
                    let firmware = self.t_cmd.min(now.since(began));
                    let breakdown = Breakdown {
                        queue: began.since(held.arrival),
                        firmware,
                        media: now.since(began).since(firmware),
                        ..Breakdown::default()
                    };
                    self.finish(held, now, breakdown);
                }
                self.arm = Arm::Idle { since: now };
                while self.barrier.is_none() {
                    let Some(held) = self.behind.pop_front() else { break };
                    self.accept(held, now);
                }
                if matches!(self.arm, Arm::Idle { .. }) {
                    self.dispatch(now);
                }
            }
        }
    }
}

impl Device for Hdd {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        self.run(now);
        self.inside -= self.outbox.settle(now);
        if self.inside == self.facts.depth {
            return Submitted::Busy;
        }
        self.inside += 1;
        self.counters.count(command, self.inside);
        let held = Held { command: *command, arrival: now, seq: self.seq };
        self.seq += 1;
        if command.beyond(self.facts.capacity_sectors) {
            let breakdown = Breakdown { firmware: self.t_err, ..Breakdown::default() };
            let completion = Completion { tag: command.tag, at: now + self.t_err, failed: true, breakdown };
            self.outbox.push(held.seq, completion);
        } else {
            self.accept(held, now);
        }
        Submitted::Accepted
    }

    fn next_event(&self) -> Option<Nanos> {
        let undecided = !self.queue.is_empty() || !self.waiting.is_empty() || self.barrier.is_some();
        let arm = if undecided { self.arm_event() } else { None };
        match (arm, self.outbox.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.run(now);
        self.inside -= self.outbox.drain(now, out);
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
