//! `io.prio.class`: the priority class of a tenant's I/O (Linux 6.12 and 6.18, `blk-ioprio`).
//!
//! The class of the tenant itself counts, not that of one around it. What an I/O brought along – its task's priority, or its own –
//! is there before the class looks at it. mq-deadline serves by the class of an I/O. Schedulers that go by the priority of the task
//! ([`Traits::priority_of_task`]) see nothing of this. There priorities stay as they are; Linux changes them all the same, so that
//! I/Os of different classes do not merge.

use dumbwaiter_block::{
    Config, Context, ControlSetting, Controller, Effects, Event, Io, IoClass, Ioprio, Nanos, Scope, TenantId, Traits,
    Tunable,
};

/// The name by which a block layer finds the controller.
pub const NAME: &str = "io.prio.class";

/// What is done with the priorities of a tenant's I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrioClass {
    /// Nothing (`no-change`).
    #[default]
    NoChange,
    /// What is not real-time becomes real-time, level 4 (`promote-to-rt`, formerly `none-to-rt`).
    PromoteToRt,
    /// At most best effort: real-time, and no priority, become best effort, level 0 (`restrict-to-be`).
    RestrictToBe,
    /// All becomes idle, level 0; what is idle keeps its level (`idle`).
    Idle,
}

impl PrioClass {
    /// All of them, in the order of their numbers.
    pub const ALL: [PrioClass; 4] =
        [PrioClass::NoChange, PrioClass::PromoteToRt, PrioClass::RestrictToBe, PrioClass::Idle];

    /// The kernel's word.
    pub fn name(self) -> &'static str {
        match self {
            PrioClass::NoChange => "no-change",
            PrioClass::PromoteToRt => "promote-to-rt",
            PrioClass::RestrictToBe => "restrict-to-be",
            PrioClass::Idle => "idle",
        }
    }

    /// The class of this word of the kernel, the old `none-to-rt` included.
    pub fn parse(word: &str) -> Option<PrioClass> {
        let word = if word == "none-to-rt" { "promote-to-rt" } else { word };
        PrioClass::ALL.into_iter().find(|class| class.name() == word)
    }

    /// The priority of an I/O that had `ioprio`.
    pub fn applied_to(self, ioprio: Ioprio) -> Ioprio {
        match self {
            PrioClass::NoChange => ioprio,
            PrioClass::PromoteToRt if ioprio.class() == IoClass::Realtime => ioprio,
            PrioClass::PromoteToRt => Ioprio::new(IoClass::Realtime, 4),
            // The larger number is the lower class; within the class the level stays.
            PrioClass::RestrictToBe => Ioprio(ioprio.0.max(Ioprio::new(IoClass::BestEffort, 0).0)),
            PrioClass::Idle => Ioprio(ioprio.0.max(Ioprio::new(IoClass::Idle, 0).0)),
        }
    }
}

const SETTINGS: &[ControlSetting] = &[ControlSetting {
    of: Scope::Tenant(TenantId(0)),
    tunable: Tunable {
        name: NAME,
        unit: "",
        min: 0,
        max: 3,
        default: 0,
        help: "class of a tenant's I/O: 0 no-change, 1 promote-to-rt, 2 restrict-to-be, 3 idle",
    },
}];

/// The priority classes of all tenants of a device.
#[derive(Clone, Debug, Default)]
pub struct PrioClasses {
    tenants: Vec<PrioClass>,
    /// The scheduler goes by the priorities of tasks.
    ignored: bool,
}

impl PrioClasses {
    fn class(&self, tenant: TenantId) -> PrioClass {
        self.tenants.get(tenant.0 as usize).copied().unwrap_or_default()
    }

    /// Sets the class of a tenant.
    pub fn set_class(&mut self, tenant: TenantId, class: PrioClass) {
        let index = tenant.0 as usize;
        if index >= self.tenants.len() {
            self.tenants.resize(index + 1, PrioClass::NoChange);
        }
        self.tenants[index] = class;
    }
}

impl Controller for PrioClasses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn attached(
        &mut self,
        _config: &Config,
        traits: &Traits,
        _under_way: &mut dyn Iterator<Item = u32>,
        _ctx: &Context<'_>,
    ) {
        self.ignored = traits.priority_of_task;
    }

    fn exchanged(&mut self, traits: &Traits, _ctx: &Context<'_>, _out: &mut Effects) {
        self.ignored = traits.priority_of_task;
    }

    fn prioritize(&self, io: &Io, _ctx: &Context<'_>) -> Ioprio {
        if self.ignored { io.ioprio } else { self.class(io.tenant).applied_to(io.ioprio) }
    }

    fn event(&mut self, event: Event, _ctx: &Context<'_>, _out: &mut Effects) {
        if let Event::TenantRetired(tenant) = event {
            self.set_class(tenant, PrioClass::NoChange);
        }
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Tenant(tenant) = scope else { return None };
        (name == NAME).then(|| self.class(tenant) as i128)
    }

    fn set(&mut self, scope: Scope, _name: &str, value: i128, _now: Nanos) {
        if let (Scope::Tenant(tenant), Some(class)) = (scope, PrioClass::ALL.get(value as usize)) {
            self.set_class(tenant, *class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(class: &str, to: &str) -> String {
        PrioClass::parse(class).unwrap().applied_to(Ioprio::parse(to).unwrap()).to_string()
    }

    #[test]
    fn classes_change_priorities_as_the_kernel_does() {
        let expected = [
            ("no-change", "none", "none"),
            ("promote-to-rt", "none", "rt/4"),
            ("none-to-rt", "be/2", "rt/4"),
            ("promote-to-rt", "rt/6", "rt/6"),
            ("promote-to-rt", "idle/3", "rt/4"),
            ("restrict-to-be", "none", "be/0"),
            ("restrict-to-be", "rt/5", "be/0"),
            ("restrict-to-be", "be/4", "be/4"),
            ("restrict-to-be", "idle/3", Ioprio::new(IoClass::Idle, 3).to_string().leak()),
            ("idle", "be/4", Ioprio::new(IoClass::Idle, 0).to_string().leak()),
            ("idle", "idle/5", Ioprio::new(IoClass::Idle, 5).to_string().leak()),
        ];
        for (class, before, after) in expected {
            assert_eq!(applied(class, before), after, "{class} on {before}");
        }
        assert_eq!(PrioClass::parse("rt"), None);
    }

    #[test]
    fn a_number_used_again_starts_without_a_class() {
        let mut classes = PrioClasses::default();
        classes.set(Scope::Tenant(TenantId(2)), NAME, 3, Nanos::ZERO);
        assert_eq!(classes.get(Scope::Tenant(TenantId(2)), NAME), Some(3));
        assert_eq!(classes.get(Scope::Tenant(TenantId(9)), NAME), Some(0));
        let (requests, tenants) = Default::default();
        let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
        classes.event(Event::TenantRetired(TenantId(2)), &ctx, &mut Effects::default());
        assert_eq!(classes.get(Scope::Tenant(TenantId(2)), NAME), Some(0));
    }
}
