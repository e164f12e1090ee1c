//! A disk in memory with the kernel's rules for its settings, faults, other users, and a judge of every write.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_controllers::switching::{By, Kind, Work};
use dumbwaiter_linux::recording::{LiveEvent, LiveKind};
use dumbwaiter_pilot::port::{Counters, Fault, Note, Port, Reading, Values};
use dumbwaiter_pilot::{DeviceConfig, Fleet, HostContext, LogLevel, MOVABLE_TUNABLES, PilotConfig};

/// Numbers that follow each other without a pattern (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True `per_million` times in a million.
    pub(crate) fn chance(&mut self, per_million: u64) -> bool {
        self.next() % 1_000_000 < per_million
    }
}

/// How often what goes wrong, in a million calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultRates {
    /// A read fails.
    pub(crate) read: u64,
    /// A write fails, in one of several ways.
    pub(crate) write: u64,
    /// Events are lost.
    pub(crate) lost: u64,
}

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Idle,
    /// Best under `mq-deadline`.
    Random,
    /// Best under `bfq`.
    Streams,
    /// Buffered writes that write-back throttling holds.
    WriteBack,
}

pub(crate) struct Disk {
    pub(crate) present: bool,
    pub(crate) sequence: u64,
    pub(crate) listed: Vec<String>,
    pub(crate) values: Values,
    pub(crate) load: Load,
    pub(crate) rates: FaultRates,
    pub(crate) random: Random,
    /// The kernel refuses these values.
    pub(crate) refuses: Vec<String>,
    /// The kernel refuses every write.
    pub(crate) forbidden: bool,
    /// The reads that follow a write of this attribute fail.
    pub(crate) unreadable_after: Option<&'static str>,
    /// Reads that fail from now on.
    pub(crate) reads_fail: u32,
    pub(crate) blind: Option<String>,
    /// Events that are lost in every period.
    pub(crate) loses: u64,
    /// Requests that are shown in every period.
    pub(crate) shown: u64,
    /// The process is dead: its calls have no effect.
    pub(crate) crashed: bool,
    /// Calls until it crashes.
    pub(crate) crash_in: Option<u32>,
    /// Another user has changed settings since the pilot found the disk.
    pub(crate) foreign: bool,
    /// The settings before that.
    before_foreign: Values,
    /// The pilot has read settings that another user changed.
    foreign_seen: bool,
    /// The kernel made another value of one that was written, since then.
    pub(crate) rounded: bool,
    /// Write-back throttling that was written.
    wbt_by_hand: Option<String>,
    /// Targets of write-back throttling that a candidate has.
    pub(crate) wbt_wanted: Vec<&'static str>,
    /// An administrator sets this scheduler while the journal is flushed before an exchange.
    pub(crate) set_while_noted: Option<&'static str>,
    /// Nothing may be written.
    pub(crate) read_only: bool,
    pub(crate) journal: Option<Note>,
    /// Settings when the pilot found the disk.
    pub(crate) found: Values,
    pub(crate) writes: Vec<(Nanos, String, String)>,
    /// Violations that no pilot may commit, in words.
    pub(crate) wrong: Vec<String>,
    pub(crate) now: Nanos,
    counters: Counters,
    counted_to: Nanos,
    shown_to: Nanos,
    place: u64,
}

