//! The order in which rows are replayed: that of the events, which differs from that of the rows where a row is late.

use dumbwaiter_block::Nanos;

use crate::recording::{Row, RowKind};

/// An empty call is recorded when its function returns. A completion that interrupts it just before is recorded first, at
/// most this long before it.
const RETURN_DELAY: Nanos = Nanos::from_us(10);

/// The rows in the order of their events, each with its index: an empty call that completions interrupted goes before
/// those, at the time of the first.
pub(crate) fn in_order_of_events(rows: &[Row]) -> Vec<(usize, Row)> {
    let mut ordered: Vec<(usize, Row)> = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let mut row = *row;
        let mut place = ordered.len();
        if row.kind == RowKind::DispatchNone {
            let interrupted_by = |before: &Row| {
                before.kind == RowKind::Complete && before.cpu == row.cpu && row.at.since(before.at) < RETURN_DELAY
            };
            let steps = ordered.iter().rev().take_while(|(_, b)| b.kind == RowKind::Other || interrupted_by(b));
            if let Some((back, at)) =
                steps.enumerate().filter(|(_, (_, b))| interrupted_by(b)).map(|(n, (_, b))| (n, b.at)).last()
            {
                place -= back + 1;
                row.at = at;
            }
        }
        ordered.insert(place, (index, row));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Flags, Ioprio, Op};

    use super::*;

    fn order(rows: &[(u64, RowKind, u16)]) -> Vec<usize> {
        let row = |(us, kind, cpu): &(u64, RowKind, u16)| Row {
            at: Nanos::from_us(*us),
            kind: *kind,
            req: 1,
            sector: 0,
            bytes: 4096,
            op: Op::Read,
            flags: Flags::NONE,
            pid: 1,
            ioprio: Ioprio::DEFAULT,
            cpu: *cpu,
            line: 1,
        };
        let rows: Vec<Row> = rows.iter().map(row).collect();
        let ordered = in_order_of_events(&rows);
        assert!(ordered.is_sorted_by_key(|(_, row)| row.at), "times go up");
        ordered.iter().map(|(index, _)| *index).collect()
    }

    #[test]
    fn an_empty_call_goes_before_the_completions_that_interrupted_it() {
        use RowKind::{Complete, DispatchNone, Insert, Other};
        let (insert, done, none) = ((0, Insert, 0), (3, Complete, 0), (9, DispatchNone, 0));
        assert_eq!(order(&[insert, done, none]), [0, 2, 1]);
        assert_eq!(order(&[insert, done, (4, Complete, 0), (5, Other, 0), none]), [0, 4, 1, 2, 3]);
        assert_eq!(order(&[insert, done, (13, DispatchNone, 0)]), [0, 1, 2], "10 µs later it is another call");
        assert_eq!(order(&[insert, (3, Complete, 1), none]), [0, 1, 2], "on another CPU it interrupts nothing");
        assert_eq!(order(&[done, (5, Insert, 0), none]), [0, 1, 2], "not directly before");
    }
}
