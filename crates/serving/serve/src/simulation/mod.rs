//! The server in a simulation: the loop of a disk's thread as it is, with a fake drive below it, scripted NBD clients and virtual machines at
//! the other ends of its sockets, and a clock that stops while there is work. One thread does all of it, so that one seed gives one result.
//!
//! The clients are cut off in the middle of requests, read slowly or break the protocol; machines break rings, stop them and start them again,
//! and do nothing unless they are signalled; the drive fails requests, loses its volatile cache
//! and completes in any order; weights, limits, sizes and the scheduler change meanwhile. Each client knows what its sectors may hold.

mod chance;
mod client;
mod drive;
mod history;
mod layout;
mod machine;
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dumbwaiter_block::Nanos;
use dumbwaiter_path::{Facts, Kind, Target};

use self::chance::Chance;
use self::client::Client;
use self::drive::{Drive, Faults, SharedDrive};
use self::history::History;
use self::layout::{CLIENTS, EXPORT_BYTES, EXPORTS};
use self::machine::Machine;
use crate::log::Log;
use crate::message::{Common, Message};
use crate::nbd::directory::Directory;
use crate::open_target::OpenTarget;
use crate::order::Order;
use crate::question::{Answer, Question};
use crate::settings::{DeviceDepth, ExportSettings, ServeSettings, TargetSettings};
use crate::shard::Shard;

/// The plan of a simulation.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    scheduler: String,
    /// Simulated time.
    length: Nanos,
    faults: Faults,
    /// Change weights, limits, schedulers, sizes meanwhile.
    changes: bool,
    /// Clients break the protocol, are cut off, or do not read.
    hostile: bool,
    rotational: bool,
    fua: bool,
}

impl Plan {
    fn new(seed: u64, scheduler: &str) -> Plan {
        Plan {
            seed,
            scheduler: scheduler.to_owned(),
            length: Nanos::from_ms(400),
            faults: Faults { error_one_in: 200, busy_one_in: 50 },
            changes: true,
            hostile: true,
            rotational: seed.is_multiple_of(2),
            fua: seed % 4 < 2,
        }
    }
}

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// A number that depends on every answer and its time.
    digest: u64,
    answers: u64,
    failed: u64,
    merged: u64,
    switches: u64,
    violations: u64,
    connects: u64,
    submitted: u64,
    /// Answers to virtual machines, rings that stopped and started again, and chains that were refused.
    machine_answers: u64,
    restarts: u64,
    refused: u64,
}

struct Simulation {
    plan: Plan,
    chance: Chance,
    shard: Shard,
    drive: SharedDrive,
    clients: Vec<Client>,
    machines: Vec<Machine>,
    /// The machines' sockets.
    folder: tempfile::TempDir,
    history: History,
    next_change: Nanos,
    events: Vec<crate::event::VolumeEvent>,
    log: Arc<Mutex<Vec<String>>>,
    schedulers: Vec<&'static str>,
    _messages: Sender<Message>,
}

fn exports() -> Vec<Arc<ExportSettings>> {
    let export = |number: u64| ExportSettings {
        weight: [100, 200, 500][number as usize],
        offset: number * EXPORT_BYTES,
        size: Some(EXPORT_BYTES),
        ..ExportSettings::whole(&format!("export{number}"))
    };
    (0..EXPORTS).map(export).map(Arc::new).collect()
}

fn facts(plan: &Plan, bytes: u64) -> Facts {
    Facts {
        kind: Kind::Device,
        bytes,
        logical_block: 512,
        rotational: plan.rotational,
        write_back: true,
        fua: plan.fua,
        max_request_bytes: 32 << 10,
        depth: Some(8),
        kernel_scheduler: String::new(),
        direct: true,
    }
}

