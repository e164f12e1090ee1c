//! io.cost in the chain of a block layer: tenants are groups, tasks sleep, requests carry what was charged for them.

use dumbwaiter_block::{
    Config, Context, ControlSetting, Controller, Effects, Event, Flags, Io, Nanos, RequestAnswer, RequestId, Scope,
    TenantId, Traits, Tunable,
};

use super::groups::{ROOT, WEIGHT_DEFAULT};
use super::{Answer, Asking, Device, Joined, Settings, VTIME_PER_US};
use crate::kernel_timer::Jiffies;

/// The name by which a block layer finds the controller.
pub const NAME: &str = "io.cost";

/// Name of a tenant's weight.
pub const WEIGHT: &str = "io_weight";

const SETTINGS: &[ControlSetting] = &[ControlSetting {
    of: Scope::Tenant(TenantId(0)),
    tunable: Tunable {
        name: WEIGHT,
        unit: "",
        min: 0,
        max: 10_000,
        default: 0,
        help: "share of the device's time beside other tenants, by modelled cost; 0: the tenant's weight",
    },
}];

/// What a request carries.
#[derive(Clone, Copy, Debug, Default)]
struct Charged {
    group: usize,
    /// Cost of the first I/O, and of all, in the group's time.
    first: u64,
    all: u64,
    /// When it asked for its tag.
    asked: Nanos,
}

/// A tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    /// Its group, if it has one.
    group: Option<usize>,
    /// Its own weight here; 0: that of the tenant.
    weight: u32,
}

/// io.cost of a device.
#[derive(Clone, Debug)]
pub struct IoCost {
    device: Device,
    homes: Vec<Home>,
    requests: Vec<Charged>,
    /// I/Os that a call without effects let go: the next tick releases them.
    freed: Vec<RequestId>,
    /// The scheduler keeps nothing: the device's depth is the number of requests.
    direct: bool,
    held: u64,
    in_debt: u64,
}

impl IoCost {
    /// With these settings from the start.
    pub fn new(settings: Settings) -> IoCost {
        IoCost {
            device: Device::new(Jiffies::default(), false, 64, settings),
            homes: Vec::new(),
            requests: Vec::new(),
            freed: Vec::new(),
            direct: false,
            held: 0,
            in_debt: 0,
        }
    }

    /// The device, for those who look at shares and rates.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn home(&mut self, tenant: TenantId) -> &mut Home {
        let index = tenant.0 as usize;
        if index >= self.homes.len() {
            self.homes.resize(index + 1, Home::default());
        }
        &mut self.homes[index]
    }

    fn request_slot(&mut self, id: RequestId) -> &mut Charged {
        if id.index() >= self.requests.len() {
            self.requests.resize(id.index() + 1, Charged::default());
        }
        &mut self.requests[id.index()]
    }

    /// The group of a tenant, with those around it. Tasks of the root group are not charged.
    fn group_of(&mut self, tenant: TenantId, ctx: &Context<'_>) -> usize {
        if let Some(group) = self.homes.get(tenant.0 as usize).and_then(|home| home.group) {
            return group;
        }
        let Some(own) = ctx.tenants.tenant(tenant).filter(|_| !ctx.tenants.is_root(tenant)) else { return ROOT };
        let parent = own.parent.map_or(ROOT, |parent| self.group_of(parent, ctx));
        let home = *self.home(tenant);
        let weight = weight_of(home, own.weight);
        let group = self.device.add_group(parent, weight, ctx.now);
        self.home(tenant).group = Some(group);
        group
    }

    fn end(&mut self, id: RequestId) {
        let charged = std::mem::take(self.request_slot(id));
        self.device.ended(charged.group, charged.all);
    }

    fn asking(id: RequestId, group: usize, io: &Io) -> Asking {
        let may_sleep = !io.flags.any(Flags::META) && !io.flags.any(Flags::SWAP);
        Asking { id, group, op: io.op, sector: io.sector, sectors: io.sectors, may_sleep }
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u32, now: Nanos) {
        let home = *self.home(tenant);
        if let Some(group) = home.group {
            self.device.set_weight(group, weight_of(home, weight), now);
        }
    }
}

fn weight_of(home: Home, of_tenant: u32) -> u32 {
    let weight = if home.weight > 0 { home.weight } else { of_tenant };
    if weight == 0 { WEIGHT_DEFAULT } else { weight.min(10_000) }
}

/// Notes those that a call of the device wakes, with what they were charged.
macro_rules! waking {
    ($self:ident, $now:expr, $each:expr) => {{
        let (requests, mut each) = (&mut $self.requests, $each);
        move |id: RequestId, cost: u64| {
            let charged = &mut requests[id.index()];
            (charged.first, charged.all, charged.asked) = (cost, cost, $now);
            each(id);
        }
    }};
}

