//! The kernel of a scenario: its release, and what it puts before a scheduler.

use dumbwaiter_block::{Nanos, TenantId};
use dumbwaiter_controllers::io_cost::Settings;
use dumbwaiter_controllers::io_max::{Rates, Release};
use dumbwaiter_controllers::{KernelControls, LatencyTarget, PrioClass, TenantControls, WbtTarget};
use dumbwaiter_text::units::format_time;
use dumbwaiter_workloads::generate::Mix;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::change::IoCostChange;
use crate::load::Change;
use crate::{Scenario, Work};

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, and what it puts before schedulers that say nothing of their own.
    pub controls: KernelControls,
    /// Scheduled changes of io.cost, under the stacks that have it.
    pub io_cost_changes: Vec<IoCostChange>,
}

/// `[kernel]` of a file.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileKernel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<FileRelease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wbt: Option<FileWbt>,
}

/// `[io]` of a file, as the kernel's files begin with `io.`.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileIo {
    cost: FileCost,
}

/// `[io.cost]` of a file: texts as they are written to the kernel's files.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileCost {
    #[serde(default = "yes")]
    enable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qos: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    change: Vec<IoCostChange>,
}

fn yes() -> bool {
    true
}

struct FileRelease(Release);

impl<'de> Deserialize<'de> for FileRelease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileRelease, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "6.12" => Ok(FileRelease(Release::V6_12)),
            "6.18" => Ok(FileRelease(Release::V6_18)),
            _ => Err(D::Error::custom(format!("release: {text:?}; expected \"6.12\" or \"6.18\""))),
        }
    }
}

impl Serialize for FileRelease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self.0 {
            Release::V6_12 => "6.12",
            Release::V6_18 => "6.18",
        })
    }
}

struct FileWbt(WbtTarget);

impl<'de> Deserialize<'de> for FileWbt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileWbt, D::Error> {
        WbtTarget::parse(&String::deserialize(deserializer)?).map(FileWbt).map_err(D::Error::custom)
    }
}

impl Serialize for FileWbt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text())
    }
}

impl Kernel {
    /// Of the sections of a file.
    pub(crate) fn of_file(kernel: Option<FileKernel>, io: Option<FileIo>) -> Result<Kernel, crate::Error> {
        let kernel = kernel.unwrap_or_default();
        let release = kernel.release.map_or(Release::default(), |release| release.0);
        let wbt = kernel.wbt.map(|wbt| wbt.0);
        let mut controls = KernelControls { wbt, release, ..KernelControls::default() };
        let mut io_cost_changes = Vec::new();
        if let Some(FileIo { cost }) = io {
            let fail = |key: &str, why: String| crate::Error::invalid(format!("io.cost.{key}"), why);
            let mut settings = Settings::default();
            if let Some(text) = &cost.model {
                settings = settings.with_model(text).map_err(|why| fail("model", why.to_string()))?;
            }
            if let Some(text) = &cost.qos {
                settings = settings.with_qos(text).map_err(|why| fail("qos", why.to_string()))?;
            }
            controls.io_cost = Some(Settings { enabled: cost.enable, ..settings });
            for change in cost.change {
                let fail = |why: String| fail("change", format!("at {}: {why}", format_time(change.at)));
                if change.qos.is_none() && change.model.is_none() {
                    return Err(fail("changes nothing; give it a qos or a model".to_owned()));
                }
                // They follow each other in time, so that the whole is valid at each of them.
                let [qos, model] = [&change.qos, &change.model].map(|text| text.as_deref().unwrap_or(""));
                settings = settings.with_qos(qos).map_err(|why| fail(why.to_string()))?;
                settings = settings.with_model(model).map_err(|why| fail(why.to_string()))?;
                io_cost_changes.push(change);
            }
            if !io_cost_changes.is_sorted_by(|a, b| a.at < b.at) {
                return Err(fail("change", "the changes are not in the order of their times".to_owned()));
            }
        }
        Ok(Kernel { controls, io_cost_changes })
    }

    /// The section of a file, unless it is the default.
    pub(crate) fn file_kernel(&self) -> Option<FileKernel> {
        let release = Some(self.controls.release).filter(|release| *release != Release::default()).map(FileRelease);
        let wbt = self.controls.wbt.map(FileWbt);
        (release.is_some() || wbt.is_some()).then_some(FileKernel { release, wbt })
    }

