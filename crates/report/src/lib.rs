//! Tables, HTML, JSON and Parquet from results.
#![forbid(unsafe_code)]
