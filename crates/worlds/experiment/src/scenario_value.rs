//! Scenarios that are values with the keys of a scenario's file, such as the dicts of other languages.

use dumbwaiter_scenario::Scenario;
use serde::Deserialize;
use serde_json::Value;

/// Reads a scenario from a value. An error names the key, where taking it away helps: `task[0].bs: ...`.
///
/// # Errors
/// A value that is no scenario: the key, empty where none is to blame, and the reason.
pub fn scenario_of_value(value: &Value) -> Result<Scenario, (String, String)> {
    let reason_of = |value: &Value| Scenario::deserialize(value).err().map(|error| error.to_string());
    Scenario::deserialize(value).map_err(|error| {
        let reason = error.to_string();
        let mut key = String::new();
        // From the outside in: the part without which there is no error, or another one than that it is missing.
        loop {
            let inner = parts(value.pointer(&pointer(&key)).unwrap_or(&Value::Null));
            let left = |part: &String| reason_of(&without(value, &pointer(&key), part));
            let helps = inner.iter().find(|part| left(part).is_none());
            let changes =
                |part: &&String| left(part).is_some_and(|now| now != reason && !now.contains("missing field"));
            let Some(part) = helps.or_else(|| inner.iter().find(changes)) else { break };
            key += part;
        }
        (key.trim_start_matches('.').to_owned(), reason)
    })
}

/// The parts of a value, as a key continues with them: `.name` or `[0]`.
fn parts(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map.keys().map(|name| format!(".{name}")).collect(),
        Value::Array(list) => (0..list.len()).map(|i| format!("[{i}]")).collect(),
        _ => Vec::new(),
    }
}

/// A key such as `.task[0].bs` as a JSON pointer.
fn pointer(key: &str) -> String {
    key.replace(['.', '['], "/").replace(']', "")
}

/// The value without one part of what the pointer names.
fn without(value: &Value, at: &str, part: &str) -> Value {
    let mut rest = value.clone();
    match rest.pointer_mut(at) {
        Some(Value::Object(map)) => _ = map.remove(part.trim_start_matches('.')),
        Some(Value::Array(list)) => {
            if let Ok(i) = part.trim_matches(['[', ']']).parse::<usize>() {
                list.remove(i);
            }
        }
        _ => {}
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_their_key() {
        let task = json!({"name": "a", "rw": "randread", "bs": "4k"});
        assert!(scenario_of_value(&json!({"task": [task]})).is_ok());
        for (value, key) in [
            (json!({"task": 7}), "task"),
            (json!({"task": [task, {"name": "b", "rw": "randread", "bs": "many"}]}), "task[1].bs"),
            (json!({"tenant": [{"name": "t", "weight": [], "task": [task]}]}), "tenant[0].weight"),
            (json!({"frob": 1, "task": [task]}), "frob"),
            (json!(7), ""),
        ] {
            assert_eq!(scenario_of_value(&value).unwrap_err().0, key, "{value}");
        }
    }
}
