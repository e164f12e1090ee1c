//! Pages of tables and plots beyond a single comparison.

use super::palette::look;
use super::{in_script, render};
use crate::file::{Error, write_file};
use crate::grid::Grid;
use minijinja::value::Serde;
use minijinja::{Value as Shown, context};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// A page.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// Its parts, from top to bottom.
    pub sections: Vec<PageSection>,
}

/// One part of a page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageSection {
    /// Its heading.
    pub title: String,
    /// Paragraphs below the heading.
    pub notes: Vec<String>,
    /// Tables.
    pub tables: Vec<Grid>,
    /// Plots; lines of the same name have the same style within a section.
    pub plots: Vec<Plot>,
    /// Heat maps.
    pub maps: Vec<HeatMap>,
}

/// Lines over a common axis. Values that are not finite are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// Label of the horizontal axis, on which the values of `x` are equally spaced, in the order of the first line.
    pub x: String,
    /// Label of the vertical axis, with its unit.
    pub y: String,
    /// The lines.
    pub lines: Vec<PlotLine>,
}

/// One line of a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlotLine {
    /// Its name.
    pub name: String,
    /// Values on the horizontal axis, such as numbers of threads.
    pub x: Vec<String>,
    /// Values on the vertical axis.
    pub y: Vec<f64>,
    /// Their 95 % confidence intervals, drawn as error bars. None at all, or one for each value.
    pub ci95: Vec<Option<[f64; 2]>>,
}

/// A figure over two axes, as colours. Values that are not finite leave their cell empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatMap {
    /// Its title.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// Values on the horizontal axis, from left to right.
    pub columns: Vec<String>,
    /// Values on the vertical axis, from top to bottom.
    pub rows: Vec<String>,
    /// The figure, row by row.
    pub values: Vec<Vec<f64>>,
    /// Texts of the cells, row by row.
    pub labels: Vec<Vec<String>>,
    /// Texts shown where a pointer rests on a cell, row by row.
    pub notes: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct Swatch {
    name: String,
    colour: &'static str,
    dash: &'static str,
}

#[derive(Serialize)]
struct PlotView {
    id: String,
    title: String,
}

#[derive(Serialize)]
struct SectionView<'a> {
    title: &'a str,
    notes: &'a [String],
    tables: &'a [Grid],
    legend: Vec<Swatch>,
    plots: Vec<PlotView>,
}

impl Page {
    /// The page as one self-contained HTML file. `results` are offered for download as JSON.
    pub fn html(&self, results: &Value) -> String {
        let mut specs = serde_json::Map::new();
        let sections: Vec<SectionView> =
            self.sections.iter().enumerate().map(|(i, s)| section(s, i, &mut specs)).collect();
        render(
            "page.html",
            include_str!("../../templates/page.html"),
            context! {
                title => &self.title,
                sections => Shown::from(Serde(&sections)),
                specs => Shown::from_safe_string(in_script(&Value::Object(specs).to_string())),
                results => Shown::from_safe_string(in_script(&results.to_string())),
            },
        )
    }

    /// Writes the page to a file, completely or not at all.
    pub fn write(&self, results: &Value, path: &Path) -> Result<(), Error> {
        write_file(path, |out| out.write_all(self.html(results).as_bytes()))
    }
}

fn section<'a>(of: &'a PageSection, number: usize, specs: &mut serde_json::Map<String, Value>) -> SectionView<'a> {
    let mut names: Vec<&str> = Vec::new();
    for line in of.plots.iter().flat_map(|p| &p.lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    let looks: Vec<_> = names.iter().enumerate().map(|(i, name)| look(i, name)).collect();
    let mut plots = Vec::new();
    for (i, plot) in of.plots.iter().enumerate() {
        let id = format!("plot-{number}-{i}");
        let data: Vec<Value> = plot
            .lines
            .iter()
            .filter_map(|line| {
                let look = looks.iter().find(|l| l.scheduler == line.name)?;
                Some(json!({
                    "type": "scatter", "mode": "lines+markers", "name": line.name,
                    "x": line.x, "y": line.y, "error_y": error_bars(line),
                    "line": {"color": look.colour, "dash": look.dash, "width": 2},
                    "marker": {"symbol": look.marker, "size": 7}, "hovertemplate": "%{x}: %{y:.5g}",
                }))
            })
            .collect();
        let scale = match is_wide(plot.lines.iter().flat_map(|line| &line.y)) {
            true => json!({"title": {"text": format!("{} (logarithmic)", plot.y)}, "type": "log"}),
            false => json!({"title": {"text": plot.y}, "rangemode": "tozero"}),
        };
        let layout = json!({"xaxis": {"title": {"text": plot.x}, "type": "category"}, "yaxis": scale});
        specs.insert(id.clone(), json!({"data": data, "layout": layout}));
        plots.push(PlotView { id, title: plot.title.clone() });
    }
    for (i, map) in of.maps.iter().enumerate() {
        let id = format!("map-{number}-{i}");
        specs.insert(id.clone(), heat_map(map));
        plots.push(PlotView { id, title: map.title.clone() });
    }
    let swatch = |l: &super::palette::Look| Swatch { name: l.scheduler.clone(), colour: l.colour, dash: l.dash_svg };
    SectionView {
        title: &of.title,
        notes: &of.notes,
        tables: &of.tables,
        legend: looks.iter().map(swatch).collect(),
        plots,
    }
}

