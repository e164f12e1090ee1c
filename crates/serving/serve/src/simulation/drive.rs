//! A drive with a volatile cache that fails, is busy, completes in any order and loses power.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dumbwaiter_block::{Errno, Nanos, Op};
use dumbwaiter_path::{VirtualDevice, VirtualRequest};

use super::chance::Chance;

/// How often things go wrong; never with 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// One in this many requests fails.
    pub(super) error_one_in: u64,
    /// One in this many requests finds the drive busy.
    pub(super) busy_one_in: u64,
}

impl Faults {
    fn happens(one_in: u64, chance: &mut Chance) -> bool {
        one_in > 0 && chance.one_in(one_in)
    }
}

/// A sector: its value, and a number that grows with each change.
#[derive(Clone, Copy, Debug, Default)]
struct Sector {
    value: u64,
    version: u64,
}

struct Held {
    request: VirtualRequest,
    /// The cache when a flush began: a flush makes that permanent, and no later write.
    snapshot: Vec<(usize, Sector)>,
    fails: bool,
}

pub(super) struct Drive {
    /// Contents: as reads see them, and as they survive.
    cache: Vec<Sector>,
    medium: Vec<Sector>,
    held: BTreeMap<(Nanos, u64), Held>,
    /// Sectors of writes through the cache that are completed right now.
    through: Vec<std::ops::Range<u64>>,
    submitted: u64,
    versions: u64,
    faults: Faults,
    chance: Chance,
}

const DEPTH: usize = 8;

impl Drive {
    pub(super) fn new(bytes: u64, faults: Faults, chance: Chance) -> Drive {
        let sectors = vec![Sector::default(); (bytes / 512) as usize];
        Drive {
            cache: sectors.clone(),
            medium: sectors,
            held: BTreeMap::new(),
            through: Vec::new(),
            submitted: 0,
            versions: 0,
            faults,
            chance,
        }
    }

    fn change(&mut self, sector: u64, value: u64) {
        self.versions += 1;
        let changed = Sector { value, version: self.versions };
        self.cache[sector as usize] = changed;
        if self.through.iter().any(|range| range.contains(&sector)) {
            self.medium[sector as usize] = changed;
        }
    }

    fn submit(&mut self, now: Nanos, request: &VirtualRequest) -> bool {
        if self.held.len() >= DEPTH
            || (!self.held.is_empty() && Faults::happens(self.faults.busy_one_in, &mut self.chance))
        {
            return false;
        }
        let dirty = |(at, (cached, safe)): (usize, (&Sector, &Sector))| {
            (cached.version > safe.version).then_some((at, *cached))
        };
        let snapshot = match request.op {
            Op::Flush => self.cache.iter().zip(&self.medium).enumerate().filter_map(dirty).collect(),
            _ => Vec::new(),
        };
        // Flushes do not fail here: after one that did, no later one works, by design.
        let fails = request.op != Op::Flush && Faults::happens(self.faults.error_one_in, &mut self.chance);
        let takes = Nanos(20_000 + self.chance.below(400_000));
        self.submitted += 1;
        self.held.insert((now + takes, self.submitted), Held { request: *request, snapshot, fails });
        true
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<(u32, Result<(), Errno>)>) {
        self.through.clear();
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            let Held { request, snapshot, fails } = entry.remove();
            for (at, sector) in snapshot {
                if sector.version > self.medium[at].version {
                    self.medium[at] = sector;
                }
            }
            if request.fua && !fails {
                self.through.push(request.sector..request.sector + u64::from(request.sectors));
            }
            done.push((request.tag, if fails { Err(Errno::EIO) } else { Ok(()) }));
        }
    }

    /// Contents after a loss of power: the medium, and by chance some of what was in the cache.
    fn lose_power(&mut self) -> Vec<u64> {
        let Drive { cache, medium, chance, .. } = self;
        let left = cache.iter().zip(medium).map(|(cached, safe)| {
            if cached.version > safe.version && chance.one_in(3) { cached.value } else { safe.value }
        });
        left.collect()
    }
}

/// The drive, as the server and the test have it.
#[derive(Clone)]
pub(super) struct SharedDrive(Arc<Mutex<Drive>>);

impl SharedDrive {
    pub(super) fn new(drive: Drive) -> SharedDrive {
        SharedDrive(Arc::new(Mutex::new(drive)))
    }

    pub(super) fn lose_power(&self) -> Vec<u64> {
        self.0.lock().unwrap().lose_power()
    }
}

impl VirtualDevice for SharedDrive {
    fn submit(&mut self, now: Nanos, request: &VirtualRequest) -> bool {
        self.0.lock().unwrap().submit(now, request)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.lock().unwrap().held.first_key_value().map(|((at, _), _)| *at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<(u32, Result<(), Errno>)>) {
        self.0.lock().unwrap().advance(now, done);
    }

    /// A sector holds its value again and again.
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let drive = self.0.lock().unwrap();
        for (number, bytes) in into.chunks_mut(512).enumerate() {
            let value = drive.cache[at as usize / 512 + number].value.to_le_bytes();
            bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&value));
        }
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Errno> {
        let mut drive = self.0.lock().unwrap();
        for (number, bytes) in from.chunks(512).enumerate() {
            let value: [u8; 8] = bytes[..8].try_into().unwrap();
            assert!(bytes.chunks(8).all(|word| word == value), "a sector is whole");
            drive.change(at / 512 + number as u64, u64::from_le_bytes(value));
        }
        Ok(())
    }

    fn zero(&mut self, at: u64, bytes: u64) {
        let mut drive = self.0.lock().unwrap();
        (at / 512..(at + bytes) / 512).for_each(|sector| drive.change(sector, 0));
    }
}
