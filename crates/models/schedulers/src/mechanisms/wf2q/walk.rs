//! Moves of entities between trees, along the path from a leaf to the root.

use super::entity::Membership;
use super::{EntityId, ServiceTree, later, span};

impl ServiceTree {
    /// Charges `sectors` to a leaf (in service, or served out of turn) and to the groups it is in.
    pub fn charge(&mut self, leaf: EntityId, sectors: u64) {
        let mut at = Some(leaf);
        while let Some(id) = at {
            self.entities[id.index()].used += sectors;
            let set = self.set_of_mut(id);
            set.v = set.v.wrapping_add(span(sectors, set.weights));
            let entity = &self.entities[id.index()];
            let (node, class) = (entity.node, entity.class as usize);
            self.prune(node, class);
            at = self.nodes[node.index()].group;
        }
    }

    /// A leaf that was neither active nor in service has something to do. `back_shift`: as if it had not left.
    pub fn activate(&mut self, leaf: EntityId, back_shift: bool) {
        self.rise(leaf, back_shift, false);
    }

    /// The budget of an active leaf that is not in service changed.
    pub fn reposition(&mut self, leaf: EntityId) {
        self.rise(leaf, false, false);
    }

    /// A leaf that is not in service has nothing to do any more.
    pub fn deactivate(&mut self, leaf: EntityId, remember: bool) {
        self.sink(leaf, remember, false);
    }

    /// Ends the slot of the leaf in service. `stays`: it has more to do (or keeps its place although it has not).
    pub fn expire(&mut self, leaf: EntityId, stays: bool) {
        if stays {
            self.rise(leaf, false, true);
        } else {
            self.sink(leaf, true, true);
        }
        let mut at = Some(leaf);
        while let Some(id) = at {
            let node = self.entities[id.index()].node.index();
            self.nodes[node].serving = None;
            at = self.nodes[node].group;
            if let Some(group) = at {
                self.entities[group.index()].used = 0;
            }
        }
    }

    /// (Re)places a leaf and its groups on active trees.
    fn rise(&mut self, leaf: EntityId, back_shift: bool, expiring: bool) {
        let mut at = Some(leaf);
        while let Some(id) = at {
            let node = self.entities[id.index()].node;
            if self.in_service(id) || self.is_active(id) {
                self.requeue(id, expiring || id == leaf);
            } else {
                self.stamp(id, back_shift);
            }
            if !self.refresh(node, Some(id), expiring) && !expiring {
                return;
            }
            at = self.nodes[node.index()].group;
        }
    }

    fn sink(&mut self, leaf: EntityId, remember: bool, expiring: bool) {
        let (mut at, mut remember) = (Some(leaf), remember);
        while let Some(id) = at {
            if !self.leave(id, remember) {
                return;
            }
            let node = self.entities[id.index()].node;
            if self.nodes[node.index()].next == Some(id) {
                self.refresh(node, None, expiring);
            }
            at = self.nodes[node.index()].group;
            if self.nodes[node.index()].next.is_some() || self.nodes[node.index()].serving.is_some() {
                break;
            }
            remember = true;
        }
        while let Some(id) = at {
            self.requeue(id, expiring);
            let node = self.entities[id.index()].node;
            if !self.refresh(node, Some(id), expiring) && !expiring {
                return;
            }
            at = self.nodes[node.index()].group;
        }
    }

    /// Stamps and places an entity that was not active.
    fn stamp(&mut self, id: EntityId, back_shift: bool) {
        let v = self.set_of(id).v;
        let entity = &self.entities[id.index()];
        let back_shift = back_shift && later(v, entity.finish);
        let floor = if back_shift { entity.finish } else { v };
        if entity.place == Membership::Idle {
            self.leave_idle(id);
            let entity = &mut self.entities[id.index()];
            entity.start = if later(floor, entity.finish) { floor } else { entity.finish };
        } else {
            let weight = entity.weight;
            self.set_of_mut(id).weights += weight;
            let entity = &mut self.entities[id.index()];
            entity.start = floor;
            entity.known = true;
        }
        self.place(id, back_shift);
    }

    /// Places again an entity that is in service or active. `ends`: its slot, if it has one, is over.
    fn requeue(&mut self, id: EntityId, ends: bool) {
        if self.in_service(id) {
            let entity = &mut self.entities[id.index()];
            if ends || self.options.group_double_charge {
                entity.finish = entity.start.wrapping_add(span(entity.used, entity.weight));
                entity.start = entity.finish;
            }
        }
        if self.is_active(id) {
            self.leave_active(id);
        }
        self.place(id, false);
    }

    /// Off its tree with actual service; onto the idle tree if its finish is yet to come. False if it was unknown.
    fn leave(&mut self, id: EntityId, remember: bool) -> bool {
        if !self.entities[id.index()].known {
            return false;
        }
        let serving = self.in_service(id);
        let entity = &mut self.entities[id.index()];
        entity.finish = entity.start.wrapping_add(span(entity.used, entity.weight));
        if serving {
            let node = entity.node.index();
            self.nodes[node].serving = None;
        } else {
            entity.used = 0;
        }
        match self.entities[id.index()].place {
            Membership::Active => self.leave_active(id),
            Membership::Idle => self.leave_idle(id),
            Membership::Nowhere => {}
        }
        let finish = self.entities[id.index()].finish;
        if remember && later(finish, self.set_of(id).v) {
            self.enter_idle(id);
        } else {
            self.forget(id);
        }
        true
    }
}
