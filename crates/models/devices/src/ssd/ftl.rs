//! Flash translation layer: the map of 4 KiB units, and greedy garbage collection.
//!
//! The blocks of a die's planes are programmed and erased together, so a block here spans all planes. Addresses fold
//! onto `ftl_gib` of logical space: this bounds memory, and write amplification depends on the fraction of spare space,
//! not on its size.

use std::collections::VecDeque;

use super::params::Params;

/// Bytes of a unit.
pub(crate) const UNIT: u64 = 4096;
/// Never written; treated as if a sequential fill had placed it.
pub(crate) const FRESH: u32 = u32::MAX;
/// Never written or discarded: reading it touches no die.
pub(crate) const UNMAPPED: u32 = u32::MAX - 1;
/// Units per piece of the map; pieces are allocated at the first write.
const MAP_PIECE_UNITS: u32 = 1 << 15;

/// Dimensions of the flash, in units of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) dies: u32,
    pub(crate) units_per_page: u32,
    /// Units of one multi-plane program.
    pub(crate) units_per_program: u32,
    pub(crate) units_per_block: u32,
    pub(crate) blocks_per_die: u32,
    pub(crate) logical_units: u32,
    pub(crate) low: u32,
    pub(crate) high: u32,
    pub(crate) hard: u32,
}

impl Shape {
    pub(crate) fn new(p: &Params) -> Shape {
        let dies = p.channels * p.dies_per_channel;
        let units_per_page = p.page_bytes / UNIT as u32;
        let units_per_program = units_per_page * p.planes;
        let units_per_block = units_per_program * p.pages_per_block;
        // Garbage collection needs a few spare blocks on each die, which sets a minimum size.
        let least = (4.5 / p.over_provisioning) * f64::from(units_per_block) * f64::from(dies);
        let logical_units = (p.ftl_gib * 262_144.0).max(least).min(f64::from(UNMAPPED)) as u32;
        let physical = f64::from(logical_units) * (1.0 + p.over_provisioning);
        let blocks_per_die = (physical / f64::from(dies) / f64::from(units_per_block) + 0.5) as u32;
        let mut shape = Shape {
            dies,
            units_per_page,
            units_per_program,
            units_per_block,
            blocks_per_die,
            logical_units,
            low: 0,
            high: 0,
            hard: 0,
        };
        let spare = shape.spare_blocks();
        let share = |share: f64| (f64::from(spare) * share + 0.5) as u32;
        // Reserved free blocks cannot hold data: some spare blocks must remain to be collected.
        let hard = share(p.gc_hard).min(spare.saturating_sub(3)).max(1);
        let low = share(p.gc_low).max(hard + 1);
        let high = share(p.gc_high).max(low + 1);
        (shape.hard, shape.low, shape.high) = (hard, low, high);
        shape
    }

    pub(crate) fn units_per_die(&self) -> u32 {
        self.units_per_block * self.blocks_per_die
    }

    /// Blocks of a die beyond what the logical space needs.
    pub(crate) fn spare_blocks(&self) -> u32 {
        let needed = self.logical_units.div_ceil(self.dies).div_ceil(self.units_per_block);
        self.blocks_per_die.saturating_sub(needed)
    }
}

#[derive(Clone, Debug, Default)]
struct Block {
    valid: u32,
    /// Sequence number of its opening; 0 while free.
    opened: u64,
    /// Logical unit of each physical unit; allocated at the first opening.
    units: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Die {
    blocks: Vec<Block>,
    free: VecDeque<u32>,
    open: u32,
    offset: u32,
    openings: u64,
    /// Valid units in all its blocks.
    valid: u32,
}

/// Result of a garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Flash pages that contained valid units.
    pub(crate) pages: u32,
    /// Valid units moved.
    pub(crate) units: u32,
}

/// The flash translation layer: map and blocks.
#[derive(Clone, Debug)]
pub(crate) struct Ftl {
    pub(crate) shape: Shape,
    initial: u32,
    map: Vec<Vec<u32>>,
    dies: Vec<Die>,
}

impl Ftl {
    /// All blocks free; each unit starts as `initial`, [`FRESH`] or [`UNMAPPED`].
    pub(crate) fn new(shape: Shape, initial: u32) -> Ftl {
        let die = Die {
            blocks: vec![Block::default(); shape.blocks_per_die as usize],
            free: (0..shape.blocks_per_die).collect(),
            open: 0,
            offset: shape.units_per_block,
            openings: 0,
            valid: 0,
        };
        let pieces = shape.logical_units.div_ceil(MAP_PIECE_UNITS) as usize;
        Ftl { shape, initial, map: vec![Vec::new(); pieces], dies: vec![die; shape.dies as usize] }
    }

