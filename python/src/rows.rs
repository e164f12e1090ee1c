//! Tables of others as traces, without a copy of their columns.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::io::{self, Read, Write};
use std::sync::Arc;

use dumbwaiter_scenario::Rows;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{ArrowArray, ArrowArrayStream, ArrowSchema};
use crate::errors::InputError;

/// A table that is a trace: what [`Rows`] are made of.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct TraceTable {
    /// Names of the columns, separated by commas, as `--columns` takes them.
    #[pyo3(get)]
    columns: String,
    rows: usize,
    parts: Arc<Vec<Part>>,
}

/// Rows that lie together: a chunk of each column.
struct Part {
    rows: usize,
    chunks: Vec<Chunk>,
    /// Keeps the memory.
    _kept: Kept,
}

/// The owner of the memory of a part.
enum Kept {
    Arrow(#[allow(dead_code)] ArrowArray),
    Buffers(#[allow(dead_code)] Vec<Lent>),
}

/// A buffer of a Python object, which can neither move nor free it before this is dropped.
type Lent = Box<dyn std::any::Any + Send + Sync>;

/// A chunk of a column. Pointers are valid for `rows` values as long as [`Part::_kept`] lives.
enum Chunk {
    Int {
        at: *const u8,
        bytes: usize,
        signed: bool,
    },
    Float {
        at: *const u8,
        bytes: usize,
    },
    /// Ends of texts as 32 or 64 bit, and the texts.
    Text {
        ends: *const u8,
        wide: bool,
        texts: *const u8,
    },
    /// Views of 16 bytes, and the buffers that the longer ones point into.
    Views {
        views: *const u8,
        buffers: Vec<*const u8>,
    },
    /// Indices into words.
    Codes {
        codes: Box<Chunk>,
        words: Vec<String>,
    },
}

// SAFETY: the memory behind the pointers belongs to the producer, which keeps it unchanged while it is lent, and the owner
// may be dropped on any thread (Python objects wait for the interpreter).
unsafe impl Send for Part {}
// SAFETY: it is only read.
unsafe impl Sync for Part {}

/// A value of a table.
enum Value<'a> {
    Int(i128),
    Float(f64),
    Text(&'a str),
}

impl Chunk {
    fn value(&self, row: usize) -> Value<'_> {
        // SAFETY: `row` is less than the part's rows, for which all pointers are valid. Reads need not be aligned.
        unsafe {
            match self {
                Chunk::Int { at, bytes, signed } => Value::Int(int(*at, *bytes, *signed, row)),
                Chunk::Float { at, bytes: 4 } => Value::Float(f64::from(at.cast::<f32>().add(row).read_unaligned())),
                Chunk::Float { at, .. } => Value::Float(at.cast::<f64>().add(row).read_unaligned()),
                Chunk::Text { ends, wide, texts } => {
                    let end = |row: usize| int(*ends, if *wide { 8 } else { 4 }, true, row) as usize;
                    let (from, to) = (end(row), end(row + 1));
                    Value::Text(text(texts.add(from), to - from))
                }
                Chunk::Views { views, buffers } => {
                    let view = views.add(row * 16);
                    let length = int(view, 4, true, 0) as usize;
                    if length <= 12 {
                        return Value::Text(text(view.add(4), length));
                    }
                    let (buffer, offset) = (int(view, 4, true, 2) as usize, int(view, 4, true, 3) as usize);
                    Value::Text(text(buffers[buffer].add(offset), length))
                }
                Chunk::Codes { codes, words } => match codes.value(row) {
                    Value::Int(code) => Value::Text(words.get(code as usize).map_or("", String::as_str)),
                    _ => Value::Text(""),
                },
            }
        }
    }
}

/// A whole number of `bytes` bytes.
unsafe fn int(at: *const u8, bytes: usize, signed: bool, row: usize) -> i128 {
    // SAFETY: the caller's pointer is valid for this row.
    unsafe {
        match (bytes, signed) {
            (1, true) => i128::from(at.cast::<i8>().add(row).read_unaligned()),
            (1, false) => i128::from(at.add(row).read_unaligned()),
            (2, true) => i128::from(at.cast::<i16>().add(row).read_unaligned()),
            (2, false) => i128::from(at.cast::<u16>().add(row).read_unaligned()),
            (4, true) => i128::from(at.cast::<i32>().add(row).read_unaligned()),
            (4, false) => i128::from(at.cast::<u32>().add(row).read_unaligned()),
            (_, true) => i128::from(at.cast::<i64>().add(row).read_unaligned()),
            (_, false) => i128::from(at.cast::<u64>().add(row).read_unaligned()),
        }
    }
}

unsafe fn text<'a>(at: *const u8, length: usize) -> &'a str {
    if length == 0 {
        return "";
    }
    // SAFETY: the caller's pointer is valid for `length` bytes. Text that is not UTF-8 is refused as an unknown word later.
    unsafe { std::str::from_utf8(std::slice::from_raw_parts(at, length)).unwrap_or("\u{fffd}") }
}

/// Values that a column of a trace may hold.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Number { whole: bool },
    Word,
    WordOrNumber,
}

