//! Watches the writes and reads of a run.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::{Op, SECTOR_BYTES};
use dumbwaiter_path::{Observer, Transfer};

use super::findings::{Verified, stamp_block};
use super::journal::Floors;
use super::pass::pass;
use crate::drive::{Error, Target};

/// Blocks whose state is allocated together.
const PAGE: usize = 4096;

#[derive(Clone, Copy, Default)]
struct State {
    /// Oldest generation of the writes that overlap now, 0 if one of them leaves unknown data.
    oldest: u64,
    /// When a write of it last began or ended.
    touched: u64,
    under_way: u32,
}

/// Watches a run.
pub(crate) struct Verifier {
    block_bytes: u64,
    stamp: u64,
    generation: u64,
    clock: u64,
    floors: Floors,
    states: Vec<Option<Box<[State]>>>,
    pub(crate) found: Verified,
}

impl Verifier {
    /// For a run of `stamp`, which no other run has, over `blocks` of `block_bytes`.
    pub(crate) fn new(block_bytes: u64, blocks: u64, journal: Option<&Path>, stamp: u64) -> Result<Verifier, Error> {
        let floors = Floors::new(block_bytes, blocks, stamp, journal)?;
        let pages = (blocks as usize).div_ceil(PAGE);
        Ok(Verifier {
            block_bytes,
            stamp,
            generation: 0,
            clock: 0,
            floors,
            states: (0..pages).map(|_| None).collect(),
            found: Verified::default(),
        })
    }

    fn state(&mut self, block: u64) -> &mut State {
        let page = &mut self.states[block as usize / PAGE];
        let page = page.get_or_insert_with(|| vec![State::default(); PAGE].into_boxed_slice());
        &mut page[block as usize % PAGE]
    }

    fn blocks(&self, at: u64, bytes: u64) -> std::ops::Range<u64> {
        at / self.block_bytes..(at + bytes).div_ceil(self.block_bytes)
    }

    /// A time to pass to [`Verifier::read`] later.
    pub(crate) fn now(&self) -> u64 {
        self.clock
    }

    /// A write goes out: fills its data.
    pub(crate) fn write_begins(&mut self, at: u64, data: &mut [u8]) {
        self.generation += 1;
        let generation = self.generation;
        let (stamp, block_bytes) = (self.stamp, self.block_bytes as usize);
        for (chunk, block) in data.chunks_mut(block_bytes).zip(at / self.block_bytes..) {
            stamp_block(chunk, block, generation, stamp);
            self.begins(block, generation);
        }
    }

    /// Something goes out that leaves unknown data.
    pub(crate) fn erase_begins(&mut self, at: u64, bytes: u64) {
        for block in self.blocks(at, bytes) {
            self.floors.floor(block).store(0, Ordering::Relaxed);
            self.begins(block, 0);
        }
    }

    fn begins(&mut self, block: u64, generation: u64) {
        self.clock += 1;
        let clock = self.clock;
        let state = self.state(block);
        state.oldest = if state.under_way == 0 { generation } else { state.oldest.min(generation) };
        state.under_way += 1;
        state.touched = clock;
    }

    /// It is acknowledged, or failed: then the content is unknown.
    pub(crate) fn change_ends(&mut self, at: u64, bytes: u64, failed: bool) {
        for block in self.blocks(at, bytes) {
            self.clock += 1;
            let clock = self.clock;
            let state = self.state(block);
            if failed {
                state.oldest = 0;
            }
            state.touched = clock;
            state.under_way -= 1;
            if state.under_way == 0 {
                let floor = state.oldest;
                self.floors.floor(block).store(floor, Ordering::Release);
            }
        }
    }

    /// A read that began at `since` brought this.
    pub(crate) fn read(&mut self, at: u64, data: &[u8], since: u64) {
        for (chunk, block) in data.chunks(self.block_bytes as usize).zip(at / self.block_bytes..) {
            let floor = self.floors.floor(block).load(Ordering::Relaxed);
            let Some(page) = &self.states[block as usize / PAGE] else { continue };
            let state = page[block as usize % PAGE];
            if state.under_way > 0 || state.touched > since {
                self.found.unsettled += 1;
            } else if floor > 0 {
                self.found.judge(chunk, block, self.stamp, floor);
            }
        }
    }

    /// Reads everything that was written once more, until `cancel` is set.
    pub(crate) fn final_pass(&mut self, target: &Target, cancel: &AtomicBool) -> Result<(), Error> {
        let mut found = std::mem::take(&mut self.found);
        // Most of a large target has never been touched.
        let touched = self.states.iter().zip(0u64..).filter(|(state, _)| state.is_some());
        let pages = touched.map(|(_, page)| page * PAGE as u64..((page + 1) * PAGE as u64).min(self.floors.blocks()));
        let done = pass(target, &self.floors, pages, (self.block_bytes, self.stamp), cancel, &mut found);
        self.found = found;
        done
    }
}

/// A number that no other run of this program has.
pub(crate) fn fresh_stamp(seed: u64) -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    seed.rotate_left(40) ^ since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 48)
}

/// Shows a verifier the requests of a disk.
pub(crate) struct Watch(pub(crate) Rc<RefCell<Verifier>>);

