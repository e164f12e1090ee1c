//! What an I/O behind io.max costs: no allocation, and no more for many groups than for few.

use std::time::{Duration, Instant};

use dumbwaiter_block::{Dir, Nanos};
use dumbwaiter_controllers::io_max::{Bio, DEVICE, Groups, Rates, Release};
use dumbwaiter_controllers::kernel_timer::Jiffies;
use dumbwaiter_testkit::allocations::allocations;

/// Groups that have an I/O that waits each, in parts of ten.
struct Crowd {
    groups: Groups,
    now: Nanos,
    first: usize,
    members: usize,
    gone: Vec<u64>,
}

impl Crowd {
    fn new(release: Release, members: usize) -> Crowd {
        let rates = |ios| [Rates { bytes: Some(1 << 40), ios: Some(ios) }; 2];
        let mut groups = Groups::new(release, Jiffies::default());
        let parts: Vec<usize> = (0..members / 10).map(|_| groups.add(DEVICE, rates(100))).collect();
        let first = groups.count();
        (0..members).for_each(|member| _ = groups.add(parts[member / 10], rates(20)));
        Crowd { groups, now: Nanos::ZERO, first, members, gone: Vec::new() }
    }

    fn submit(&mut self, group: u64) -> bool {
        let bio = Bio { token: group, bytes: 4096, ..Bio::default() };
        self.groups.submit(group as usize, Dir::Read, bio, self.now)
    }

    /// Each group submits until it waits; then I/Os go, and each is followed by another. How many went.
    fn run(&mut self, ios: usize) -> usize {
        for group in self.first..self.first + self.members {
            while self.submit(group as u64) {}
        }
        let mut went = 0;
        while went < ios {
            self.now = self.groups.timer().unwrap();
            self.groups.tick(self.now, &mut |bio| self.gone.push(bio.token));
            while let Some(group) = self.gone.pop() {
                went += 1;
                while self.submit(group) {
                    went += 1;
                }
            }
        }
        went
    }
}

#[test]
fn an_io_allocates_nothing() {
    for release in [Release::V6_12, Release::V6_18] {
        let mut crowd = Crowd::new(release, 1_000);
        crowd.run(50_000);
        let before = allocations();
        let went = crowd.run(50_000);
        assert!(went >= 50_000 && allocations() - before < 10, "{release:?}: {} allocations", allocations() - before);
    }
}

#[test]
fn an_io_costs_no_more_among_thousands_of_groups() {
    let time = |members| -> Duration {
        let mut crowd = Crowd::new(Release::V6_18, members);
        crowd.run(20_000);
        let runs = (0..5).map(|_| {
            let begin = Instant::now();
            crowd.run(20_000);
            begin.elapsed()
        });
        runs.min().unwrap_or_default()
    };
    let [few, many] = [time(10), time(4_000)];
    // A look at each group for an I/O would take tens of times as long; a heap is a few levels deeper, and out of the cache on a busy machine.
    assert!(many < few * 8, "20,000 I/Os of 10 groups: {few:?}, of 4,000: {many:?}");
}
