//! What controllers do for a tenant, as scenarios and servers state it: limits, a reservation, a priority class.

use dumbwaiter_block::{BlockLayer, Controller, Nanos, Scope, TenantId};

use crate::{Limits, PrioClass, PrioClasses, Reservations, io_cost, limits, prio_class, reservations};

/// Limits, reservation and priority class of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantControls {
    /// The most I/Os in a second.
    pub limit_iops: Option<u64>,
    /// The most bytes read and written in a second.
    pub limit_bytes: Option<u64>,
    /// Reads and writes in a second that it gets whatever others do.
    pub reservation_iops: Option<u64>,
    /// Its share beside others where io.cost is enabled, 1 to 10000; `None`: its weight.
    pub io_weight: Option<u32>,
    /// What becomes of the priorities of its I/Os.
    pub prio_class: PrioClass,
}

/// Sets limits, reservation and priority class of a tenant. A controller joins the chain with the first value that it is needed for.
pub fn set_tenant_controls(layer: &mut BlockLayer, now: Nanos, tenant: TenantId, to: &TenantControls) {
    let settings = [
        (limits::NAME, "limit_iops", to.limit_iops),
        (limits::NAME, "limit_bytes", to.limit_bytes),
        (reservations::NAME, "reservation_iops", to.reservation_iops),
        (io_cost::NAME, io_cost::WEIGHT, to.io_weight.map(u64::from)),
        (prio_class::NAME, prio_class::NAME, Some(to.prio_class as u64).filter(|class| *class > 0)),
    ];
    for (controller, name, value) in settings {
        if layer.controller(controller).is_none() {
            // As in Linux, a weight has no effect unless io.cost is enabled.
            if value.is_none() || controller == io_cost::NAME {
                continue;
            }
            let new: Box<dyn Controller> = match controller {
                limits::NAME => Box::new(Limits::default()),
                prio_class::NAME => Box::new(PrioClasses::default()),
                _ => Box::new(Reservations::default()),
            };
            layer.add_controller(now, new);
        }
        // The controller is there and takes any number.
        let _ = layer.set_control(now, Scope::Tenant(tenant), name, value.unwrap_or(0).into());
    }
}
