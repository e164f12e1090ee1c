//! The tables of `suite:isolation`.

use dumbwaiter_advise::{Document, FrontPoint, Isolation, isolation};
use dumbwaiter_measure::latency_text;

use crate::grid::Grid;
use crate::table::{Align, Cells, Style, folded, table};

/// What each controller costs, how well it shares, and the fronts; empty for other results.
pub(crate) fn isolation_text(document: &Document, style: Style) -> String {
    let stacks = isolation(document.suite.as_ref(), &document.runs);
    if stacks.is_empty() {
        return String::new();
    }
    let drawn = |(header, rows): Cells| table(&header, &rows, Style { width: None, ..style });
    let faint = |text: &str| style.faint(&folded(text, style.width, ""));
    let shares = "alone: one read at a time   off by: the part of all bytes that went to the wrong tenant, by weight";
    let front = "first: a tenant with one read at a time, of the others' weight, and of ten times that   *: no other has both a lower p99 \
                 and more throughput   burst: a tenant that works for 50 ms in each 250 ms   throughput: of all, beside none";
    format!("{}{}\n\n{}{}\n\n", drawn(costs(&stacks)), faint(shares), drawn(fronts(&stacks)), faint(front))
}

/// The same as tables of a page.
pub(crate) fn isolation_grids(document: &Document) -> Vec<Grid> {
    let stacks = isolation(document.suite.as_ref(), &document.runs);
    if stacks.is_empty() {
        return Vec::new();
    }
    vec![
        Grid::of("What a controller costs a tenant that is alone, and by how much shares are off", costs(&stacks)),
        Grid::of("What a tenant's latency costs the others (* on the front)", fronts(&stacks)),
    ]
}

fn titled(titles: &[&str]) -> Vec<(String, Align)> {
    let align = |i: usize| if i == 0 { Align::Left } else { Align::Right };
    titles.iter().enumerate().map(|(i, title)| ((*title).to_owned(), align(i))).collect()
}

fn costs(stacks: &[Isolation]) -> Cells {
    let header = titled(&["stack", "alone us", "CPU us", "off by: equal", "sizes", "writes"]);
    let rows = stacks.iter().map(|of| {
        let figure = |value: f64| if value.is_finite() { format!("{value:.1}") } else { "\u{2013}".to_owned() };
        let mut row = vec![short(&of.scheduler), figure(of.alone_mean_us), figure(of.alone_cpu_us)];
        row.extend(of.share_error.map(percent));
        row
    });
    (header, rows.collect())
}

fn fronts(stacks: &[Isolation]) -> Cells {
    let header = titled(&["stack", "first p99", "throughput", "10x p99", "throughput", "burst p99", "throughput"]);
    let mut sorted: Vec<&Isolation> = stacks.iter().collect();
    sorted.sort_by(|a, b| a.front[0].p99_us.total_cmp(&b.front[0].p99_us));
    let rows = sorted.into_iter().map(|of| {
        let point = |at: &FrontPoint| {
            [format!("{}{}", if at.is_on_front { "*" } else { "" }, latency_text(at.p99_us)), percent(at.throughput)]
        };
        let mut row = vec![short(&of.scheduler)];
        row.extend(of.front.iter().flat_map(point));
        row.extend([latency_text(of.burst_p99_us), percent(of.burst_throughput)]);
        row
    });
    (header, rows.collect())
}

/// Two decimals of which both are zero say nothing.
fn short(stack: &str) -> String {
    stack.replace(".00", "")
}

fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.0} %", part * 100.0) } else { "\u{2013}".to_owned() }
}
