//! The list of schedulers.

use super::entry::Entry;
use super::error::ChoiceError;
use super::factory::{Factory, factory};
use super::setting::{Parameter, ParameterKind, Settings};
use crate::adios::{self, Adios};
use crate::anticipatory::{self, Anticipatory};
use crate::bfq::{self, Bfq, Generation, OverShare};
use crate::cfq::{self, Cfq, Version};
use crate::mq_deadline::{self, Kernel, MqDeadline};
use crate::sjf::{self, LearnedModel, Sjf, Source};
use std::sync::Arc;

use crate::{c_look, d2fq, headway, kyber, mclock, mqfq, none, noop, sstf, wf2q_plus};
use dumbwaiter_controllers::adaptive::{self, Adaptive, Candidate, Plan};
use dumbwaiter_controllers::switching::{By, Goal, ScoreTable};
use dumbwaiter_learn::{Classifier, Model, shipped};

/// The entry of this name. A `+` at its end may be left out: in lists of candidates it separates names.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|e| e.name == name || e.name.strip_suffix('+') == Some(name))
}

const fn kernel(releases: &'static [&'static str]) -> Parameter {
    Parameter {
        name: "kernel",
        kind: ParameterKind::Release(releases),
        help: "the Linux release whose behaviour to use",
    }
}

const fn generation(names: &'static [&'static str]) -> Parameter {
    Parameter { name: "generation", kind: ParameterKind::Word(names), help: "the generation of BFQ to use" }
}

const fn per_tenant(name: &'static str, help: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::PerTenant { unit: "IO/s", max: 1_000_000_000 }, help }
}

const PREDICTOR: Parameter = Parameter {
    name: "predictor",
    kind: ParameterKind::Word(&["line", "oracle", "shuffled"]),
    help: "line: learned while it runs; oracle: the exact times of a simulated device; shuffled: the line's prediction for \
           the request before, a control",
};

const MODEL: Parameter = Parameter {
    name: "model",
    kind: ParameterKind::File { required: false },
    help: "a model file, or shipped:latency-disk or shipped:latency-flash; it predicts in place of the line",
};

fn source(settings: &Settings) -> Result<Source, ChoiceError> {
    const EXPECTED: &str = "the path of a latency model, shipped:latency-disk or shipped:latency-flash";
    let model = match settings.text("model").map(|text| text.strip_prefix("shipped:")) {
        Some(Some(name)) => shipped::model(name).ok_or_else(|| settings.refused("model", EXPECTED))?,
        Some(None) => Model::from_bytes(&settings.file("model")?.unwrap_or_default()),
        None => {
            return Ok(match settings.text("predictor") {
                Some("oracle") => Source::Oracle,
                Some("shuffled") => Source::Shuffled,
                _ => Source::Line,
            });
        }
    };
    let learned = model.and_then(|model| LearnedModel::from_file(&model));
    let learned = learned.map_err(|why| settings.refused("model", format!("{EXPECTED} ({why})")))?;
    Ok(Source::Model(Box::new(learned)))
}

/// The classifier of `adaptive`; `None` where nothing would use it.
fn classifier(settings: &Settings, by: By) -> Result<Option<Arc<Classifier>>, ChoiceError> {
    const EXPECTED: &str = "the path of a classifier, shipped:classifier or none";
    let model = match settings.text("model") {
        Some("none") => return Ok(None),
        None if by == By::Trial => return Ok(None),
        None => shipped::model("classifier").ok_or_else(|| settings.refused("model", EXPECTED))?,
        Some(text) => match text.strip_prefix("shipped:") {
            Some(name) => shipped::model(name).ok_or_else(|| settings.refused("model", EXPECTED))?,
            None => Model::from_bytes(&settings.file("model")?.unwrap_or_default()),
        },
    };
    let classifier = model.and_then(|model| model.classifier());
    let classifier = classifier.map_err(|why| settings.refused("model", format!("{EXPECTED} ({why})")))?;
    Ok(Some(Arc::new(classifier)))
}

/// A candidate of `adaptive`.
fn candidate((name, factory): &(String, Factory)) -> Candidate {
    let factory = Arc::clone(factory);
    Candidate { name: name.clone(), build: Arc::new(move |setup| factory(setup).scheduler) }
}

/// The throughput table of `adaptive`.
fn table(settings: &Settings) -> Result<Option<Arc<ScoreTable>>, ChoiceError> {
    const EXPECTED: &str = "the path of a throughput table, shipped:simulated or none";
    let table = match settings.text("table") {
        Some("none") => return Ok(None),
        None | Some("shipped:simulated") => ScoreTable::shipped(),
        Some(text) if text.starts_with("shipped:") => return Err(settings.refused("table", EXPECTED)),
        Some(_) => ScoreTable::from_json(&settings.file("table")?.unwrap_or_default()).map(Arc::new),
    };
    let table = table.map_err(|why| settings.refused("table", format!("{EXPECTED} ({why})")))?;
    Ok(Some(table))
}