/// The settings of a scheduler after it was chosen.
fn defaults(scheduler: &str) -> Values {
    let own: &[(&str, &str)] = match scheduler {
        "mq-deadline" => &[("iosched/fifo_batch", "16"), ("iosched/read_expire", "500")],
        "kyber" => &[("iosched/read_lat_nsec", "2000000"), ("iosched/write_lat_nsec", "10000000")],
        "bfq" => &[("iosched/low_latency", "1"), ("iosched/slice_idle", "8")],
        _ => &[],
    };
    let depth = if scheduler == "none" { "128" } else { "256" };
    let wbt = if scheduler == "bfq" { "0" } else { "75000" };
    let common = [("scheduler", scheduler), ("nr_requests", depth), ("wbt_lat_usec", wbt)];
    common.iter().chain(own).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Disk {
        let mut values = defaults("mq-deadline");
        // As an administrator set them.
        values.insert("nr_requests".into(), "100".into());
        values.insert("iosched/fifo_batch".into(), "7".into());
        Disk {
            present: true,
            sequence: 1,
            listed: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).into(),
            found: values.clone(),
            values,
            load: Load::Random,
            rates: FaultRates::default(),
            random: Random(seed),
            refuses: Vec::new(),
            forbidden: false,
            unreadable_after: None,
            reads_fail: 0,
            blind: None,
            loses: 0,
            shown: 16,
            crashed: false,
            crash_in: None,
            foreign: false,
            before_foreign: Values::new(),
            foreign_seen: false,
            wbt_by_hand: None,
            wbt_wanted: Vec::new(),
            set_while_noted: None,
            rounded: false,
            read_only: false,
            journal: None,
            writes: Vec::new(),
            wrong: Vec::new(),
            now: Nanos::ZERO,
            counters: Counters::default(),
            counted_to: Nanos::ZERO,
            shown_to: Nanos::ZERO,
            place: 0,
        }
    }

    pub(crate) fn scheduler(&self) -> &str {
        &self.values["scheduler"]
    }

    /// Another user sets something.
    pub(crate) fn administrator_sets(&mut self, attribute: &str, value: &str) {
        if self.values.get(attribute).is_none_or(|now| now == value) {
            return;
        }
        if !self.foreign {
            self.before_foreign = self.values.clone();
        }
        self.set(attribute, value);
        self.foreign = true;
    }

    /// A change that was undone before the pilot looked again leaves no trace.
    fn forget_undone(&mut self) {
        self.foreign &= self.foreign_seen || self.values != self.before_foreign;
    }

    fn set(&mut self, attribute: &str, value: &str) {
        match attribute {
            "scheduler" => {
                if value != self.scheduler() {
                    self.values = defaults(value);
                    // What was set by hand stays, under bfq too.
                    self.values.extend(self.wbt_by_hand.iter().map(|us| ("wbt_lat_usec".to_owned(), us.clone())));
                }
            }
            _ => {
                if attribute == "wbt_lat_usec" {
                    self.wbt_by_hand = Some(value.to_owned());
                }
                self.values.insert(attribute.to_owned(), value.to_owned());
            }
        }
    }

    /// The disk is unplugged; its settings are gone with it.
    pub(crate) fn vanish(&mut self) {
        self.present = false;
        self.journal = None;
    }

    /// The disk, or another one, is plugged in.
    pub(crate) fn appear(&mut self) {
        if !self.present {
            (self.present, self.sequence) = (true, self.sequence + 1);
            (self.foreign, self.foreign_seen, self.rounded) = (false, false, false);
            self.values = defaults("mq-deadline");
            self.values.insert("nr_requests".into(), "100".into());
            self.found = self.values.clone();
        }
    }

    /// Recovery by the next process from the journal of one that crashed.
    pub(crate) fn recover(&mut self) {
        (self.crashed, self.crash_in) = (false, None);
        let Some(note) = self.journal.take() else { return };
        let in_force = note.in_force.unwrap_or_default();
        let same = in_force.iter().all(|(name, value)| self.values.get(name).is_none_or(|now| now == value));
        if note.schedulers.iter().any(|name| name == self.scheduler()) && same {
            self.values = note.original;
        }
    }

    fn call(&mut self) -> Result<(), Fault> {
        if let Some(left) = &mut self.crash_in {
            *left = left.saturating_sub(1);
            self.crashed |= *left == 0;
        }
        match (self.crashed, self.present) {
            (true, _) => Err(Fault::Failed("the process is dead".into())),
            (_, false) => Err(Fault::Gone("no such device".into())),
            _ => Ok(()),
        }
    }

    /// Every rule that a write may break.
    fn judge(&mut self, attribute: &str, value: &str) {
        let now = self.now;
        let mut wrong = |what: &str| self.wrong.push(format!("at {now}: {attribute} = {value}: {what}"));
        if self.read_only {
            wrong("nothing may be written here");
        }
        if self.foreign {
            wrong("another user has changed this disk");
        }
        if self.journal.is_none() {
            wrong("no note for a crash");
        }
        if attribute == "scheduler" {
            if !self.listed.iter().any(|name| name == value) {
                wrong("not listed");
            }
            return;
        }
        let as_found = self.found.get(attribute).is_some_and(|found| found == value);
        let moved = MOVABLE_TUNABLES.iter().any(|tunable| {
            let number = value.parse().is_ok_and(|number| (tunable.bounds.0..=tunable.bounds.1).contains(&number));
            tunable.scheduler == self.values["scheduler"] && attribute == format!("iosched/{}", tunable.name) && number
        });
        let of_bfq = self.values["scheduler"] == "bfq" && value == "0";
        let throttled = attribute == "wbt_lat_usec" && (self.wbt_wanted.contains(&value) || of_bfq);
        if !as_found && !moved && !throttled {
            wrong("neither as found nor within the bounds");
        }
    }

    /// Requests per second.
    fn rate(&self) -> f64 {
        let scheduler = self.scheduler();
        match self.load {
            Load::Idle => 0.0,
            Load::Random => 200.0 * if scheduler == "mq-deadline" { 1.5 } else { 1.0 },
            Load::Streams => 200.0 * if scheduler == "bfq" { 1.6 } else { 1.0 },
            Load::WriteBack => {
                200.0 * if scheduler == "mq-deadline" && self.values["wbt_lat_usec"] == "0" { 1.6 } else { 1.0 }
            }
        }
    }

    fn count(&mut self) {
        let elapsed = self.now.since(self.counted_to).as_secs_f64();
        self.counted_to = self.now;
        let noise = 0.98 + (self.random.next() % 1000) as f64 * 4e-5;
        let ios = (self.rate() * elapsed * noise).round() as u64;
        let work = Work { ios, bytes: ios * 4096, latency: Nanos(ios * 5_000_000) };
        self.counters.work = self.counters.work.plus(work);
        self.counters.in_flight = u64::from(ios > 0) * 4;
    }

    /// The time passes without a request.
    pub(crate) fn rest_until(&mut self, now: Nanos) {
        self.now = now;
        (self.counted_to, self.shown_to) = (now, now);
    }

    /// A sample of the requests since the last call.
    fn show(&mut self, into: &mut Vec<LiveEvent>) {
        let (from, to) = (self.shown_to.0, self.now.0);
        self.shown_to = self.now;
        if self.load == Load::Idle || to <= from {
            return;
        }
        for i in 0..self.shown {
            let at_ns = from + (to - from) * i / self.shown;
            let task = (i % 4) as u32;
            self.place += 1;
            let sector = match self.load {
                Load::Streams => u64::from(task) * 1_000_000_000 + self.place / 4 * 128,
                _ => self.random.next() % 1_000_000_000,
            };
            let sectors = if self.load == Load::Streams { 128 } else { 8 };
            let event = |kind, at_ns| LiveEvent { at_ns, kind, pid: task, op: Op::Read, meta: false, sector, sectors };
            into.push(event(LiveKind::Arrive, at_ns));
            into.push(event(LiveKind::Issue, at_ns));
            into.push(event(LiveKind::Complete, at_ns + 1000));
        }
    }
}

