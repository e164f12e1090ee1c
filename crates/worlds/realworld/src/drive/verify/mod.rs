//! Is what is read what was written? Data that accounts for itself, and a journal that outlives the program.
//!
//! Every logical block that is written carries its number, the generation of its write (a count over the run), the stamp of
//! the run and a checksum. For each block is known the oldest generation that it may hold: that of the last
//! acknowledged write, or, where writes of one block overlapped in time, the first of those. A block that is read while a
//! write of it is under way is not judged.
//!
//! These generations stand in a table of 8 bytes a block, which can be a file ([`crate::drive::Verify::journal`]): it is
//! allocated whole, for a write to a mapped hole of a full file system is a SIGBUS, and mapped, so that every entry
//! survives the program's death (`kill -9`), not the machine's. [`check`] then reads every block of the table again. A
//! write that was never acknowledged may be there or not.

mod findings;
mod journal;
mod pass;
mod verifier;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::drive::{Error, Target};

pub use findings::Verified;
pub use journal::JournalHeader;
pub(crate) use verifier::{Verifier, Watch, fresh_stamp};

/// After a run, completed or killed: does every block still hold at least the last write that the journal says was acknowledged?
pub fn check(target: &Target, journal: &Path) -> Result<Verified, Error> {
    let (table, block, stamp) = journal::open(journal, target)?;
    let mut found = Verified::default();
    let all = std::iter::once(0..table.blocks());
    pass::pass(target, &table, all, (block, stamp), &AtomicBool::new(false), &mut found)?;
    Ok(found)
}
