//! Profiles of hosts: shipped ones, files, and tables in a scenario. A shipped one is a file too, which shows how to write them.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use dumbwaiter_block::hint::did_you_mean;
use serde::de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::{Table, Value};

use super::HostCosts;
use crate::{Error, read_text};

/// The shipped profiles. One may build on those before it.
const SHIPPED: [(&str, &str); 6] = [
    ("r230-5.18", include_str!("../../profiles/r230-5.18.toml")),
    ("r230-5.15", include_str!("../../profiles/r230-5.15.toml")),
    ("default", include_str!("../../profiles/default.toml")),
    ("icpe24", include_str!("../../profiles/icpe24.toml")),
    ("laptop", include_str!("../../profiles/laptop.toml")),
    ("free", include_str!("../../profiles/free.toml")),
];
/// Longest segment, ns.
const NS_MAX: i64 = 10_000_000;
/// Machines with a power model.
const POWER: &str = "r230";

static COSTS: LazyLock<Vec<Arc<HostCosts>>> = LazyLock::new(|| {
    let costs =
        |text| -> HostCosts { whole(parsed(text)).expect("tests read all").try_into().expect("tests read all") };
    SHIPPED.iter().map(|(_, text)| Arc::new(costs(text))).collect()
});

/// What an I/O costs the host's CPUs.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    /// A shipped profile, or a file that [`crate::Scenario::resolve`] has not read yet.
    Named(String),
    /// The costs themselves.
    Given(Arc<HostCosts>),
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::Named("default".to_owned())
    }
}

impl Profile {
    /// The names of the shipped profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The file of a shipped profile.
    pub fn shipped(name: &str) -> Option<&'static str> {
        SHIPPED.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
    }

    /// The profile that a file's text describes; errors name `path`.
    ///
    /// # Errors
    /// Text that is no TOML, a key that is unknown, missing or out of range.
    pub fn from_toml(text: &str, path: &str) -> Result<Profile, Error> {
        let table: Table =
            toml::from_str(text).map_err(|error| Error::Toml { path: path.to_owned(), message: error.to_string() })?;
        given(table).map_err(|Wrong { key, reason }| {
            let line = key.and_then(|key| line_of(text, &key));
            Error::invalid(line.map_or_else(|| path.to_owned(), |line| format!("{path}:{line}")), reason)
        })
    }

    /// The shipped profile with this name, or that of a file.
    ///
    /// # Errors
    /// A name that is neither, a file that cannot be read or is wrong.
    pub fn read(text: &str) -> Result<Profile, Error> {
        let named = Profile::Named(text.to_owned());
        match named.file() {
            Some(path) => Profile::from_toml(&read_text(Path::new(path))?, path),
            None => named.costs().map(|_| named),
        }
    }

    /// The file that it names, if it is no shipped one's name.
    pub fn file(&self) -> Option<&str> {
        match self {
            Profile::Named(name) => Some(name.as_str()).filter(|name| name.contains('/') || name.ends_with(".toml")),
            Profile::Given(_) => None,
        }
    }

    /// The costs.
    ///
    /// # Errors
    /// A name that no shipped profile has, or a file that was not read.
    pub fn costs(&self) -> Result<Arc<HostCosts>, Error> {
        match self {
            Profile::Given(costs) => Ok(Arc::clone(costs)),
            Profile::Named(name) => match SHIPPED.iter().position(|(own, _)| own == name) {
                Some(place) => Ok(Arc::clone(&COSTS[place])),
                // A sweep varies values, and reads no files for them.
                None if self.file().is_some() => Err(Error::invalid(
                    "host.profile",
                    format!("{name}: not read here; expected it in a scenario file, or --host"),
                )),
                None => Err(unknown(name)),
            },
        }
    }
}

fn unknown(name: &str) -> Error {
    let known = Profile::names().collect::<Vec<_>>().join(", ");
    let hint = did_you_mean(name, Profile::names());
    Error::invalid("host.profile", format!("{name:?} is no profile{hint}; expected {known}, or a file (NAME.toml)"))
}

/// What is wrong with a table, and at which key.
#[derive(Debug)]
struct Wrong {
    key: Option<String>,
    reason: String,
}

impl Wrong {
    fn at(key: &str, reason: String) -> Wrong {
        Wrong { key: Some(key.to_owned()), reason }
    }
}

fn parsed(text: &str) -> Table {
    toml::from_str(text).expect("tests read all shipped profiles")
}

/// The costs that a table gives, checked.
fn given(table: Table) -> Result<Profile, Wrong> {
    let named = table.get("name").and_then(Value::as_str);
    if let Some(name) = named.filter(|name| Profile::shipped(name).is_some()) {
        return Err(Wrong::at("name", format!("name: {name:?} is a shipped profile; expected a name of its own")));
    }
    check(&table, &known(), "")?;
    let costs: HostCosts = whole(table)?.try_into().map_err(|error: toml::de::Error| {
        let said = error.message().trim();
        let hint =
            if said.starts_with("missing field") { "; expected every key, or a `base` that has the rest" } else { "" };
        Wrong { key: None, reason: format!("{said}{hint}") }
    })?;
    let hooks = &costs.cold_hooks_ns_percent;
    if !hooks.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
        let key = "cold_hooks_ns_percent";
        return Err(Wrong::at(key, format!("{key}: expected pairs [ns, percent] that rise")));
    }
    Ok(Profile::Given(Arc::new(costs)))
}

