//! The commands that give tenants what a stack counts on: weights, limits, targets and priority classes of their control groups,
//! set through systemd where it has a property for them, so that they hold after a boot too.

use dumbwaiter_block::{Nanos, TenantId};
use dumbwaiter_scenario::{KernelControls, Scenario, SchedulerSpec, Tenant, TenantControls};
use serde::Deserialize;
use serde_json::Value;

use crate::apply::Commands;
use crate::sentence::list;

/// What a stack counts on of a tenant, as settings of its unit.
struct Unit {
    /// The unit, such as `db.slice`.
    name: String,
    /// Its folder below the root of the control groups.
    folder: String,
    /// Is it named after the tenant, which is not named like a unit?
    invented: bool,
    /// Properties with their values; empty values take them back.
    properties: Vec<(&'static str, String)>,
    /// The value of `io.prio.class`.
    prio_class: Option<&'static str>,
}

/// The commands for the tenants of `scenario` under the stack `spec`, which itself names what tenants state. What applies under
/// every stack is there before and after, and needs none.
pub(crate) fn commands(scenario: &Value, spec: &SchedulerSpec, disk: &str) -> Commands {
    let mut commands = Commands { apply: Vec::new(), undo: Vec::new(), udev_rule: String::new() };
    let (units, nameless): (Vec<Unit>, Vec<Unit>) =
        units(scenario, spec, disk).into_iter().partition(|unit| !unit.name.is_empty());
    let invented: Vec<String> = units.iter().filter(|unit| unit.invented).map(|unit| unit.name.clone()).collect();
    if !invented.is_empty() {
        commands.apply.push(format!("# Put the units of your tenants in place of {}.", list(&invented)));
    }
    if !nameless.is_empty() {
        // Their names are for no shell.
        let (n, are) = (
            nameless.len(),
            if nameless.len() == 1 { "tenant states, whose name" } else { "tenants state, whose names" },
        );
        commands.apply.push(format!("# Set by hand what {n} {are} no unit can have."));
    }
    for Unit { name, folder, properties, prio_class, .. } in units {
        if !properties.is_empty() {
            let set = |value: &dyn Fn(&str) -> String| {
                let words: Vec<String> =
                    properties.iter().map(|(key, text)| format!("'{key}={}'", value(text))).collect();
                format!("sudo systemctl set-property {name} {}", words.join(" "))
            };
            commands.apply.push(set(&str::to_owned));
            commands.undo.push(set(&|_| String::new()));
        }
        if let Some(class) = prio_class {
            let set = |class: &str| format!("echo {class} | sudo tee /sys/fs/cgroup/{folder}/io.prio.class");
            commands.apply.push(set(class));
            commands.undo.push(set("no-change"));
        }
    }
    commands
}

/// What applies to each tenant under a stack.
pub(crate) fn tenants_under(scenario: &Scenario, own: KernelControls) -> impl Iterator<Item = TenantControls> {
    let number = |at: usize| TenantId(u32::try_from(at).unwrap_or(u32::MAX));
    let stated = scenario.tenants.iter().enumerate().map(|(at, tenant)| (number(at), tenant.controls)).collect();
    scenario.tenant_controls(own, stated).into_iter().map(|(_, controls)| controls)
}

fn units(scenario: &Value, spec: &SchedulerSpec, disk: &str) -> Vec<Unit> {
    let Ok(scenario) = Scenario::deserialize(scenario) else { return Vec::new() };
    let own = spec.controls;
    let under = tenants_under(&scenario, own);
    let has_io_cost = own.io_cost.is_some_and(|settings| settings.enabled);
    let heaviest = scenario.tenants.iter().map(|tenant| tenant.weight).max().unwrap_or_default();
    let mut found = Vec::new();
    for (tenant, controls) in scenario.tenants.iter().zip(under).filter(|(tenant, _)| tenant.name != Tenant::ROOT) {
        let (name, folder) = place(&scenario, tenant).unwrap_or_default();
        let mut properties = Vec::new();
        if has_io_cost {
            properties.extend(io_weight(controls.io_weight.unwrap_or(tenant.weight)));
        } else if spec.name == "bfq" {
            properties.extend(io_weight(bfq_weight(tenant.weight, heaviest)));
        }
        if own.io_max_percent.is_some() {
            let [reads, writes] = controls.io_max;
            let all = [
                ("IOReadBandwidthMax", reads.bytes),
                ("IOWriteBandwidthMax", writes.bytes),
                ("IOReadIOPSMax", reads.ios),
                ("IOWriteIOPSMax", writes.ios),
            ];
            properties
                .extend(all.into_iter().filter_map(|(key, limit)| Some((key, format!("/dev/{disk} {}", limit?)))));
        }
        if let Some(target) = controls.io_latency.filter(|_| own.io_latency.is_some()) {
            properties.push(("IODeviceLatencyTargetSec", format!("/dev/{disk} {}us", target.0 / Nanos::from_us(1).0)));
        }
        let class = Some(controls.prio_class.name()).filter(|class| own.prio_class && *class != "no-change");
        if !properties.is_empty() || class.is_some() {
            let invented = name != tenant.name;
            found.push(Unit { name, folder, invented, properties, prio_class: class });
        }
    }
    found
}

/// The unit that stands for a tenant and its folder: a slice in that of its parent, or the unit that it is named like. `None`
/// where a shell would not read the name as it stands.
fn place(scenario: &Scenario, tenant: &Tenant) -> Option<(String, String)> {
    let plain = |name: &str| {
        let sound = |c: char| c.is_ascii_alphanumeric() || "._-:@".contains(c);
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(sound)
    };
    let is_unit = |name: &str| [".slice", ".service", ".scope"].iter().any(|end| name.ends_with(end));
    let (mut chain, mut at) = (vec![tenant.name.as_str()], tenant);
    while let Some(parent) = at.parent.as_ref().filter(|_| chain.len() <= scenario.tenants.len()) {
        at = scenario.tenants.iter().find(|other| other.name == *parent)?;
        chain.push(&at.name);
    }
    if chain.len() > scenario.tenants.len() || !chain.iter().all(|name| plain(name)) {
        return None;
    }
    let (mut name, mut folder) = (String::new(), String::new());
    for part in chain.iter().rev() {
        name = match is_unit(part) {
            true => (*part).to_owned(),
            // A slice a-b.slice is in a.slice.
            false => {
                format!("{}{}.slice", name.strip_suffix(".slice").map_or(String::new(), |up| format!("{up}-")), part)
            }
        };
        folder = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
    }
    Some((name, folder))
}

/// A weight that is not the default.
fn io_weight(weight: u32) -> Option<(&'static str, String)> {
    (weight != Tenant::DEFAULT_WEIGHT).then(|| ("IOWeight", weight.to_string()))
}

/// The weight of systemd that becomes this weight of bfq: up to 100 the same, above it 900 steps for 9,900. Where the `heaviest` is
/// above bfq's 1000, all are scaled: only their ratio matters.
fn bfq_weight(weight: u32, heaviest: u32) -> u32 {
    match (u64::from(weight) * 1000 / u64::from(heaviest.max(1000))).clamp(1, 1000) as u32 {
        weight @ ..=100 => weight,
        weight => 100 + (weight - 100) * 11,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(tenants: &Value, stack: &str) -> [Vec<String>; 2] {
        let task = json!([{"name": "t", "rw": "randread", "bs": "4k"}]);
        let mut scenario =
            json!({"duration": "1s", "devices": ["ssd:nvme-tlc"], "schedulers": ["none", stack], "tenant": tenants});
        for tenant in scenario["tenant"].as_array_mut().unwrap() {
            if tenant.get("holds").is_none() {
                tenant["task"] = task.clone();
            } else {
                tenant.as_object_mut().unwrap().remove("holds");
            }
        }
        assert!(Scenario::deserialize(&scenario).is_ok(), "{:?}", Scenario::deserialize(&scenario).err());
        let spec = SchedulerSpec::parse(stack).unwrap();
        let Commands { apply, undo, .. } = commands(&scenario, &spec, "nvme0n1");
        [apply, undo].map(|lines| lines.into_iter().filter(|line| !line.starts_with("# Put the units of")).collect())
    }

    #[test]
    fn limits_targets_and_classes_that_the_stack_names_are_set_and_taken_back() {
        let tenants = json!([
            {"name": "db", "io_latency": "2ms", "prio_class": "promote-to-rt"},
            {"name": "batch", "io_max": "rbps=200000000 wiops=50", "prio_class": "idle"}
        ]);
        assert_eq!(
            of(&tenants, "none+io.max=50%"),
            [
                [
                    "sudo systemctl set-property batch.slice 'IOReadBandwidthMax=/dev/nvme0n1 100000000' 'IOWriteIOPSMax=/dev/nvme0n1 25'"
                ],
                ["sudo systemctl set-property batch.slice 'IOReadBandwidthMax=' 'IOWriteIOPSMax='"]
            ]
        );
        assert_eq!(
            of(&tenants, "none+io.latency")[0],
            ["sudo systemctl set-property db.slice 'IODeviceLatencyTargetSec=/dev/nvme0n1 2000us'"]
        );
        assert_eq!(
            of(&tenants, "mq-deadline+io.prio.class"),
            [
                [
                    "echo promote-to-rt | sudo tee /sys/fs/cgroup/db.slice/io.prio.class",
                    "echo idle | sudo tee /sys/fs/cgroup/batch.slice/io.prio.class"
                ],
                [
                    "echo no-change | sudo tee /sys/fs/cgroup/db.slice/io.prio.class",
                    "echo no-change | sudo tee /sys/fs/cgroup/batch.slice/io.prio.class"
                ]
            ]
        );
        // What every stack has is there already.
        assert_eq!(of(&tenants, "kyber")[0], [""; 0]);
    }

    #[test]
    fn weights_are_those_that_systemd_turns_into_the_stacks() {
        let tenants =
            json!([{"name": "db", "weight": 300, "io_weight": 800}, {"name": "web"}, {"name": "big", "weight": 5000}]);
        let set = |weight: u32, unit: &str| format!("sudo systemctl set-property {unit} 'IOWeight={weight}'");
        // The heaviest has bfq's 1000, the others as much less.
        assert_eq!(of(&tenants, "bfq")[0], [set(60, "db.slice"), set(20, "web.slice"), set(10_000, "big.slice")]);
        assert_eq!(of(&tenants, "none+io.cost")[0], [set(800, "db.slice"), set(5000, "big.slice")]);
        assert_eq!(of(&tenants, "mq-deadline")[0], [""; 0]);
    }

    #[test]
    fn nested_tenants_are_slices_in_slices_and_units_keep_their_names() {
        let tenants = json!([
            {"name": "vm", "weight": 200, "holds": true},
            {"name": "a", "parent": "vm", "weight": 300, "prio_class": "idle"},
            {"name": "postgresql.service", "weight": 50},
            {"name": "$(reboot)", "weight": 50}
        ]);
        let [apply, _] = of(&tenants, "bfq+io.prio.class");
        assert_eq!(apply.iter().filter(|line| line.contains("reboot")).count(), 0);
        assert_eq!(
            apply,
            [
                "# Set by hand what 1 tenant states, whose name no unit can have.",
                "sudo systemctl set-property vm.slice 'IOWeight=1200'",
                "sudo systemctl set-property vm-a.slice 'IOWeight=2300'",
                "echo idle | sudo tee /sys/fs/cgroup/vm.slice/vm-a.slice/io.prio.class",
                "sudo systemctl set-property postgresql.service 'IOWeight=50'"
            ]
        );
    }
}
