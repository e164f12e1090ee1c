//! What a scenario asks of controllers, which the commands of a recommendation do not set.

use serde_json::Value;

use crate::sentence::list;

/// A caveat for a result of this scenario: what it counts on besides the scheduler. `None`: nothing.
pub(crate) fn caveat(scenario: &Value) -> Option<String> {
    let tenants = scenario.get("tenant").and_then(Value::as_array)?;
    let named = |has: &dyn Fn(&Value) -> bool| -> Vec<String> {
        let names = tenants.iter().filter(|tenant| has(tenant)).filter_map(|tenant| tenant.get("name")?.as_str());
        names.map(str::to_owned).collect()
    };
    let class = |tenant: &Value| {
        let class = tenant.get("prio_class")?.as_str().filter(|class| *class != "no-change")?;
        Some(format!("io.prio.class {class} of {}", tenant.get("name")?.as_str()?))
    };
    let mut parts: Vec<String> = tenants.iter().filter_map(class).collect();
    for (what, keys) in [
        ("limits", &["limit_iops", "limit_bytes", "io_max"][..]),
        ("reservation", &["reservation_iops"][..]),
        ("io.latency", &["io_latency"][..]),
    ] {
        let names = named(&|tenant| keys.iter().any(|key| tenant.get(*key).is_some()));
        if !names.is_empty() {
            parts.push(format!("the {what} of {}", list(&names)));
        }
    }
    (!parts.is_empty()).then(|| format!("it counts on {}, which the commands do not set", list(&parts)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_commands_do_not_set_is_said() {
        let of = |tenants: Value| caveat(&json!({ "tenant": tenants }));
        assert_eq!(of(json!([{"name": "a", "weight": 100}, {"name": "b", "prio_class": "no-change"}])), None);
        assert_eq!(caveat(&json!({})), None);
        assert_eq!(
            of(json!([{"name": "a"}, {"name": "backup", "prio_class": "idle"}])).unwrap(),
            "it counts on io.prio.class idle of backup, which the commands do not set"
        );
        let all = json!([{"name": "a", "limit_iops": 5, "limit_bytes": 9}, {"name": "b", "io_max": "riops=1"},
            {"name": "c", "reservation_iops": 7, "prio_class": "promote-to-rt", "io_latency": "5ms"}]);
        assert_eq!(
            of(all).unwrap(),
            "it counts on io.prio.class promote-to-rt of c, the limits of a and b, the reservation of c and \
             the io.latency of c, which the commands do not set"
        );
    }
}
