//! What is due when: numbers in the order of their times, those of one time in the order in which they came.

/// The place of a number that is in no agenda.
pub(super) const NOWHERE: usize = usize::MAX;

/// A binary heap that knows where each number stands. Numbers that several agendas share stand in one of them at most, so that one
/// list of places serves all.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    /// Time, stamp, number.
    heap: Vec<(i64, u64, usize)>,
}

impl Agenda {
    /// The first number, with its time.
    pub(super) fn first(&self) -> Option<(i64, usize)> {
        self.heap.first().map(|(time, _, number)| (*time, *number))
    }

    /// Puts a number to a time, from wherever it stood. Of two with one time that with the lesser stamp is first.
    pub(super) fn put(&mut self, places: &mut [usize], number: usize, time: i64, stamp: u64) {
        let place = match places[number] {
            NOWHERE => {
                self.heap.push((time, stamp, number));
                self.heap.len() - 1
            }
            place => {
                self.heap[place] = (time, stamp, number);
                place
            }
        };
        self.settle(places, place);
    }

    /// Takes a number out, if it is in.
    pub(super) fn remove(&mut self, places: &mut [usize], number: usize) {
        let place = std::mem::replace(&mut places[number], NOWHERE);
        if place == NOWHERE {
            return;
        }
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(places, place);
        }
    }

    /// Moves the entry at `place` up or down until the order holds.
    fn settle(&mut self, places: &mut [usize], mut place: usize) {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.heap.swap(place, (place - 1) / 2);
            places[self.heap[place].2] = place;
            place = (place - 1) / 2;
        }
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[place] < self.heap[least] {
                break;
            }
            self.heap.swap(place, least);
            places[self.heap[place].2] = place;
            place = least;
        }
        places[self.heap[place].2] = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_that_of_a_sorted_list(
            changes in proptest::collection::vec((0_usize..20, proptest::option::of(0_i64..10)), 1..200),
        ) {
            let (mut agenda, mut places) = (Agenda::default(), vec![NOWHERE; 20]);
            let mut list: Vec<(i64, u64, usize)> = Vec::new();
            for (stamp, (number, time)) in (0..).zip(changes) {
                list.retain(|entry| entry.2 != number);
                match time {
                    Some(time) => {
                        agenda.put(&mut places, number, time, stamp);
                        list.push((time, stamp, number));
                    }
                    None => agenda.remove(&mut places, number),
                }
                let first = list.iter().min().map(|(time, _, number)| (*time, *number));
                prop_assert_eq!(agenda.first(), first);
            }
        }
    }
}
