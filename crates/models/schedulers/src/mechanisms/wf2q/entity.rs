//! Leaves and groups.

/// Handle of an [`Entity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityId(pub u32);

impl EntityId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Handle of the root (0) or of a group's inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root.
    pub const ROOT: NodeId = NodeId(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Classes, served in strict order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Before all others.
    Realtime,
    /// The usual one.
    #[default]
    BestEffort,
    /// After all others.
    Idle,
}

impl Class {
    /// In order of service.
    pub const ALL: [Class; 3] = [Class::Realtime, Class::BestEffort, Class::Idle];
}

/// Where an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Nowhere,
    Active,
    Idle,
}

/// A leaf or a group.
#[derive(Clone, Debug)]
pub struct Entity {
    /// Virtual start, in sectors × 2²² ÷ weight; wraps.
    pub start: u64,
    /// Virtual finish.
    pub finish: u64,
    /// Sectors it may use in its next or current slot.
    pub budget: u64,
    /// Sectors charged in the current slot.
    pub used: u64,
    /// Weight in force: base × raise.
    pub weight: u64,
    /// Configured weight in force.
    pub base_weight: u32,
    /// Configured weight asked for.
    pub wanted_weight: u32,
    /// Raise coefficient asked for.
    pub raise: u32,
    /// Class in force.
    pub class: Class,
    /// Class asked for.
    pub wanted_class: Class,
    /// The node it is a child of.
    pub node: NodeId,
    /// The caller's number.
    pub owner: u32,
    pub(super) dirty: bool,
    pub(super) place: Membership,
    /// Its weight is part of its class's sum.
    pub(super) known: bool,
    pub(super) inside: Option<NodeId>,
    /// Neighbours in the list of active leaves.
    pub(super) older: Option<EntityId>,
    pub(super) newer: Option<EntityId>,
}

impl Entity {
    pub(super) fn new(node: NodeId, owner: u32, weight: u32, class: Class) -> Entity {
        Entity {
            start: 0,
            finish: 0,
            budget: 0,
            used: 0,
            weight: u64::from(weight),
            base_weight: weight,
            wanted_weight: weight,
            raise: 1,
            class,
            wanted_class: class,
            node,
            owner,
            dirty: false,
            place: Membership::Nowhere,
            known: false,
            inside: None,
            older: None,
            newer: None,
        }
    }

    /// Sectors left of the budget.
    pub fn left(&self) -> u64 {
        self.budget.saturating_sub(self.used)
    }

    /// Is it known to its node: active, in service or remembered?
    pub fn known(&self) -> bool {
        self.known
    }
}