/// `None` for a column that is no part of a trace.
fn wanted(name: &str) -> Option<Wanted> {
    let (kind, _) = name.split_once('_').unwrap_or((name, ""));
    Some(match kind {
        "time" | "gap" | "latency" | "wait" => Wanted::Number { whole: false },
        "offset" | "size" | "major" | "minor" => Wanted::Number { whole: true },
        "op" if name == "op" => Wanted::Word,
        "op" | "device" | "host" | "task" | "sync" => Wanted::WordOrNumber,
        _ => return None,
    })
}

fn refused(py: Python<'_>, name: &str, why: impl std::fmt::Display) -> PyErr {
    crate::errors::input(py, format!("table, column {name:?}: {why}"), None, None, Some(name))
}

#[pymethods]
impl TraceTable {
    /// A table that offers the Arrow C stream interface.
    #[staticmethod]
    #[pyo3(signature = (table, *, times = true))]
    fn from_arrow(table: &Bound<'_, PyAny>, times: bool) -> PyResult<TraceTable> {
        let py = table.py();
        let capsule = table.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let mut stream = Stream::take(capsule)?;
        let schema = stream.schema()?;
        let fields = Fields::of(py, &schema, times)?;
        let mut parts = Vec::new();
        while let Some(array) = stream.next()? {
            if array.length > 0 {
                parts.push(fields.part(py, array, parts.iter().map(|p: &Part| p.rows).sum())?);
            }
        }
        finished(py, fields.names, parts)
    }

    /// Columns as pairs of a name and an object with a buffer, or a triple with the words that the buffer's numbers stand for.
    #[staticmethod]
    #[pyo3(signature = (columns, *, times = true))]
    fn from_buffers(
        py: Python<'_>,
        columns: Vec<(String, Bound<'_, PyAny>, Option<Vec<String>>)>,
        times: bool,
    ) -> PyResult<TraceTable> {
        let names: Vec<String> = columns.iter().map(|(name, ..)| name.clone()).collect();
        complete(py, &names, &names, times)?;
        let (mut chunks, mut kept, mut rows) = (Vec::new(), Vec::new(), 0);
        for (name, object, words) in columns {
            let (chunk, length, lent) = chunk_of_buffer(py, &name, &object)?;
            if !chunks.is_empty() && length != rows {
                return Err(refused(py, &name, format!("has {length} rows, and {} has {rows}", names[0])));
            }
            let chunk = match words {
                Some(words) => Chunk::Codes { codes: Box::new(chunk), words },
                None => chunk,
            };
            check_type(py, &name, &chunk)?;
            kept.push(lent);
            chunks.push(chunk);
            rows = length;
        }
        finished(py, names, vec![Part { rows, chunks, _kept: Kept::Buffers(kept) }])
    }

    fn __len__(&self) -> usize {
        self.rows
    }
}

impl TraceTable {
    /// The text of the table, for the readers of traces.
    pub(crate) fn rows(&self) -> Rows {
        let parts = Arc::clone(&self.parts);
        Rows::new(move || Box::new(TableText { parts: Arc::clone(&parts), part: 0, row: 0, text: Vec::new(), read: 0 }))
    }

