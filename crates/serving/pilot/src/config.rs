//! The configuration file: which disks, what may be done to them, and how.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::{By, Goal, ScoreTable, Settings};
use dumbwaiter_text::units::{BareTime, time};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Error;
use crate::candidate::Wanted;
use crate::store::DEFAULT_STATE;
use crate::table::DeviceTable;
use crate::tunables::MOVABLE_TUNABLES;

/// Control socket of a pilot whose configuration names no other.
pub const DEFAULT_CONTROL: &str = "/run/dumbwaiter/pilot.sock";

/// Which decisions are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Those that differ from the previous one in action, reason or workload.
    #[default]
    Changes,
    /// Every one, once a period.
    All,
}

/// A pilot's settings.
#[derive(Clone, Debug)]
pub struct PilotConfig {
    /// Socket for questions.
    pub control: PathBuf,
    /// Address for metrics over HTTP.
    pub http: Option<SocketAddr>,
    /// Names by which that address may be called, beside `localhost` and addresses.
    pub http_hosts: Vec<String>,
    /// Which decisions are logged.
    pub log: LogLevel,
    /// Restore the settings at the end.
    pub restore: bool,
    /// Folder for trial results and models, so that they survive a restart.
    pub state: PathBuf,
    /// The disks. The pilot changes no other disk's settings.
    pub devices: Vec<DeviceConfig>,
}

/// The settings for one disk.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its path, such as `/dev/sda` or a link in `/dev/disk/by-id`.
    pub path: PathBuf,
    /// Schedulers to choose from; empty for all that the kernel lists, with write-back throttling as found.
    pub candidates: Vec<Wanted>,
    /// Limits of the settings that the pilot may change, by name; `None`: it changes only the scheduler.
    pub tune: Option<BTreeMap<String, (i64, i64)>>,
    /// The policy: its method, goal and limits.
    pub policy: Settings,
    /// Exchanges of settings in an hour, trials included.
    pub exchanges_per_hour: u32,
    /// Scores by load; `None` for the built-in ones.
    pub table: Option<DeviceTable>,
}

impl DeviceConfig {
    /// A disk with the default settings.
    pub fn new(path: &Path) -> DeviceConfig {
        DeviceConfig {
            path: path.to_owned(),
            candidates: Vec::new(),
            tune: Some(BTreeMap::new()),
            policy: default_policy(),
            exchanges_per_hour: 240,
            table: None,
        }
    }
}

impl DeviceConfig {
    /// What the goal does not see, where a candidate changes write-back throttling.
    pub(crate) fn remark(&self) -> Option<String> {
        let stack = self.candidates.iter().find(|one| one.wbt_us.is_some())?;
        let (path, name) = (self.path.display(), &stack.name);
        (self.policy.goal == Goal::Throughput).then(|| {
            format!("note: {path}: goal = \"throughput\" does not see how long readers wait beside writes, which is what {name} changes; goal = \"latency\" does")
        })
    }
}

