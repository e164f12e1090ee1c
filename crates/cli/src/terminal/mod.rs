//! Output on a terminal: results of the libraries as text, the progress of long work, and the end by Ctrl-C.
//!
//! A function `*_text` returns the text of a result and prints nothing. Comparisons, and results that also have a page, are in
//! `dumbwaiter-report`.

mod desktop;
mod devices;
mod documents;
mod fidelity;
mod live_screen;
mod measured;
mod messages;
mod models;
pub mod outputs;
mod pilot;
mod progress;
mod recording;
mod reproduced;
mod run_bar;
mod schedulers;
mod server;
mod signals;
mod sweep;
mod top;
mod traces;

pub use desktop::open_on_desktop;
pub use devices::{checks_text, devices_text};
pub use documents::DocumentOutputs;
pub use fidelity::{closed_loops_text, scores_text};
pub use measured::{measured_summary_text, measured_text};
pub use messages::{one_line, print, screen, style, tell_line};
pub use models::{evaluation_text, model_text, prediction_text};
pub use pilot::{pilot_status_text, replay_text};
pub use progress::Watched;
pub use recording::recording_text;
pub use reproduced::{ReproducedOutputs, causes_text};
pub use run_bar::RunBar;
pub use schedulers::{scheduler_json, scheduler_text, schedulers_text};
pub use server::{answer_text, disks_text};
pub use signals::{Checking, cancel_on_signal, cancel_on_signal_and_undo, end_on_signal};
pub use sweep::{PlotColumns, estimate_text, finished_text, plotted_text, watch_sweep};
pub use top::{server_text, watch_server};
pub use traces::{formats_text, records_text, trace_text};
