//! `wbt`: Linux's write-back throttling (6.12 and 6.18), which keeps few buffered writes in the device while reads are slow.
//!
//! The fastest read of each window of about 100 ms is held against a target. If it misses, half as many writes may be in the
//! device; if it meets it, more. Reads and direct writes never wait. A counted request that finds its counter full lets its task
//! sleep; sleepers go in their order. A scheduler that looks after reads itself ([`Traits::throttles_writeback`]) switches a
//! throttle off that is on by default.

mod limits;
mod throttle;

use dumbwaiter_block::{
    Config, Context, ControlSetting, Controller, Effects, Event, Nanos, Op, RequestAnswer, RequestId, Scope, Traits,
    Tunable,
};

pub use limits::{Limits, limits, window};
pub use throttle::{Class, Throttle, Verdict, class_of};

use crate::kernel_timer::Jiffies;

/// The name by which a block layer finds the controller.
pub const NAME: &str = "wbt";

/// Name of the setting.
const LATENCY: &str = "wbt_lat_usec";
/// Targets by default, µs: of flash, and of disks.
const DEFAULT_TARGETS_US: [u64; 2] = [2_000, 75_000];

const SETTINGS: &[ControlSetting] = &[ControlSetting {
    of: Scope::Device,
    tunable: Tunable {
        name: LATENCY,
        unit: "us",
        min: -1,
        max: 1 << 40,
        default: -1,
        help: "latency that reads should have beside buffered writes; 0: off; -1: 2000 for flash, 75000 for a disk",
    },
}];

/// Is it on, and who said so?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enabled {
    OnByDefault,
    OnByHand,
    OffByDefault,
    OffByHand,
}

/// A request as it is followed.
#[derive(Clone, Copy, Debug, Default)]
struct Tracked {
    /// Its counter, while it is counted.
    class: Option<Class>,
    /// Since when it is in the driver.
    started: Option<Nanos>,
}

/// Write-back throttling of a device.
#[derive(Clone, Debug)]
pub struct Wbt {
    throttle: Throttle,
    enabled: Enabled,
    /// The target that is stored, also while it is off; `None`: the default, which is known once the device is.
    stored_us: Option<u64>,
    rotational: bool,
    /// `None` before it is attached.
    device_depth: Option<u32>,
    /// Requests that there were when it was set up, where a scheduler was attached after that.
    set_up_with: Option<u32>,
    requests: Vec<Tracked>,
    /// What a change of settings let go: the next tick releases it.
    freed: Vec<RequestId>,
}

impl Default for Wbt {
    fn default() -> Wbt {
        Wbt::new()
    }
}

impl Wbt {
    /// As Linux sets it up for a device: on, with the default target.
    pub fn new() -> Wbt {
        Wbt {
            throttle: Throttle::new(Jiffies::default(), 1, false),
            enabled: Enabled::OnByDefault,
            stored_us: None,
            rotational: false,
            device_depth: None,
            set_up_with: None,
            requests: Vec::new(),
            freed: Vec::new(),
        }
    }

    /// As after this target was written to `queue/wbt_lat_usec`, µs; 0: off.
    pub fn with_target_us(target_us: u64) -> Wbt {
        let mut wbt = Wbt::new();
        wbt.set(Scope::Device, LATENCY, target_us.into(), Nanos::ZERO);
        wbt
    }

    /// As set up when the device had this many requests: a scheduler was attached later.
    pub fn set_up_with(self, requests: Option<u32>) -> Wbt {
        Wbt { set_up_with: requests, ..self }
    }

    /// The target in force, µs; 0: it is off.
    fn target_us(&self) -> u64 {
        match self.enabled {
            Enabled::OnByDefault | Enabled::OnByHand => self.stored_us.unwrap_or(self.default_us()),
            Enabled::OffByDefault | Enabled::OffByHand => 0,
        }
    }

    fn default_us(&self) -> u64 {
        DEFAULT_TARGETS_US[usize::from(self.rotational)]
    }

    fn tracked(&mut self, id: RequestId) -> &mut Tracked {
        if id.index() >= self.requests.len() {
            self.requests.resize(id.index() + 1, Tracked::default());
        }
        &mut self.requests[id.index()]
    }

    /// Gives the throttle the target that is in force.
    fn apply(&mut self, now: Nanos) {
        let target = Nanos::from_us(self.target_us());
        let (requests, freed) = (&mut self.requests, &mut self.freed);
        self.throttle.set_target(target, now, &mut |id, class| {
            requests[id.index()].class = Some(class);
            freed.push(id);
        });
    }

    fn follow(&mut self, traits: &Traits, now: Nanos) {
        let off = traits.throttles_writeback || traits.single_queue;
        let enabled = match self.enabled {
            Enabled::OnByDefault if off => Enabled::OffByDefault,
            Enabled::OffByDefault if !off => Enabled::OnByDefault,
            other => other,
        };
        if std::mem::replace(&mut self.enabled, enabled) != enabled {
            self.apply(now);
        }
    }

    fn free(&mut self, id: RequestId, now: Nanos, out: &mut Effects) {
        let Some(class) = self.tracked(id).class.take() else { return };
        let requests = &mut self.requests;
        self.throttle.freed(class, now, &mut |id, class| {
            requests[id.index()].class = Some(class);
            out.release(id);
        });
    }

