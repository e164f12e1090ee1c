//! Lending: groups that use less than their share leave the rest to those that are short, in proportion, all over the tree.

use super::device::{Device, Moment};
use super::groups::{ROOT, WHOLE};
use super::lenders::{Inner, Lender, Scratch, scale_targets};
use super::trace::{Lent, Trace};

impl Device {
    pub(super) fn add_lender(&mut self, at: usize, target: u32, share: u32) {
        self.scratch.lenders.push(Lender { at, target, share });
    }

    pub(super) fn has_lenders(&self) -> bool {
        !self.scratch.lenders.is_empty()
    }

    pub(super) fn scratch_clear(&mut self) {
        self.scratch.lenders.clear();
    }

    /// Lenders keep their targets, and everybody else's weights keep their proportions.
    pub(super) fn transfer(&mut self, moment: &Moment) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scale_targets(&mut scratch.lenders);
        self.sum_up(&mut scratch);
        self.share_out(&mut scratch);
        for lender in &scratch.lenders {
            if self.groups[lender.at].debt > 0 {
                continue;
            }
            let above = scratch.inner[self.groups[lender.at].parent];
            let inuse = (u128::from(above.children_after) * u128::from(lender.target))
                .div_ceil(u128::from(above.after.max(1)))
                .min(u128::from(u32::MAX)) as u32;
            let (active, before) = (self.groups[lender.at].active, self.groups[lender.at].inuse);
            self.groups.set_weights(lender.at, active, inuse, Some(moment.vtime));
            // The kernel's event says what was asked for; a group uses no more than its weight.
            self.note(Trace::Inuse(Lent::Transfer, lender.at, before, inuse));
        }
        self.scratch = scratch;
    }

    /// Finds the inner groups above lenders, and what lenders below each have and keep.
    fn sum_up(&mut self, scratch: &mut Scratch) {
        scratch.stamp += 1;
        scratch.inner.resize(self.groups.len(), Inner::default());
        scratch.order.clear();
        for lender in &scratch.lenders {
            let path = self.groups.path(lender.at);
            let above = path.iter().copied().filter(|level| *level != lender.at);
            for level in std::iter::once(ROOT).chain(above) {
                let inner = &mut scratch.inner[level];
                if inner.stamp != scratch.stamp {
                    *inner = Inner { stamp: scratch.stamp, ..Inner::default() };
                    scratch.order.push(level);
                }
                inner.lenders += u64::from(lender.share);
                inner.kept += u64::from(lender.target);
            }
        }
        // Parents were added before their children, as groups are.
        scratch.order.sort_unstable();
    }

    fn share_out(&mut self, scratch: &mut Scratch) {
        let whole = u64::from(WHOLE);
        for at in &scratch.order {
            let group = &self.groups[*at];
            let before = match *at {
                ROOT => whole,
                _ => {
                    let sum = self.groups[group.parent].children_active.max(1);
                    (scratch.inner[group.parent].before * u64::from(group.active)).div_ceil(sum)
                }
            };
            let inner = &mut scratch.inner[*at];
            inner.before = before;
            inner.lenders = inner.lenders.min(before);
            inner.kept = inner.kept.min(inner.lenders.saturating_sub(1));
        }
        let root = scratch.inner[ROOT];
        let growth = ((whole - root.kept) * whole).div_ceil(whole - root.lenders.min(whole - 1));
        for at in &scratch.order {
            let group = &self.groups[*at];
            let mut inner = scratch.inner[*at];
            let sum = group.children_active;
            if *at == ROOT {
                inner.after = whole;
                inner.children_after = wide(sum, whole - inner.lenders.min(whole), (whole - inner.kept).max(1));
                scratch.inner[ROOT] = inner;
                continue;
            }
            let above = scratch.inner[group.parent];
            inner.after = (growth * (inner.before - inner.lenders)).div_ceil(whole) + inner.kept;
            inner.weight_after = wide(above.children_after, inner.after, above.after.max(1));
            let before = inner.before.max(1);
            let lenders_children = wide(sum, inner.lenders, before);
            let others_children = sum.saturating_sub(lenders_children);
            let lenders_weight = wide(u64::from(group.active), inner.lenders, before).max(1);
            let kept_weight =
                (u128::from(inner.weight_after) * u128::from(inner.kept) / u128::from(inner.after.max(1))) as u64;
            inner.children_after = others_children + wide(lenders_children, kept_weight, lenders_weight);
            scratch.inner[*at] = inner;
        }
    }
}

/// `value · part / whole`, rounded up.
fn wide(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part)).div_ceil(u128::from(whole)) as u64
}
