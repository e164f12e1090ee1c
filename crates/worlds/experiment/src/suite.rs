//! Several scenarios compared as one: those of a suite on several drives, or scenarios that are listed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dumbwaiter_advise::{Document, Goal, Provenance, Suite, SuiteCase};
use dumbwaiter_block::hint::did_you_mean_of;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::library::RunsOn;
use dumbwaiter_scenario::{Scenario, Work, library};
use dumbwaiter_workloads::generate::Extent;
use serde_json::{Value, json};

use crate::classes::models_of;
use crate::compare::{Comparison, Ending, compare};
use crate::failure::Failure;
use crate::input::{Experiment, InputKind, Overrides, ReadError, joined, kind_of};
use crate::{Control, World};

/// Drives of a suite: what kind each is, and its model.
pub const DRIVES: [(&str, &str); 3] =
    [("hard disk", "hdd:st1000dm003"), ("SATA SSD", "ssd:850pro-256"), ("NVMe SSD", "ssd:nvme-tlc")];
/// How much of a suite's drive holds data, in percent.
pub const FILLS_PERCENT: [u8; 3] = [10, 50, 90];
/// Schedulers of a suite: what a current kernel offers, and ours.
const SCHEDULERS: &str = "none,mq-deadline,kyber,bfq,headway";
/// Begins the name of a suite on the command line.
const SUITE: &str = "suite:";

/// The input of a comparison.
#[derive(Clone, Debug)]
pub enum Input {
    /// One scenario.
    One(Box<Experiment>),
    /// Several.
    Several {
        /// What the whole is called: `suite:desktop`, a job file whose stages these are, `several scenarios`.
        name: String,
        /// The scenarios.
        cases: Vec<Case>,
    },
}

/// One scenario of several.
#[derive(Clone, Debug)]
pub struct Case {
    /// Names its runs among those of the others.
    pub variant: String,
    /// The kind of drive and the device's name, where the suite decides them.
    pub drive: Option<(String, String)>,
    /// How much of the drive holds data.
    pub fill_percent: Option<u8>,
    /// The scenario.
    pub experiment: Experiment,
}

impl Input {
    /// Reads `words`: one scenario, job file or capture as [`Experiment::read`] does, where the stages of a job file
    /// (`stonewall`) are scenarios of their own; several scenarios or job files; or `suite:NAME`.
    ///
    /// # Errors
    /// As [`Experiment::read`]; a suite that does not exist, or beside other input.
    pub fn read(
        words: &[PathBuf],
        builtin: fn() -> Scenario,
        overrides: &Overrides,
        goal: Goal,
    ) -> Result<Input, ReadError> {
        let words: &[PathBuf] = &joined(words);
        let suite_of = |word: &PathBuf| word.to_str().and_then(|text| text.strip_prefix(SUITE)).map(str::to_owned);
        match words {
            [word] if suite_of(word).is_some() => return suite(&suite_of(word).unwrap_or_default(), overrides, goal),
            _ if words.iter().any(|word| suite_of(word).is_some()) => {
                return Err(ReadError::Input("a suite is given beside other input; expected one suite alone".into()));
            }
            _ => {}
        }
        let kinds = words.iter().map(|word| kind_of(word)).collect::<Result<Vec<_>, _>>()?;
        if let ([word], [InputKind::FioJob]) = (words, kinds.as_slice()) {
            let stages = Experiment::stages(word, overrides, goal)?;
            if !stages.is_empty() {
                return Ok(Input::of_stages(word, stages));
            }
        }
        if words.len() < 2 || kinds.contains(&InputKind::Trace) {
            let one = Experiment::read(words, builtin, overrides, goal)?;
            return Ok(Input::One(Box::new(one)));
        }
        let mut cases: Vec<Case> = Vec::new();
        for word in words {
            let mut experiment = Experiment::read(std::slice::from_ref(word), builtin, overrides, goal)?;
            experiment.command = overrides.command(words, goal);
            let variant = variant_name(&experiment.scenario, word);
            if cases.iter().any(|case| case.variant == variant) {
                return Err(ReadError::Input(format!("two scenarios are called {variant:?}; give one another name")));
            }
            cases.push(Case { variant, drive: None, fill_percent: None, experiment });
        }
        Ok(Input::Several { name: "several scenarios".to_owned(), cases })
    }