#[derive(Clone)]
pub(crate) struct FakePort(pub(crate) Rc<RefCell<Disk>>);

impl Port for FakePort {
    fn open(&mut self) -> Result<(), Fault> {
        let mut disk = self.0.borrow_mut();
        disk.call()?;
        (disk.foreign, disk.foreign_seen, disk.rounded) = (false, false, false);
        disk.found = disk.values.clone();
        Ok(())
    }

    fn kind(&self) -> Kind {
        Kind { rotational: false, depth: 32 }
    }

    fn blind(&self) -> Option<String> {
        self.0.borrow().blind.clone()
    }

    fn read(&mut self) -> Result<Reading, Fault> {
        let mut disk = self.0.borrow_mut();
        disk.call()?;
        let rate = disk.rates.read;
        if disk.random.chance(rate) || disk.reads_fail > 0 {
            disk.reads_fail = disk.reads_fail.saturating_sub(1);
            return Err(Fault::Failed("EIO".into()));
        }
        disk.forget_undone();
        disk.foreign_seen |= disk.foreign;
        let (schedulers, values) = (disk.listed.clone(), disk.values.clone());
        Ok(Reading { sequence: Some(disk.sequence.to_string()), schedulers, values })
    }

    fn write(&mut self, attribute: &str, value: &str) -> Result<(), Fault> {
        let mut disk = self.0.borrow_mut();
        disk.call()?;
        disk.forget_undone();
        disk.judge(attribute, value);
        let now = disk.now;
        disk.writes.push((now, attribute.to_owned(), value.to_owned()));
        if disk.unreadable_after == Some(attribute) {
            disk.reads_fail = 6;
        }
        if disk.forbidden {
            return Err(Fault::NotPermitted("EACCES".into()));
        }
        if disk.refuses.iter().any(|refused| refused == value) {
            return Err(Fault::Invalid("EINVAL".into()));
        }
        let rate = disk.rates.write;
        if disk.random.chance(rate) {
            match disk.random.next() % 5 {
                0 => return Err(Fault::Invalid("EINVAL".into())),
                1 => return Err(Fault::Failed("EIO".into())),
                // It fails, and is done all the same.
                2 => {
                    disk.set(attribute, value);
                    return Err(Fault::Failed("EINTR".into()));
                }
                3 => return Ok(()),
                // The kernel makes another value of it.
                _ if attribute != "scheduler" => {
                    disk.set(attribute, "33");
                    disk.rounded = true;
                    return Ok(());
                }
                _ => {
                    disk.vanish();
                    return Err(Fault::Gone("ENODEV".into()));
                }
            }
        }
        disk.set(attribute, value);
        Ok(())
    }