impl Simulation {
    fn new(plan: Plan) -> Simulation {
        let mut chance = Chance(plan.seed);
        let bytes = EXPORTS * EXPORT_BYTES;
        let drive = SharedDrive::new(Drive::new(bytes, plan.faults, Chance(chance.below(u64::MAX))));
        let open = OpenTarget {
            target: Arc::new(Target::virtual_device("simulated", facts(&plan, bytes)).unwrap()),
            device: Some(Box::new(drive.clone())),
            depth: Some(8),
            rotational: plan.rotational,
            trims: true,
            manual_clock: true,
        };
        let target = TargetSettings {
            scheduler: plan.scheduler.clone(),
            device_depth: DeviceDepth::Fixed(8),
            exports: exports(),
            ..TargetSettings::new("simulated")
        };
        let folder = tempfile::tempdir().unwrap();
        let settings = ServeSettings {
            vhost_user: Some(folder.path().to_owned()),
            targets: vec![target.clone()],
            memory: 64 << 20,
            connection_requests: 16,
            ..ServeSettings::default()
        };
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let common = Arc::new(Common {
            directory: Directory::default(),
            connections: AtomicU32::new(0),
            tls: None,
            failed_negotiations: AtomicU64::new(0),
            configured: Mutex::default(),
            shown_iops: Vec::new(),
            settings,
            log: Log::new(move |line| lines.lock().unwrap().push(line.to_owned())),
        });
        let (messages, received) = channel();
        let (shard, _) = Shard::open(0, target, open, received, common).unwrap();
        let clients =
            (0..EXPORTS * CLIENTS).map(|number| Client::new(number, Chance(chance.below(u64::MAX)))).collect();
        let machines = (0..EXPORTS).map(|export| Machine::new(export, Chance(chance.below(u64::MAX)))).collect();
        let schedulers = dumbwaiter_schedulers::REGISTRY.iter().map(|entry| entry.name).collect();
        Simulation {
            chance,
            shard,
            drive,
            clients,
            machines,
            folder,
            history: History::new(bytes / 512),
            next_change: Nanos::from_ms(5),
            events: Vec::new(),
            log,
            schedulers,
            _messages: messages,
            plan,
        }
    }

    fn now(&self) -> Nanos {
        self.shard.volume.disk.now()
    }

    /// Runs until the plan's time has passed.
    fn run(&mut self) {
        while self.now() < self.plan.length {
            self.step();
        }
    }

    /// Clients ask for nothing more: runs until all have their answers.
    fn settle(&mut self) {
        self.clients.iter_mut().for_each(Client::rest);
        self.machines.iter_mut().for_each(Machine::rest);
        let unanswered = |simulation: &Simulation| {
            let clients: usize = simulation.clients.iter().map(Client::unanswered).sum();
            clients + simulation.machines.iter().map(Machine::unanswered).sum::<usize>()
        };
        let end = self.now() + Nanos::from_secs(60);
        while unanswered(self) > 0 {
            self.plan.length = self.now() + Nanos::from_ms(1);
            self.step();
            assert!(self.now() < end, "{} requests without an answer: {:?}", unanswered(self), self.plan);
        }
    }

    fn step(&mut self) {
        let clients = self.clients.iter().map(Client::next);
        let next = clients.chain(self.machines.iter().map(Machine::next)).min().unwrap_or(self.plan.length);
        let change = if self.plan.changes { self.next_change } else { Nanos::MAX };
        self.shard.turn(next.min(change).min(self.plan.length), &mut self.events).unwrap();
        let now = self.now();
        for at in 0..self.clients.len() {
            self.clients[at].read(now, &mut self.history);
            if self.clients[at].next() > now {
                continue;
            }
            // Writes that a client that is gone has left behind may still be under way: its part is used again only when none is.
            let peer = self.clients[at].peer();
            let is_there = self.shard.clients.iter().flatten().any(|client| client.info().peer == peer);
            match self.clients[at].is_connected() || is_there {
                true => self.clients[at].act(now, self.plan.hostile, &mut self.history),
                false => self.clients[at].connect(now, &mut self.shard),
            }
        }
        self.step_machines(now);
        if self.plan.changes && now >= self.next_change {
            self.next_change = now + Nanos(self.chance.below(20_000_000));
            self.change();
        }
    }

    fn step_machines(&mut self, now: Nanos) {
        for machine in &mut self.machines {
            machine.read(now, &mut self.history);
            if machine.next() > now {
                continue;
            }
            let own = |client: &dyn crate::client::Client| {
                u64::from(client.info().tenant) == machine.export() && !client.info().may_shrink
            };
            let is_there = self.shard.clients.iter().flatten().any(|client| own(&**client));
            match machine.is_connected() || is_there {
                true => machine.act(now, self.plan.hostile, &mut self.shard, &mut self.history),
                false => machine.connect(now, &mut self.shard, self.folder.path()),
            }
        }
    }

