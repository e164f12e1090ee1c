//! A trace that is in memory.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// Opens the text anew.
type Open = dyn Fn() -> Box<dyn Read + Send> + Send + Sync;

/// The records of a trace that is in memory, such as a table of a notebook: as text in the columns of
/// [`TraceOptions::columns`](crate::TraceOptions::columns), made anew for each reading.
#[derive(Clone)]
pub struct Rows(Arc<Open>);

impl Rows {
    /// Rows that `open` gives as text; each call begins with the first row.
    pub fn new(open: impl Fn() -> Box<dyn Read + Send> + Send + Sync + 'static) -> Rows {
        Rows(Arc::new(open))
    }

    /// The text, from the first row.
    pub fn open(&self) -> Box<dyn Read + Send> {
        (self.0)()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

/// The same rows, not equal ones.
impl PartialEq for Rows {
    fn eq(&self, other: &Rows) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
