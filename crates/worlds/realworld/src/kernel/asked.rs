//! What a stack asks for the tenants of a load under the kernel's schedulers, as rules of their cgroups.

use dumbwaiter_block::{Nanos, TenantId};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::cgroup::{self, Groups, Rule};
use dumbwaiter_scenario::{KernelControls, Rates, Scenario, TenantControls};

/// What a stack asks for the tenants of a load.
pub(super) struct Asked {
    /// What applies to each tenant under it.
    pub(super) controls: Vec<(TenantId, TenantControls)>,
    /// Does it enable io.cost, to which `io_weight` belongs?
    pub(super) io_cost: bool,
    /// The disk, such as `259:0`.
    pub(super) disk: String,
}

impl Asked {
    /// What the stack `own` asks for tenants that `stated` this.
    pub(super) fn of(
        scenario: &Scenario,
        own: KernelControls,
        stated: Vec<(TenantId, TenantControls)>,
        disk: String,
    ) -> Asked {
        let io_cost = scenario.kernel_controls(own).io_cost.is_some_and(|settings| settings.enabled);
        Asked { controls: scenario.tenant_controls(own, stated), io_cost, disk }
    }

    /// The rules of each tenant, its weight under io.cost apart.
    pub(super) fn rules(&self) -> Vec<(TenantId, Rule, String)> {
        let mut rules = Vec::new();
        for (tenant, controls) in &self.controls {
            let mut add = |rule, text| rules.push((*tenant, rule, text));
            if controls.io_max.iter().any(|rates| rates.bytes.or(rates.ios).is_some()) {
                add(Rule::Max, io_max_text(&self.disk, &controls.io_max));
            }
            if let Some(target) = controls.io_latency {
                add(Rule::Latency, format!("{} target={}", self.disk, target.0 / Nanos::from_us(1).0));
            }
            if controls.prio_class != TenantControls::default().prio_class {
                add(Rule::PrioClass, controls.prio_class.name().to_owned());
            }
        }
        rules
    }

    /// The weight of a tenant under io.cost, if that is on: its `io_weight`, or else its weight.
    pub(super) fn io_cost_weight(&self, tenant: TenantId, weight: u32) -> Option<u32> {
        let own = self.controls.iter().find(|(of, _)| *of == tenant).and_then(|(_, controls)| controls.io_weight);
        self.io_cost.then(|| own.unwrap_or(weight))
    }
}

/// The rules that this system does not offer, with the reasons. A group is made to see: the root has no such files.
pub(super) fn missing_rules() -> Vec<(Rule, String)> {
    let all = [Rule::Max, Rule::Latency, Rule::PrioClass, Rule::Weight];
    let (hierarchy, about) = cgroup::detect(&Roots::default());
    let probe = hierarchy.map(|found| {
        let mut groups = Groups::new(&found)?;
        let group = groups.make("probe", None)?;
        Ok((groups, group))
    });
    match probe {
        Some(Ok((groups, group))) => {
            all.into_iter().filter_map(|rule| Some((rule, groups.offers(group, rule).err()?.to_string()))).collect()
        }
        Some(Err(why)) => {
            let why: dumbwaiter_linux::Error = why;
            all.map(|rule| (rule, why.to_string())).to_vec()
        }
        None => all.map(|rule| (rule, format!("what is asked for tenants needs cgroups: {about}"))).to_vec(),
    }
}

/// All limits of a group in the words of `io.max`: bytes and I/Os in a second, of reads and of writes.
pub(super) fn io_max_text(disk: &str, [reads, writes]: &[Rates; 2]) -> String {
    let word = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
    let [rbps, wbps, riops, wiops] = [reads.bytes, writes.bytes, reads.ios, writes.ios].map(word);
    format!("{disk} rbps={rbps} wbps={wbps} riops={riops} wiops={wiops}")
}
