//! B-WF2Q+: fair queueing in proportion to weights.
//!
//! *Leaves* (queues of requests) and *groups* (which hold leaves and groups) are [`Entity`]s of a [`ServiceTree`].
//! A leaf is served for a *slot* of up to `budget` sectors. Virtual time `V` of a node advances by sectors ÷ the sum of
//! its children's weights; each child has a virtual start `S` and finish `F = S + budget ÷ weight`. Among those with
//! `S` not later than `V` the smallest `F` is served next. No clock is involved, so shares hold at any device speed
//! and for any budgets; a child lags behind its ideal share by at most its own budget and a share of the largest.
//!
//! A child that runs dry is remembered on an idle tree until `V` passes its finish, so that it cannot gain by leaving
//! and coming back; one that returns soon after running dry may be [`ServiceTree::activate`]d *back-shifted*, as if it
//! had not left. Groups act as a leaf whose budget is that of their own next child.
//!
//! Parts: [`entity`] holds the state, `members` adds and removes, `places` keeps each on its tree, `walk` moves along the path to the
//! root, `select` chooses.
//!
//! Source: Valente, Andreolini 2012 (BFQ) with the hierarchy of Linux 6.12. All operations are O(depth · log n).

pub mod entity;
mod members;
mod places;
mod select;
mod walk;

#[cfg(test)]
mod tests;

pub use entity::{Class, Entity, EntityId, NodeId};

use super::ordered::{Tree, TreeArena, later};

/// The longest time without service of the idle class, in ms.
const IDLE_CLASS_PERIOD_MS: u64 = 200;

/// `service` sectors in virtual time, for a weight.
pub(crate) fn span(service: u64, weight: u64) -> u64 {
    if service < 1 << 42 {
        (service << 22) / weight.max(1)
    } else {
        ((u128::from(service) << 22) / u128::from(weight.max(1))) as u64
    }
}

/// One class of one node.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    active: Tree,
    idle: Tree,
    /// Virtual time.
    v: u64,
    /// Weights of all that are active, in service, or remembered.
    weights: u64,
}

/// The root, or the inside of a group.
#[derive(Clone, Debug)]
struct Node {
    sets: [Set; 3],
    serving: Option<EntityId>,
    next: Option<EntityId>,
    /// Tick at which the idle class was last considered.
    idle_mark: Option<i64>,
    /// The group this is the inside of.
    group: Option<EntityId>,
    /// Children on active trees.
    active: u32,
}

/// Which departures from ideal WF2Q+ are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Keep a cached candidate that need not be the best (Linux mainline), instead of a search at each change.
    pub cached_next: bool,
    /// Take the earliest finish of all eligible; otherwise as the kernel's search does, one that need not be it.
    pub exact_search: bool,
    /// A group in service that is repositioned in mid-slot pays for the same service again at its next requeue.
    pub group_double_charge: bool,
    /// The idle class is served every 200 ms.
    pub idle_class_look_in: bool,
    /// Only when a leaf is selected, and the period restarts only when a leaf of the idle class was found.
    pub look_in_at_selection: bool,
}

impl Options {
    /// As Linux 6.12 does it.
    pub const MAINLINE: Options = Options {
        cached_next: true,
        exact_search: false,
        group_double_charge: true,
        idle_class_look_in: true,
        look_in_at_selection: false,
    };
    /// As in the paper.
    pub const IDEAL: Options = Options {
        cached_next: false,
        exact_search: true,
        group_double_charge: false,
        idle_class_look_in: false,
        look_in_at_selection: false,
    };
}

/// Nested entities, the leaf in service, and the service due to each.
#[derive(Clone, Debug)]
pub struct ServiceTree {
    options: Options,
    forest: TreeArena<u64, u64>,
    entities: Vec<Entity>,
    free: Vec<EntityId>,
    nodes: Vec<Node>,
    free_nodes: Vec<NodeId>,
    /// Leaves whose effective weight changed since the last [`ServiceTree::take_reweighed`].
    reweighed: Vec<(EntityId, u64)>,
    /// The coarse clock's tick, set before each call that may select.
    tick: i64,
    look_in_ticks: i64,
    /// Active leaves, newest first.
    newest: Option<EntityId>,
}

impl ServiceTree {
    /// An empty tree. `hz` is the rate of the ticks handed to [`ServiceTree::at_tick`].
    pub fn new(options: Options, hz: u64) -> ServiceTree {
        ServiceTree {
            options,
            forest: TreeArena::default(),
            entities: Vec::new(),
            free: Vec::new(),
            nodes: vec![Node::new(None, 0)],
            free_nodes: Vec::new(),
            reweighed: Vec::new(),
            tick: 0,
            look_in_ticks: (hz * IDLE_CLASS_PERIOD_MS / 1000) as i64,
            newest: None,
        }
    }

