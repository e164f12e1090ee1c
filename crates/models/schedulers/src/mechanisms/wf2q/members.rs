//! Leaves and groups that come and go.

use super::entity::Membership;
use super::{Class, Entity, EntityId, Node, NodeId, ServiceTree};

impl ServiceTree {
    /// Adds a leaf; `owner` is the caller's number for it.
    pub fn add_leaf(&mut self, node: NodeId, owner: u32, weight: u32, class: Class) -> EntityId {
        self.add(Entity::new(node, owner, weight, class))
    }

    /// Adds a group; returns its entity and its inside.
    pub fn add_group(&mut self, node: NodeId, owner: u32, weight: u32) -> (EntityId, NodeId) {
        let id = self.add(Entity::new(node, owner, weight, Class::BestEffort));
        let made = Node::new(Some(id), 0);
        let inside = match self.free_nodes.pop() {
            Some(inside) => {
                self.nodes[inside.index()] = made;
                inside
            }
            None => {
                self.nodes.push(made);
                NodeId(self.nodes.len() as u32 - 1)
            }
        };
        self.entities[id.index()].inside = Some(inside);
        (id, inside)
    }

    fn add(&mut self, entity: Entity) -> EntityId {
        match self.free.pop() {
            Some(id) => {
                self.entities[id.index()] = entity;
                id
            }
            None => {
                self.entities.push(entity);
                EntityId(self.entities.len() as u32 - 1)
            }
        }
    }

    /// Forgets a leaf that is neither active nor in service; its id may be reused.
    pub fn remove_leaf(&mut self, id: EntityId) {
        self.forget_entity(id);
        self.free.push(id);
    }

    /// Forgets a group without children; its ids may be reused.
    pub fn remove_group(&mut self, id: EntityId) {
        self.forget_entity(id);
        if let Some(inside) = self.entities[id.index()].inside {
            self.free_nodes.push(inside);
        }
        self.free.push(id);
    }

    /// Moves an idle leaf into another node, where it starts afresh.
    pub fn move_leaf(&mut self, id: EntityId, node: NodeId) {
        self.forget_entity(id);
        self.entities[id.index()].node = node;
    }

    fn forget_entity(&mut self, id: EntityId) {
        debug_assert!(!self.is_active(id) && !self.in_service(id), "entity {} is in use", id.0);
        if self.entities[id.index()].place == Membership::Idle {
            self.leave_idle(id);
        }
        if self.entities[id.index()].known {
            self.forget(id);
        }
    }
}