/// The table with what its `base` gives.
fn whole(mut table: Table) -> Result<Table, Wrong> {
    let Some(base) = table.remove("base") else { return Ok(table) };
    let name = base.as_str().unwrap_or_default();
    let text = Profile::shipped(name).ok_or_else(|| {
        let known = Profile::names().collect::<Vec<_>>().join(", ");
        Wrong::at("base", format!("base = {base} is no shipped profile; expected one of {known}"))
    })?;
    let mut all = whole(parsed(text))?;
    all.insert("name".to_owned(), Value::String(format!("{name}, changed")));
    merge(&mut all, table);
    Ok(all)
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(own)), Value::Table(more)) => merge(own, more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// A table with every key that there is.
fn known() -> Table {
    let mut all = parsed(Profile::shipped("icpe24").expect("it is shipped"));
    for key in ["base", "power"] {
        all.insert(key.to_owned(), Value::String(String::new()));
    }
    all
}

/// Checks that each key is known, and each number in its range. Which schedulers have costs is free.
fn check(table: &Table, known: &Table, within: &str) -> Result<(), Wrong> {
    for (key, value) in table {
        let of_schedulers = within == "schedulers.";
        let place = format!("{within}{key}");
        let model = if of_schedulers { known.values().next() } else { known.get(key) };
        let Some(model) = model else {
            let hint = did_you_mean(key, known.keys().map(String::as_str));
            return Err(Wrong::at(&place, format!("unknown key `{place}`{hint}")));
        };
        match (value, model) {
            (Value::Table(own), Value::Table(known)) => check(own, known, &format!("{place}."))?,
            (_, Value::Table(_)) => return Err(Wrong::at(&place, format!("{place} = {value}: expected a table"))),
            (Value::Array(items), Value::Array(_)) => {
                let all = items.iter().flat_map(|item| match item {
                    Value::Array(pair) => pair.as_slice(),
                    one => std::slice::from_ref(one),
                });
                for item in all {
                    in_range(key, &place, item)?;
                }
            }
            _ => in_range(key, &place, value)?,
        }
    }
    Ok(())
}

fn in_range(key: &str, place: &str, value: &Value) -> Result<(), Wrong> {
    let (low, high) = match key {
        "name" | "base" | "cpu_scheduler" => return Ok(()),
        "kernel" if value.as_str().is_some_and(is_release) => return Ok(()),
        "kernel" => return Err(Wrong::at(key, format!("kernel = {value}: expected a release such as \"6.3\""))),
        "power" if value.as_str() == Some(POWER) => return Ok(()),
        "power" => return Err(Wrong::at(key, format!("power = {value}: expected {POWER:?}, or no such key"))),
        "mhz" => (100, 10_000),
        "smt_percent" => (100, 1000),
        "vary_percent" => (0, 90),
        "schedulers_percent" => (0, 10_000),
        "smt_from_cpus" => (0, i64::from(u16::MAX)),
        _ => (0, NS_MAX),
    };
    match value.as_integer() {
        Some(number) if (low..=high).contains(&number) => Ok(()),
        _ => Err(Wrong::at(place, format!("{place} = {value}: expected a whole number from {low} to {high}"))),
    }
}

/// Are these two numbers with a dot between them, or the full name of a release?
fn is_release(text: &str) -> bool {
    let mut numbers = text.split(['.', '-']).map(|part| part.parse::<u32>().is_ok());
    numbers.next() == Some(true) && numbers.next() == Some(true)
}

/// The line on which a key is set, whose place is as `lock.remote_ns`: the first with its name behind the head of its table.
fn line_of(text: &str, place: &str) -> Option<usize> {
    let (table, key) = place.rsplit_once('.').unwrap_or(("", place));
    let head = |line: &str| line.trim() == format!("[{table}]");
    let from = text.lines().position(head).map_or(0, |line| line + 1);
    let sets = |line: &str| {
        let line = line.trim_start().trim_start_matches('[');
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', ']', '.']))
    };
    text.lines().skip(from).position(sets).map(|line| from + line + 1)
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Profile::Named(name) => serializer.serialize_str(name),
            Profile::Given(costs) => costs.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Profile, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Profile;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a profile, a file, or a table of costs")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Profile, E> {
                Ok(Profile::Named(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Profile, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                given(table).map_err(|wrong| A::Error::custom(wrong.reason))
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Profile::from_toml(text, "host.toml").unwrap_err().to_string()
    }

    #[test]
    fn shipped_profiles_have_their_names_and_come_back() {
        for name in Profile::names() {
            let costs = Profile::Named(name.to_owned()).costs().unwrap();
            assert_eq!(costs.name, name);
            // As a table of a scenario it needs a name of its own.
            let own = HostCosts { name: "own".to_owned(), ..(*costs).clone() };
            let text = toml::to_string(&own).unwrap();
            let read = Profile::from_toml(&text, "own.toml").unwrap();
            assert_eq!(read.costs().unwrap(), Arc::new(own), "{text}");
            // A result's JSON carries it.
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), read, "{json}");
        }
    }

    #[test]
    fn the_manual_explains_every_key_and_profile() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/host.md");
        let manual = std::fs::read_to_string(page).unwrap();
        let mut names: Vec<String> = Profile::names().map(|name| format!("\n {name}")).collect();
        for (key, value) in known() {
            match value {
                Value::Table(_) if key == "schedulers" => names.push("`[schedulers.NAME]`".to_owned()),
                Value::Table(own) => {
                    names.push(format!("`[{key}]`"));
                    names.extend(own.keys().map(|key| format!("`{key}`")));
                }
                _ => names.push(format!("`{key}`")),
            }
        }
        for name in names {
            assert!(manual.contains(&name), "docs/host.md does not have {name}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_said() {
        let costs = |name: &str| Profile::Named(name.to_owned()).costs().unwrap_err().to_string();
        assert!(costs("icpe42").starts_with("host.profile: \"icpe42\" is no profile; did you mean `icpe24`?"));
        assert!(
            costs("a/host.toml")
                .starts_with("host.profile: a/host.toml: not read here; expected it in a scenario file")
        );
    }

    #[test]
    fn a_file_builds_on_a_shipped_one() {
        let text = "base = \"icpe24\"\nsub_ns = 900\n[lock]\nremote_ns = 300\n[schedulers.bfq]\nread_ns = 1000\nwrite_ns = 1200\n";
        let costs = Profile::from_toml(text, "host.toml").unwrap().costs().unwrap();
        let base = Profile::Named("icpe24".to_owned()).costs().unwrap();
        assert_eq!((costs.sub, costs.cpl, costs.lock.remote, costs.lock.waited), (900, base.cpl, 300, 240));
        assert_eq!((costs.schedulers["bfq"].read, costs.schedulers["kyber"].read), (1000, 660));
        assert_eq!(costs.name, "icpe24, changed");
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        for (text, says) in [
            ("base = \"icpe24\"\nsubb_ns = 1\n", "host.toml:2: unknown key `subb_ns`; did you mean `sub_ns`?"),
            ("base = \"icpe42\"\n", "host.toml:1: base = \"icpe42\" is no shipped profile; expected one of r230-5.18,"),
            (
                "base = \"free\"\n[lock]\nremote_ns = -1\n",
                "host.toml:3: lock.remote_ns = -1: expected a whole number from 0 to",
            ),
            (
                "base = \"free\"\n[schedulers.bfq]\nread_ns = 1\nwrite_ns = 1\n[schedulers.kyber]\nread_ns = -1\nwrite_ns = 1\n",
                "host.toml:6: schedulers.kyber.read_ns = -1: expected",
            ),
            ("base = \"free\"\nname = \"free\"\n", "host.toml:2: name: \"free\" is a shipped profile"),
            (
                "base = \"free\"\nkernel = \"new\"\n",
                "host.toml:2: kernel = \"new\": expected a release such as \"6.3\"",
            ),
            ("base = \"free\"\npower = \"mine\"\n", "host.toml:2: power = \"mine\": expected \"r230\""),
            ("base = \"free\"\ncooling = 3\n", "host.toml:2: cooling = 3: expected a table"),
            (
                "base = \"free\"\ncpu_scheduler = \"bfs\"\n",
                "host.toml: unknown variant `bfs`, expected `cfs` or `eevdf`",
            ),
            (
                "base = \"free\"\ncold_hooks_ns_percent = [[9, 100], [5, 90]]\n",
                "host.toml:2: cold_hooks_ns_percent: expected",
            ),
            ("name = \"x\"\n", "host.toml: missing field `mhz`; expected every key, or a `base`"),
            ("name = \n", "host.toml: TOML parse error at line 1"),
        ] {
            let said = refused(text);
            assert!(said.starts_with(says), "{text}: {said}");
        }
    }

    /// A sleep costs 1.3 us and up to 4.4 us more by the CPU's idle time: the sum that the study's CPU times give.
    #[test]
    fn a_sleep_costs_what_the_law_says() {
        let cooling = Profile::Named("icpe24".to_owned()).costs().unwrap().cooling;
        for idle_us in [0, 5, 10, 20, 33, 61, 200] {
            let idle = idle_us * 1000;
            let law = 1300.0 + 4400.0 * (1.0 - (-(idle_us as f64) / 30.0).exp());
            let cost = (cooling.of_thread(idle, 0) + cooling.of_cpu(idle)) as f64;
            assert!((cost - law).abs() < 60.0, "{idle_us} us: {cost}, by the law {law}");
        }
        let more = cooling.of_thread(2_000_000, 97_000 * 16) - cooling.of_thread(2_000_000, 97_000);
        assert_eq!(more, 4 * 570);
    }
}
