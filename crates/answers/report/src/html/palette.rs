//! One line style per scheduler: a colour, and a dash and a marker for colour-blind readers. The colours are those of
//! Okabe and Ito, which stay distinct for colour-blind readers on white and on black, without yellow and black, which
//! each vanish on one of the two.

use std::collections::BTreeSet;

use dumbwaiter_advise::Axes;
use dumbwaiter_advise::Document;

pub(super) const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"];
/// Plotly's name of a dash, and the same for SVG.
const DASHES: [(&str, &str); 5] =
    [("solid", ""), ("dash", "7 4"), ("dot", "2 3"), ("dashdot", "7 3 2 3"), ("longdash", "11 4")];
const MARKERS: [&str; 6] = ["circle", "square", "diamond", "triangle-up", "cross", "x"];

/// The line style of a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) scheduler: String,
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
    pub(super) dash_svg: &'static str,
    pub(super) marker: &'static str,
}

/// Style number `i`. Colours, dashes and markers repeat at different counts, so 35 styles are distinct.
pub(super) fn look(i: usize, name: &str) -> Look {
    let (dash, dash_svg) = DASHES[i % DASHES.len()];
    Look {
        scheduler: name.to_string(),
        colour: COLOURS[i % COLOURS.len()],
        dash,
        dash_svg,
        marker: MARKERS[i % MARKERS.len()],
    }
}

/// The style of every scheduler (with block layer and completion method) of a document, in order of appearance.
pub(super) fn looks(document: &Document) -> Vec<Look> {
    let (axes, mut seen, mut looks) = (axes(document), BTreeSet::new(), Vec::new());
    for run in &document.runs {
        if seen.insert(run.configuration()) {
            looks.push(look(looks.len(), &label(axes, run.configuration())));
        }
    }
    looks
}

/// What varies beside the scheduler.
pub(super) fn axes(document: &Document) -> Axes {
    Axes::of(document.runs.iter().map(|r| (r.via.as_str(), r.completion.as_str())))
}

/// The name of a scheduler, with its block layer and completion method if the document has several.
pub(super) fn label(axes: Axes, (scheduler, via, completion): (&str, &str, &str)) -> String {
    axes.name(scheduler, via, completion)
}
