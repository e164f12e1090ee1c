//! The thread that writes dirty pages back (Linux 6.12 and 6.18).
//!
//! It writes for a `sync` first, then old files, then in the background. Files are taken as a batch, the one that has been dirty
//! longest first; each gets a turn of some pages from where it stopped, and comes again after the rest of the batch.

use std::collections::VecDeque;

use dumbwaiter_block::{Flags, Nanos, Op};

use super::{File, PageCache, State};
use crate::{Next, Workload};

/// Steps of a turn, and the shortest: 4 MiB.
const TURN_STEP_PAGES: u64 = 1024;
/// Time after which a batch is left to see whether there is still a reason to write.
const LOOK_INTERVAL: Nanos = Nanos::from_ms(100);

/// Why it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// It does not.
    None,
    Sync,
    /// Files that have been dirty for long.
    Periodic,
    /// Too many dirty pages.
    Background,
}

/// The turn of a file.
#[derive(Clone, Copy)]
struct Turn {
    file: usize,
    /// Pages left.
    left: u64,
    /// It began with the file's first page.
    is_whole: bool,
}

pub(super) struct Flusher {
    cache: PageCache,
    work: Work,
    /// Old files are looked for.
    old_due: bool,
    /// Files whose turn comes, and those that have had a turn and come again.
    batch: VecDeque<usize>,
    again: VecDeque<usize>,
    /// When the batch began.
    began: Nanos,
    turn: Option<Turn>,
    /// File and pages of each write under way, oldest first.
    under_way: VecDeque<(usize, u64)>,
}

impl Flusher {
    pub(super) fn new(cache: PageCache) -> Flusher {
        Flusher {
            cache,
            work: Work::None,
            old_due: false,
            batch: VecDeque::new(),
            again: VecDeque::new(),
            began: Nanos::ZERO,
            turn: None,
            under_way: VecDeque::new(),
        }
    }

    /// The next run of the file whose turn it is. Its turn ends with its pages, or at the end of the file.
    fn go_on(&mut self, state: &mut State, now: Nanos) -> Option<(u64, u64)> {
        let Turn { file, mut left, is_whole } = self.turn?;
        if self.work == Work::Sync {
            left = state.files[file].sync_left;
        }
        let (from, to) = (state.files[file].cursor.max(state.files[file].low), state.files[file].end);
        let run = if left == 0 { None } else { state.take_run(file, from, to, left) };
        let entry = &mut state.files[file];
        if let Some((first, count)) = run {
            entry.cursor = first + count;
            self.turn = Some(Turn { file, left: left - count, is_whole });
            self.under_way.push_back((file, count));
            return run;
        }
        self.turn = None;
        if left > 0 {
            entry.cursor = 0;
            if from <= entry.low {
                // Nothing of it is dirty: another file had the pages.
                (entry.dirty, entry.since, entry.sync_left) = (0, None, 0);
            }
        }
        if entry.dirty > 0 && self.work != Work::Sync {
            if left > 0 && is_whole {
                // Written from its first page to its last: what is dirty has become so meanwhile.
                entry.since = Some(now);
            } else {
                self.again.push_back(file);
            }
        }
        None
    }

    fn begin(&mut self, state: &State, file: usize, left: u64) {
        let File { cursor, low, .. } = state.files[file];
        self.turn = Some(Turn { file, left, is_whole: cursor <= low });
    }

    /// Gives the next file its turn; false if there is nothing to write.
    fn choose(&mut self, state: &mut State, now: Nanos) -> bool {
        let owner = self.cache.owner;
        let of_group = |file: &File| file.owner == owner;
        if state.periodic_at[owner as usize].is_some_and(|at| at <= now) {
            let any = state.files.iter().any(|file| of_group(file) && file.dirty > 0);
            self.old_due = any;
            state.periodic_at[owner as usize] = any.then_some(now + self.cache.spec.interval);
        }
        if let Some(file) = state.files.iter().position(|file| of_group(file) && file.sync_left > 0) {
            self.work = Work::Sync;
            self.begin(state, file, u64::MAX);
            return true;
        }
        let goes_on = matches!(self.work, Work::Periodic | Work::Background);
        if !goes_on || self.batch.is_empty() || now.since(self.began) >= LOOK_INTERVAL {
            self.look(state, now);
        }
        if self.work == Work::None {
            return false;
        }
        let Some(file) = self.batch.pop_front() else { return false };
        self.begin(state, file, self.turn_pages(state));
        true
    }

    /// Decides why to write, and gathers a batch if there is none.
    fn look(&mut self, state: &State, now: Nanos) {
        let expire = self.cache.spec.expire;
        let is_old = |since: Nanos| now.since(since) >= expire;
        let owner = self.cache.owner;
        self.old_due &= state.files.iter().any(|file| file.owner == owner && file.since.is_some_and(is_old));
        self.work = match (self.old_due, state.dirty.over_background()) {
            (true, _) => Work::Periodic,
            (false, true) => Work::Background,
            (false, false) => Work::None,
        };
        self.began = now;
        if self.work == Work::None {
            self.batch.clear();
            self.again.clear();
        }
        if !self.batch.is_empty() || self.work == Work::None {
            return;
        }
        self.batch.append(&mut self.again);
        let kept = self.batch.len();
        let files = state.files.iter().enumerate().filter(|(_, file)| file.owner == owner);
        let mut others: Vec<(Nanos, usize)> = files
            .filter_map(|(number, file)| Some((file.since?, number)))
            .filter(|(since, _)| self.work == Work::Background || is_old(*since))
            .collect();
        others.sort_unstable();
        for (_, number) in others {
            if !self.batch.iter().take(kept).any(|file| *file == number) {
                self.batch.push_back(number);
            }
        }
    }

    /// Pages of a turn: half a second's worth, at most an eighth of the limit, in steps of 4 MiB.
    fn turn_pages(&self, state: &State) -> u64 {
        let most = (state.dirty.bandwidth() / 2).min(state.dirty.thresholds().limit / 8);
        (most + TURN_STEP_PAGES) / TURN_STEP_PAGES * TURN_STEP_PAGES
    }
}

impl Workload for Flusher {
    fn next(&mut self, now: Nanos) -> Next {
        let cache = self.cache.clone();
        let mut guard = cache.state();
        let state = &mut *guard;
        loop {
            if let Some(run) = self.go_on(state, now) {
                let flags = if self.work == Work::Sync { Flags::NONE } else { Flags::BACKGROUND };
                return Next::Issue(cache.want(Op::Write, run, flags));
            }
            if !self.choose(state, now) {
                break;
            }
        }
        // What is dirty stays so if nobody looks for old files.
        let is_clean = state.dirty.total() == 0;
        let stays = cache.spec.interval == Nanos::ZERO && state.dirty.total() == state.dirty.dirty();
        let over = (is_clean || stays) && state.files.iter().all(|file| file.writers == 0);
        let tick = Nanos(1_000_000_000 / u64::from(cache.spec.hz.max(1)));
        if over { Next::Done } else { Next::Wait(now + tick) }
    }

    fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
        if let Some((file, pages)) = self.under_way.pop_front() {
            self.cache.state().written(file, pages);
        }
    }
}