    fn last_write(&self) -> Option<Nanos> {
        Some(Nanos::from_ms(30))
    }

    fn note(&mut self, note: &Note) -> Result<(), Fault> {
        let mut disk = self.0.borrow_mut();
        disk.call()?;
        disk.journal = Some(note.clone());
        if note.in_force.is_none()
            && let Some(scheduler) = disk.set_while_noted.take()
        {
            disk.administrator_sets("scheduler", scheduler);
        }
        Ok(())
    }

    fn release(&mut self) {
        let mut disk = self.0.borrow_mut();
        if !disk.crashed {
            disk.journal = None;
        }
    }

    fn counters(&mut self) -> Result<Counters, Fault> {
        let mut disk = self.0.borrow_mut();
        disk.call()?;
        disk.count();
        Ok(disk.counters)
    }

    fn watch(&mut self, _on: bool) {}

    fn events(&mut self, _now: Nanos, into: &mut Vec<LiveEvent>) -> Result<u64, Fault> {
        let mut disk = self.0.borrow_mut();
        disk.call()?;
        if disk.blind.is_some() {
            return Ok(0);
        }
        disk.show(into);
        let rate = disk.rates.lost;
        Ok(if disk.random.chance(rate) { 1000 } else { disk.loses })
    }
}

/// Fake disks, the pilot of some of them, and the time.
pub(crate) struct World {
    pub(crate) disks: BTreeMap<String, Rc<RefCell<Disk>>>,
    pub(crate) config: PilotConfig,
    pub(crate) acts: bool,
    pub(crate) fleet: Fleet<FakePort>,
    pub(crate) now: Nanos,
    /// Actions of all decisions, with their times and disks.
    pub(crate) decisions: Vec<(Nanos, dumbwaiter_pilot::Action, &'static str)>,
}

impl World {
    /// A world with these disks, of which the pilot is given the first `named`.
    pub(crate) fn new(seed: u64, names: &[&str], named: usize, acts: bool, by: By) -> World {
        let disks: BTreeMap<String, _> = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let mut disk = Disk::new(seed.wrapping_add(i as u64 * 77));
                disk.read_only = !acts || i >= named;
                ((*name).to_owned(), Rc::new(RefCell::new(disk)))
            })
            .collect();
        let device = |name: &&str| {
            let mut device = DeviceConfig::new(name.as_ref());
            device.policy.by = by;
            device
        };
        let devices = names[..named].iter().map(device).collect();
        let config = PilotConfig {
            control: "unused".into(),
            http: None,
            http_hosts: Vec::new(),
            log: LogLevel::Changes,
            restore: true,
            state: "unused".into(),
            devices,
        };
        let fleet = World::start(&config, acts, &disks);
        World { disks, config, acts, fleet, now: Nanos::ZERO, decisions: Vec::new() }
    }

    fn start(config: &PilotConfig, acts: bool, disks: &BTreeMap<String, Rc<RefCell<Disk>>>) -> Fleet<FakePort> {
        let port = |device: &DeviceConfig| FakePort(disks[device.path.to_str().unwrap()].clone());
        Fleet::new(config, acts, &HostContext::default(), port).unwrap()
    }

    pub(crate) fn disk(&self, name: &str) -> std::cell::RefMut<'_, Disk> {
        self.disks[name].borrow_mut()
    }

    /// Lets time pass; `each` is called before every turn.
    pub(crate) fn run(&mut self, length: Nanos, mut each: impl FnMut(&mut World)) {
        let end = self.now + length;
        while self.now < end {
            each(self);
            self.disks.values().for_each(|disk| disk.borrow_mut().now = self.now);
            let (now, decisions) = (self.now, &mut self.decisions);
            self.fleet.turn(now, |decision, _| decisions.push((now, decision.action, decision.reason)));
            self.now = self.fleet.wake_at().max(self.now + Nanos::from_ms(1));
        }
    }

    /// Ends the pilot in good order.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.disks.values().for_each(|disk| disk.borrow_mut().now = self.now);
        self.fleet.finish(self.now, true)
    }

    /// The pilot dies, and the next one begins.
    pub(crate) fn restart(&mut self) {
        self.disks.values().for_each(|disk| disk.borrow_mut().recover());
        self.fleet = World::start(&self.config, self.acts, &self.disks);
    }

    /// Nothing wrong was written.
    pub(crate) fn check(&self) {
        for (name, disk) in &self.disks {
            assert_eq!(disk.borrow().wrong, Vec::<String>::new(), "{name}");
        }
    }
}
