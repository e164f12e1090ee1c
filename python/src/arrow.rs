//! Tables that others read without a copy: the Arrow C data interface, by hand.
//!
//! The layout is that of the Arrow C data and C stream interfaces. A table's columns live in one [`Arc`]; each exported
//! array holds a count of it and gives it back in its `release`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use dumbwaiter_report::columns::{Column, Columns, Values};

/// `struct ArrowSchema`.
#[repr(C)]
pub(crate) struct ArrowSchema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(crate) private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
pub(crate) struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub(crate) struct ArrowArrayStream {
    pub(crate) get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(crate) get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(crate) private_data: *mut c_void,
}

// SAFETY: what they point to is owned by them alone, is `Send`, and the interface allows a move to another thread.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}
// SAFETY: reading an array changes nothing in it.
unsafe impl Sync for ArrowArray {}
// SAFETY: as above.
unsafe impl Send for ArrowArrayStream {}

macro_rules! released_when_dropped {
    ($($type:ty),*) => { $(
        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release.take() {
                    // SAFETY: the producer's own function, called once: moving the content out sets `release` to null.
                    // It expects the structure as it was.
                    self.release = Some(release);
                    unsafe { release(self) };
                    self.release = None;
                }
            }
        }
    )* };
}
released_when_dropped!(ArrowSchema, ArrowArray, ArrowArrayStream);

