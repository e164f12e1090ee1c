//! Results of applications by scheduler: a table of start-ups and a table of players.

use crate::table::Align;
use dumbwaiter_advise::Document;
use dumbwaiter_advise::Ranking;
use dumbwaiter_measure::{ApplicationStats, PlayerStats, StartUpStats};

/// A table with its title.
pub(crate) struct Applications {
    pub(crate) title: &'static str,
    pub(crate) header: Vec<(&'static str, Align)>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The tables of one ranking, in its order, with the runs of each scheduler pooled; empty without applications.
pub(crate) fn applications(document: &Document, ranking: &Ranking) -> Vec<Applications> {
    let (mut starts, mut players) = (Vec::new(), Vec::new());
    for row in &ranking.rows {
        let runs = document
            .runs
            .iter()
            .filter(|r| (&r.device, &r.variant) == (&ranking.device, &ranking.variant))
            .filter(|r| r.configuration() == (&row.scheduler, &row.via, &row.completion));
        let mut pooled: Vec<(&ApplicationStats, Vec<&ApplicationStats>)> = Vec::new();
        for stats in runs.flat_map(|r| &r.applications) {
            match pooled.iter_mut().find(|(first, _)| (&first.name, &first.tenant) == (&stats.name, &stats.tenant)) {
                Some((_, all)) => all.push(stats),
                None => pooled.push((stats, vec![stats])),
            }
        }
        for (first, all) in pooled {
            let mut line = vec![first.name.clone(), row.name(ranking.axes())];
            let of_start: Vec<&StartUpStats> = all.iter().filter_map(|a| a.start_up.as_ref()).collect();
            let of_player: Vec<&PlayerStats> = all.iter().filter_map(|a| a.player.as_ref()).collect();
            if !of_start.is_empty() {
                line.extend(start_cells(&of_start));
                starts.push(line);
            } else if !of_player.is_empty() {
                line.extend(player_cells(&of_player));
                players.push(line);
            }
        }
    }
    let header = |rest: &[&'static str]| {
        let words = [("application", Align::Left), ("scheduler", Align::Left)];
        words.into_iter().chain(rest.iter().map(|title| (*title, Align::Right))).collect()
    };
    let tables = [
        ("Start-ups", header(&["launched", "mean s", "min s", "max s", "not started"]), starts),
        ("Players", header(&["frames", "dropped %", "worst p99 late ms", "most late ms"]), players),
    ];
    let tables = tables.into_iter().filter(|(.., rows)| !rows.is_empty());
    tables.map(|(title, header, rows)| Applications { title, header, rows }).collect()
}

fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { "–".to_string() }
}

fn start_cells(of: &[&StartUpStats]) -> Vec<String> {
    let times: Vec<f64> = of.iter().flat_map(|s| &s.startup_s).copied().collect();
    let sum = |get: fn(&StartUpStats) -> u64| of.iter().map(|s| get(s)).sum();
    let cut_off: Vec<f64> = of.iter().flat_map(|s| &s.cut_off_s).copied().collect();
    let all = StartUpStats::new(times, sum(|s| s.not_started), cut_off, of[0].timeout_s);
    let mut seconds = [all.mean_s, all.min_s, all.max_s].map(|s| number(s, 2));
    if all.at_least {
        seconds[0].insert_str(0, "≥ ");
    }
    let failed = match all.cut_off {
        0 => all.not_started.to_string(),
        cut_off => format!("{} (+{cut_off} cut off)", all.not_started),
    };
    std::iter::once(all.count.to_string()).chain(seconds).chain([failed]).collect()
}

fn player_cells(of: &[&PlayerStats]) -> Vec<String> {
    let frames: u64 = of.iter().map(|p| p.frames).sum();
    let missed: u64 = of.iter().map(|p| p.missed).sum();
    let worst = |get: fn(&PlayerStats) -> f64| of.iter().map(|p| get(p)).fold(f64::NAN, f64::max) / 1e3;
    let dropped = number(missed as f64 / frames as f64 * 100.0, 1);
    vec![frames.to_string(), dropped, number(worst(|p| p.batch_p99_us), 1), number(worst(|p| p.batch_max_us), 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{compare_text, tests::document};
    use crate::table::Style;
    use dumbwaiter_measure::RunResult;

    #[test]
    fn replicates_are_pooled_and_both_kinds_are_shown() {
        let mut d = document();
        let named = |name: &str| ApplicationStats {
            name: name.into(),
            tenant: "desktop".into(),
            kind: "x".into(),
            start_up: None,
            player: None,
        };
        for run in d.runs.iter_mut().filter(|r| r.device.starts_with("hdd") && r.scheduler == "none") {
            let time = f64::from(run.replicate) + 1.0;
            let start_up = Some(StartUpStats::new(vec![time], 1, vec![], 60.0));
            let player = Some(PlayerStats::new(100, 5, vec![9e3; 100]));
            run.applications.push(ApplicationStats { start_up, ..named("writer") });
            run.applications.push(ApplicationStats { player, ..named("film") });
        }
        let tables = applications(&d, &d.rankings()[0]);
        assert_eq!(tables[0].rows, [["writer", "none", "6", "≥ 31.00", "1.00", "3.00", "3"]]);
        assert_eq!(tables[1].rows, [["film", "none", "300", "5.0", "9.0", "9.0"]]);
        assert!(applications(&d, &d.rankings()[1]).is_empty());
        // The kernel's scheduler of the same name has its own row.
        let kernel: Vec<_> = d.runs.iter().filter(|r| !r.applications.is_empty()).cloned().collect();
        d.runs.extend(kernel.into_iter().take(1).map(|r| RunResult { via: "kernel".into(), ..r }));
        let rows = &applications(&d, &d.rankings()[0])[0].rows;
        let launched: Vec<(&str, &str)> = rows.iter().map(|r| (r[1].as_str(), r[2].as_str())).collect();
        assert_eq!(launched.len(), 2);
        assert!(launched.contains(&("none, kernel", "2")) && launched.iter().any(|l| l.1 == "6"), "{launched:?}");
        let text = compare_text(&d, Style::default());
        assert!(text.contains("not started") && text.contains("film"), "{text}");
        assert!(crate::html(&d).contains("not started"));
    }
}