    /// Names of the columns, as `--columns` takes them.
    pub(crate) fn column_names(&self) -> &str {
        &self.columns
    }
}

/// A buffer of one dimension as a chunk, with the number of its values, checked for its type.
fn chunk_of_buffer(py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<(Chunk, usize, Lent)> {
    macro_rules! of {
        ($($type:ty => $chunk:expr),*) => { $(
            if let Ok(buffer) = PyBuffer::<$type>::get(object) {
                if !buffer.is_c_contiguous() || buffer.dimensions() != 1 {
                    return Err(refused(py, name, "is not contiguous; expected an array of one dimension"));
                }
                let make: fn(*const u8, usize) -> Chunk = $chunk;
                let chunk = make(buffer.buf_ptr().cast(), std::mem::size_of::<$type>());
                return Ok((chunk, buffer.item_count(), Box::new(buffer)));
            }
        )* };
    }
    let signed: fn(*const u8, usize) -> Chunk = |at, bytes| Chunk::Int { at, bytes, signed: true };
    let unsigned: fn(*const u8, usize) -> Chunk = |at, bytes| Chunk::Int { at, bytes, signed: false };
    let float: fn(*const u8, usize) -> Chunk = |at, bytes| Chunk::Float { at, bytes };
    of!(i64 => signed, u64 => unsigned, i32 => signed, u32 => unsigned, i16 => signed, u16 => unsigned, i8 => signed,
        u8 => unsigned, f64 => float, f32 => float);
    let kind = object.getattr("dtype").map_or_else(|_| object.get_type().to_string(), |dtype| dtype.to_string());
    Err(refused(py, name, format!("is of type {kind}; expected numbers")))
}

fn check_type(py: Python<'_>, name: &str, chunk: &Chunk) -> PyResult<()> {
    let found = match chunk {
        Chunk::Int { .. } => "whole numbers",
        Chunk::Float { .. } => "real numbers",
        _ => "text",
    };
    let expected = match (wanted(name), chunk) {
        (Some(Wanted::Number { whole: true }), Chunk::Float { .. }) => "whole numbers",
        (Some(Wanted::Number { .. }), Chunk::Int { .. } | Chunk::Float { .. }) => return Ok(()),
        (Some(Wanted::Number { .. }), _) => "numbers",
        (Some(Wanted::Word), Chunk::Int { .. } | Chunk::Float { .. }) => "words such as read and write",
        (Some(Wanted::WordOrNumber), Chunk::Float { .. }) => "words or whole numbers",
        _ => return Ok(()),
    };
    Err(refused(py, name, format!("holds {found}; expected {expected}")))
}

/// Are the columns there that a trace needs?
fn complete(py: Python<'_>, used: &[String], all: &[String], times: bool) -> PyResult<()> {
    let has = |start: &str| used.iter().any(|name| name.split('_').next() == Some(start));
    let found = all.join(", ");
    let needed = [
        ("time_us", !times || has("time") || has("gap")),
        ("op", has("op")),
        ("offset_bytes", has("offset")),
        ("size_bytes", has("size")),
    ];
    for (name, there) in needed {
        if !there {
            let why = format!("is missing; found {found}; expected time_us, op, offset_bytes, size_bytes");
            return Err(refused(py, name, why));
        }
    }
    dumbwaiter_traces::Columns::parse(&used.join(",")).map_err(|e| InputError::new_err(format!("table: {e}")))?;
    Ok(())
}

/// Rows that are checked between two looks for Ctrl-C.
const SIGNAL_POLL_ROWS: usize = 1 << 20;

/// Checks every value: none negative, times in order, words without separators.
fn finished(py: Python<'_>, names: Vec<String>, parts: Vec<Part>) -> PyResult<TraceTable> {
    let rows = parts.iter().map(|p| p.rows).sum();
    if rows == 0 {
        return Err(InputError::new_err("table: has no rows; expected at least one"));
    }
    for (column, name) in names.iter().enumerate() {
        let mut operations = BTreeSet::new();
        let in_order = name.starts_with("time_");
        let (mut row, mut last) = (0usize, f64::NEG_INFINITY);
        for part in &parts {
            for i in 0..part.rows {
                // Of a large table this takes seconds.
                if row.is_multiple_of(SIGNAL_POLL_ROWS) && py.check_signals().is_err() {
                    return Err(crate::errors::interrupted(py, None));
                }
                let number = match part.chunks[column].value(i) {
                    Value::Int(n) => n as f64,
                    Value::Float(x) if x.is_nan() => return Err(refused(py, name, format!("row {row}: null"))),
                    Value::Float(x) if x.is_infinite() => {
                        return Err(refused(py, name, format!("row {row}: {x}; expected a number")));
                    }
                    Value::Float(x) => x,
                    Value::Text(word) => {
                        if word.is_empty() || word.contains([',', '\n', '\r', '"']) {
                            return Err(refused(py, name, format!("row {row}: {word:?}; expected a word")));
                        }
                        if name.starts_with("op") && !operations.contains(word) {
                            known_operation(py, name, row, word)?;
                            operations.insert(word.to_owned());
                        }
                        row += 1;
                        continue;
                    }
                };
                if number < 0.0 {
                    return Err(refused(py, name, format!("row {row}: {number}; expected at least 0")));
                }
                if in_order && number < last {
                    let why =
                        format!("row {row}: {number} after {last}; expected times in ascending order: sort the table");
                    return Err(refused(py, name, why));
                }
                (row, last) = (row + 1, number);
            }
        }
    }
    Ok(TraceTable { columns: names.join(","), rows, parts: Arc::new(parts) })
}

/// Refuses a word that the readers of traces do not know as an operation.
fn known_operation(py: Python<'_>, name: &str, row: usize, word: &str) -> PyResult<()> {
    let line = format!("{word},0,512\n");
    let columns = dumbwaiter_traces::Columns::parse(&format!("{name},offset_bytes,size_bytes"));
    let options = dumbwaiter_traces::Options { columns: columns.ok(), ..Default::default() };
    let read = dumbwaiter_traces::open_reader("table", Box::new(io::Cursor::new(line.into_bytes())), &options)
        .and_then(|mut reader| reader.next_record());
    match read {
        Ok(Some(_)) => Ok(()),
        _ => Err(refused(py, name, format!("row {row}: {word:?}; expected read, write, discard, flush …"))),
    }
}

/// A stream that was handed over.
struct Stream(ArrowArrayStream);

impl Stream {
    fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Stream> {
        let at = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        let at = at.as_ptr().cast::<ArrowArrayStream>();
        // SAFETY: the capsule's name says what it points to. The content is moved out, and its `release` set to null there,
        // as the interface asks of a consumer.
        unsafe {
            let stream = std::ptr::read(at);
            (*at).release = None;
            Ok(Stream(stream))
        }
    }

    fn failed(&mut self, code: c_int) -> PyErr {
        // SAFETY: a function of the producer's, called with its stream.
        let text = unsafe {
            let text = self.0.get_last_error.map_or(std::ptr::null(), |get| get(&mut self.0));
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        InputError::new_err(format!("table: its stream failed (error {code}): {text}"))
    }

    fn schema(&mut self) -> PyResult<ArrowSchema> {
        let mut schema = ArrowSchema::empty();
        let Some(get) = self.0.get_schema else { return Err(InputError::new_err("table: its stream is closed")) };
        // SAFETY: a function of the producer's, called with its stream and room for a schema.
        let code = unsafe { get(&mut self.0, &mut schema) };
        if code == 0 { Ok(schema) } else { Err(self.failed(code)) }
    }

    fn next(&mut self) -> PyResult<Option<ArrowArray>> {
        let mut array = ArrowArray::empty();
        let Some(get) = self.0.get_next else { return Ok(None) };
        // SAFETY: as in `schema`.
        let code = unsafe { get(&mut self.0, &mut array) };
        if code != 0 {
            return Err(self.failed(code));
        }
        Ok(array.release.is_some().then_some(array))
    }
}

/// The columns of a stream that belong to a trace.
struct Fields {
    names: Vec<String>,
    /// Place in the stream, type, and type of the dictionary's words.
    places: Vec<(usize, String, Option<String>)>,
}

impl Fields {
    fn of(py: Python<'_>, schema: &ArrowSchema, times: bool) -> PyResult<Fields> {
        // SAFETY: a schema of a producer: its texts end with a null byte, its children are as many as it says.
        let text = |at: *const std::ffi::c_char| unsafe {
            if at.is_null() { String::new() } else { CStr::from_ptr(at).to_string_lossy().into_owned() }
        };
        if text(schema.format) != "+s" {
            return Err(InputError::new_err("table: expected a table with columns"));
        }
        let (mut all, mut names, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..schema.n_children as usize {
            // SAFETY: as above.
            let child = unsafe { &**schema.children.add(i) };
            let name = text(child.name);
            all.push(name.clone());
            if wanted(&name).is_some() {
                // SAFETY: as above.
                let words = unsafe { child.dictionary.as_ref() }.map(|dictionary| text(dictionary.format));
                places.push((i, text(child.format), words));
                names.push(name);
            }
        }
        complete(py, &names, &all, times)?;
        Ok(Fields { names, places })
    }

    fn part(&self, py: Python<'_>, array: ArrowArray, first_row: usize) -> PyResult<Part> {
        let rows = array.length as usize;
        let mut chunks = Vec::new();
        for (name, (place, format, words)) in self.names.iter().zip(&self.places) {
            // SAFETY: the array has a child for each of the schema's.
            let child = unsafe { &**array.children.add(*place) };
            no_nulls(py, name, child, array.offset as usize, rows, first_row)?;
            let mut chunk = chunk_of_array(py, name, child, format, array.offset as usize)?;
            if let Some(format) = words {
                // SAFETY: an array of a dictionary type has a dictionary.
                let dictionary = unsafe { &*child.dictionary };
                let words = chunk_of_array(py, name, dictionary, format, 0)?;
                let word = |i| match words.value(i) {
                    Value::Text(word) => word.to_owned(),
                    Value::Int(n) => n.to_string(),
                    Value::Float(x) => x.to_string(),
                };
                chunk =
                    Chunk::Codes { codes: Box::new(chunk), words: (0..dictionary.length as usize).map(word).collect() };
            }
            check_type(py, name, &chunk)?;
            chunks.push(chunk);
        }
        Ok(Part { rows, chunks, _kept: Kept::Arrow(array) })
    }
}

fn no_nulls(
    py: Python<'_>,
    name: &str,
    array: &ArrowArray,
    offset: usize,
    rows: usize,
    first_row: usize,
) -> PyResult<()> {
    if array.null_count == 0 || array.n_buffers == 0 {
        return Ok(());
    }
    // SAFETY: the first buffer of these types is the validity bitmap, or null.
    let bits = unsafe { (*array.buffers).cast::<u8>() };
    let from = array.offset as usize + offset;
    for row in 0..if bits.is_null() { 0 } else { rows } {
        let at = from + row;
        // SAFETY: the bitmap has a bit for each value.
        if unsafe { *bits.add(at / 8) } >> (at % 8) & 1 == 0 {
            return Err(refused(py, name, format!("row {}: null", first_row + row)));
        }
    }
    Ok(())
}

fn chunk_of_array(py: Python<'_>, name: &str, array: &ArrowArray, format: &str, offset: usize) -> PyResult<Chunk> {
    let offset = array.offset as usize + offset;
    // SAFETY: an array has as many buffers as it says.
    let buffer = |i: usize| -> *const u8 { unsafe { *array.buffers.add(i) }.cast::<c_void>().cast() };
    // SAFETY: a buffer of a fixed width has that much for each value from its begin, `offset` included.
    let at = |bytes: usize| unsafe { buffer(1).add(offset * bytes) };
    let int = |bytes, signed| Chunk::Int { at: at(bytes), bytes, signed };
    Ok(match format {
        "c" => int(1, true),
        "C" => int(1, false),
        "s" => int(2, true),
        "S" => int(2, false),
        "i" => int(4, true),
        "I" => int(4, false),
        "l" => int(8, true),
        "L" => int(8, false),
        "f" => Chunk::Float { at: at(4), bytes: 4 },
        "g" => Chunk::Float { at: at(8), bytes: 8 },
        "u" => Chunk::Text { ends: at(4), wide: false, texts: buffer(2) },
        "U" => Chunk::Text { ends: at(8), wide: true, texts: buffer(2) },
        "vu" => {
            let longer = (array.n_buffers - 3).max(0) as usize;
            Chunk::Views { views: at(16), buffers: (0..longer).map(|i| buffer(2 + i)).collect() }
        }
        // A column of nothing but nulls has a type of its own.
        "n" => return Err(refused(py, name, "row 0: null")),
        other => {
            let found = match other.as_bytes().first() {
                Some(b't') => "times of day or lengths of time",
                Some(b'b') => "true and false",
                Some(b'd') => "decimals",
                _ => "values of another type",
            };
            let expected = match wanted(name) {
                Some(Wanted::Number { .. }) => "numbers, in the unit of the column's name",
                _ => "words or whole numbers",
            };
            return Err(refused(py, name, format!("holds {found} (Arrow type {other:?}); expected {expected}")));
        }
    })
}

/// The rows as text, a few at a time.
struct TableText {
    parts: Arc<Vec<Part>>,
    part: usize,
    row: usize,
    text: Vec<u8>,
    read: usize,
}

/// Text that is made at once.
const TEXT_BYTES: usize = 32 * 1024;

impl TableText {
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.read = 0;
        while self.text.len() < TEXT_BYTES {
            let Some(part) = self.parts.get(self.part) else { return Ok(()) };
            if self.row == part.rows {
                (self.part, self.row) = (self.part + 1, 0);
                continue;
            }
            for (i, chunk) in part.chunks.iter().enumerate() {
                if i > 0 {
                    self.text.push(b',');
                }
                match chunk.value(self.row) {
                    Value::Int(n) => write!(self.text, "{n}")?,
                    Value::Float(x) => write!(self.text, "{x}")?,
                    Value::Text(word) => self.text.extend_from_slice(word.as_bytes()),
                }
            }
            self.text.push(b'\n');
            self.row += 1;
        }
        Ok(())
    }
}

impl Read for TableText {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == self.text.len() {
            self.fill()?;
        }
        let n = (&self.text[self.read..]).read(to)?;
        self.read += n;
        Ok(n)
    }
}