    fn release_freed(&mut self, out: &mut Effects) {
        self.freed.drain(..).for_each(|id| out.release(id));
    }
}

impl Controller for Wbt {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The depth is that of now: Linux does not follow later changes of `nr_requests`.
    fn attached(
        &mut self,
        config: &Config,
        traits: &Traits,
        _under_way: &mut dyn Iterator<Item = u32>,
        ctx: &Context<'_>,
    ) {
        let setup = &config.setup;
        let depth = if traits.direct { setup.device_depth } else { setup.nr_requests };
        let depth = self.set_up_with.unwrap_or(depth);
        self.rotational = setup.rotational;
        self.device_depth = Some(setup.device_depth);
        let jiffies = Jiffies { clock: setup.clock, offset: 0 };
        self.throttle = Throttle::set_up(jiffies, depth, config.volatile_cache, ctx.now);
        self.stored_us = self.stored_us.or(Some(self.default_us()));
        self.follow(traits, ctx.now);
        self.apply(ctx.now);
    }

    fn request(&mut self, id: RequestId, ctx: &Context<'_>) -> RequestAnswer {
        *self.tracked(id) = Tracked::default();
        let io = ctx.requests[id].io;
        if io.op == Op::Read {
            self.throttle.read_asks(ctx.now);
        }
        let class = class_of(io.op, io.flags).filter(|_| self.throttle.target() > Nanos::ZERO);
        let Some(class) = class else { return RequestAnswer::Pass };
        if !self.throttle.admit(id, class, io.flags, ctx.now) {
            return RequestAnswer::Hold;
        }
        self.tracked(id).class = Some(class);
        RequestAnswer::Pass
    }

    fn issued(&mut self, id: RequestId, ctx: &Context<'_>, _out: &mut Effects) {
        self.throttle.started(id, ctx.requests[id].io.op, ctx.now);
        self.tracked(id).started = Some(ctx.now);
    }

    fn completed(&mut self, id: RequestId, ctx: &Context<'_>, out: &mut Effects) {
        let service = self.tracked(id).started.take().map(|started| ctx.now.since(started));
        self.throttle.ended(id, ctx.requests[id].io.op, service, ctx.now);
        self.free(id, ctx.now, out);
    }

    fn dropped(&mut self, id: RequestId, _into: Option<RequestId>, ctx: &Context<'_>, out: &mut Effects) {
        self.free(id, ctx.now, out);
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>, out: &mut Effects) {
        match event {
            Event::WriterPaused => self.throttle.writer_paused(ctx.now),
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::DepthChanged { device_depth, .. } if Some(device_depth) != self.device_depth => {
                self.device_depth = Some(device_depth);
                let requests = &mut self.requests;
                self.throttle.set_depth(device_depth, ctx.now, &mut |id, class| {
                    requests[id.index()].class = Some(class);
                    out.release(id);
                });
            }
            _ => {}
        }
    }

    fn exchanged(&mut self, traits: &Traits, ctx: &Context<'_>, out: &mut Effects) {
        self.follow(traits, ctx.now);
        self.release_freed(out);
    }

    fn timer(&self) -> Option<Nanos> {
        if self.freed.is_empty() { self.throttle.timer() } else { Some(Nanos::ZERO) }
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        self.release_freed(out);
        if self.throttle.timer().is_some_and(|at| at <= ctx.now) {
            let requests = &mut self.requests;
            self.throttle.tick(ctx.now, &mut |id, class| {
                requests[id.index()].class = Some(class);
                out.release(id);
            });
        }
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    /// 0 while it is off, whatever is stored.
    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let asked = scope == Scope::Device && name == LATENCY;
        asked.then(|| self.target_us().into())
    }

    /// A value that is stored already changes nothing, even if it is off.
    fn set(&mut self, _scope: Scope, _name: &str, value: i128, now: Nanos) {
        // Before it is attached the default is not known.
        let default = self.device_depth.map(|_| self.default_us());
        let wanted = u64::try_from(value).ok().or(default);
        if wanted.is_some() && wanted == self.stored_us {
            return;
        }
        self.stored_us = wanted;
        self.enabled = if wanted == Some(0) { Enabled::OffByHand } else { Enabled::OnByHand };
        self.apply(now);
    }

    /// `wbt_held`: requests whose tasks slept. `wbt_ok`, `wbt_unknown`, `wbt_writes_only`, `wbt_exceeded`: windows by verdict.
    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        if scope != Scope::Device {
            return;
        }
        count("wbt_held", self.throttle.held());
        let names = ["wbt_ok", "wbt_unknown", "wbt_writes_only", "wbt_exceeded"];
        names.into_iter().zip(self.throttle.verdicts()).for_each(|(name, windows)| count(name, windows));
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let Limits { max, normal, background } = self.throttle.limits();
        let (step, inflight) = (self.throttle.step(), self.throttle.inflight());
        format!("step {step}, limits {max}/{normal}/{background}, {inflight} counted")
    }
}

#[cfg(test)]
mod tests;
