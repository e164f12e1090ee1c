//! The next leaf: the cached candidate of each node, and the search for it.

use super::{Class, EntityId, NodeId, ServiceTree, later};

impl ServiceTree {
    /// Puts the next leaf in service; `None` if nothing is active. Nothing may be in service before.
    pub fn select(&mut self) -> Option<EntityId> {
        let mut node = NodeId::ROOT;
        let leaf = loop {
            let next =
                if self.options.cached_next { self.nodes[node.index()].next } else { self.search(node, false, true) };
            let id = next?;
            self.nodes[node.index()].serving = Some(id);
            let inside = self.entities[id.index()].inside;
            // A group with other active children may itself be the best next choice again.
            if inside.is_none_or(|n| self.nodes[n.index()].active == 1) {
                self.leave_active(id);
            }
            match inside {
                Some(inside) => node = inside,
                None => break id,
            }
        };
        self.refresh_path(leaf);
        Some(leaf)
    }

    /// Puts this active leaf in service, even out of turn. Nothing may be in service before.
    pub fn select_this(&mut self, leaf: EntityId) {
        let mut at = Some(leaf);
        while let Some(id) = at {
            let entity = &self.entities[id.index()];
            let (node, inside) = (entity.node, entity.inside);
            self.nodes[node.index()].serving = Some(id);
            // The leaf has left the inside of a group by now.
            if inside.is_none_or(|n| self.nodes[n.index()].active == 0) && self.is_active(id) {
                self.leave_active(id);
            }
            at = self.nodes[node.index()].group;
        }
        self.refresh_path(leaf);
    }

    fn refresh_path(&mut self, leaf: EntityId) {
        let mut at = Some(leaf);
        while let Some(id) = at {
            let node = self.entities[id.index()].node;
            self.refresh(node, None, false);
            at = self.nodes[node.index()].group;
        }
    }

    /// Brings a node's candidate up to date after `changed` was placed (`None`: something left). Returns whether the
    /// group around the node may have to move too.
    pub(super) fn refresh(&mut self, node: NodeId, changed: Option<EntityId>, expiring: bool) -> bool {
        let had = self.nodes[node.index()].next;
        let unsearched = changed.filter(|id| had != Some(*id)).filter(|id| match had {
            None => true,
            Some(next) => self.options.cached_next && self.precedes(*id, next),
        });
        let next = unsearched.or_else(|| self.search(node, expiring, false));
        self.nodes[node.index()].next = next;
        let Some(next) = next else { return false };
        let shrunk = self.copy_budget(node, next);
        had.is_none() || shrunk
    }

    /// Is `id`, of the same class as `next`, eligible and due earlier?
    fn precedes(&self, id: EntityId, next: EntityId) -> bool {
        let (a, b) = (&self.entities[id.index()], &self.entities[next.index()]);
        a.class == b.class && !later(a.start, self.set_of(id).v) && later(b.finish, a.finish)
    }

    /// A group's budget is that of its next child. Returns whether it fell.
    fn copy_budget(&mut self, node: NodeId, next: EntityId) -> bool {
        let Some(group) = self.nodes[node.index()].group else { return false };
        let budget = self.entities[next.index()].budget;
        let old = std::mem::replace(&mut self.entities[group.index()].budget, budget);
        old > budget
    }

    /// The child due earliest among the eligible ones of the first class that has any.
    fn search(&mut self, node: NodeId, expiring: bool, selecting: bool) -> Option<EntityId> {
        let mut classes = 0..Class::ALL.len();
        if self.options.idle_class_look_in && (selecting || !self.options.look_in_at_selection) {
            let (tick, period) = (self.tick, self.look_in_ticks);
            let at = &mut self.nodes[node.index()];
            let mark = at.idle_mark.get_or_insert(tick);
            let any = !at.sets[Class::Idle as usize].active.is_empty();
            if tick > *mark + period && (any || !self.options.look_in_at_selection) {
                *mark = tick;
                if any {
                    classes.start = Class::Idle as usize;
                }
            }
        }
        classes.into_iter().find_map(|class| self.search_class(node, class, expiring))
    }

    fn search_class(&mut self, node: NodeId, class: usize, expiring: bool) -> Option<EntityId> {
        let settled = self.nodes[node.index()].serving.is_some() && !expiring;
        let set = &mut self.nodes[node.index()].sets[class];
        let least = self.forest.least_low(&set.active)?;
        let reference = if later(least, set.v) { least } else { set.v };
        if !settled && reference != set.v {
            set.v = reference;
            self.prune(node, class);
        }
        let active = self.nodes[node.index()].sets[class].active;
        let found = if self.options.exact_search {
            self.forest.first_eligible(&active, reference)
        } else {
            self.forest.early_eligible(&active, reference)
        };
        found.map(EntityId)
    }
}