    /// The stages of a fio job file, which run one after the other.
    fn of_stages(file: &Path, stages: Vec<Experiment>) -> Input {
        let case = |experiment: Experiment| {
            let variant = experiment.scenario.name.clone();
            Case { variant, drive: None, fill_percent: None, experiment }
        };
        // Command lines that are not in a file have no name.
        let name = file.file_name().filter(|_| file.is_file()).map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| "fio's stages".to_owned());
        Input::Several { name, cases: stages.into_iter().map(case).collect() }
    }

    /// The effective scenario, or each of several under a line with its name.
    pub fn to_toml(&self) -> String {
        match self {
            Input::One(experiment) => experiment.scenario.to_toml(),
            Input::Several { cases, .. } => {
                let one = |case: &Case| format!("# {}\n{}\n", case.variant, case.experiment.scenario.to_toml());
                cases.iter().map(one).collect()
            }
        }
    }
}

fn variant_name(scenario: &Scenario, path: &Path) -> String {
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if scenario.name.is_empty() { stem() } else { scenario.name.clone() }
}

/// The scenarios of a suite on each of its drives, or those of `overrides`, at each fill; on a real drive as it is.
fn suite(name: &str, overrides: &Overrides, goal: Goal) -> Result<Input, ReadError> {
    let Some(suite) = library::suite(name) else {
        let names: Vec<String> = library::SUITES.iter().map(|suite| format!("{SUITE}{}", suite.name)).collect();
        let (names, word): (Vec<&str>, _) = (names.iter().map(String::as_str).collect(), format!("{SUITE}{name}"));
        return Err(ReadError::Input(format!("unknown suite `{word}`{}", did_you_mean_of(&word, &names))));
    };
    if overrides.real_drive {
        return on_a_real_drive(suite, overrides, goal);
    }
    let class = |device: &str| DRIVES.iter().find(|(_, own)| *own == device).map(|(class, _)| *class);
    // A class is each of its models.
    let models = |device: &String| match models_of(device) {
        Some(models) => {
            let name = models.iter().find_map(|model| class(model)).unwrap_or_default();
            models.iter().map(|model| (name.to_owned(), (*model).to_owned())).collect()
        }
        None => vec![(class(device).unwrap_or(device).to_owned(), device.clone())],
    };
    let (by_itself, fills, schedulers) = match suite.on {
        RunsOn::EveryKind => (DRIVES.map(|(_, model)| model).to_vec(), &FILLS_PERCENT[..], SCHEDULERS),
        RunsOn::One(model, ref fill, stacks) => (vec![model], std::slice::from_ref(fill), stacks),
    };
    let by_itself: Vec<String> = by_itself.into_iter().map(str::to_owned).collect();
    let devices = if overrides.devices.is_empty() { &by_itself } else { &overrides.devices };
    let drives: Vec<(String, String)> = devices.iter().flat_map(models).collect();
    let command = command(name, overrides, goal);
    let mut cases = Vec::new();
    for (class, device) in &drives {
        for &fill_percent in fills {
            let filled =
                dumbwaiter_devices::filled(device, fill_percent).map_err(|e| ReadError::Input(e.to_string()))?;
            for named in suite.scenarios {
                let mut scenario = named.scenario()?;
                confine(&mut scenario, fill_percent);
                let mut overrides = overrides.clone();
                overrides.devices = vec![filled.clone()];
                overrides.schedulers.get_or_insert_with(|| schedulers.to_owned());
                let mut experiment = Experiment::of(scenario, &overrides, goal)?;
                experiment.command.clone_from(&command);
                cases.push(Case {
                    variant: format!("{}, {fill_percent} % full", named.name),
                    drive: Some((class.clone(), device.clone())),
                    fill_percent: Some(fill_percent),
                    experiment,
                });
            }
        }
    }
    Ok(Input::Several { name: format!("{SUITE}{name}"), cases })
}

fn command(suite: &str, overrides: &Overrides, goal: Goal) -> String {
    overrides.command(&[PathBuf::from(format!("{SUITE}{suite}"))], goal)
}

/// How full a real drive is, and what kind, are its own.
fn on_a_real_drive(suite: &library::SuiteOf, overrides: &Overrides, goal: Goal) -> Result<Input, ReadError> {
    let command = command(suite.name, overrides, goal);
    let mut cases = Vec::new();
    for named in suite.scenarios {
        let mut overrides = overrides.clone();
        overrides.schedulers.get_or_insert_with(|| SCHEDULERS.to_owned());
        let mut experiment = Experiment::of(named.scenario()?, &overrides, goal)?;
        experiment.command.clone_from(&command);
        cases.push(Case { variant: named.name.to_owned(), drive: None, fill_percent: None, experiment });
    }
    Ok(Input::Several { name: format!("{SUITE}{}", suite.name), cases })
}

