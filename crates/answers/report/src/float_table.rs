//! A table of numbers as a Parquet file.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::file::{Error, write_file};

/// Writes columns of 32-bit floats, with a column of text in front.
pub fn write_float_table<'a>(
    path: &Path,
    text: &str,
    texts: impl Iterator<Item = &'a str>,
    columns: &[(String, Vec<f32>)],
) -> Result<(), Error> {
    let texts: Vec<ByteArray> = texts.map(ByteArray::from).collect();
    write_file(path, |out| write(out, text, &texts, columns).map_err(io::Error::other))
}

fn write(
    out: impl Write + Send,
    text: &str,
    texts: &[ByteArray],
    columns: &[(String, Vec<f32>)],
) -> parquet::errors::Result<()> {
    let text = Type::primitive_type_builder(text, Physical::BYTE_ARRAY)
        .with_logical_type(Some(LogicalType::String))
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let mut fields = vec![Arc::new(text)];
    for (name, _) in columns {
        let field = Type::primitive_type_builder(name, Physical::FLOAT).with_repetition(Repetition::REQUIRED);
        fields.push(Arc::new(field.build()?));
    }
    let schema = Arc::new(Type::group_type_builder("dumbwaiter").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by("dumbwaiter".to_string())
        .build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(texts, None, None)?;
        column.close()?;
    }
    for (_, values) in columns {
        if let Some(mut column) = group.next_column()? {
            column.typed::<FloatType>().write_batch(values, None, None)?;
            column.close()?;
        }
    }
    group.close()?;
    writer.close()?;
    Ok(())
}
