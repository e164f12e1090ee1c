//! Tables, HTML, JSON and Parquet from results: never from a live run.
//!
//! [`Document`] holds results with the conditions that made them; everything else shows one. Equal
//! documents give equal bytes: nothing here reads a clock or a machine's name.
#![forbid(unsafe_code)]

mod applications;
mod columns;
mod compare;
mod document;
mod file;
mod html;
mod table;
mod text_plot;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use columns::write_parquet;
pub use compare::compare_text;
pub use document::{Document, SCHEMA};
pub use file::{Error, write_atomically};
pub use html::{Grid, Page, PageSection, Plot, PlotLine, html, write_html};
pub use table::{Align, Style, table};
pub use text_plot::{bars, sparkline};
