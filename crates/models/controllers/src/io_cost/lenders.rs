//! What a transfer works on: the groups that lend, and the inner groups above them.

use super::groups::WHOLE;

/// A group that lends, what it keeps, and its share by weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lender {
    pub(super) at: usize,
    pub(super) target: u32,
    pub(super) share: u32,
}

/// An inner group above lenders. All values are shares of 65536, weights apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inner {
    /// Its share before, and that of lenders below it.
    pub(super) before: u64,
    pub(super) lenders: u64,
    /// What lenders below keep, and its share after.
    pub(super) kept: u64,
    pub(super) after: u64,
    pub(super) weight_after: u64,
    /// Sum of its children's weights after.
    pub(super) children_after: u64,
    /// Not 0: it is part of this transfer.
    pub(super) stamp: u64,
}

/// What a transfer needs, kept for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub(super) lenders: Vec<Lender>,
    pub(super) inner: Vec<Inner>,
    /// Those of this transfer, parents first.
    pub(super) order: Vec<usize>,
    pub(super) stamp: u64,
}

/// Targets may not add up to everything: those above the lenders' shares are lowered.
pub(super) fn scale_targets(lenders: &mut [Lender]) {
    let sum: u64 = lenders.iter().map(|lender| u64::from(lender.target)).sum();
    let most = u64::from(WHOLE) - 1;
    if sum <= most {
        return;
    }
    let above = |lender: &&mut Lender| lender.target > lender.share;
    let over: u64 = lenders.iter_mut().filter(above).map(|lender| u64::from(lender.target)).sum();
    for lender in lenders.iter_mut().filter(above) {
        let left = over.saturating_sub(sum - most);
        lender.target = (u64::from(lender.target) * left / over.max(1)).max(1) as u32;
    }
}
