//! The timelines of the manual pages are what these runs give.

use dumbwaiter_block::{Nanos, Setup};

use super::super::{Cfq, Version};
use super::lab::{Client, Lab};
use super::{close, level};

/// A row for each client and a column for each span of time: a letter where it had a request sent, and in the columns
/// that its request was all that the device had.
fn draw(lab: &Lab, from: Nanos, columns: u64, span: Nanos, rows: &[(&str, char)]) -> String {
    let mut text = String::new();
    for (client, (name, letter)) in rows.iter().enumerate() {
        let mut row = vec![' '; columns as usize];
        for pair in lab.sent.windows(2).filter(|p| p[0].client == client) {
            let column = |at: Nanos| at.0.saturating_sub(from.0) / span.0;
            let last = if pair[1].client == client { column(pair[1].at) } else { column(pair[0].at) + 1 };
            if pair[1].at > from {
                (column(pair[0].at)..last.min(columns)).for_each(|c| row[c as usize] = *letter);
            }
        }
        let row: String = row.into_iter().collect();
        text += format!("{name}  {row}").trim_end();
        text.push('\n');
    }
    text
}

fn shown(manual: &str, timeline: &str) {
    println!("{timeline}");
    assert!(manual.contains(timeline), "the manual does not show\n{timeline}");
}

#[test]
fn three_levels_on_a_disk() {
    let mut lab = Lab::disk(|setup| Cfq::new(setup, Version::K318), 1).set("low_latency", 0);
    for (place, p) in [0, 4, 7].into_iter().enumerate() {
        lab.add(Client { ioprio: level(p), sector: Some((place as u64) << 24), ..Client::reader() });
    }
    lab.run(Nanos::from_secs(4));
    let rows = [("level 0", '0'), ("level 4", '4'), ("level 7", '7')];
    let timeline = draw(&lab, Nanos::from_secs(2), 64, Nanos::from_ms(20), &rows);
    shown(include_str!("../../cfq.md"), &timeline);
}

#[test]
fn two_tenants_one_request_at_a_time() {
    let run = |make: fn(Setup) -> Cfq, share: f64| {
        let mut lab = Lab::flash(make).weights(&[200, 100]);
        for tenant in 0..2 {
            lab.add(Client { tenant, sectors: 8, sector: None, think: Nanos::from_us(20), ..Client::reader() });
        }
        lab.run(Nanos::from_secs(16));
        close(lab.shares(Nanos::from_secs(1), |_| 1)[0], share, 0.02, "requests of A");
        draw(&lab, Nanos::from_secs(1), 64, Nanos::from_ms(20), &[("A", 'A'), ("B", 'B')])
    };
    let plain = run(|setup| Cfq::new(setup, Version::K318), 0.5);
    let anticipating = run(Cfq::anticipating, 2.0 / 3.0);
    shown(include_str!("../../a_cfq.md"), &format!("cfq\n{plain}a-cfq\n{anticipating}"));
}
