//! The workloads seen so far, distinguished by their signatures.

use crate::switching::signature::Signature;

/// Most workloads kept; later ones count as the nearest.
pub(crate) const WORKLOADS_MAX: usize = 16;
/// Loads farther apart than this are different.
const RADIUS: f64 = 0.15;
/// A load within this distance still belongs to the last workload.
const RADIUS_KEPT: f64 = 0.22;
/// A workload's centre is the mean of at most this many signatures, so that it follows slow change.
const WEIGHT_MAX: f64 = 64.0;

#[derive(Clone, Copy, Debug)]
struct Known {
    centre: Signature,
    weight: f64,
}

/// The centres of the workloads seen so far.
#[derive(Clone, Debug, Default)]
pub struct KnownWorkloads {
    known: Vec<Known>,
}

impl KnownWorkloads {
    /// The workload of a load after `current`; `None` if it is unlike all known ones. A load between two workloads
    /// keeps the current one.
    pub fn recognise_from(&self, current: Option<usize>, load: &Signature) -> Option<usize> {
        let kept = current.filter(|workload| {
            self.known.get(*workload).is_some_and(|known| known.centre.distance(load) <= RADIUS_KEPT)
        });
        // Change only to one that is much nearer.
        match (kept, self.nearest(load)) {
            (Some(kept), Some((_, distance))) if 2.0 * distance >= self.known[kept].centre.distance(load) => Some(kept),
            _ => self.recognise(load),
        }
    }

    /// The workload of a load; `None` if it is unlike all known ones.
    pub fn recognise(&self, load: &Signature) -> Option<usize> {
        let full = self.known.len() >= WORKLOADS_MAX;
        self.nearest(load).filter(|(_, distance)| full || *distance <= RADIUS).map(|(number, _)| number)
    }

    fn nearest(&self, load: &Signature) -> Option<(usize, f64)> {
        let distances = self.known.iter().map(|known| known.centre.distance(load)).enumerate();
        distances.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Adds a new workload and returns its number; the nearest one if there are too many.
    pub fn add(&mut self, load: Signature) -> usize {
        if self.known.len() >= WORKLOADS_MAX
            && let Some((nearest, _)) = self.nearest(&load)
        {
            return nearest;
        }
        self.known.push(Known { centre: load, weight: 1.0 });
        self.known.len() - 1
    }

    /// A workload's centre, and how many observations it is the mean of.
    pub(crate) fn centre(&self, workload: usize) -> Option<(Signature, f64)> {
        self.known.get(workload).map(|known| (known.centre, known.weight))
    }

    /// Adds a workload that another policy has seen.
    pub(crate) fn restore(&mut self, centre: Signature, weight: f64) {
        self.known.push(Known { centre, weight: weight.min(WEIGHT_MAX) });
    }

    /// Moves the centre of a workload towards a load that was recognised as it.
    pub fn refine(&mut self, workload: usize, load: &Signature) {
        let Some(known) = self.known.get_mut(workload) else { return };
        known.weight = (known.weight + 1.0).min(WEIGHT_MAX);
        for (centre, part) in known.centre.parts.iter_mut().zip(&load.parts) {
            *centre += (part - *centre) / known.weight;
        }
    }

    /// Whether two loads are of one workload.
    pub fn alike(a: &Signature, b: &Signature) -> bool {
        a.distance(b) <= RADIUS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sequential: f64, write: f64) -> Signature {
        Signature::of([sequential, write, 0.25, 0.5])
    }

    #[test]
    fn a_load_far_from_all_is_unknown_until_it_is_added() {
        let mut known = KnownWorkloads::default();
        assert_eq!(known.recognise(&load(1.0, 0.0)), None);
        assert_eq!(known.add(load(1.0, 0.0)), 0);
        assert_eq!(known.recognise(&load(0.95, 0.05)), Some(0));
        assert_eq!(known.recognise(&load(0.5, 0.0)), None);
        assert_eq!(known.add(load(0.5, 0.0)), 1);
        assert_eq!(known.recognise(&load(0.6, 0.0)), Some(1));
    }

    #[test]
    fn no_more_than_the_limit_are_remembered() {
        let mut known = KnownWorkloads::default();
        for i in 0..100 {
            known.add(load(f64::from(i), 0.0));
        }
        assert_eq!(known.known.len(), WORKLOADS_MAX);
        assert_eq!(known.recognise(&load(1000.0, 0.0)), Some(WORKLOADS_MAX - 1));
    }

    #[test]
    fn a_centre_follows_slow_change() {
        let mut known = KnownWorkloads::default();
        known.add(load(0.0, 0.0));
        for i in 0..4000 {
            let now = load(f64::from(i) / 4000.0, 0.0);
            let Some(0) = known.recognise(&now) else { panic!("lost at {i}") };
            known.refine(0, &now);
        }
    }
}
