//! A table of text on a page.

use serde::Serialize;

/// A table of text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Grid {
    /// Its title.
    pub title: String,
    /// One cell per column.
    pub header: Vec<String>,
    /// Cells; the first of a row is its name.
    pub rows: Vec<Vec<String>>,
}
