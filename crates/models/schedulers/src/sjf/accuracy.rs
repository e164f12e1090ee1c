//! Does the predictor know the order of requests? The running share of pairs that it orders rightly.

/// Completions kept to compare the next one with.
const RECENT: usize = 8;
/// Pairs after which older ones count half.
const HALF_LIFE: u32 = 2048;
/// Latencies that differ by less than a tenth are no pair.
const APART: u64 = 10;
/// Pairs before the share is believed.
const PAIRS_MIN: u32 = 256;
/// Below this share (thousandths) predictions are not used, above the second they are again.
const OFF: u32 = 550;
const ON: u32 = 600;

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairOrder {
    recent: [(u64, u64); RECENT],
    next: usize,
    /// Twice the pairs ordered rightly (a tie of predictions counts half), and the pairs.
    right: u32,
    pairs: u32,
    trusted: bool,
}

impl Default for PairOrder {
    fn default() -> Self {
        PairOrder { recent: [(0, 0); RECENT], next: 0, right: 0, pairs: 0, trusted: true }
    }
}

impl PairOrder {
    /// A request was predicted to take `predicted` ns and took `latency` ns.
    pub(super) fn record(&mut self, predicted: u64, latency: u64) {
        for (other_predicted, other) in self.recent {
            let difference = latency.abs_diff(other);
            if other == 0 || difference.saturating_mul(APART) <= latency.max(other) {
                continue;
            }
            self.pairs += 1;
            self.right += match (predicted.cmp(&other_predicted), latency.cmp(&other)) {
                (std::cmp::Ordering::Equal, _) => 1,
                (a, b) if a == b => 2,
                _ => 0,
            };
        }
        self.recent[self.next] = (predicted, latency.max(1));
        self.next = (self.next + 1) % RECENT;
        if self.pairs >= HALF_LIFE {
            self.pairs /= 2;
            self.right /= 2;
        }
        if self.pairs >= PAIRS_MIN {
            let share = self.share();
            self.trusted = if self.trusted { share >= OFF } else { share > ON };
        }
    }

    /// Share of pairs in the right order, thousandths: 500 is chance.
    pub(super) fn share(&self) -> u32 {
        if self.pairs == 0 { 500 } else { (u64::from(self.right) * 500 / u64::from(self.pairs)) as u32 }
    }

    /// Are predictions worth following?
    pub(super) fn trusted(&self) -> bool {
        self.trusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_found_out_and_knowledge_is_trusted_again() {
        let mut order = PairOrder::default();
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };
        for _ in 0..2000 {
            order.record(draw(), draw() + 1);
        }
        assert!(!order.trusted() && order.share().abs_diff(500) < 50, "{}", order.share());
        for _ in 0..2000 {
            let latency = draw() + 1;
            order.record(latency / 2, latency);
        }
        assert!(order.trusted() && order.share() > 950, "{}", order.share());
        for _ in 0..2000 {
            order.record(7, draw() + 1);
        }
        assert!(!order.trusted(), "equal predictions order nothing: {}", order.share());
    }

    #[test]
    fn equal_latencies_say_nothing() {
        let mut order = PairOrder::default();
        for i in 0..2000 {
            order.record(i, 1_000_000 + i % 2);
        }
        assert!(order.trusted() && order.pairs == 0);
    }
}
