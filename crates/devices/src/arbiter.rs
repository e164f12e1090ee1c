//! Weighted round robin between classes of commands, in front of a drive (NVMe: the arbitration mechanism of that name).
//!
//! Commands wait in queues of the host, one for each class, and the drive fetches as many as it works on at once. In a round it fetches from
//! each class as many commands as the class weighs, and skips classes without any.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use crate::{Command, Completion, Device, Facts, Submitted};

/// Classes: high, medium, low.
const CLASSES: usize = 3;
/// Commands that the drive works on at once, as long as its classes have weights.
const FETCHED_MAX: u32 = 32;

/// The queues of a drive with classes. Commands that the drive got before are no concern of it.
pub struct Arbiter {
    facts: Facts,
    weights: [u32; CLASSES],
    fetched_max: u32,
    queues: [VecDeque<Command>; CLASSES],
    /// The class whose turn it is, and the commands that it may still fetch in this round.
    turn: usize,
    credit: u32,
    fetched: u32,
    /// Commands waiting or in the drive.
    held: u32,
    /// When each of those was submitted and fetched, by tag.
    times: Vec<Option<(Nanos, Nanos)>>,
    completions: Vec<Completion>,
}

impl Arbiter {
    /// Empty queues of a drive, whose classes have no weights yet.
    pub fn new(facts: Facts) -> Arbiter {
        Arbiter {
            facts,
            weights: [1; CLASSES],
            fetched_max: facts.depth,
            queues: Default::default(),
            turn: 0,
            credit: 1,
            fetched: 0,
            held: 0,
            times: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// The classes get these weights, each at least 1. Without weights the drive fetches all that it can hold.
    pub fn set_weights(&mut self, drive: &mut dyn Device, now: Nanos, weights: Option<[u32; CLASSES]>) {
        self.weights = weights.unwrap_or([1; CLASSES]).map(|weight| weight.max(1));
        self.fetched_max = weights.map_or(self.facts.depth, |_| self.facts.depth.min(FETCHED_MAX));
        (self.turn, self.credit) = (0, self.weights[0]);
        self.fetch(drive, now);
    }

    /// The next command by weighted round robin.
    fn next_command(&mut self) -> Option<Command> {
        // Once round all classes, and once more to the one that has used up its credit.
        for _ in 0..=CLASSES {
            if self.credit > 0
                && let Some(command) = self.queues[self.turn].pop_front()
            {
                self.credit -= 1;
                return Some(command);
            }
            self.turn = (self.turn + 1) % CLASSES;
            self.credit = self.weights[self.turn];
        }
        None
    }

    fn fetch(&mut self, drive: &mut dyn Device, now: Nanos) {
        while self.fetched < self.fetched_max {
            let Some(command) = self.next_command() else { return };
            if drive.submit(now, &command) == Submitted::Busy {
                self.queues[self.turn].push_front(command);
                self.credit += 1;
                return;
            }
            if let Some((_, fetched)) = &mut self.times[command.tag as usize] {
                *fetched = now;
            }
            self.fetched += 1;
        }
    }

    /// Submits a command in a class: 0 high, 1 medium, 2 low.
    pub fn submit(&mut self, drive: &mut dyn Device, now: Nanos, command: &Command, class: u8) -> Submitted {
        if self.held == self.facts.depth {
            return Submitted::Busy;
        }
        self.held += 1;
        let tag = command.tag as usize;
        if tag >= self.times.len() {
            self.times.resize(tag + 1, None);
        }
        self.times[tag] = Some((now, now));
        self.queues[usize::from(class).min(CLASSES - 1)].push_back(*command);
        self.fetch(drive, now);
        Submitted::Accepted
    }

    /// As [`Device::advance`].
    pub fn advance(&mut self, drive: &mut dyn Device, now: Nanos, out: &mut Vec<Completion>) {
        while let Some(at) = drive.next_event().filter(|at| *at <= now) {
            let mut completions = std::mem::take(&mut self.completions);
            drive.advance(at, &mut completions);
            for mut completion in completions.drain(..) {
                if let Some((submitted, fetched)) = self.times.get_mut(completion.tag as usize).and_then(Option::take) {
                    completion.breakdown.queue += fetched.since(submitted);
                    self.fetched -= 1;
                    self.held -= 1;
                }
                out.push(completion);
            }
            self.completions = completions;
            self.fetch(drive, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Op, TenantId};

    use super::*;

    fn command(tag: u32) -> Command {
        Command { tag, op: Op::Read, fua: false, sector: 8 * u64::from(tag), sectors: 8, queue: 0, tenant: TenantId(0) }
    }

    fn drive() -> Box<dyn Device> {
        crate::load("ull:optane-900p").unwrap().build(1)
    }

    fn arbiter(drive: &mut dyn Device, weights: [u32; CLASSES]) -> Arbiter {
        let mut arbiter = Arbiter::new(drive.facts());
        arbiter.set_weights(drive, Nanos::ZERO, Some(weights));
        arbiter
    }

    /// What completes until nothing is left.
    fn all(arbiter: &mut Arbiter, drive: &mut dyn Device) -> Vec<Completion> {
        let mut done = Vec::new();
        while let Some(at) = drive.next_event() {
            arbiter.advance(drive, at, &mut done);
        }
        done
    }

    #[test]
    fn classes_are_served_by_weight_and_everything_completes_once() {
        let mut drive = drive();
        let mut arbiter = arbiter(&mut *drive, [4, 2, 1]);
        for tag in 0..210 {
            let answer = arbiter.submit(&mut *drive, Nanos::ZERO, &command(tag), (tag % 3) as u8);
            assert_eq!(answer, Submitted::Accepted);
        }
        let order = all(&mut arbiter, &mut *drive);
        assert_eq!(order.len(), 210);
        assert!(order.iter().all(|done| done.at == done.breakdown.sum()), "the parts of a latency are the whole");
        // Behind the commands that were fetched at once: of 105 with all classes waiting, four sevenths and so on.
        let counts = [0, 1, 2].map(|class| order[32..32 + 70].iter().filter(|done| done.tag % 3 == class).count());
        assert!(
            counts[0].abs_diff(40) <= 4 && counts[1].abs_diff(20) <= 4 && counts[2].abs_diff(10) <= 4,
            "{counts:?}"
        );
    }

    #[test]
    fn one_class_alone_gets_the_whole_drive() {
        let mut drive = drive();
        let mut arbiter = arbiter(&mut *drive, [100, 10, 1]);
        for tag in 0..100 {
            arbiter.submit(&mut *drive, Nanos::ZERO, &command(tag), 2);
        }
        assert_eq!(all(&mut arbiter, &mut *drive).len(), 100);
    }

    #[test]
    fn weights_come_and_go_while_commands_are_under_way() {
        let mut drive = drive();
        let depth = drive.facts().depth;
        assert!(depth > FETCHED_MAX + 100);
        for tag in 0..50 {
            drive.submit(Nanos::ZERO, &command(tag));
        }
        let mut arbiter = arbiter(&mut *drive, [4, 2, 1]);
        for tag in 50..150 {
            arbiter.submit(&mut *drive, Nanos::ZERO, &command(tag), (tag % 3) as u8);
        }
        assert_eq!((arbiter.held, arbiter.fetched), (100, FETCHED_MAX));
        arbiter.set_weights(&mut *drive, Nanos::ZERO, None);
        assert_eq!((arbiter.held, arbiter.fetched), (100, 100));
        let done = all(&mut arbiter, &mut *drive);
        assert_eq!((done.len(), arbiter.held, arbiter.fetched), (150, 0, 0));
        assert!(done.iter().all(|done| done.at == done.breakdown.sum()), "the parts of a latency are the whole");
    }
}
