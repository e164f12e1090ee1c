//! A sweep's results as points of a plot.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::Sample;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use serde::Serialize;

use crate::{Error, Folder};

/// One point: the mean of a figure over its replicates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plotted {
    /// The value of the facet; empty where there is none.
    pub facet: String,
    /// The value that names the line; empty where there is none.
    pub by: String,
    /// The value on the horizontal axis.
    pub x: String,
    /// The mean.
    pub mean: f64,
    /// Its 95 % confidence interval, where there are replicates.
    pub ci95: Option<[f64; 2]>,
    /// Number of runs.
    pub n: usize,
}

/// Reads `folder` and joins the runs of each point; see [`plotted_parts`].
pub fn plotted(folder: &Path, columns: [Option<&str>; 4], control: &Control) -> Result<Vec<Plotted>, Error> {
    let read = |part: &std::path::PathBuf| {
        let content = std::fs::read(part).map_err(|source| Error::File { path: part.clone(), source })?;
        Ok((part.display().to_string(), content))
    };
    let parts = Folder::parts(folder)?;
    plotted_parts(&folder.display().to_string(), parts.iter().map(read), columns, control)
}

/// Joins the runs of each point, unless `control` is cancelled. `parts` are names for errors and contents, `columns` those of x, y,
/// line and facet. Runs that failed are left out. Points are in the order of facet, line and x: numbers and sizes by their value, then words.
pub fn plotted_parts(
    place: &str,
    parts: impl Iterator<Item = Result<(String, Vec<u8>), Error>>,
    columns: [Option<&str>; 4],
    control: &Control,
) -> Result<Vec<Plotted>, Error> {
    let [x, y, by, facet] = columns;
    let mut points: BTreeMap<[Position; 3], Vec<f64>> = BTreeMap::new();
    let mut empty = true;
    for part in parts {
        if control.cancelled() {
            return Err(Error::Interrupted);
        }
        let (path, content) = part?;
        empty = false;
        for row in rows(&path, content, &columns)? {
            let row = row?;
            let of = |name: Option<&str>| Position::of(name.and_then(|n| row.get(n)?.clone()).unwrap_or_default());
            let Some(text) = y.and_then(|name| row.get(name)?.as_deref()) else { continue };
            let figure = text.parse::<f64>().map_err(|_| {
                Error::input(format!("{:?} is text; expected a column of numbers", y.unwrap_or_default()))
            })?;
            points.entry([of(facet), of(by), of(x)]).or_default().push(figure);
        }
    }
    if empty {
        let reason = "has no results of a sweep; expected the folder of one".into();
        return Err(Error::Folder { folder: place.to_owned(), reason });
    }
    let point = |([facet, by, x], mut values): ([Position; 3], Vec<f64>)| {
        // The order of the parts is that of their names; a mean must not depend on it.
        values.sort_by(f64::total_cmp);
        let sample = Sample::of(&values);
        let (facet, by, x) = (facet.text, by.text, x.text);
        Plotted { facet, by, x, mean: sample.mean, ci95: sample.interval95(), n: values.len() }
    };
    Ok(points.into_iter().map(point).collect())
}

/// Different values, in the order of an axis: numbers and sizes such as `4k` by their value, then words by the alphabet.
pub fn in_order<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<Position> = values.map(|text| Position::of(text.to_owned())).collect();
    all.sort();
    all.dedup();
    all.into_iter().map(|position| position.text).collect()
}

/// The name of a column as the label of an axis, its unit apart: `read_p99_us` is `read p99, us`.
pub fn axis_label(column: &str) -> String {
    let units = [("mb_per_s", "MB/s"), ("us_per_io", "us per I/O"), ("iops", "IOPS"), ("us", "us"), ("s", "s")];
    for (suffix, unit) in units {
        match column.strip_suffix(suffix) {
            Some("") => return unit.to_owned(),
            Some(rest) if rest.ends_with('_') => {
                let of = rest.trim_end_matches('_').replace("99_9", "99.9").replace('_', " ");
                return format!("{of}, {unit}");
            }
            _ => {}
        }
    }
    column.to_owned()
}

/// A row's values by column, as text.
type Row = BTreeMap<String, Option<String>>;

/// The named columns of a part, row by row.
fn rows(
    path: &str,
    content: Vec<u8>,
    columns: &[Option<&str>; 4],
) -> Result<impl Iterator<Item = Result<Row, Error>> + use<>, Error> {
    let path = path.to_owned();
    let damaged = move |e: ParquetError| Error::Part { path: path.clone(), reason: e.to_string() };
    let reader = SerializedFileReader::new(Bytes::from(content)).map_err(&damaged)?;
    let schema = reader.metadata().file_metadata().schema();
    let fields: Vec<Arc<Type>> = schema.get_fields().to_vec();
    for name in columns.iter().flatten() {
        if !fields.iter().any(|field| field.name() == *name) {
            let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
            return Err(Error::input(format!("{name:?} is not a column; expected one of {}", names.join(", "))));
        }
    }
    let wanted = fields.into_iter().filter(|field| columns.contains(&Some(field.name()))).collect();
    let only = Type::group_type_builder(schema.name()).with_fields(wanted).build().map_err(&damaged)?;
    let rows = reader.get_row_iter(Some(only)).map_err(&damaged)?.collect::<Vec<_>>();
    Ok(rows.into_iter().map(move |row| {
        let row = row.map_err(&damaged)?;
        Ok(row.get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect())
    }))
}

/// A value of a table as text; `None` for a missing one.
fn text(field: &Field) -> Option<String> {
    match field {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        // All digits: a reader gets the same number again.
        Field::Double(value) => Some(value.to_string()),
        other => Some(other.to_string()),
    }
}

/// A value on an axis: numbers by size, then words by the alphabet.
#[derive(Clone, Debug)]
struct Position {
    number: f64,
    text: String,
}

impl Position {
    fn of(text: String) -> Position {
        let number = number_of(&text).unwrap_or(f64::INFINITY);
        Position { number, text }
    }
}

/// A number, or one with a letter of size behind it, such as 4k.
fn number_of(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().trim_end_matches("ib") {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1024.0 * 1024.0,
        "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|number| number * factor)
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Position {}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Position) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Position) -> std::cmp::Ordering {
        self.number.total_cmp(&other.number).then_with(|| self.text.cmp(&other.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_unit_of_its_column() {
        let names =
            ["p99_us", "read_p99_9_us", "iops", "write_mb_per_s", "cpu_us_per_io", "cpu_busy_s", "pv", "task.a.bs"];
        let labels =
            ["p99, us", "read p99.9, us", "IOPS", "write, MB/s", "cpu, us per I/O", "cpu busy, s", "pv", "task.a.bs"];
        assert_eq!(names.map(axis_label), labels.map(str::to_owned));
    }

    #[test]
    fn values_are_in_the_order_of_an_axis() {
        let values = ["16", "bfq", "4k", "1", "2.5", "1m", "none", "16"];
        assert_eq!(in_order(values.into_iter()), ["1", "2.5", "16", "4k", "1m", "bfq", "none"]);
    }
}
