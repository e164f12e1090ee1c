//! Several worlds over one device.

use dumbwaiter_measure::RunResult;

use crate::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, World};

/// Worlds that share a device and differ in their stacks: a cell goes to the first whose stacks have the cell's.
pub struct SideBySide<'a>(pub Vec<&'a dyn World>);

impl SideBySide<'_> {
    fn of(&self, cell: &Cell) -> Result<&dyn World, Refusal> {
        let found = self.0.iter().find(|world| world.about().stacks.contains(&cell.stack));
        found.copied().ok_or_else(|| Refusal(format!("no {} here", cell.stack.name())))
    }
}

#[deny(clippy::missing_trait_methods)]
impl World for SideBySide<'_> {
    fn about(&self) -> About {
        let mut all = self.0.iter().map(|world| world.about());
        let mut about = all.next().unwrap_or_default();
        for other in all {
            about.stacks.extend(other.stacks);
            for note in other.notes {
                if !about.notes.contains(&note) {
                    about.notes.push(note);
                }
            }
        }
        about
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.0.iter().find_map(|world| world.capacity_sectors(device))
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        self.of(cell)?.supports(cell)
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        self.of(cell).map_err(Failure::refused)?.run(cell, control)
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        // Each puts back what it changed, even if another fails.
        let concluded: Vec<_> = self.0.iter().map(|world| world.conclude(runs, control)).collect();
        let mut notes = Vec::new();
        for note in concluded.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Ok(notes)
    }
}
