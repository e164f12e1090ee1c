//! Rotation of a disk: found in recorded requests ([`find`]), tracked from completion to completion ([`Spindle`]), or learned
//! online without a recording ([`Platter`]).

mod platter;
mod search;
mod speeds;
mod spindle;

pub use platter::Platter;
pub use search::find;
pub use spindle::{Rotation, Spindle};
