//! One of our models as the subject of a survey, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::{Nanos, Op, TenantId};
use dumbwaiter_devices::{Command, DeviceModel, Submitted};
use dumbwaiter_path::closed_loop::{Access, Timed};

use crate::fit::addresses::Addresses;
use crate::fit::{Error, Facts, Limits, Load, Point, Subject};

/// A device model in virtual time.
#[derive(Clone, Debug)]
pub struct Model {
    model: DeviceModel,
    seed: u64,
    host: Nanos,
}

impl Model {
    /// This model alone, on a host that costs no time.
    pub fn new(model: DeviceModel, seed: u64) -> Model {
        Model { model, seed, host: Nanos::ZERO }
    }

    /// With a host that needs this much time of its one CPU for each I/O.
    #[must_use]
    pub fn with_host(self, host_us: f64) -> Model {
        Model { host: Nanos::from_us_f64(host_us.max(0.0)), ..self }
    }
}

impl Subject for Model {
    fn facts(&self) -> Facts {
        let facts = self.model.facts();
        Facts {
            name: self.model.name().to_owned(),
            model: self.model.description().to_owned(),
            capacity_sectors: facts.capacity_sectors,
            max_sectors: facts.max_sectors,
            depth: Some(facts.depth),
            queues: Some(u32::from(facts.queues)),
            rotational: Some(facts.rotational),
            notes: Vec::new(),
        }
    }

    fn measure(&mut self, load: &Load, limits: Limits, stop: &AtomicBool) -> Result<Point, Error> {
        let timed = run(&self.model, self.seed, self.host, load, limits);
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Point::of(&timed, load.depth, Nanos(self.host.0 * timed.len() as u64))
            .ok_or_else(|| Error::NoFit(format!("{}: the model completes too few I/Os", load.name)))
    }
}

/// A closed loop on a new device: each slot's next I/O takes the host's CPU, then waits until the device accepts it.
fn run(model: &DeviceModel, seed: u64, host: Nanos, load: &Load, limits: Limits) -> Vec<Timed> {
    let mut device = model.build(seed);
    let mut addresses = Addresses::new(load, seed);
    let mut asked: Vec<(Access, Nanos)> = Vec::new();
    let mut timed = Vec::new();
    let mut cpu_free = Nanos::ZERO;
    // I/Os on the host's CPU, by the time at which they leave it.
    let mut leaving: BinaryHeap<Reverse<(Nanos, u32)>> = BinaryHeap::new();
    let mut waiting: VecDeque<u32> = VecDeque::new();
    let mut begun = 0;
    for tag in 0..load.depth {
        asked.push((addresses.next(), Nanos::ZERO));
        cpu_free += host;
        leaving.push(Reverse((cpu_free, tag)));
        begun += 1;
    }
    let mut done = Vec::new();
    let mut now = Nanos::ZERO;
    while timed.len() < begun as usize {
        while let Some(&Reverse((at, tag))) = leaving.peek()
            && at <= now
        {
            leaving.pop();
            waiting.push_back(tag);
        }
        while let Some(&tag) = waiting.front() {
            if device.submit(now, &command(tag, asked[tag as usize].0)) == Submitted::Busy {
                break;
            }
            waiting.pop_front();
        }
        let host_next = leaving.peek().map(|Reverse((at, _))| *at);
        now = match (device.next_event(), host_next) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => match a.or(b) {
                Some(at) => at,
                None => break,
            },
        }
        .max(now);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            let (access, submitted) = asked[completion.tag as usize];
            timed.push(Timed { access, submitted, completed: completion.at });
            if begun < limits.ios && now < limits.time {
                begun += 1;
                asked[completion.tag as usize] = (addresses.next(), completion.at);
                cpu_free = cpu_free.max(completion.at) + host;
                leaving.push(Reverse((cpu_free, completion.tag)));
            }
        }
    }
    timed
}

fn command(tag: u32, access: Access) -> Command {
    let Access { op, sector, sectors } = access;
    let fua = false;
    debug_assert!(matches!(op, Op::Read | Op::Write | Op::Flush));
    Command { tag, op, fua, sector, sectors, queue: 0, tenant: TenantId(0) }
}
