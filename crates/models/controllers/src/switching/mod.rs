//! Decides which scheduler a device should have now. Pure: time, arrivals and completions are handed in, decisions come out.
//!
//! ```text
//! arrivals ──► TaskTable ──► Signature ──► KnownWorkloads ──► which workload is it?
//!                                                                     │
//! completions ──► Work per tick ──► Trial (paired slots) ──► Scores ──┴──► Policy::tick ──► use this candidate
//!             └─► classifier ──► posterior ──► Prior (a table) ──────►
//! ```
//!
//! The same decisions serve a simulated device, our engine and a live kernel: a driver calls [`Policy::tick`] at the times that
//! it asks for, and exchanges the scheduler when the answer says so.
#![forbid(unsafe_code)]

mod decision;
mod in_force;
mod known;
mod memory;
mod observed;
mod policy;
mod prior;
mod scores;
mod settings;
mod signature;
mod table;
mod trial;
mod windows;
mod work;

pub use decision::{Decision, Reason, Tick};
pub use known::KnownWorkloads;
pub use memory::{CandidateMemory, Memory, WorkloadMemory};
pub use observed::Observed;
pub use policy::Policy;
pub use prior::{Expectation, Prior, Row};
pub use scores::{Estimate, Scores};
pub use settings::{By, Goal, Settings};
pub use signature::{Arrival, Signature, TaskTable};
pub use table::{Kind, MeasuredLoad, Measurement, ScoreTable, TableError};
pub use trial::{Slot, Trial};
pub use windows::Completion;
pub use work::Work;