    /// The section of a file, if io.cost was set.
    pub(crate) fn file_io(&self) -> Option<FileIo> {
        let settings = self.controls.io_cost?;
        let after = |text: String, word: &str| text.split_once(word).map(|(_, rest)| rest.to_owned());
        let model = settings.user_model.then(|| after(settings.model_text(), "model=linear ")).flatten();
        let qos = settings.user_qos.then(|| after(settings.qos_text(), "ctrl=user ")).flatten();
        let change = self.io_cost_changes.clone();
        Some(FileIo { cost: FileCost { enable: settings.enabled, model, qos, change } })
    }
}

impl Scenario {
    /// What stands before a scheduler: what it asks for itself, else what the scenario's kernel says, else what Linux does by
    /// itself: write-back throttling with its default, wherever there is something that it throttles.
    pub fn kernel_controls(&self, own: KernelControls) -> KernelControls {
        let mut asked = own.or(self.kernel.controls);
        // A stack that says nothing of the model, or of the quality of service, has the scenario's.
        if let (Some(asked), Some(of_kernel)) = (&mut asked.io_cost, self.kernel.controls.io_cost) {
            if !asked.user_model && of_kernel.user_model {
                (asked.model, asked.user_model) = (of_kernel.model, true);
            }
            if !asked.user_qos && of_kernel.user_qos {
                (asked.qos, asked.user_qos) = (of_kernel.qos, true);
            }
        }
        let by_default = self.is_throttled().then_some(WbtTarget::Default);
        KernelControls { wbt: asked.wbt.or(by_default), ..asked }
    }

    /// What controllers do for tenants under the stack `own`. Limits, targets and priority classes of tenants apply under every
    /// scheduler; where stacks of the scenario's list name `io.max`, `io.latency` or `io.prio.class`, they apply under these alone.
    pub fn tenant_controls(
        &self,
        own: KernelControls,
        all: Vec<(TenantId, TenantControls)>,
    ) -> Vec<(TenantId, TenantControls)> {
        let named = |names: fn(&KernelControls) -> bool| self.schedulers.iter().any(|spec| names(&spec.controls));
        let limits = self.io_max_percent(own);
        let target =
            own.io_latency.or((!named(|controls| controls.io_latency.is_some())).then_some(LatencyTarget::Own));
        let has_class = own.prio_class || !named(|controls| controls.prio_class);
        let under = |mut of: TenantControls| {
            of.io_max = limits.map_or_else(Default::default, |percent| scaled(of.io_max, percent));
            of.io_latency = of.io_latency.and_then(|own| match target? {
                LatencyTarget::Own => Some(own),
                LatencyTarget::Us(us) => Some(Nanos(us * 1_000)),
            });
            if !has_class {
                of.prio_class = PrioClass::default();
            }
            of
        };
        all.into_iter().map(|(tenant, of)| (tenant, under(of))).collect()
    }

    /// The scheduled changes under the stack `own`: those of limits as [`Scenario::tenant_controls`] has the limits.
    pub fn tenant_changes(&self, own: KernelControls, all: Vec<(Nanos, Change)>) -> Vec<(Nanos, Change)> {
        let limits = self.io_max_percent(own);
        let under = |(at, change)| match change {
            Change::IoMax { tenant, limits: all } => {
                limits.map(|percent| (at, Change::IoMax { tenant, limits: scaled(all, percent) }))
            }
            other => Some((at, other)),
        };
        all.into_iter().filter_map(under).collect()
    }

    /// How much of the limits of tenants applies under the stack `own`, in percent.
    fn io_max_percent(&self, own: KernelControls) -> Option<u32> {
        let named = self.schedulers.iter().any(|spec| spec.controls.io_max_percent.is_some());
        own.io_max_percent.or((!named).then_some(100))
    }

    /// Is there I/O that write-back throttling counts: write-back, or discards?
    pub fn is_throttled(&self) -> bool {
        let is_counted = |work: &Work| match work {
            Work::Job(job) if job.direct => matches!(job.rw.mix, Mix::Trim | Mix::TrimWrite),
            Work::Job(job) => job.rw.mix != Mix::Read,
            Work::App(app) => app.is_buffered(),
            Work::Trace(_) | Work::Fio(_) => false,
        };
        self.tasks().any(|(_, task)| is_counted(&task.work))
    }

    /// Are there reads that go through the page cache, so that read-ahead counts?
    pub fn reads_through_cache(&self) -> bool {
        let reads = |work: &Work| match work {
            Work::Job(job) => !job.direct && matches!(job.rw.mix, Mix::Read | Mix::ReadWrite),
            Work::App(app) => app.is_buffered(),
            Work::Trace(_) | Work::Fio(_) => false,
        };
        self.tasks().any(|(_, task)| reads(&task.work))
    }
}