/// The ratio of the greatest to the least value from which on a scale is logarithmic: the small ones would look alike.
const WIDE: f64 = 100.0;

fn is_wide<'a>(values: impl Iterator<Item = &'a f64>) -> bool {
    let finite = values.copied().filter(|value| value.is_finite());
    let (least, greatest) = finite.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), value| (a.min(value), b.max(value)));
    least > 0.0 && greatest >= WIDE * least
}

/// The lengths of a line's error bars; null where it has none.
fn error_bars(line: &PlotLine) -> Value {
    if line.ci95.iter().all(Option::is_none) {
        return Value::Null;
    }
    let ends = || line.y.iter().zip(&line.ci95);
    let above: Vec<Option<f64>> = ends().map(|(y, ci)| ci.map(|[_, high]| high - y)).collect();
    let below: Vec<Option<f64>> = ends().map(|(y, ci)| ci.map(|[low, _]| y - low)).collect();
    json!({"type": "data", "symmetric": false, "array": above, "arrayminus": below, "thickness": 1, "width": 3})
}

/// From a pale to a strong blue, on a light and on a dark page, behind text of the page's colour.
const MAP_COLOURS: [(f64, &str); 2] = [(0.0, "#0072b218"), (1.0, "#0072b2b8")];

fn heat_map(map: &HeatMap) -> Value {
    let is_wide = is_wide(map.values.iter().flatten());
    let strength = |value: &f64| if is_wide { value.log10() } else { *value };
    let strengths: Vec<Vec<f64>> = map.values.iter().map(|row| row.iter().map(strength).collect()).collect();
    let data = json!({
        "type": "heatmap", "x": map.columns, "y": map.rows, "z": strengths, "text": map.labels, "texttemplate": "%{text}",
        "customdata": map.notes, "hovertemplate": "%{y}, %{x}: %{customdata}<extra></extra>", "hoverongaps": false,
        "colorscale": MAP_COLOURS, "xgap": 2, "ygap": 2, "showscale": false, "meta": "text-font",
    });
    let layout = json!({
        "xaxis": {"title": {"text": map.x}, "type": "category", "showgrid": false},
        "yaxis": {"title": {"text": map.y}, "type": "category", "showgrid": false, "autorange": "reversed"},
    });
    json!({"data": [data], "layout": layout})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_very_different_size_have_a_logarithmic_scale() {
        assert!(is_wide([1.0, f64::NAN, 100.0].iter()));
        for other in [[1.0, 2.0, 99.0], [0.0, 1.0, 100.0], [-1.0, 1.0, 100.0], [f64::NAN; 3]] {
            assert!(!is_wide(other.iter()), "{other:?}");
        }
    }

    #[test]
    fn a_page_holds_its_tables_and_plots_and_escapes_names() {
        let line = PlotLine {
            name: "</script><b>".into(),
            x: vec!["1".into(), "2".into()],
            y: vec![3.5, f64::NAN],
            ci95: vec![Some([3.0, 5.0]), None],
        };
        let map = HeatMap {
            title: "m".into(),
            x: "depth".into(),
            y: "scheduler".into(),
            columns: vec!["1".into(), "2".into()],
            rows: vec!["<none>".into()],
            values: vec![vec![1.5, f64::NAN]],
            labels: vec![vec!["1.5".into(), String::new()]],
            notes: vec![vec!["1.5 (1–2), 3 runs".into(), String::new()]],
        };
        let page = Page {
            title: "a < b".into(),
            sections: vec![PageSection {
                title: "one".into(),
                notes: vec!["said".into()],
                tables: vec![Grid { title: "t".into(), header: vec!["h".into()], rows: vec![vec!["cell".into()]] }],
                plots: vec![Plot { title: "p".into(), x: "threads".into(), y: "K IOPS".into(), lines: vec![line] }],
                maps: vec![map],
            }],
        };
        let html = page.html(&json!({"rows": ["<end>"]}));
        for part in [
            "a &lt; b",
            ">cell<",
            "plot-0-0",
            "K IOPS",
            "said",
            "map-0-0",
            r#""array":[1.5,null],"arrayminus":[0.5,null]"#,
            r#""z":[[1.5,null]]"#,
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("</script><b>") && !html.contains("<end>"));
    }
}
