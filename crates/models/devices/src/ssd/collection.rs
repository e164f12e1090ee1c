//! Garbage collection, die by die.
//!
//! The map moves a block's data when the block is taken; the time for it is a debt of the die, which pays a part with each
//! program of the host and the rest when it is idle. So no die stops for a whole block, and no other die waits for it.

use dumbwaiter_block::Nanos;

use super::flash::Flash;
use crate::Counters;

impl Flash {
    /// Makes room for a program of `units` in a new block of a die: takes a block when no free one is left, and has the die
    /// collect when it is idle while they are few.
    pub(super) fn open_block(&mut self, die: u32, units: u32, counters: &mut Counters) {
        // Collection may leave room in the block that it opened.
        while !self.ftl.has_room(die, units) && self.ftl.free_blocks(die) <= self.ftl.shape.hard {
            let moved = self.take_block(die, counters);
            let shape = &self.ftl.shape;
            let freed = (shape.units_per_block.saturating_sub(moved) / shape.units_per_program).max(1);
            // The debt falls due with the programs for which this made room.
            let d = &mut self.dies[die as usize];
            d.gc_slice = Nanos(d.gc_left.0.div_ceil(u64::from(freed)));
        }
        // The block about to be opened.
        if self.ftl.free_blocks(die) <= self.ftl.shape.low {
            self.dies[die as usize].collecting = true;
        }
    }

    /// Whether an idle die has garbage to collect: the rest of a block, or another while free ones are low.
    pub(super) fn has_collection(&mut self, die: u32, counters: &mut Counters) -> bool {
        if self.dies[die as usize].gc_left == Nanos::ZERO && self.dies[die as usize].collecting {
            if self.ftl.free_blocks(die) >= self.ftl.shape.high || self.ftl.has_no_garbage(die) {
                self.dies[die as usize].collecting = false;
            } else {
                self.take_block(die, counters);
            }
        }
        self.dies[die as usize].gc_left > Nanos::ZERO
    }

    /// Moves the data of a block and frees it; returns how many units moved.
    fn take_block(&mut self, die: u32, counters: &mut Counters) -> u32 {
        let collected = self.ftl.collect(die);
        let shape = &self.ftl.shape;
        let reads = (f64::from(collected.pages) / self.planes) * self.middle_read().0 as f64;
        let programs = f64::from(collected.units.div_ceil(shape.units_per_program));
        let busy = Nanos((reads + programs * self.t_program.0 as f64 + 0.5) as u64) + self.t_erase;
        self.dies[die as usize].gc_left += busy;
        counters.media_busy += busy;
        counters.gc_runs += 1;
        counters.gc_moved_pages += u64::from(collected.pages);
        collected.units
    }

    /// The next step of a die's garbage collection: a program, or the erase at the end.
    pub(super) fn collection_piece(&self, die: u32) -> Nanos {
        let left = self.dies[die as usize].gc_left;
        let moves = left.since(self.t_erase);
        if moves == Nanos::ZERO {
            left
        } else if self.t_program == Nanos::ZERO {
            moves
        } else {
            moves.min(self.t_program)
        }
    }

    /// Garbage collection in an idle period that lasted for `time`, on dies with few free blocks.
    pub(crate) fn collect_idle(&mut self, time: Nanos, counters: &mut Counters) {
        for die in 0..self.ftl.shape.dies {
            if self.dies[die as usize].assigned > 0 {
                continue;
            }
            let mut time = time;
            while self.ftl.free_blocks(die) < self.ftl.shape.high && !self.ftl.has_no_garbage(die) && time > Nanos::ZERO
            {
                self.take_block(die, counters);
                let d = &mut self.dies[die as usize];
                let paid = d.gc_left.min(time);
                d.gc_left = d.gc_left.since(paid);
                time = time.since(paid);
            }
        }
    }
}
