//! Scenarios inside the program, by name, and suites of them.

use crate::{Error, Scenario};

/// A scenario inside the program.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub toml: &'static str,
}

/// Scenarios that answer a question together.
#[derive(Clone, Copy, Debug)]
pub struct SuiteOf {
    /// Its name, without `suite:`.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Its scenarios.
    pub scenarios: &'static [Named],
    /// Where it runs, and under what.
    pub on: RunsOn,
}

/// Where a suite runs unless somebody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// On each kind of drive at each fill, under what a current kernel offers.
    EveryKind,
    /// On this model, which holds data on this part of it in percent, under these stacks.
    One(&'static str, u8, &'static str),
}

/// What a kernel has to keep tenants apart, and `headway`; of limits and targets several, for the front of latency and throughput.
const ISOLATION: &str = "none,none+io.max=25%,none+io.max=50%,none+io.max=75%,none+io.latency,\
    none+io.cost,none+io.cost:qos=rpct=95 rlat=500 min=25 max=100,none+io.cost:qos=rpct=95 rlat=200 min=10 max=100,mq-deadline+io.prio.class,bfq,headway,headway:give_up_percent=50,headway:give_up_percent=25";

macro_rules! named {
    ($name:literal) => {
        Named { name: $name, toml: include_str!(concat!("../builtin/", $name, ".toml")) }
    };
    ($suite:literal, $name:literal) => {
        Named { name: $name, toml: include_str!(concat!("../builtin/suites/", $suite, "/", $name, ".toml")) }
    };
}

/// The scenarios inside the program that are in no suite.
pub const SCENARIOS: &[Named] = &[
    named!("backup-at-night"),
    named!("bfq-startup-10r-rand"),
    named!("bfq-startup-10r-seq"),
    named!("bfq-startup-5r5w-rand"),
    named!("bfq-startup-5r5w-seq"),
    named!("bfq-startup-idle"),
    named!("database"),
    named!("fair-ssd-fileserver"),
    named!("fair-ssd-msn"),
    named!("fair-ssd-prj"),
    named!("fair-ssd-prn"),
    named!("fair-ssd-ycsb-a"),
    named!("fair-ssd-ycsb-d"),
    named!("life"),
    named!("noisy-neighbour"),
    named!("nvme-random"),
    named!("person-beside-copy"),
    named!("player"),
    named!("real-drive"),
    named!("shared-disk"),
    named!("shares-mixed"),
    named!("shares-random"),
    named!("shares-sequential"),
];

/// The suites.
pub const SUITES: &[SuiteOf] = &[
    SuiteOf {
        name: "desktop",
        about: "a person at work while a build, a copy, a package upgrade or a program start uses the drive",
        scenarios: &[
            named!("desktop", "person-under-build"),
            named!("desktop", "person-under-copy"),
            named!("desktop", "person-under-upgrade"),
            named!("desktop", "program-start-under-copy"),
        ],
        on: RunsOn::EveryKind,
    },
    SuiteOf {
        name: "database",
        about: "transactions with a log, alone and beside a backup, reports and a bulk load",
        scenarios: &[
            named!("database", "oltp"),
            named!("database", "oltp-with-backup"),
            named!("database", "reports-beside-oltp"),
            named!("database", "bulk-load"),
        ],
        on: RunsOn::EveryKind,
    },
    SuiteOf {
        name: "vm-host",
        about: "guests of equal and unequal weight, booting, quiet and backed up",
        scenarios: &[
            named!("vm-host", "quiet-guest"),
            named!("vm-host", "boot-storm"),
            named!("vm-host", "weighted-guests"),
            named!("vm-host", "backup-of-guests"),
        ],
        on: RunsOn::EveryKind,
    },
    SuiteOf {
        name: "file-server",
        about: "many clients with small and large files, a scan, and shares by weight",
        scenarios: &[
            named!("file-server", "many-clients"),
            named!("file-server", "large-files"),
            named!("file-server", "scan-beside-clients"),
            named!("file-server", "weighted-shares"),
        ],
        on: RunsOn::EveryKind,
    },
    SuiteOf {
        name: "kv-store",
        about: "point reads of a log-structured store beside flushes, compaction and scans",
        scenarios: &[
            named!("kv-store", "point-reads"),
            named!("kv-store", "reads-under-compaction"),
            named!("kv-store", "write-heavy"),
            named!("kv-store", "scan-beside-reads"),
        ],
        on: RunsOn::EveryKind,
    },
    SuiteOf {
        name: "isolation",
        about: "what keeps tenants apart: its cost, shares by weight, what a tenant's latency costs the others, bursts",
        scenarios: &[
            named!("isolation", "isolation-cost"),
            named!("isolation", "isolation-equal"),
            named!("isolation", "isolation-sizes"),
            named!("isolation", "isolation-writes"),
            named!("isolation", "isolation-front-100"),
            named!("isolation", "isolation-front-1000"),
            named!("isolation", "isolation-burst"),
        ],
        on: RunsOn::One("ssd:nvme-tlc", 50, ISOLATION),
    },
];

/// The scenario inside the program with this name, of a suite or not.
pub fn named(name: &str) -> Option<Named> {
    let all = SCENARIOS.iter().chain(SUITES.iter().flat_map(|suite| suite.scenarios));
    all.copied().find(|scenario| scenario.name == name)
}

/// The suite with this name, without `suite:`.
pub fn suite(name: &str) -> Option<&'static SuiteOf> {
    SUITES.iter().find(|suite| suite.name == name)
}

impl Named {
    /// Reads it.
    ///
    /// # Errors
    /// None in practice: a test reads them all.
    pub fn scenario(&self) -> Result<Scenario, Error> {
        let mut scenario = Scenario::from_toml(self.toml, self.name)?;
        if scenario.name.is_empty() {
            scenario.name = self.name.to_owned();
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_read_under_its_own_name() {
        let of_suites = SUITES.iter().flat_map(|suite| suite.scenarios);
        let mut seen = std::collections::BTreeSet::new();
        for scenario in SCENARIOS.iter().chain(of_suites) {
            let read = scenario.scenario().unwrap_or_else(|e| panic!("{}: {e}", scenario.name));
            assert_eq!(read.name, scenario.name);
            assert!(seen.insert(scenario.name), "{} is there twice", scenario.name);
        }
        assert!(SUITES.iter().all(|suite| (4..=8).contains(&suite.scenarios.len())));
    }
}