/// Schedulers in the order in which they are listed.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "none",
        summary: "no policy: requests go straight to the device, per-CPU queues hold what it refuses",
        source: "Linux 6.18 (blk-mq)",
        tunables: &[],
        parameters: &[],
        manual: include_str!("../none.md"),
        make: |_| factory(none::None::new),
    },
    Entry {
        name: "noop",
        summary: "first in, first out, with merging and sorted plugs",
        source: "Linux up to 4.20",
        tunables: &[],
        parameters: &[],
        manual: include_str!("../noop.md"),
        make: |_| factory(|_| noop::Noop::default()),
    },
    Entry {
        name: "deadline",
        summary: "batches in sector order with soft deadlines, single queue",
        source: "Linux up to 4.20",
        tunables: mq_deadline::LEGACY_TUNABLES,
        parameters: &[],
        manual: include_str!("../deadline.md"),
        make: |_| factory(crate::deadline::deadline),
    },
    Entry {
        name: "mq-deadline",
        summary: "batches in sector order with soft deadlines and three priority classes",
        source: "Linux 4.11 to 6.18",
        tunables: mq_deadline::TUNABLES,
        parameters: &[kernel(&["6.18", "6.5", "6.1", "5.15", "5.13"])],
        manual: include_str!("../mq_deadline.md"),
        make: |settings| {
            let kernel = settings.parsed("kernel", Kernel::V6_18, Kernel::parse)?;
            factory(move |setup| MqDeadline::new(setup, kernel))
        },
    },
    Entry {
        name: "kyber",
        summary: "limits reads, writes and discards in the device to meet latency targets",
        source: "Linux 4.20 to 6.18",
        tunables: kyber::TUNABLES,
        parameters: &[],
        manual: include_str!("../kyber.md"),
        make: |_| factory(kyber::Kyber::new),
    },
    Entry {
        name: "adios",
        summary: "batches by deadlines predicted from learned latencies, reads before writes within one",
        source: "ADIOS 3.2.0 (2026), not in mainline",
        tunables: adios::TUNABLES,
        parameters: &[],
        manual: include_str!("../adios.md"),
        make: |_| factory(Adios::new),
    },
    Entry {
        name: "cfq",
        summary: "time slices per task by priority, nested weighted tenants, idling for the next request",
        source: "Linux 3.10 to 4.20",
        tunables: cfq::TUNABLES,
        parameters: &[kernel(&["3.18", "4.20", "3.10"])],
        manual: include_str!("../cfq.md"),
        make: |settings| {
            let version = settings.parsed("kernel", Version::K318, Version::parse)?;
            factory(move |setup| Cfq::new(setup, version))
        },
    },
    Entry {
        name: "a-cfq",
        summary: "cfq for flash: shares in sectors, idles for tenants",
        source: "A+CFQ (2020), on Linux 3.18",
        tunables: cfq::A_CFQ_TUNABLES,
        parameters: &[],
        manual: include_str!("../a_cfq.md"),
        make: |_| factory(Cfq::anticipating),
    },
    Entry {
        name: "bfq",
        summary: "one queue per process, served in weighted shares; boosts interactive ones",
        source: "Linux 5.x to 6.18; Valente, Avanzini 2015",
        tunables: bfq::tunables(Generation::Mainline, false),
        parameters: &[generation(Generation::NAMES), kernel(&["6.18", "6.3"])],
        manual: include_str!("../bfq.md"),
        make: |settings| {
            let generation = settings.parsed("generation", Generation::Mainline, Generation::parse)?;
            let above_share = settings.parsed("kernel", OverShare::OneOfAll, OverShare::parse)?;
            factory(move |setup| Bfq::new(setup, generation).with_above_share(above_share))
        },
    },
    Entry {
        name: "h-bfq",
        summary: "bfq that carries over unused budget, with short slots after an exhausted one",
        source: "H+BFQ (2020), on BFQ v7r8",
        tunables: bfq::tunables(Generation::V7r8, true),
        parameters: &[generation(&["v7r8", "mainline", "v1", "original"])],
        manual: include_str!("../h_bfq.md"),
        make: |settings| {
            let generation = settings.parsed("generation", Generation::V7r8, Generation::parse)?;
            factory(move |setup| Bfq::with_history(setup, generation))
        },
    },
    Entry {
        name: "anticipatory",
        summary: "idles a disk for the next read of the process served last, where that saves seeks",
        source: "Iyer, Druschel 2001; Linux 2.6 (as)",
        tunables: anticipatory::TUNABLES,
        parameters: &[],
        manual: include_str!("../anticipatory.md"),
        make: |_| factory(Anticipatory::new),
    },
    Entry {
        name: "sstf",
        summary: "the nearest request first; fast on a disk, but unfair",
        source: "Denning 1967",
        tunables: &[],
        parameters: &[],
        manual: include_str!("../sstf.md"),
        make: |_| factory(|_| sstf::Sstf::default()),
    },
    Entry {
        name: "c-look",
        summary: "in ascending sector order, then again from the lowest",
        source: "Merten 1970",
        tunables: &[],
        parameters: &[],
        manual: include_str!("../c_look.md"),
        make: |_| factory(|_| c_look::CLook::default()),
    },
    Entry {
        name: "wf2q+",
        summary: "shares by tenant weight, one request at a time, in the order of virtual finish times",
        source: "Bennett, Zhang 1997",
        tunables: &[],
        parameters: &[],
        manual: include_str!("../wf2q_plus.md"),
        make: |_| factory(wf2q_plus::Wf2qPlus::new),
    },
    Entry {
        name: "mclock",
        summary: "a reservation, a limit and a weight for each tenant",
        source: "Gulati, Merchant, Varman 2010",
        tunables: mclock::TUNABLES,
        parameters: &[
            per_tenant("reservations", "reservation of each tenant, in order of their numbers; 0: none"),
            per_tenant("limits", "limit of each tenant, in order of their numbers; 0: none"),
        ],
        manual: include_str!("../mclock.md"),
        make: |settings| {
            let (reservations, limits) = (settings.per_tenant("reservations")?, settings.per_tenant("limits")?);
            let rates = mclock::Rates { reservations, limits };
            factory(move |setup| mclock::MClock::new(setup, rates.clone()))
        },
    },
    Entry {
        name: "mqfq",
        summary: "shares by tenant weight over several hardware queues, by throttling those too far ahead",
        source: "Hedayati and others 2019",
        tunables: mqfq::TUNABLES,
        parameters: &[],
        manual: include_str!("../mqfq.md"),
        make: |_| factory(mqfq::Mqfq::new),
    },
    Entry {
        name: "d2fq",
        summary: "shares by tenant weight through the three weighted classes of an NVMe drive",
        source: "Woo and others 2021",
        tunables: d2fq::TUNABLES,
        parameters: &[],
        manual: include_str!("../d2fq.md"),
        make: |_| factory(d2fq::D2fq::new),
    },
    Entry {
        name: "headway",
        summary: "shares by tenant weight while the device stays full, and quick starts of tasks",
        source: "ours",
        tunables: headway::TUNABLES,
        parameters: &[],
        manual: include_str!("../headway.md"),
        make: |_| factory(headway::Headway::new),
    },
    Entry {
        name: "sjf",
        summary: "the shortest predicted latency first, with a bound on every wait",
        source: "FSL-25-07 (2025), and ours",
        tunables: sjf::TUNABLES,
        parameters: &[PREDICTOR, MODEL],
        manual: include_str!("../sjf.md"),
        make: |settings| {
            let source = source(settings)?;
            factory(move |setup| Sjf::new(setup, source.clone()))
        },
    },
    Entry {
        name: "sptf",
        summary: "the shortest predicted positioning time first, with a bound on every wait",
        source: "ours, after FSL-25-07 (2025)",
        tunables: sjf::SPTF_TUNABLES,
        parameters: &[PREDICTOR, MODEL],
        manual: include_str!("../sptf.md"),
        make: |settings| {
            let source = source(settings)?;
            factory(move |setup| Sjf::by_position(setup, source.clone()))
        },
    },
    Entry {
        name: "adaptive",
        summary: "exchanges the scheduler while the load runs, by trials on live traffic or by a model",
        source: "FSL-25-07 (2025), and ours",
        tunables: adaptive::TUNABLES,
        parameters: &[
            Parameter { name: "by", kind: ParameterKind::Word(By::NAMES), help: "what decides between the candidates" },
            Parameter { name: "goal", kind: ParameterKind::Word(Goal::NAMES), help: "what to improve" },
            Parameter {
                name: "candidates",
                kind: ParameterKind::Schedulers("mq-deadline+headway+bfq+kyber+none"),
                help: "schedulers to choose from",
            },
            Parameter {
                name: "handover",
                kind: ParameterKind::Word(&["live", "freeze"]),
                help: "live: queued requests pass to the next scheduler; freeze: the device drains first, as in Linux",
            },
            Parameter {
                name: "model",
                kind: ParameterKind::File { required: false },
                help: "a classifier's file, shipped:classifier (the default) or none; its posterior chooses between the rows of \
                       the table",
            },
            Parameter {
                name: "table",
                kind: ParameterKind::File { required: false },
                help: "a throughput table's file, shipped:simulated (the default) or none",
            },
        ],
        manual: include_str!("../adaptive.md"),
        make: |settings| {
            let by = settings.parsed("by", By::default(), By::parse)?;
            let plan = Plan {
                by,
                goal: settings.parsed("goal", Goal::default(), Goal::parse)?,
                freeze: settings.text("handover") == Some("freeze"),
                candidates: settings.schedulers("candidates").iter().map(candidate).collect(),
                classifier: classifier(settings, by)?,
                table: table(settings)?,
            };
            Ok(Arc::new(move |setup| Adaptive::stack(setup, &plan)))
        },
    },
];
