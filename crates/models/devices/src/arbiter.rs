//! Weighted round robin between classes of commands, in front of a drive (NVMe: the arbitration mechanism of that name).
//!
//! Commands wait in queues of the host, one for each class, and the drive fetches as many as it works on at once. In a round it fetches from
//! each class as many commands as the class weighs, and skips classes without any. While no scheduler uses classes, commands go to the drive at
//! once.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use crate::{Command, Completion, Counters, Device, Facts, Submitted};

/// Classes: high, medium, low.
const CLASSES: usize = 3;
/// Commands that the drive works on at once.
const FETCHED_MAX: u32 = 32;

/// A drive with classes.
pub struct Arbiter {
    drive: Box<dyn Device>,
    facts: Facts,
    /// `None` while no scheduler uses classes.
    weights: Option<[u32; CLASSES]>,
    queues: [VecDeque<Command>; CLASSES],
    /// The class whose turn it is, and the commands that it may still fetch in this round.
    turn: usize,
    credit: u32,
    fetched: u32,
    /// Commands waiting or in the drive.
    held: u32,
    /// When each command was submitted and fetched, by tag.
    times: Vec<(Nanos, Nanos)>,
    completions: Vec<Completion>,
}

impl Arbiter {
    /// A drive whose classes have no weights yet.
    pub fn new(drive: Box<dyn Device>) -> Arbiter {
        Arbiter {
            facts: drive.facts(),
            drive,
            weights: None,
            queues: Default::default(),
            turn: 0,
            credit: 0,
            fetched: 0,
            held: 0,
            times: Vec::new(),
            completions: Vec::new(),
        }
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
            self.credit = self.weights.map_or(1, |weights| weights[self.turn]);
        }
        None
    }

    fn fetch(&mut self, now: Nanos) {
        let most = if self.weights.is_some() { FETCHED_MAX.min(self.facts.depth) } else { self.facts.depth };
        while self.fetched < most {
            let Some(command) = self.next_command() else { return };
            if self.drive.submit(now, &command) == Submitted::Busy {
                self.queues[self.turn].push_front(command);
                self.credit += 1;
                return;
            }
            self.times[command.tag as usize].1 = now;
            self.fetched += 1;
        }
    }
}

impl Device for Arbiter {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        self.submit_in_class(now, command, 1)
    }

    fn submit_in_class(&mut self, now: Nanos, command: &Command, class: u8) -> Submitted {
        if self.held == self.facts.depth {
            return Submitted::Busy;
        }
        let tag = command.tag as usize;
        if tag >= self.times.len() {
            self.times.resize(tag + 1, (Nanos::ZERO, Nanos::ZERO));
        }
        self.times[tag] = (now, now);
        if self.weights.is_none() && self.queues.iter().all(VecDeque::is_empty) {
            let submitted = self.drive.submit(now, command);
            let taken = u32::from(submitted == Submitted::Accepted);
            (self.held, self.fetched) = (self.held + taken, self.fetched + taken);
            return submitted;
        }
        self.held += 1;
        self.queues[usize::from(class).min(CLASSES - 1)].push_back(*command);
        self.fetch(now);
        Submitted::Accepted
    }

    fn set_class_weights(&mut self, weights: Option<[u32; CLASSES]>) {
        self.weights = weights.map(|weights| weights.map(|weight| weight.max(1)));
        self.turn = 0;
        self.credit = self.weights.map_or(0, |weights| weights[0]);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.drive.next_event()
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some(at) = self.drive.next_event().filter(|at| *at <= now) {
            let mut completions = std::mem::take(&mut self.completions);
            self.drive.advance(at, &mut completions);
            let done = completions.len() as u32;
            for mut completion in completions.drain(..) {
                let (submitted, fetched) = self.times[completion.tag as usize];
                completion.breakdown.queue += fetched.since(submitted);
                out.push(completion);
            }
            self.completions = completions;
            self.fetched -= done;
            self.held -= done;
            self.fetch(at);
        }
    }

    fn counters(&self) -> Counters {
        self.drive.counters()
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

    #[test]
    fn classes_are_served_by_weight_and_everything_completes_once() {
        let mut arbiter = Arbiter::new(drive());
        arbiter.set_class_weights(Some([4, 2, 1]));
        for tag in 0..210 {
            assert_eq!(arbiter.submit_in_class(Nanos::ZERO, &command(tag), (tag % 3) as u8), Submitted::Accepted);
        }
        let mut order = Vec::new();
        while let Some(at) = arbiter.next_event() {
            arbiter.advance(at, &mut order);
        }
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
        let mut arbiter = Arbiter::new(drive());
        arbiter.set_class_weights(Some([100, 10, 1]));
        for tag in 0..100 {
            arbiter.submit_in_class(Nanos::ZERO, &command(tag), 2);
        }
        let mut done = Vec::new();
        while let Some(at) = arbiter.next_event() {
            arbiter.advance(at, &mut done);
        }
        assert_eq!(done.len(), 100);
    }

    /// Completions of a drive that gets the same commands, one each 20 microseconds.
    fn completions(mut device: Box<dyn Device>, change: impl Fn(&mut dyn Device, u32)) -> Vec<(u32, Nanos)> {
        let mut done = Vec::new();
        for tag in 0..300 {
            let now = Nanos::from_us(20 * u64::from(tag));
            device.advance(now, &mut done);
            change(&mut *device, tag);
            let _ = device.submit_in_class(now, &command(tag), (tag % 3) as u8);
        }
        while let Some(at) = device.next_event() {
            device.advance(at, &mut done);
        }
        done.iter().map(|done| (done.tag, done.at)).collect()
    }

    #[test]
    fn without_weights_it_is_the_drive_alone() {
        let plain = completions(drive(), |_, _| {});
        assert_eq!(completions(Box::new(Arbiter::new(drive())), |_, _| {}), plain);
    }

    #[test]
    fn weights_that_come_and_go_lose_no_command() {
        let weigh = |device: &mut dyn Device, tag: u32| {
            if tag.is_multiple_of(40) {
                device.set_class_weights((tag.is_multiple_of(80)).then_some([8, 4, 1]));
            }
        };
        let mut tags: Vec<u32> =
            completions(Box::new(Arbiter::new(drive())), weigh).into_iter().map(|(tag, _)| tag).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 300);
    }
}