    /// One of the orders that a control socket gives.
    fn change(&mut self) {
        let export = format!("export{}", self.chance.below(EXPORTS));
        let order = match self.chance.below(8) {
            0 | 1 => Order::SetWeight { export, weight: 1 + self.chance.below(10_000) as u32 },
            2 => {
                let iops = (!self.chance.one_in(2)).then(|| 500 + self.chance.below(5000));
                let bytes = self.chance.one_in(3).then(|| (1 << 20) + self.chance.below(1 << 24));
                Order::SetLimit { export, iops, bytes }
            }
            3 => {
                let at = self.chance.below(self.schedulers.len() as u64) as usize;
                Order::SetScheduler { scheduler: self.schedulers[at].to_owned(), disk: 0 }
            }
            4 => Order::SetDepth { depth: DeviceDepth::Fixed(1 + self.chance.below(8) as u32), disk: 0 },
            5 => {
                let iops = self.chance.one_in(2).then(|| 100 + self.chance.below(1000));
                Order::SetReservation { export, iops }
            }
            // The same size: parts of clients stay what they are. Another one is refused, as it overlaps.
            6 => Order::Resize { export, size: EXPORT_BYTES + 512 * self.chance.below(2) },
            _ => Order::Stats {},
        };
        // A refusal is an answer, too.
        let _ = self.shard.answer(Question::Order(order));
    }

    /// Ends as on SIGTERM; everything must be accounted for.
    fn shut_down(&mut self) -> Outcome {
        self.shard.receive_message(Message::ShutDown { grace: Duration::from_millis(50) }).unwrap();
        let mut turns = 0;
        while !self.shard.is_over() {
            let until = self.now() + Nanos::from_ms(1);
            self.shard.turn(until, &mut self.events).unwrap();
            let now = self.now();
            self.clients.iter_mut().for_each(|client| client.read(now, &mut self.history));
            self.machines.iter_mut().for_each(|machine| machine.read(now, &mut self.history));
            turns += 1;
            if turns > 200_000 {
                let layer = self.shard.volume.disk.layer();
                let (queued, in_device, ledger) = (layer.queued(), layer.in_device(), layer.ledger());
                panic!(
                    "it does not end at {now}: {queued} queued, {in_device} in the device, {ledger:?}, {:?}",
                    self.plan
                );
            }
        }
        let Answer::Stats(stats) = self.shard.answer(Question::Order(Order::Stats {})).unwrap() else {
            panic!("no stats")
        };
        assert_eq!(stats.submitted, stats.completed, "the ledger balances");
        assert_eq!(stats.buffer_bytes, 0, "every buffer came back");
        assert!(self.shard.volume.is_idle());
        for export in &stats.exports {
            assert_eq!((export.outstanding, export.connections), (0, 0), "{}", export.name);
        }
        assert_eq!(self.shard.common.connections.load(std::sync::atomic::Ordering::Relaxed), 0);
        let ledger = *self.shard.volume.disk.layer().ledger();
        Outcome {
            digest: self
                .clients
                .iter()
                .fold(0, |digest, client| digest ^ client.digest().rotate_left(client.number() as u32))
                ^ self.machines.iter().fold(0, |digest, machine| digest ^ machine.digest()),
            answers: self.clients.iter().map(Client::answers).sum(),
            machine_answers: self.machines.iter().map(|machine| machine.answers).sum(),
            restarts: self.machines.iter().map(|machine| machine.restarts).sum(),
            refused: stats.exports.iter().map(|export| export.refused).sum(),
            failed: self.clients.iter().map(Client::failed).sum::<u64>()
                + self.machines.iter().map(|machine| machine.failed).sum::<u64>(),
            merged: ledger.merged_back + ledger.merged_front + ledger.joined,
            switches: self.shard.volume.disk.layer().switches().count,
            violations: stats.exports.iter().map(|export| export.violations).sum(),
            connects: stats.exports.iter().map(|export| export.connects).sum(),
            submitted: ledger.submitted,
        }
    }

    /// The drive loses power at this moment: what of each sector is left must be what was promised.
    fn lose_power(&mut self) -> BTreeMap<&'static str, u64> {
        let left = self.drive.lose_power();
        self.history.check_after_power_loss(&left)
    }
}