/// The kernel drains the device at each exchange, which takes tens of milliseconds: slower than for a scheduler of ours.
fn default_policy() -> Settings {
    Settings {
        by: By::Both,
        period: Nanos::from_secs(1),
        confirm: 3,
        dwell: Nanos::from_secs(10),
        switches_per_hour: 20,
        slot: Nanos::from_secs(4),
        slot_min: Nanos::from_secs(1),
        allowance: Nanos::from_secs(10),
        ..Settings::default()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    path: PathBuf,
    by: Option<String>,
    goal: Option<String>,
    #[serde(default)]
    candidates: Vec<String>,
    tune: Option<bool>,
    #[serde(default)]
    bounds: BTreeMap<String, (i64, i64)>,
    period: Option<String>,
    confirm: Option<u32>,
    dwell: Option<String>,
    hysteresis: Option<f64>,
    confidence: Option<f64>,
    switches_per_hour: Option<u32>,
    exchanges_per_hour: Option<u32>,
    slot: Option<String>,
    regret: Option<f64>,
    table: Option<PathBuf>,
    table_kernel: Option<String>,
    table_date: Option<String>,
    latency_model: Option<IgnoredAny>,
    layout: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    control: Option<PathBuf>,
    http: Option<SocketAddr>,
    #[serde(default)]
    http_hosts: Vec<String>,
    #[serde(default)]
    log: LogLevel,
    restore: Option<bool>,
    state: Option<PathBuf>,
    #[serde(default, rename = "device")]
    devices: Vec<Device>,
}

impl PilotConfig {
    /// Reads a configuration from TOML. `path` is for messages; tables are found relative to its folder.
    pub fn from_toml(text: &str, path: &Path) -> Result<PilotConfig, Error> {
        let refuse = |reason: String| Error::Config { path: path.to_owned(), reason };
        let file: File = toml::from_str(text).map_err(|e| refuse(e.to_string()))?;
        if file.devices.is_empty() {
            return Err(refuse("no [[device]]: name the disks to watch, such as path = \"/dev/sda\"".into()));
        }
        let mut devices: Vec<DeviceConfig> = Vec::new();
        for found in file.devices {
            if devices.iter().any(|other| other.path == found.path) {
                return Err(refuse(format!("{} is named twice", found.path.display())));
            }
            let name = found.path.display().to_string();
            let folder = path.parent().unwrap_or(Path::new(""));
            devices.push(device(found, folder).map_err(|reason| refuse(format!("device {name}: {reason}")))?);
        }
        Ok(PilotConfig {
            control: file.control.unwrap_or_else(|| DEFAULT_CONTROL.into()),
            http: file.http,
            http_hosts: file.http_hosts,
            log: file.log,
            restore: file.restore.unwrap_or(true),
            state: file.state.unwrap_or_else(|| DEFAULT_STATE.into()),
            devices,
        })
    }

    /// Reads a configuration file.
    pub fn from_file(path: &Path) -> Result<PilotConfig, Error> {
        let text =
            dumbwaiter_text::read_config(path).map_err(|reason| Error::Config { path: path.to_owned(), reason })?;
        PilotConfig::from_toml(&text, path)
    }
}

/// Converts a share of 1 to thousandths.
fn thousandths(key: &str, share: Option<f64>, default: u32) -> Result<u32, String> {
    match share {
        None => Ok(default),
        Some(share) if (0.0..=1.0).contains(&share) => Ok((share * 1000.0).round() as u32),
        Some(share) => Err(format!("{key} = {share}: expected a share from 0 to 1")),
    }
}

fn span(key: &str, text: Option<&str>, default: Nanos, range: (u64, u64)) -> Result<Nanos, String> {
    let Some(text) = text else { return Ok(default) };
    let span = time(text, BareTime::Refused).map_err(|e| format!("{key}: {e}"))?;
    let (low, high) = (Nanos::from_ms(range.0), Nanos::from_ms(range.1));
    if (low..=high).contains(&span) {
        return Ok(span);
    }
    Err(format!("{key} = \"{text}\": expected {} ms to {} s", range.0, range.1 / 1000))
}

fn device(file: Device, folder: &Path) -> Result<DeviceConfig, String> {
    let default = DeviceConfig::new(&file.path);
    let word = |key: &str, text: &str, names: &[&str]| format!("{key} = \"{text}\": expected {}", names.join(", "));
    let by = match &file.by {
        Some(text) => By::parse(text).ok_or_else(|| word("by", text, By::NAMES))?,
        None => default.policy.by,
    };
    let goal = match &file.goal {
        Some(text) => Goal::parse(text).ok_or_else(|| word("goal", text, Goal::NAMES))?,
        None => default.policy.goal,
    };
    let candidates = file.candidates.iter().map(|name| Wanted::parse(name).map_err(|e| format!("candidates: {e}")));
    let candidates = candidates.collect::<Result<_, _>>()?;
    check_bounds(&file.bounds)?;
    for (key, value) in [("latency_model", file.latency_model), ("layout", file.layout)] {
        if value.is_some() {
            return Err(format!("{key} was removed, since no decision depended on it; delete the line"));
        }
    }
    let base = default.policy;
    let policy = Settings {
        by,
        goal,
        period: span("period", file.period.as_deref(), base.period, (50, 60_000))?,
        confirm: file.confirm.unwrap_or(base.confirm).clamp(1, 100),
        dwell: span("dwell", file.dwell.as_deref(), base.dwell, (0, 600_000))?,
        hysteresis: thousandths("hysteresis", file.hysteresis, base.hysteresis)?,
        confidence: thousandths("confidence", file.confidence, base.confidence)?,
        switches_per_hour: file.switches_per_hour.unwrap_or(base.switches_per_hour),
        slot: span("slot", file.slot.as_deref(), base.slot, (200, 60_000))?,
        regret: thousandths("regret", file.regret, base.regret)?,
        ..base
    };
    let policy = Settings { slot_min: Nanos(policy.slot_min.0.min(policy.slot.0)), ..policy };
    let table = match file.table {
        Some(path) => {
            let path = folder.join(path);
            let place = |problem: String| format!("table {}: {problem}", path.display());
            let bytes = std::fs::read(&path).map_err(|e| place(e.to_string()))?;
            let scores = ScoreTable::from_json(&bytes).map_err(|e| place(e.to_string()))?;
            Some(DeviceTable::new(scores, file.table_kernel, file.table_date)?)
        }
        None => None,
    };
    Ok(DeviceConfig {
        path: file.path,
        candidates,
        tune: file.tune.unwrap_or(true).then_some(file.bounds),
        policy,
        exchanges_per_hour: file.exchanges_per_hour.unwrap_or(default.exchanges_per_hour),
        table,
    })
}

fn check_bounds(bounds: &BTreeMap<String, (i64, i64)>) -> Result<(), String> {
    for (key, (low, high)) in bounds {
        let Some(tunable) = MOVABLE_TUNABLES.iter().find(|tunable| tunable.key() == *key) else {
            let all: Vec<String> = MOVABLE_TUNABLES.iter().map(|tunable| tunable.key()).collect();
            return Err(format!(
                "bounds: \"{key}\" is not a setting that the pilot changes; expected {}",
                all.join(", ")
            ));
        };
        let (least, most) = tunable.bounds;
        if low > high || *low < least || *high > most {
            return Err(format!("bounds: \"{key}\" = [{low}, {high}]: expected a range within [{least}, {most}]"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PilotConfig, Error> {
        PilotConfig::from_toml(text, Path::new("pilot.toml"))
    }

    #[test]
    fn a_device_needs_only_its_path() {
        let config = read("[[device]]\npath = '/dev/sda'\n").unwrap();
        assert_eq!((config.devices.len(), config.restore), (1, true));
        assert_eq!(config.control, Path::new(DEFAULT_CONTROL));
        assert_eq!(config.devices[0].policy, default_policy());
    }

    #[test]
    fn every_limit_can_be_set() {
        let text = "http = '127.0.0.1:9101'\nrestore = false\nlog = 'all'\n[[device]]\npath = 'sda'\nby = 'trial'\n\
                    goal = 'latency'\ncandidates = ['none', 'bfq']\ndwell = '1m'\nhysteresis = 0.05\n\
                    bounds = { 'mq-deadline/fifo_batch' = [8, 32] }\n";
        let device = &read(text).unwrap().devices[0];
        assert_eq!((device.policy.by, device.policy.goal), (By::Trial, Goal::Latency));
        assert_eq!((device.policy.dwell, device.policy.hysteresis), (Nanos::from_secs(60), 50));
        assert_eq!(device.tune.as_ref().unwrap()["mq-deadline/fifo_batch"], (8, 32));
        assert_eq!(read("[[device]]\npath = 'sda'\ntune = false\n").unwrap().devices[0].tune, None);
    }

    #[test]
    fn a_goal_that_does_not_see_what_a_candidate_costs_is_remarked() {
        let of = |goal: &str, candidate: &str| {
            let text = format!("[[device]]\npath = 'sda'\ngoal = '{goal}'\ncandidates = ['none', '{candidate}']\n");
            read(&text).unwrap().devices[0].remark()
        };
        assert!(of("throughput", "kyber+wbt=off").unwrap().contains("kyber+wbt=off"));
        assert_eq!((of("latency", "kyber+wbt=off"), of("throughput", "kyber")), (None, None));
    }

    #[test]
    fn what_cannot_be_names_key_and_expectation() {
        for (text, said) in [
            ("", "[[device]]"),
            ("[[device]]\n", "path"),
            ("[[device]]\npath = 'a'\n[[device]]\npath = 'a'\n", "twice"),
            ("[[device]]\npath = 'a'\nby = 'luck'\n", "both, trial, model"),
            ("[[device]]\npath = 'a'\nhysteresis = 20\n", "0 to 1"),
            ("[[device]]\npath = 'a'\nperiod = '1ms'\n", "expected 50 ms"),
            ("[[device]]\npath = 'a'\nperiod = '5'\n", "with a unit"),
            ("[[device]]\npath = 'a'\ncandidates = ['../x']\n", "not a scheduler name"),
            ("[[device]]\npath = 'a'\ncandidates = ['none+io.max']\n", "compare --on"),
            ("[[device]]\npath = 'a'\nbounds = { 'bfq/slice_idle' = [0, 8] }\n", "bfq/low_latency"),
            ("[[device]]\npath = 'a'\nbounds = { 'mq-deadline/fifo_batch' = [0, 9999] }\n", "within [1, 128]"),
            ("[[device]]\npath = 'a'\ntable = 'missing.json'\n", "missing.json"),
            ("[[device]]\npath = 'a'\nlatency_model = 'shipped:latency-flash'\n", "latency_model was removed"),
            ("[[device]]\npath = 'a'\nlayout = '/data'\n", "layout was removed"),
            ("[[device]]\npath = 'a'\nwieght = 1\n", "wieght"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("pilot.toml"), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            let _ = read(&text);
        }
    }
}