    /// The physical unit of a logical one, or [`FRESH`] or [`UNMAPPED`].
    pub(crate) fn lookup(&self, unit: u32) -> u32 {
        let piece = &self.map[(unit / MAP_PIECE_UNITS) as usize];
        if piece.is_empty() { self.initial } else { piece[(unit % MAP_PIECE_UNITS) as usize] }
    }

    fn set(&mut self, unit: u32, physical: u32) {
        let piece = &mut self.map[(unit / MAP_PIECE_UNITS) as usize];
        if piece.is_empty() {
            piece.resize(MAP_PIECE_UNITS as usize, self.initial);
        }
        piece[(unit % MAP_PIECE_UNITS) as usize] = physical;
    }

    /// Free blocks of a die, without the open one.
    pub(crate) fn free_blocks(&self, die: u32) -> u32 {
        self.dies[die as usize].free.len() as u32
    }

    /// Whether the next write to the die must open a block.
    pub(crate) fn is_full(&self, die: u32) -> bool {
        !self.has_room(die, 1)
    }

    /// Whether the open block of the die has room for `units`.
    pub(crate) fn has_room(&self, die: u32, units: u32) -> bool {
        self.shape.units_per_block - self.dies[die as usize].offset >= units
    }

    /// Whether garbage collection can still free blocks on the die with `units` more valid units. Otherwise the die
    /// would run out of free blocks for good.
    pub(crate) fn can_keep(&self, die: u32, units: u32) -> bool {
        let Shape { units_per_block, blocks_per_die, hard, .. } = self.shape;
        let most = blocks_per_die.saturating_sub(hard + 2) * units_per_block;
        self.dies[die as usize].valid + units <= most
    }

    /// Whether all blocks that collection could take hold nothing but valid units, so that it would free nothing.
    pub(crate) fn has_no_garbage(&self, die: u32) -> bool {
        let d = &self.dies[die as usize];
        let full = self.shape.units_per_block;
        (0u32..).zip(&d.blocks).all(|(b, block)| b == d.open || block.opened == 0 || block.valid == full)
    }

    /// Unmaps a unit.
    pub(crate) fn unmap(&mut self, unit: u32) {
        self.invalidate(unit);
        self.set(unit, UNMAPPED);
    }

    fn invalidate(&mut self, unit: u32) {
        let physical = self.lookup(unit);
        if physical < UNMAPPED {
            let (die, block) = (physical / self.shape.units_per_die(), physical % self.shape.units_per_die());
            let die = &mut self.dies[die as usize];
            die.blocks[(block / self.shape.units_per_block) as usize].valid -= 1;
            die.valid -= 1;
        }
    }

    /// Writes a unit to the open block of the die; returns its physical unit. The die must have room or a free block.
    pub(crate) fn append(&mut self, die: u32, unit: u32) -> u32 {
        self.invalidate(unit);
        let Shape { units_per_block, .. } = self.shape;
        let d = &mut self.dies[die as usize];
        if d.offset == units_per_block {
            d.open = d.free.pop_front().expect("garbage collection keeps a block free");
            d.offset = 0;
            d.openings += 1;
            let block = &mut d.blocks[d.open as usize];
            block.opened = d.openings;
            block.units.resize(units_per_block as usize, 0);
        }
        let block = &mut d.blocks[d.open as usize];
        block.units[d.offset as usize] = unit;
        block.valid += 1;
        d.valid += 1;
        let physical = die * self.shape.units_per_die() + d.open * units_per_block + d.offset;
        d.offset += 1;
        self.set(unit, physical);
        physical
    }

    /// Pads a partial program unit with unused space.
    pub(crate) fn pad(&mut self, die: u32) {
        let d = &mut self.dies[die as usize];
        // Padding is never looked up, so stale numbers in it are harmless.
        let end = d.offset.next_multiple_of(self.shape.units_per_program);
        for offset in d.offset..end {
            d.blocks[d.open as usize].units[offset as usize] = UNMAPPED;
        }
        d.offset = end;
    }