impl Controller for IoCost {
    fn name(&self) -> &'static str {
        NAME
    }

    fn attached(
        &mut self,
        config: &Config,
        traits: &Traits,
        _under_way: &mut dyn Iterator<Item = u32>,
        _ctx: &Context<'_>,
    ) {
        let setup = &config.setup;
        let depth = if traits.direct { setup.device_depth } else { setup.nr_requests };
        self.direct = traits.direct;
        let jiffies = Jiffies { clock: setup.clock, offset: 0 };
        self.device = Device::new(jiffies, setup.rotational, depth, *self.device.settings());
        self.homes.iter_mut().for_each(|home| home.group = None);
    }

    fn request(&mut self, id: RequestId, ctx: &Context<'_>) -> RequestAnswer {
        let request = &ctx.requests[id];
        let group = self.group_of(request.io.tenant, ctx);
        let io = Asking { sector: request.sector, sectors: request.sectors, ..Self::asking(id, group, &request.io) };
        *self.request_slot(id) = Charged { group, asked: ctx.now, ..Charged::default() };
        let mut itself = false;
        let freed = &mut self.freed;
        let answer = self.device.submit(
            io,
            ctx.now,
            &mut waking!(self, ctx.now, |woken| if woken == id { itself = true } else { freed.push(woken) }),
        );
        match answer {
            Answer::Pass(cost) => {
                let charged = self.request_slot(id);
                (charged.first, charged.all) = (cost, cost);
                RequestAnswer::Pass
            }
            Answer::InDebt(_) => {
                self.in_debt += 1;
                RequestAnswer::Pass
            }
            Answer::Wait if itself => RequestAnswer::Pass,
            Answer::Wait => {
                self.held += 1;
                RequestAnswer::Hold
            }
        }
    }

    fn merged(&mut self, io: &Io, into: RequestId, ctx: &Context<'_>, _out: &mut Effects) {
        let request = &ctx.requests[into];
        let charged = *self.request_slot(into);
        let end = request.sector + u64::from(request.sectors);
        let joined = Joined { start: request.sector, end, paid: charged.first != 0 };
        let front = io.sector < request.sector;
        match self.device.merged(Self::asking(into, charged.group, io), joined, ctx.now) {
            Answer::Pass(cost) => {
                let charged = self.request_slot(into);
                charged.all = charged.all.wrapping_add(cost);
                if front {
                    charged.first = cost;
                }
            }
            _ => self.in_debt += 1,
        }
    }

    fn completed(&mut self, id: RequestId, ctx: &Context<'_>, _out: &mut Effects) {
        let request = &ctx.requests[id];
        // Of a request that was under way before, only its own times are known.
        let asked = Some(self.request_slot(id).asked).filter(|at| *at > Nanos::ZERO).unwrap_or(request.start);
        self.device.completed(request.io.op, request.sectors, asked, request.start.max(asked), ctx.now);
        self.end(id);
    }

    fn dropped(&mut self, id: RequestId, into: Option<RequestId>, _ctx: &Context<'_>, _out: &mut Effects) {
        let Some(into) = into else { return self.end(id) };
        let charged = std::mem::take(self.request_slot(id));
        let survivor = self.request_slot(into);
        survivor.all = survivor.all.wrapping_add(charged.all);
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            Event::TenantChanged(tenant) => {
                let weight = ctx.tenants.tenant(tenant).map_or(WEIGHT_DEFAULT, |tenant| tenant.weight);
                self.set_weight(tenant, weight, ctx.now);
            }
            Event::TenantRetired(tenant) => {
                if let Some(group) = std::mem::take(self.home(tenant)).group {
                    self.device.remove_group(group);
                }
            }
            Event::DepthChanged { device_depth, nr_requests } => {
                let depth = if self.direct { device_depth } else { nr_requests };
                self.device.set_depth(depth, ctx.now);
            }
            Event::RotationalChanged(rotational) => self.device.set_rotational(rotational, ctx.now),
            _ => {}
        }
    }

    fn exchanged(&mut self, traits: &Traits, _ctx: &Context<'_>, _out: &mut Effects) {
        self.direct = traits.direct;
    }

    #[inline]
    fn timer(&self) -> Option<Nanos> {
        if self.freed.is_empty() { self.device.timer() } else { Some(Nanos::ZERO) }
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        self.freed.drain(..).for_each(|id| out.release(id));
        self.device.tick(ctx.now, &mut waking!(self, ctx.now, |woken| out.release(woken)));
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Tenant(tenant) = scope else { return None };
        let weight = self.homes.get(tenant.0 as usize).map_or(0, |home| home.weight);
        (name == WEIGHT).then(|| weight.into())
    }

    fn set(&mut self, scope: Scope, _name: &str, value: i128, now: Nanos) {
        if let Scope::Tenant(tenant) = scope {
            self.home(tenant).weight = value as u32;
            if value > 0 {
                self.set_weight(tenant, value as u32, now);
            }
        }
    }

    /// `io_cost_held`: I/Os whose tasks slept. `io_cost_in_debt`: those that went on without paying. `io_cost_vrate_percent`: the
    /// rate now.
    fn write(&mut self, file: &str, text: &str, now: Nanos) -> Option<Result<(), String>> {
        let written = match file {
            "io.cost.qos" => self.device.set_qos(text, now),
            "io.cost.model" => self.device.set_model(text, now),
            _ => return None,
        };
        Some(written.map_err(|why| why.to_string()))
    }

    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        match scope {
            Scope::Device => {
                count("io_cost_held", self.held);
                count("io_cost_in_debt", self.in_debt);
                count("io_cost_vrate_percent", (self.device.base_rate() * 100 + VTIME_PER_US / 2) / VTIME_PER_US);
            }
            Scope::Tenant(tenant) => {
                if let Some(group) = self.homes.get(tenant.0 as usize).and_then(|home| home.group) {
                    count("io_cost_usage_us", self.device.usage_us(group));
                    count("io_cost_waited", self.device.waited(group));
                }
            }
            Scope::Task(_) => {}
        }
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let percent = self.device.base_rate() * 100 / VTIME_PER_US;
        format!("{}, rate {percent} %, {} held so far", self.device.settings().qos_text(), self.held)
    }
}