    /// The same with virtual time starting at `v`: for tests of wrapping.
    #[cfg(test)]
    fn starting_at(options: Options, v: u64) -> ServiceTree {
        let mut tree = ServiceTree::new(options, 250);
        tree.nodes[0] = Node::new(None, v);
        tree
    }

    /// Departures from the ideal, to be changed.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Sets the time, in ticks; only the service of the idle class depends on it.
    pub fn at_tick(&mut self, tick: i64) {
        self.tick = tick;
    }

    /// State of an entity.
    pub fn entity(&self, id: EntityId) -> &Entity {
        &self.entities[id.index()]
    }

    /// Is it waiting on an active tree?
    pub fn is_active(&self, id: EntityId) -> bool {
        self.entities[id.index()].place == entity::Membership::Active
    }

    /// Is it in service in its node?
    pub fn in_service(&self, id: EntityId) -> bool {
        self.nodes[self.entities[id.index()].node.index()].serving == Some(id)
    }

    /// Asks for another weight (1 to 1000); it takes effect at the next stamp.
    pub fn set_weight(&mut self, id: EntityId, weight: u32) {
        let entity = &mut self.entities[id.index()];
        entity.wanted_weight = weight;
        entity.dirty = true;
    }

    /// Asks for another class; it takes effect at the next stamp.
    pub fn set_class(&mut self, id: EntityId, class: Class) {
        let entity = &mut self.entities[id.index()];
        entity.wanted_class = class;
        entity.dirty = true;
    }

    /// Asks for another raise coefficient; it takes effect at the next stamp.
    pub fn set_raise(&mut self, id: EntityId, raise: u32) {
        let entity = &mut self.entities[id.index()];
        entity.raise = raise;
        entity.dirty = true;
    }

    /// Sets the budget of the coming slot. Active leaves need [`ServiceTree::reposition`] after it.
    pub fn set_budget(&mut self, id: EntityId, sectors: u64) {
        self.entities[id.index()].budget = sectors;
    }

    /// Sets what counts as used of the budget.
    pub fn set_used(&mut self, id: EntityId, sectors: u64) {
        self.entities[id.index()].used = sectors;
    }

    /// A leaf whose effective weight changed, with its old weight; each is returned once.
    pub fn take_reweighed(&mut self) -> Option<(EntityId, u64)> {
        self.reweighed.pop()
    }

    /// The leaf or group that the root would serve next.
    pub fn next_at_root(&self) -> Option<EntityId> {
        self.nodes[0].next
    }

    /// The child of the root in service.
    pub fn serving_at_root(&self) -> Option<EntityId> {
        self.nodes[0].serving
    }

    /// Virtual time of an entity's class in its node.
    pub fn virtual_time(&self, id: EntityId) -> u64 {
        self.set_of(id).v
    }

    /// Weights known to the node of `id`, of its class.
    pub fn weights_of_class(&self, id: EntityId) -> u64 {
        self.set_of(id).weights
    }

    /// Weights known to the node of `id`, of its class and those above. A class counts `factor` times the next lower one.
    pub fn weights_of_classes_above(&self, id: EntityId, factor: u64) -> u64 {
        let entity = &self.entities[id.index()];
        let sets = &self.nodes[entity.node.index()].sets[..=entity.class as usize];
        sets.iter().fold(0, |sum: u64, set| sum.saturating_mul(factor).saturating_add(set.weights))
    }

    /// The entity that a leaf's node belongs to; `None` at the root.
    pub fn parent(&self, id: EntityId) -> Option<EntityId> {
        self.nodes[self.entities[id.index()].node.index()].group
    }

    /// Active leaves, the most recently activated first.
    pub fn active_leaves(&self) -> impl Iterator<Item = EntityId> + '_ {
        std::iter::successors(self.newest, |id| self.entities[id.index()].older)
    }

    fn set_of(&self, id: EntityId) -> &Set {
        let entity = &self.entities[id.index()];
        &self.nodes[entity.node.index()].sets[entity.class as usize]
    }

    fn set_of_mut(&mut self, id: EntityId) -> &mut Set {
        let entity = &self.entities[id.index()];
        &mut self.nodes[entity.node.index()].sets[entity.class as usize]
    }
}

impl Node {
    fn new(group: Option<EntityId>, v: u64) -> Node {
        let set = Set { v, ..Set::default() };
        Node { sets: [set; 3], serving: None, next: None, idle_mark: None, group, active: 0 }
    }
}
