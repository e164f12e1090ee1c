//! Presents results as tables, HTML, JSON and Parquet.
//!
//! A [`dumbwaiter_advise::Document`] contains results and their conditions; everything here presents one. Equal
//! documents give equal bytes: nothing here reads a clock or a machine's name.
#![forbid(unsafe_code)]

mod advice;
mod applications;
pub mod columns;
mod compare;
mod file;
mod float_table;
mod formats;
mod grid;
mod html;
mod isolation;
mod json;
mod markdown;
mod notebook;
mod ranking_columns;
mod suite;
mod table;
mod text_plot;
mod tune;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use advice::{SurveyPoint, advice_text};
pub use columns::write_parquet;
pub use compare::compare_text;
pub use file::Error;
pub use float_table::write_float_table;
pub use formats::{Format, diff_text, document_text};
pub use grid::Grid;
pub use html::{HeatMap, Page, PageSection, Plot, PlotLine, advice_html, html, write_advice_html, write_html};
pub use json::{read_json, write_json};
pub use notebook::notebook_html;
pub use suite::suite_text;
pub use table::{Align, Style, table};
pub use text_plot::{bars, sparkline};
pub use tune::tune_text;
