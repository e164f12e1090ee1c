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

    /// The first of its rules that this system does not offer, with the reason.
    pub(super) fn refused(&self) -> Result<(), String> {
        let mut rules: Vec<Rule> = self.rules().into_iter().map(|(_, rule, _)| rule).collect();
        if rules.is_empty() {
            return Ok(());
        }
        rules.dedup();
        let (hierarchy, about) = cgroup::detect(&Roots::default());
        let Some(hierarchy) = hierarchy else {
            return Err(format!("what is asked for tenants needs cgroups: {about}"));
        };
        // The files are in groups below the root alone.
        let probe =
            Groups::new(&hierarchy).and_then(|mut groups| groups.make("probe", None).map(|group| (groups, group)));
        let (groups, group) = probe.map_err(|e| e.to_string())?;
        rules.into_iter().try_for_each(|rule| groups.offers(group, rule)).map_err(|e| e.to_string())
    }

    /// The rules of each tenant.
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
            if let Some(weight) = controls.io_weight.filter(|_| self.io_cost) {
                add(Rule::Weight, weight.to_string());
            }
        }
        rules
    }
}

/// All limits of a group in the words of `io.max`: bytes and I/Os in a second, of reads and of writes.
pub(super) fn io_max_text(disk: &str, [reads, writes]: &[Rates; 2]) -> String {
    let word = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
    let [rbps, wbps, riops, wiops] = [reads.bytes, writes.bytes, reads.ios, writes.ios].map(word);
    format!("{disk} rbps={rbps} wbps={wbps} riops={riops} wiops={wiops}")
}
