//! What a scenario asks of controllers, which the commands of a recommendation do not set.

use dumbwaiter_scenario::{Scenario, SchedulerSpec, TenantControls};
use serde::Deserialize;
use serde_json::Value;

use crate::sentence::list;
use crate::tenant_units::tenants_under;

/// A caveat for the stack `spec` in a result of this scenario: what it counts on besides what the commands set (those for tenants
/// set what the stack itself names). `None`: nothing.
pub(crate) fn caveat(scenario: &Value, spec: &SchedulerSpec) -> Option<String> {
    let scenario = Scenario::deserialize(scenario).ok()?;
    let own = spec.controls;
    let tenants: Vec<(&str, TenantControls)> =
        scenario.tenants.iter().map(|tenant| tenant.name.as_str()).zip(tenants_under(&scenario, own)).collect();
    let class = |(name, of): &(&str, TenantControls)| {
        let class = Some(of.prio_class.name()).filter(|class| *class != "no-change" && !own.prio_class)?;
        Some(format!("io.prio.class {class} of {name}"))
    };
    let mut parts: Vec<String> = tenants.iter().filter_map(class).collect();
    let has_io_max = |of: &TenantControls| of.io_max.iter().any(|rates| rates.bytes.is_some() || rates.ios.is_some());
    let is_limited = |of: &TenantControls| {
        of.limit_iops.is_some() || of.limit_bytes.is_some() || own.io_max_percent.is_none() && has_io_max(of)
    };
    let mut add = |what: &str, has: &dyn Fn(&TenantControls) -> bool| {
        let names: Vec<String> = tenants.iter().filter(|(_, of)| has(of)).map(|(name, _)| (*name).to_owned()).collect();
        if !names.is_empty() {
            parts.push(format!("the {what} of {}", list(&names)));
        }
    };
    add("limits", &is_limited);
    add("reservation", &|of| of.reservation_iops.is_some());
    add("io.latency", &|of| own.io_latency.is_none() && of.io_latency.is_some());
    (!parts.is_empty()).then(|| format!("it counts on {}, which the commands do not set", list(&parts)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_commands_do_not_set_is_said() {
        let under = |tenants: &Value, stacks: &[&str], stack: &str| {
            let task = json!([{"name": "t", "rw": "randread", "bs": "4k"}]);
            let mut tenants = tenants.clone();
            tenants.as_array_mut().unwrap().iter_mut().for_each(|tenant| tenant["task"] = task.clone());
            let devices = ["ssd:nvme-tlc"];
            let scenario = json!({"duration": "1s", "devices": devices, "schedulers": stacks, "tenant": tenants});
            Scenario::deserialize(&scenario).unwrap();
            caveat(&scenario, &SchedulerSpec::parse(stack).unwrap())
        };
        let of = |tenants: Value| under(&tenants, &["none"], "none");
        assert_eq!(of(json!([{"name": "a", "weight": 100}, {"name": "b", "prio_class": "no-change"}])), None);
        assert_eq!(caveat(&json!({}), &SchedulerSpec::named("none")), None);
        assert_eq!(
            of(json!([{"name": "a"}, {"name": "backup", "prio_class": "idle"}])).unwrap(),
            "it counts on io.prio.class idle of backup, which the commands do not set"
        );
        let all = json!([{"name": "a", "limit_iops": 5, "limit_bytes": 9}, {"name": "b", "io_max": "riops=1"},
            {"name": "c", "reservation_iops": 7, "prio_class": "promote-to-rt", "io_latency": "5ms"}]);
        assert_eq!(
            of(all.clone()).unwrap(),
            "it counts on io.prio.class promote-to-rt of c, the limits of a and b, the reservation of c and \
             the io.latency of c, which the commands do not set"
        );
        let stack = "none+io.max+io.latency+io.prio.class";
        let left = "it counts on the limits of a and the reservation of c, which the commands do not set";
        assert_eq!(under(&all, &["none", stack], stack).unwrap(), left);
        // What other stacks of the list name does not apply here.
        assert_eq!(under(&all, &["none", stack], "none").unwrap(), left);
    }
}
