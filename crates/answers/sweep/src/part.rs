//! Parts of the data set: files of some rows each.

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use parquet::schema::types::Type;
use std::sync::Arc;

use crate::key::hash;
use crate::{Error, Key};

/// The name of the part that has these cells.
pub fn part_name(keys: &[Key]) -> String {
    let texts: Vec<String> = keys.iter().map(Key::to_string).collect();
    format!("part-{}.parquet", hash(texts.iter().map(String::as_str)))
}

/// The keys of a part's rows. `path` names it in errors.
pub fn part_keys(path: &str, content: Vec<u8>) -> Result<Vec<Key>, Error> {
    let damaged = |reason: String| Error::Part { path: path.to_owned(), reason };
    let reader = SerializedFileReader::new(Bytes::from(content)).map_err(|e| damaged(e.to_string()))?;
    let schema = reader.metadata().file_metadata().schema();
    let fields: Vec<Arc<Type>> = schema.get_fields().iter().filter(|field| field.name() == "key").cloned().collect();
    if fields.is_empty() {
        return Err(damaged("it has no column `key`".into()));
    }
    let only =
        Type::group_type_builder(schema.name()).with_fields(fields).build().map_err(|e| damaged(e.to_string()))?;
    let rows = reader.get_row_iter(Some(only)).map_err(|e| damaged(e.to_string()))?;
    rows.map(|row| {
        let row = row.map_err(|e| damaged(e.to_string()))?;
        let text = row.get_string(0).map_err(|e| damaged(e.to_string()))?;
        Key::parse(text).ok_or_else(|| damaged(format!("{text:?} is not a key")))
    })
    .collect()
}
