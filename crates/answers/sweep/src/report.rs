//! The page of a sweep: lines, heat maps and tables of one figure by one axis.

use std::path::Path;

use dumbwaiter_report::{Grid, HeatMap, Page, PageSection, Plot, PlotLine};

use crate::plotted::{axis_label, in_order};
use crate::{Error, Plotted};

/// Writes a page: for each facet the lines, a heat map where there are several, and a table of all means with their confidence.
/// `axes`: the columns of x, of y and of the lines, which is empty where there is one line.
pub fn write_report(title: &str, points: &[Plotted], axes: [&str; 3], path: &Path) -> Result<(), Error> {
    let facets = in_order(points.iter().map(|point| point.facet.as_str()));
    let of = |facet: &String| points.iter().filter(|point| point.facet == *facet).collect::<Vec<_>>();
    let sections = facets.iter().map(|facet| Section::new(of(facet), axes).page_section(facet)).collect();
    let page = Page { title: title.to_owned(), sections };
    let results = serde_json::to_value(points).map_err(|e| Error::input(e.to_string()))?;
    page.write(&results, path).map_err(|e| Error::input(e.to_string()))
}

/// The points of a facet, by line and place.
struct Section<'a> {
    axes: [&'a str; 3],
    lines: Vec<String>,
    places: Vec<String>,
    points: Vec<&'a Plotted>,
}

impl<'a> Section<'a> {
    fn new(points: Vec<&'a Plotted>, axes: [&'a str; 3]) -> Section<'a> {
        let lines = in_order(points.iter().map(|point| point.by.as_str()));
        let places = in_order(points.iter().map(|point| point.x.as_str()));
        Section { axes, lines, places, points }
    }

    /// The points of a line, one for each place.
    fn line(&self, line: &str) -> impl Iterator<Item = Option<&'a Plotted>> {
        let own: Vec<&Plotted> = self.points.iter().copied().filter(|point| point.by == line).collect();
        self.places.iter().map(move |place| own.iter().copied().find(|point| point.x == *place))
    }

    /// A text for each point, line by line; empty where there is none.
    fn texts(&self, of: impl Fn(&Plotted) -> String) -> Vec<Vec<String>> {
        let line = |name: &String| self.line(name).map(|point| point.map_or_else(String::new, &of)).collect();
        self.lines.iter().map(line).collect()
    }

    fn means(&self, line: &str) -> Vec<f64> {
        self.line(line).map(|point| point.map_or(f64::NAN, |point| point.mean)).collect()
    }

    fn page_section(&self, facet: &str) -> PageSection {
        let [x, y, by] = self.axes;
        let title = format!("{y} by {x}");
        let plot = Plot {
            title: title.clone(),
            x: axis_label(x),
            y: axis_label(y),
            lines: self.lines.iter().map(|name| self.plot_line(name)).collect(),
        };
        let map = HeatMap {
            title: format!("{y} by {x} and {by}"),
            x: axis_label(x),
            y: axis_label(by),
            columns: self.places.clone(),
            rows: self.lines.clone(),
            values: self.lines.iter().map(|name| self.means(name)).collect(),
            labels: self.texts(|point| number(point.mean)),
            notes: self.texts(noted),
        };
        let is_plane = self.lines.len() > 1 && self.places.len() > 1;
        PageSection {
            title: if facet.is_empty() { title } else { facet.to_owned() },
            notes: vec!["Means over the runs of each point, with their 95 % confidence intervals.".into()],
            tables: vec![self.table()],
            plots: vec![plot],
            maps: if is_plane { vec![map] } else { Vec::new() },
        }
    }

    fn plot_line(&self, name: &str) -> PlotLine {
        PlotLine {
            name: if name.is_empty() { self.axes[1].to_owned() } else { name.to_owned() },
            x: self.places.clone(),
            y: self.means(name),
            ci95: self.line(name).map(|point| point.and_then(|point| point.ci95)).collect(),
        }
    }

    fn table(&self) -> Grid {
        let [x, y, by] = self.axes;
        let header = std::iter::once(if by.is_empty() { y } else { by }.to_owned()).chain(self.places.iter().cloned());
        let row = |name: &String| {
            let title = if name.is_empty() { y } else { name };
            let cells = self.line(name).map(|point| point.map_or_else(String::new, shown));
            std::iter::once(title.to_owned()).chain(cells).collect()
        };
        Grid { title: format!("{y} by {x}"), header: header.collect(), rows: self.lines.iter().map(row).collect() }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// A mean and its confidence, with four digits.
fn shown(point: &Plotted) -> String {
    match point.ci95 {
        Some([low, high]) => format!("{} ({}–{})", number(point.mean), number(low), number(high)),
        None => number(point.mean),
    }
}

/// As [`shown`], with the number of runs.
fn noted(point: &Plotted) -> String {
    format!("{}, {} runs", shown(point), point.n)
}
