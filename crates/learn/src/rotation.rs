//! How a disk turns: found in recorded requests ([`find`]), followed from completion to completion ([`Spindle`]), or learned on
//! line without any recording ([`Platter`]).

mod platter;
mod search;
mod speeds;
mod spindle;

pub use platter::Platter;
pub use search::find;
pub use spindle::{Rotation, Spindle};