/// Moves all I/O of jobs into the first `percent` of the device: there is no data elsewhere.
fn confine(scenario: &mut Scenario, percent: u8) {
    let share = f64::from(percent) / 100.0;
    let scaled = |extent: Extent| match extent {
        Extent::Percent(p) => Extent::Percent(p * share),
        bytes => bytes,
    };
    for task in scenario.tenants.iter_mut().flat_map(|tenant| &mut tenant.tasks) {
        if let Work::Job(job) = &mut task.work {
            (job.offset, job.offset_increment) = (scaled(job.offset), scaled(job.offset_increment));
            job.size = job.size.map(scaled);
        }
    }
}

/// Compares the schedulers under each of several scenarios, and over all of them; `name` is what the whole is called.
///
/// # Errors
/// As [`compare()`], if it fails in the first case. A later failure ends the comparison, which keeps its completed runs.
pub fn compare_all(name: &str, cases: &[Case], world: &dyn World, control: &Control) -> Result<Comparison, Failure> {
    compare_each(name, cases, &mut |experiment| compare(experiment, world, control), control)
}

/// As [`compare_all`], where `one` compares the schedulers under one scenario.
///
/// # Errors
/// As [`compare_all`].
pub fn compare_each(
    name: &str,
    cases: &[Case],
    one: &mut dyn FnMut(&Experiment) -> Result<Comparison, Failure>,
    control: &Control,
) -> Result<Comparison, Failure> {
    let mut merged = MergedCases::default();
    let mut ending = Ending::Complete;
    for case in cases {
        match one(&case.experiment) {
            Ok(done) => {
                merged.add(case, done.document);
                ending = done.ending;
            }
            Err(failure) if merged.runs.is_empty() => return Err(failure.of(&case.variant)),
            Err(_) if control.cancelled() => ending = Ending::Interrupted,
            Err(failure) => ending = Ending::Failed(failure.of(&case.variant)),
        }
        if ending != Ending::Complete {
            break;
        }
    }
    Ok(Comparison { document: merged.into_document(name, cases)?, ending })
}

/// The documents of several cases, merged into one.
#[derive(Default)]
struct MergedCases {
    runs: Vec<RunResult>,
    cases: Vec<SuiteCase>,
    notes: Vec<String>,
    warnings: Vec<String>,
    load_patterns_unix_s: Vec<f64>,
    provenance: Option<Provenance>,
    asked: (Option<f64>, Option<String>),
    versions: BTreeMap<String, String>,
}

impl MergedCases {
    /// Adds the document of a case.
    fn add(&mut self, case: &Case, document: Document) {
        self.versions = document.versions;
        self.asked = (document.rate, document.incumbent.clone());
        let mut models = document.provenance.models.clone();
        // Runs are named after the drive, not after the part of it that a case fills.
        if let (Some((_, device)), Some(kind)) = (&case.drive, models.values().next().copied()) {
            models = [(device.clone(), kind)].into();
        }
        self.provenance.get_or_insert(document.provenance).models.extend(models);
        self.load_patterns_unix_s.extend(document.load_patterns_unix_s);
        self.warnings.extend(document.warnings.into_iter().map(|warning| format!("{}: {warning}", case.variant)));
        for note in document.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for run in document.runs {
            self.add_run(case, run);
        }
    }

    fn add_run(&mut self, case: &Case, mut run: RunResult) {
        if let Some((_, device)) = &case.drive {
            run.device.clone_from(device);
        }
        run.variant = match run.variant.as_str() {
            "" => case.variant.clone(),
            of_run => format!("{}, {of_run}", case.variant),
        };
        let suite_case = SuiteCase {
            scenario: case.experiment.scenario.name.clone(),
            device: run.device.clone(),
            variant: run.variant.clone(),
            drive_class: case.drive.as_ref().map_or(String::new(), |(class, _)| class.clone()),
            fill_percent: case.fill_percent,
        };
        if !self.cases.contains(&suite_case) {
            self.cases.push(suite_case);
        }
        self.runs.push(run);
    }

    /// One document of all runs, under the name of the suite, if it has one.
    fn into_document(self, name: &str, cases: &[Case]) -> Result<Document, Failure> {
        let goal = cases.first().map_or(Goal::default(), |case| case.experiment.goal);
        let scenarios: Result<Vec<Value>, _> =
            cases.iter().map(|case| serde_json::to_value(&case.experiment.scenario)).collect();
        let scenario = json!({ "name": name, "scenarios": scenarios.map_err(Failure::refused)? });
        let mut document = Document::new(name, scenario, self.versions, self.runs, goal);
        (document.rate, document.incumbent) = self.asked;
        let suite = Suite::new(name.strip_prefix(SUITE).unwrap_or_default(), self.cases);
        let document = document.with_provenance(self.provenance.unwrap_or_default()).with_suite(suite);
        let MergedCases { notes, warnings, load_patterns_unix_s, .. } = self;
        Ok(Document { warnings, notes, load_patterns_unix_s, ..document })
    }
}
