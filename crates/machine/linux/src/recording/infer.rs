//! Dispatches, inferred from the order in which the driver took the requests, where no probe records them.
//!
//! The block layer asks the scheduler for a request before it looks for a free tag of the device. With tags free, a
//! request is issued right after it was chosen; with none free, it was chosen as soon as the one before it had been
//! issued (or, had the scheduler nothing then, as soon as it came), and waits.

use crate::recording::rows::Row;

/// Adds a `dispatch` row for each inserted request that was issued.
///
/// The device counts as full when it holds as many requests as it ever held: sysfs does not always show the number of tags in
/// use. A request that arrived while the device was full, and was not issued until one left, waited.
///
/// With several hardware queues it is not known which tags were free; then a dispatch is put right before its issue.
pub(crate) fn with_dispatches(rows: Vec<Row>, hw_queues: u32) -> Vec<Row> {
    let depth = most_at_device(&rows);
    // Behind which row each dispatch goes; usize::MAX is before the first.
    let mut behind: Vec<(usize, usize)> = Vec::new();
    let mut inserted: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
    let mut at_device = 0u32;
    // The last issue, if every tag was in use after it, and the first completion since.
    let (mut full, mut freed) = (None, None);
    for (i, row) in rows.iter().enumerate() {
        match row.event {
            "rq_insert" => {
                inserted.insert(row.req, i);
            }
            "rq_issue" => {
                if let Some(insert) = inserted.remove(&row.req) {
                    let place = match full {
                        // A request that arrived after a tag was free did not wait for one.
                        Some(issue) if hw_queues == 1 && freed.is_none_or(|f| insert < f) => {
                            if insert < issue {
                                issue
                            } else {
                                end_of_batch(&rows, insert)
                            }
                        }
                        _ => i.wrapping_sub(1),
                    };
                    behind.push((place, i));
                }
                at_device += 1;
                full = (at_device >= depth).then_some(i);
                freed = None;
            }
            "rq_complete" | "rq_requeue" if row.req != 0 => {
                at_device = at_device.saturating_sub(1);
                freed = freed.or(Some(i));
                if row.event == "rq_requeue" {
                    inserted.insert(row.req, i);
                }
            }
            _ => {}
        }
    }
    behind.sort_by_key(|(place, issue)| (place.wrapping_add(1), *issue));
    let mut all = Vec::with_capacity(rows.len() + behind.len());
    let mut next = behind.into_iter().peekable();
    let mut add = |all: &mut Vec<Row>, place: usize, at: u64| {
        while let Some((_, issue)) = next.next_if(|(p, _)| *p == place) {
            all.push(Row { at, event: "dispatch", ..rows[issue].clone() });
        }
    };
    add(&mut all, usize::MAX, rows.first().map_or(0, |r| r.at));
    for (i, row) in rows.iter().enumerate() {
        all.push(row.clone());
        add(&mut all, i, row.at);
    }
    all
}

fn most_at_device(rows: &[Row]) -> u32 {
    let (mut now, mut most) = (0u32, 1);
    for row in rows.iter().filter(|r| r.req != 0) {
        match row.event {
            "rq_issue" => now += 1,
            "rq_complete" | "rq_requeue" => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// The last row of a run of insertions: a plug's requests come together, and the scheduler is asked after the last.
fn end_of_batch(rows: &[Row], insert: usize) -> usize {
    insert + rows[insert..].iter().take_while(|r| r.event == "rq_insert").count() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::event::Kind;
    use crate::recording::rows;
    use crate::recording::rows::tests::event;

    fn order(rows: &[Row]) -> Vec<(&'static str, u32)> {
        rows.iter().filter(|r| r.event != "getrq").map(|r| (r.event, r.req)).collect()
    }

    #[test]
    fn with_a_full_device_the_next_is_chosen_when_the_last_went() {
        let (a, b, c) = (8, 16, 24);
        let events = [
            event(0, Kind::Allocated, "R", a, 4),
            event(1, Kind::Allocated, "R", b, 4),
            event(2, Kind::Allocated, "R", c, 4),
            event(3, Kind::Insert, "R", a, 4),
            event(4, Kind::Issue, "R", a, 4),
            // The only tag is in use: one of these is chosen as they come,
            event(5, Kind::Insert, "R", b, 4),
            event(6, Kind::Insert, "R", c, 4),
            event(7, Kind::Complete, "R", a, 4),
            // and the other one when that went.
            event(8, Kind::Issue, "R", b, 4),
            event(9, Kind::Complete, "R", b, 4),
            event(10, Kind::Issue, "R", c, 4),
        ];
        let built = rows::rows(&events);
        let seen = with_dispatches(built.rows, 1);
        let expected = [
            ("rq_insert", 1),
            ("dispatch", 1),
            ("rq_issue", 1),
            ("rq_insert", 2),
            ("rq_insert", 3),
            ("dispatch", 2),
            ("rq_complete", 1),
            ("rq_issue", 2),
            ("dispatch", 3),
            ("rq_complete", 2),
            ("rq_issue", 3),
        ];
        assert_eq!(order(&seen), expected);
        let times: Vec<u64> = seen.iter().map(|r| r.at).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn with_tags_to_spare_a_request_is_chosen_right_before_it_goes() {
        let events = [
            event(0, Kind::Allocated, "R", 8, 4),
            event(1, Kind::Allocated, "R", 16, 4),
            event(2, Kind::Insert, "R", 8, 4),
            event(3, Kind::Insert, "R", 16, 4),
            event(4, Kind::Issue, "R", 16, 4),
            event(5, Kind::Issue, "R", 8, 4),
        ];
        let seen = with_dispatches(rows::rows(&events).rows, 1);
        let expected =
            [("rq_insert", 1), ("rq_insert", 2), ("dispatch", 2), ("rq_issue", 2), ("dispatch", 1), ("rq_issue", 1)];
        assert_eq!(order(&seen), expected);
    }
}