impl ArrowSchema {
    /// To be filled by a producer.
    pub(crate) fn empty() -> ArrowSchema {
        ArrowSchema {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl ArrowArray {
    /// To be filled by a producer.
    pub(crate) fn empty() -> ArrowArray {
        ArrowArray {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

/// Columns in Arrow's layout.
pub(crate) struct Layout {
    pub(crate) columns: Vec<LayoutColumn>,
    pub(crate) rows: usize,
}

/// A column in Arrow's layout.
pub(crate) struct LayoutColumn {
    pub(crate) name: String,
    /// Bit by bit, lowest first; `None` where every row has a value.
    validity: Option<Vec<u8>>,
    nulls: usize,
    pub(crate) data: Data,
}

/// The values of a column.
pub(crate) enum Data {
    /// Seeds above 2^63 wrap, as in Parquet.
    Whole(Vec<u64>),
    Real(Vec<f64>),
    /// Ends of the texts, from 0, and all texts.
    Text(Vec<i32>, Vec<u8>),
}

impl Layout {
    /// Numbers keep their memory; texts are joined.
    pub(crate) fn new(columns: Columns) -> Layout {
        let columns: Vec<LayoutColumn> = columns.into_columns().into_iter().map(LayoutColumn::new).collect();
        let rows = columns.first().map_or(0, LayoutColumn::len);
        Layout { columns, rows }
    }
}

impl LayoutColumn {
    fn new(column: Column) -> LayoutColumn {
        let rows = column.values.len();
        let nulls = (0..rows).filter(|row| !column.has(*row)).count();
        let validity = (nulls > 0).then(|| {
            let mut bits = vec![0u8; rows.div_ceil(8)];
            for row in (0..rows).filter(|row| column.has(*row)) {
                bits[row / 8] |= 1 << (row % 8);
            }
            bits
        });
        let data = match column.values {
            Values::Whole(values) => Data::Whole(values),
            Values::Real(values) => Data::Real(values),
            Values::Text(texts) => {
                let mut ends = Vec::with_capacity(texts.len() + 1);
                let mut bytes = Vec::new();
                ends.push(0);
                for text in texts {
                    bytes.extend_from_slice(text.as_bytes());
                    ends.push(bytes.len() as i32);
                }
                Data::Text(ends, bytes)
            }
        };
        LayoutColumn { name: column.name, validity, nulls, data }
    }

    fn len(&self) -> usize {
        match &self.data {
            Data::Whole(values) => values.len(),
            Data::Real(values) => values.len(),
            Data::Text(ends, _) => ends.len() - 1,
        }
    }

    /// Has this row a value?
    pub(crate) fn has(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
    }

    /// The text of a row.
    pub(crate) fn text(&self, row: usize) -> Option<&str> {
        match &self.data {
            Data::Text(ends, bytes) => std::str::from_utf8(&bytes[ends[row] as usize..ends[row + 1] as usize]).ok(),
            _ => None,
        }
    }

    fn format(&self) -> &'static CStr {
        match self.data {
            Data::Whole(_) => c"l",
            Data::Real(_) => c"g",
            Data::Text(..) => c"u",
        }
    }
}

/// Memory owned by a schema of ours.
struct OwnSchema {
    name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// Arrow's flag of a column that may have nulls.
const NULLABLE: i64 = 2;

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once with a schema that `schema_of` made; its private data and children are boxes of ours.
    unsafe {
        let own = Box::from_raw((*schema).private_data.cast::<OwnSchema>());
        for child in &own.children {
            drop(Box::from_raw(*child));
        }
        (*schema).release = None;
    }
}

fn schema_of(format: &'static CStr, name: &str, children: Vec<ArrowSchema>) -> ArrowSchema {
    let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let mut own = Box::new(OwnSchema { name, children });
    ArrowSchema {
        format: format.as_ptr(),
        name: own.name.as_ptr(),
        flags: NULLABLE,
        n_children: own.children.len() as i64,
        children: own.children.as_mut_ptr(),
        release: Some(release_schema),
        private_data: Box::into_raw(own).cast(),
        ..ArrowSchema::empty()
    }
}

/// The schema of a table: a struct of its columns.
pub(crate) fn schema(layout: &Layout) -> ArrowSchema {
    let children = layout.columns.iter().map(|c| schema_of(c.format(), &c.name, Vec::new())).collect();
    let mut schema = schema_of(c"+s", "", children);
    schema.flags = 0;
    schema
}

/// Memory owned by an array of ours.
struct OwnArray {
    /// Keeps the memory of the columns.
    _layout: Arc<Layout>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once with an array that `array_of` made. A child that was moved out has no `release` any more, and
    // dropping its box then frees the box only.
    unsafe {
        let own = Box::from_raw((*array).private_data.cast::<OwnArray>());
        for child in &own.children {
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
    }
}

fn array_of(
    layout: &Arc<Layout>,
    rows: usize,
    nulls: usize,
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
) -> ArrowArray {
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let mut own = Box::new(OwnArray { _layout: Arc::clone(layout), buffers, children });
    ArrowArray {
        length: rows as i64,
        null_count: nulls as i64,
        n_buffers: own.buffers.len() as i64,
        n_children: own.children.len() as i64,
        buffers: own.buffers.as_mut_ptr(),
        children: own.children.as_mut_ptr(),
        release: Some(release_array),
        private_data: Box::into_raw(own).cast(),
        ..ArrowArray::empty()
    }
}

/// The table as one array; nothing is copied.
pub(crate) fn array(layout: &Arc<Layout>) -> ArrowArray {
    let column = |c: &LayoutColumn| {
        let validity = c.validity.as_ref().map_or(ptr::null(), |bits| bits.as_ptr().cast());
        let buffers = match &c.data {
            Data::Whole(values) => vec![validity, values.as_ptr().cast()],
            Data::Real(values) => vec![validity, values.as_ptr().cast()],
            Data::Text(ends, bytes) => vec![validity, ends.as_ptr().cast(), bytes.as_ptr().cast()],
        };
        array_of(layout, c.len(), c.nulls, buffers, Vec::new())
    };
    let children = layout.columns.iter().map(column).collect();
    array_of(layout, layout.rows, 0, vec![ptr::null()], children)
}

/// Tables of one schema, one after the other.
pub(crate) type Batches = Box<dyn FnMut() -> Result<Option<Arc<Layout>>, String> + Send>;

/// Data owned by a stream of ours.
struct OwnStream {
    /// Its columns are those of every batch.
    shape: Arc<Layout>,
    batches: Batches,
    error: CString,
}

/// `EIO`, for a stream that could not be read on.
const EIO: c_int = 5;

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: `stream` is one of ours, `out` room for a schema that is not initialised.
    unsafe {
        let own = &*(*stream).private_data.cast::<OwnStream>();
        ptr::write(out, schema(&own.shape));
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: `stream` is one of ours and used by one thread at a time, `out` is room for an array.
    unsafe {
        let own = &mut *(*stream).private_data.cast::<OwnStream>();
        match (own.batches)() {
            Ok(batch) => ptr::write(out, batch.map_or_else(ArrowArray::empty, |layout| array(&layout))),
            Err(why) => {
                own.error = CString::new(why.replace('\0', " ")).unwrap_or_default();
                return EIO;
            }
        }
    }
    0
}

unsafe extern "C" fn stream_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: `stream` is one of ours; the text lives until the next call on it.
    unsafe { (*(*stream).private_data.cast::<OwnStream>()).error.as_ptr() }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: called once with a stream of ours.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<OwnStream>()));
        (*stream).release = None;
    }
}

/// A stream of batches that have the columns of `shape`.
pub(crate) fn stream(shape: Arc<Layout>, batches: Batches) -> ArrowArrayStream {
    let own = Box::new(OwnStream { shape, batches, error: CString::default() });
    ArrowArrayStream {
        get_schema: Some(stream_schema),
        get_next: Some(stream_next),
        get_last_error: Some(stream_error),
        release: Some(release_stream),
        private_data: Box::into_raw(own).cast(),
    }
}

/// A stream of one batch.
pub(crate) fn stream_of(layout: &Arc<Layout>) -> ArrowArrayStream {
    let mut rest = Some(Arc::clone(layout));
    stream(Arc::clone(layout), Box::new(move || Ok(rest.take())))
}