/// This much of limits.
fn scaled(limits: [Rates; 2], percent: u32) -> [Rates; 2] {
    let part = |value: u64| (value.saturating_mul(percent.into()) / 100).max(1);
    limits.map(|Rates { bytes, ios }| Rates { bytes: bytes.map(part), ios: ios.map(part) })
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    #[test]
    fn sections_of_the_kernel_come_back_as_they_were_meant() {
        let text = "[kernel]\nrelease = \"6.18\"\nwbt = \"75ms\"\n[io.cost]\nqos = \"rlat=5000 min=50 max=50\"\n[[task]]\nname = \"t\"\nrw = \"read\"\n";
        let scenario = Scenario::from_toml(text, "s.toml").unwrap();
        let again = Scenario::from_toml(&scenario.to_toml(), "s.toml").unwrap();
        assert_eq!(again.kernel, scenario.kernel);
        assert_eq!(scenario.kernel.controls.text(), "wbt=75ms+io.cost:qos=rlat=5000 min=50.00 max=50.00");
        let fails = |text: &str| Scenario::from_toml(text, "s.toml").unwrap_err().to_string();
        assert!(fails("[kernel]\nrelease = \"5.10\"\n").contains("\"5.10\"; expected \"6.12\" or \"6.18\""));
        assert!(fails("[kernel]\nwbt = \"fast\"\n").contains("wbt: `fast`; expected default, off, or a time"));
        assert!(fails("[io.cost]\nqos = \"min=60 max=50\"\n").contains("io.cost.qos: min: 60 % is above max"));
    }

    #[test]
    fn changes_of_io_cost_come_back_and_are_checked_in_their_order() {
        let with = |changes: &str| {
            let task = "[[task]]\nname = \"t\"\nrw = \"read\"\n";
            Scenario::from_toml(
                &format!("duration = \"9s\"\n[io.cost]\nqos = \"min=50 max=60\"\n{changes}\n{task}"),
                "s.toml",
            )
        };
        let scenario = with(
            "[[io.cost.change]]\nat = \"2s\"\nqos = \"max=100\"\n[[io.cost.change]]\nat = 4\nqos = \"min=90\"\nmodel = \"rbps=1000000\"\n",
        )
        .unwrap();
        assert_eq!(scenario.kernel.io_cost_changes.len(), 2);
        assert_eq!(Scenario::from_toml(&scenario.to_toml(), "s.toml").unwrap(), scenario);
        let fails = |changes: &str| with(changes).unwrap_err().to_string();
        for (change, expected) in [
            ("[[io.cost.change]]\nat = 2\nqos = \"min=90\"", "io.cost.change: at 2s: min: 90 % is above max"),
            ("[[io.cost.change]]\nat = 2", "io.cost.change: at 2s: changes nothing; give it a qos or a model"),
            (
                "[[io.cost.change]]\nat = 2\nqos = \"max=70\"\n[[io.cost.change]]\nat = 1\nqos = \"max=80\"",
                "the changes are not in the order of their times",
            ),
        ] {
            assert!(fails(change).contains(expected), "{}", fails(change));
        }
        let late = with("[[io.cost.change]]\nat = 20\nqos = \"max=70\"").unwrap();
        let said = late.validate(&|_| Ok(()), &|_| Ok(())).unwrap_err().to_string();
        assert!(said.contains("a change at 20s is not before the end of the run"), "{said}");
    }

    /// Where something is written back or discarded, and nobody says otherwise.
    #[test]
    fn wbt_is_on_by_default_where_it_has_something_to_throttle() {
        let of = |kernel: &str, job: &str| {
            let text = format!("{kernel}\n[[task]]\nname = \"t\"\n{job}\n");
            Scenario::from_toml(&text, "s.toml").unwrap().kernel_controls(Default::default()).text()
        };
        assert_eq!(of("", "rw = \"write\"\ndirect = false"), "wbt=default");
        assert_eq!(of("", "rw = \"randtrim\""), "wbt=default");
        assert_eq!(of("", "rw = \"write\""), "");
        assert_eq!(of("", "rw = \"read\"\ndirect = false"), "");
        assert_eq!(of("[kernel]\nwbt = \"off\"", "rw = \"write\"\ndirect = false"), "wbt=off");
    }
}