impl Observer for Watch {
    fn issued(&mut self, request: &Transfer, data: &mut [u8]) -> u64 {
        let mut verifier = self.0.borrow_mut();
        let (at, mark) = (request.sector * SECTOR_BYTES, verifier.now());
        match request.op {
            Op::Read | Op::Flush => {}
            Op::Write => verifier.write_begins(at, data),
            Op::Discard | Op::SecureErase | Op::WriteZeroes => verifier.erase_begins(at, request.bytes),
        }
        mark
    }

    fn completed(&mut self, request: &Transfer, mark: u64, ok: bool, data: &[u8]) {
        let mut verifier = self.0.borrow_mut();
        let at = request.sector * SECTOR_BYTES;
        match request.op {
            Op::Flush => {}
            Op::Read if !ok => {}
            Op::Read => verifier.read(at, data, mark),
            _ => verifier.change_ends(at, request.bytes, !ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 12;

    /// The next step of a test: begin an I/O, or let one in flight end.
    #[derive(Clone, Debug)]
    enum Step {
        Write { at: u64, blocks: u64, early: bool },
        Erase { at: u64, blocks: u64 },
        Read { at: u64, blocks: u64 },
        End { which: usize, failed: bool },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let extent = || (0..BLOCKS).prop_flat_map(|at| (Just(at), 1..=BLOCKS - at));
        let step = prop_oneof![
            4 => (extent(), any::<bool>()).prop_map(|((at, blocks), early)| Step::Write { at, blocks, early }),
            1 => extent().prop_map(|(at, blocks)| Step::Erase { at, blocks }),
            3 => extent().prop_map(|(at, blocks)| Step::Read { at, blocks }),
            7 => (0usize..8, prop::bool::weighted(0.05)).prop_map(|(which, failed)| Step::End { which, failed }),
        ];
        prop::collection::vec(step, 1..120)
    }

    struct UnderWay {
        at: usize,
        len: usize,
        /// Of a write not yet on the medium, or of a read.
        data: Option<Vec<u8>>,
        read_since: Option<u64>,
    }

    /// A device that obeys, whatever the order: no alarm, not for reads, not at the end, and not for a check after a crash.
    fn obey(steps: &[Step]) -> (Verifier, Vec<u8>) {
        let mut v = Verifier::new(512, BLOCKS, None, 77).unwrap();
        let mut medium = vec![0xee; (BLOCKS * 512) as usize];
        let mut under_way: Vec<UnderWay> = Vec::new();
        let end = |v: &mut Verifier, medium: &mut Vec<u8>, io: UnderWay, failed: bool| {
            let range = io.at..io.at + io.len;
            match (io.read_since, io.data) {
                (Some(_), _) if failed => {}
                (Some(since), _) => v.read(io.at as u64, &medium[range], since),
                (None, data) => {
                    if let Some(data) = data.filter(|_| !failed) {
                        medium[range].copy_from_slice(&data);
                    }
                    v.change_ends(io.at as u64, io.len as u64, failed);
                }
            }
        };
        for step in steps {
            match step.clone() {
                Step::Write { at, blocks, early } => {
                    let (at, len) = ((at * 512) as usize, (blocks * 512) as usize);
                    let mut data = vec![0; len];
                    v.write_begins(at as u64, &mut data);
                    if early {
                        medium[at..at + len].copy_from_slice(&data);
                    }
                    under_way.push(UnderWay { at, len, data: (!early).then_some(data), read_since: None });
                }
                Step::Erase { at, blocks } => {
                    let (at, len) = ((at * 512) as usize, (blocks * 512) as usize);
                    v.erase_begins(at as u64, len as u64);
                    under_way.push(UnderWay { at, len, data: Some(vec![0; len]), read_since: None });
                }
                Step::Read { at, blocks } => {
                    let (at, len) = ((at * 512) as usize, (blocks * 512) as usize);
                    under_way.push(UnderWay { at, len, data: None, read_since: Some(v.now()) });
                }
                Step::End { which, failed } if !under_way.is_empty() => {
                    let io = under_way.remove(which % under_way.len());
                    end(&mut v, &mut medium, io, failed);
                }
                Step::End { .. } => {}
            }
            assert!(after_crash(&v, &medium).clean(), "{:?}", after_crash(&v, &medium));
        }
        for io in under_way {
            end(&mut v, &mut medium, io, false);
        }
        (v, medium)
    }

    fn after_crash(v: &Verifier, medium: &[u8]) -> Verified {
        let mut found = Verified::default();
        for (block, data) in medium.chunks(512).enumerate() {
            let floor = v.floors.floor(block as u64).load(Ordering::Relaxed);
            if floor > 0 {
                found.judge(data, block as u64, 77, floor);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn an_obedient_device_is_never_blamed(steps in steps()) {
            let (v, medium) = obey(&steps);
            prop_assert!(v.found.clean(), "{:?}", v.found);
            prop_assert!(after_crash(&v, &medium).clean());
        }

        #[test]
        fn a_device_that_forgets_is_found_out(steps in steps(), block in 0..BLOCKS) {
            let (v, mut medium) = obey(&steps);
            if v.floors.floor(block).load(Ordering::Relaxed) > 0 {
                let at = block as usize * 512;
                medium[at..at + 512].fill(0xee);
                prop_assert_eq!(after_crash(&v, &medium).lost, 1);
            }
        }
    }
}
