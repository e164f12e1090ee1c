//! The trees that an entity is on: active, idle, or none; and changes of weight and class that wait until it is placed.

use super::entity::Membership;
use super::{EntityId, NodeId, ServiceTree, later, span};

impl ServiceTree {
    /// Applies changes, computes the finish and inserts into the active tree.
    pub(super) fn place(&mut self, id: EntityId, back_shift: bool) {
        self.apply(id, true);
        let v = self.set_of(id).v;
        let entity = &mut self.entities[id.index()];
        entity.finish = entity.start.wrapping_add(span(entity.budget, entity.weight));
        if back_shift && later(v, entity.finish) {
            let mut gap = v.wrapping_sub(entity.finish);
            if entity.inside.is_none() {
                gap /= u64::from(entity.raise.max(1));
            }
            entity.start = entity.start.wrapping_add(gap);
            entity.finish = entity.finish.wrapping_add(gap);
        }
        entity.place = Membership::Active;
        let (key, low, node, class) = (entity.finish, entity.start, entity.node, entity.class as usize);
        let node = &mut self.nodes[node.index()];
        node.active += 1;
        self.forest.insert_with_low(&mut node.sets[class].active, id.0, key, low);
        if self.entities[id.index()].inside.is_none() {
            self.list(id);
        }
    }

    pub(super) fn leave_active(&mut self, id: EntityId) {
        let entity = &mut self.entities[id.index()];
        entity.place = Membership::Nowhere;
        let node = &mut self.nodes[entity.node.index()];
        node.active -= 1;
        self.forest.remove(&mut node.sets[entity.class as usize].active, id.0);
        if entity.inside.is_none() {
            self.unlist(id);
        }
    }

    pub(super) fn forget(&mut self, id: EntityId) {
        let weight = self.entities[id.index()].weight;
        self.set_of_mut(id).weights -= weight;
        self.entities[id.index()].known = false;
    }

    pub(super) fn enter_idle(&mut self, id: EntityId) {
        let entity = &mut self.entities[id.index()];
        entity.place = Membership::Idle;
        let finish = entity.finish;
        let set = &mut self.nodes[entity.node.index()].sets[entity.class as usize];
        self.forest.insert_with_low(&mut set.idle, id.0, finish, finish);
    }

    pub(super) fn leave_idle(&mut self, id: EntityId) {
        let entity = &mut self.entities[id.index()];
        entity.place = Membership::Nowhere;
        let set = &mut self.nodes[entity.node.index()].sets[entity.class as usize];
        self.forest.remove(&mut set.idle, id.0);
    }

    /// Forgets one entity whose finish has passed; with nothing active time jumps to the last finish.
    pub(super) fn prune(&mut self, node: NodeId, class: usize) {
        let set = &mut self.nodes[node.index()].sets[class];
        let (Some(first), Some(last)) = (set.idle.first(), set.idle.last()) else { return };
        let last = self.forest.key(last);
        if set.active.is_empty() && !later(last, set.v) {
            set.v = last;
        }
        if !later(self.forest.key(first), set.v) {
            self.leave_idle(EntityId(first));
            self.forget(EntityId(first));
        }
    }

    /// Applies changes of weight, raise and (if `with_class`) class that are waiting. The entity is known, and on no
    /// tree unless only its weight may change.
    fn apply(&mut self, id: EntityId, with_class: bool) {
        let entity = &mut self.entities[id.index()];
        if !entity.dirty {
            return;
        }
        let (before, old_class) = (entity.weight, entity.class as usize);
        entity.base_weight = entity.wanted_weight.clamp(1, 1000);
        if with_class {
            entity.class = entity.wanted_class;
        }
        entity.dirty = entity.class != entity.wanted_class;
        entity.weight = u64::from(entity.base_weight) * u64::from(entity.raise.max(1));
        let (weight, class, leaf) = (entity.weight, entity.class as usize, entity.inside.is_none());
        let sets = &mut self.nodes[entity.node.index()].sets;
        sets[old_class].weights -= before;
        sets[class].weights += weight;
        if class != old_class {
            entity.start = sets[class].v;
        }
        if weight != before && leaf {
            self.reweighed.push((id, before));
        }
    }

    /// Applies a changed raise at once, to a leaf in service or elsewhere known.
    pub fn apply_raise(&mut self, id: EntityId) {
        if self.entities[id.index()].known {
            self.apply(id, false);
        }
    }

    fn list(&mut self, id: EntityId) {
        let older = self.newest.replace(id);
        self.entities[id.index()].older = older;
        self.entities[id.index()].newer = None;
        if let Some(older) = older {
            self.entities[older.index()].newer = Some(id);
        }
    }

    fn unlist(&mut self, id: EntityId) {
        let (older, newer) = (self.entities[id.index()].older, self.entities[id.index()].newer);
        match newer {
            Some(newer) => self.entities[newer.index()].older = older,
            None => self.newest = older,
        }
        if let Some(older) = older {
            self.entities[older.index()].newer = newer;
        }
    }
}
