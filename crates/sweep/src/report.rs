//! Lines of a sweep's results: one figure by one axis.

use std::collections::BTreeMap;
use std::path::Path;

use dumbwaiter_measure::Sample;
use dumbwaiter_report::{Grid, Page, PageSection, Plot, PlotLine};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
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

/// A value of a table as text; `None` for a missing one.
fn text(field: &Field) -> Option<String> {
    match field {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Reads `folder` and joins the runs of each point. Runs that failed are left out.
pub fn plotted(folder: &Path, x: &str, y: &str, by: Option<&str>, facet: Option<&str>) -> Result<Vec<Plotted>, Error> {
    let mut points: BTreeMap<(String, String, Position), Vec<f64>> = BTreeMap::new();
    let parts = Folder::parts(folder)?;
    if parts.is_empty() {
        let folder = folder.display().to_string();
        return Err(Error::Folder { folder, reason: "has no results of a sweep; expected the folder of one".into() });
    }
    for part in parts {
        let damaged =
            |e: parquet::errors::ParquetError| Error::Part { path: part.display().to_string(), reason: e.to_string() };
        let file = std::fs::File::open(&part).map_err(|source| Error::File { path: part.clone(), source })?;
        let reader = SerializedFileReader::new(file).map_err(damaged)?;
        let schema = reader.metadata().file_metadata().schema();
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        for name in [Some(x), Some(y), by, facet].into_iter().flatten() {
            if !names.contains(&name) {
                return Err(Error::input(format!("{name:?} is no column; expected one of {}", names.join(", "))));
            }
        }
        for row in reader.get_row_iter(None).map_err(damaged)? {
            let row = row.map_err(damaged)?;
            let value = |name: &str| row.get_column_iter().find(|(column, _)| *column == name).map(|(_, field)| field);
            let named = |name: Option<&str>| name.and_then(value).and_then(text).unwrap_or_default();
            let figure = match value(y) {
                Some(Field::Double(value)) => *value,
                Some(Field::Long(value)) => *value as f64,
                Some(Field::Null) | None => continue,
                Some(_) => return Err(Error::input(format!("{y:?} is text; expected a column of numbers"))),
            };
            let key = (named(facet), named(by), Position::of(named(Some(x))));
            points.entry(key).or_default().push(figure);
        }
    }
    let point = |((facet, by, x), mut values): ((String, String, Position), Vec<f64>)| {
        // The order of the parts is that of their names; a mean must not depend on it.
        values.sort_by(f64::total_cmp);
        let sample = Sample::of(&values);
        Plotted { facet, by, x: x.text, mean: sample.mean, ci95: sample.interval95(), n: values.len() }
    };
    Ok(points.into_iter().map(point).collect())
}

/// A place on the horizontal axis: numbers by size, then words by the alphabet.
#[derive(Clone, Debug)]
struct Position {
    number: f64,
    text: String,
}

impl Position {
    fn of(text: String) -> Position {
        let size = number_of(&text);
        Position { number: size.unwrap_or(f64::INFINITY), text }
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

/// Writes a page: for each facet the lines, and a table of all means with their confidence.
pub fn write_report(title: &str, points: &[Plotted], axes: [&str; 3], path: &Path) -> Result<(), Error> {
    let [x, y, by] = axes;
    let mut facets: BTreeMap<&str, Vec<&Plotted>> = BTreeMap::new();
    for point in points {
        facets.entry(&point.facet).or_default().push(point);
    }
    let sections = facets.into_iter().map(|(facet, points)| section(facet, &points, x, y, by)).collect();
    let page = Page { title: title.to_owned(), sections };
    let results = serde_json::to_value(points).map_err(|e| Error::input(e.to_string()))?;
    page.write(&results, path).map_err(|e| Error::input(e.to_string()))
}

fn section(facet: &str, points: &[&Plotted], x: &str, y: &str, by: &str) -> PageSection {
    let mut lines: BTreeMap<&str, Vec<&Plotted>> = BTreeMap::new();
    for point in points {
        lines.entry(&point.by).or_default().push(point);
    }
    let mut places: Vec<Position> = points.iter().map(|point| Position::of(point.x.clone())).collect();
    places.sort();
    places.dedup();
    let header =
        std::iter::once(if by.is_empty() { y } else { by }.to_owned()).chain(places.iter().map(|p| p.text.clone()));
    let mean = |points: &[&Plotted], place: &Position| {
        points.iter().find(|point| point.x == place.text).map_or_else(String::new, |point| told(point))
    };
    let row = |(name, points): (&&str, &Vec<&Plotted>)| {
        let name = if name.is_empty() { y } else { name };
        std::iter::once(name.to_owned()).chain(places.iter().map(|place| mean(points, place))).collect()
    };
    let table = Grid { title: format!("{y} by {x}"), header: header.collect(), rows: lines.iter().map(row).collect() };
    let numeric = places.iter().all(|place| place.number.is_finite());
    let line = |(name, points): (&&str, &Vec<&Plotted>)| PlotLine {
        name: (*name).to_owned(),
        x: points.iter().map(|point| Position::of(point.x.clone()).number).collect(),
        y: points.iter().map(|point| point.mean).collect(),
    };
    let plot = Plot {
        title: format!("{y} by {x}"),
        x: x.to_owned(),
        y: y.to_owned(),
        lines: lines.iter().map(line).collect(),
    };
    PageSection {
        title: if facet.is_empty() { format!("{y} by {x}") } else { facet.to_owned() },
        notes: vec!["Means over the runs of each point, with their 95 % confidence intervals.".into()],
        tables: vec![table],
        plots: if numeric { vec![plot] } else { Vec::new() },
    }
}

/// A mean and its confidence, with four digits.
fn told(point: &Plotted) -> String {
    let number = |value: f64| match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    match point.ci95 {
        Some([low, high]) => format!("{} ({}–{})", number(point.mean), number(low), number(high)),
        None => number(point.mean),
    }
}