    /// Moves the valid units of the block with the fewest (ties: the oldest) and frees the block.
    pub(crate) fn collect(&mut self, die: u32) -> Collected {
        let Shape { units_per_block, units_per_page, .. } = self.shape;
        let d = &self.dies[die as usize];
        let victim = (0..d.blocks.len() as u32)
            .filter(|&b| b != d.open && d.blocks[b as usize].opened > 0)
            .min_by_key(|&b| (d.blocks[b as usize].valid, d.blocks[b as usize].opened));
        let Some(victim) = victim else { return Collected { pages: 0, units: 0 } };
        let units = std::mem::take(&mut self.dies[die as usize].blocks[victim as usize].units);
        let base = die * self.shape.units_per_die() + victim * units_per_block;
        let mut moved = Collected { pages: 0, units: 0 };
        let mut last_page = u32::MAX;
        for (offset, &unit) in (0u32..).zip(&units) {
            if unit < self.shape.logical_units && self.lookup(unit) == base + offset {
                let page = offset / units_per_page;
                moved.pages += u32::from(page != last_page);
                last_page = page;
                moved.units += 1;
                self.append(die, unit);
            }
        }
        let d = &mut self.dies[die as usize];
        d.blocks[victim as usize] = Block { valid: 0, opened: 0, units };
        d.free.push_back(victim);
        moved
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> Shape {
        Shape {
            dies: 2,
            units_per_page: 2,
            units_per_program: 4,
            units_per_block: 16,
            blocks_per_die: 12,
            logical_units: 250,
            low: 2,
            high: 3,
            hard: 1,
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write(u32, u32),
        Unmap(u32),
        Pad(u32),
        Collect(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..2u32, 0..250u32).prop_map(|(die, unit)| Step::Write(die, unit)),
            1 => (0..250u32).prop_map(Step::Unmap),
            1 => (0..2u32).prop_map(Step::Pad),
            1 => (0..2u32).prop_map(Step::Collect),
        ]
    }

    proptest! {
        /// Every mapped unit has exactly one place, which refers back to it, and blocks count their valid units.
        #[test]
        fn map_and_blocks_agree(steps in prop::collection::vec(step(), 1..1500)) {
            let shape = small();
            let mut ftl = Ftl::new(shape, UNMAPPED);
            let mut written = vec![false; 250];
            for step in steps {
                match step {
                    Step::Write(die, unit) => {
                        // A die of 192 units cannot hold all 250: the other die takes the rest.
                        let valid: u32 = ftl.dies[die as usize].blocks.iter().map(|b| b.valid).sum();
                        let die = if valid >= 130 { 1 - die } else { die };
                        while ftl.is_full(die) && ftl.free_blocks(die) < shape.low {
                            ftl.collect(die);
                        }
                        let physical = ftl.append(die, unit);
                        prop_assert_eq!(physical / shape.units_per_die(), die);
                        written[unit as usize] = true;
                    }
                    Step::Unmap(unit) => {
                        ftl.unmap(unit);
                        written[unit as usize] = false;
                    }
                    Step::Pad(die) => ftl.pad(die),
                    Step::Collect(die) => {
                        if ftl.free_blocks(die) > 0 {
                            let (before, free) = (ftl.clone(), ftl.free_blocks(die));
                            let collected = ftl.collect(die);
                            prop_assert!(collected.units <= shape.units_per_block);
                            prop_assert!(ftl.free_blocks(die) + 1 >= free);
                            for unit in 0..250 {
                                prop_assert_eq!(ftl.lookup(unit) == UNMAPPED, before.lookup(unit) == UNMAPPED);
                            }
                        }
                    }
                }
            }
            let mut valid = vec![0; 24];
            for unit in 0..250u32 {
                let physical = ftl.lookup(unit);
                prop_assert_eq!(physical != UNMAPPED, written[unit as usize]);
                if physical != UNMAPPED {
                    let block = (physical / 16) as usize;
                    valid[block] += 1;
                    prop_assert_eq!(ftl.dies[block / 12].blocks[block % 12].units[(physical % 16) as usize], unit);
                }
            }
            for (block, valid) in valid.into_iter().enumerate() {
                prop_assert_eq!(ftl.dies[block / 12].blocks[block % 12].valid, valid);
            }
            for die in &ftl.dies {
                prop_assert_eq!(die.valid, die.blocks.iter().map(|b| b.valid).sum::<u32>());
            }
        }
    }
}
