//! What controllers do for a tenant, as scenarios and servers state it: limits, a reservation, a priority class, the
//! kernel's limits and latency target.

use dumbwaiter_block::{BlockLayer, Controller, Nanos, Scope, TenantId};

use crate::io_max::{Rates, Release};
use crate::{IoLatency, IoMax, Limits, PrioClass, PrioClasses, Reservations};
use crate::{io_cost, io_latency, io_max, limits, prio_class, reservations};

/// Limits, reservation, priority class, io.max and io.latency of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantControls {
    /// The most I/Os in a second.
    pub limit_iops: Option<u64>,
    /// The most bytes read and written in a second.
    pub limit_bytes: Option<u64>,
    /// I/Os that its limit of I/Os lets through at once after a pause; `None`: those of 10 ms.
    pub burst_iops: Option<u64>,
    /// Bytes that its limit of bytes lets through at once after a pause; `None`: those of 10 ms.
    pub burst_bytes: Option<u64>,
    /// Reads and writes in a second that it gets whatever others do.
    pub reservation_iops: Option<u64>,
    /// Its share beside others where io.cost is enabled, 1 to 10000; `None`: its weight.
    pub io_weight: Option<u32>,
    /// What becomes of the priorities of its I/Os.
    pub prio_class: PrioClass,
    /// Limits of its reads and of its writes that are kept as Linux does.
    pub io_max: [Rates; 2],
    /// The latency for which tenants beside it are slowed, as Linux does; counted in whole microseconds.
    pub io_latency: Option<Nanos>,
}

/// Sets the limits of io.max of a tenant, whose controller joins the chain if it is not there.
pub fn set_io_max(layer: &mut BlockLayer, now: Nanos, tenant: TenantId, [reads, writes]: [Rates; 2]) {
    if layer.controller(io_max::NAME).is_none() {
        layer.add_controller(now, Box::new(IoMax::new(Release::default())));
    }
    for (name, value) in [("rbps", reads.bytes), ("wbps", writes.bytes), ("riops", reads.ios), ("wiops", writes.ios)] {
        // The controller takes any number but 0, which nobody can state.
        let _ = layer.set_control(now, Scope::Tenant(tenant), name, value.unwrap_or(io_max::MAX).into());
    }
}

/// Sets limits, reservation, priority class, io.max and io.latency of a tenant. A controller joins the chain with the first value that it is needed for.
pub fn set_tenant_controls(layer: &mut BlockLayer, now: Nanos, tenant: TenantId, to: &TenantControls) {
    let mut set = |controller, name, value| set_one(layer, now, tenant, (controller, name, value));
    set(limits::NAME, "limit_iops", to.limit_iops);
    set(limits::NAME, "limit_bytes", to.limit_bytes);
    set(limits::NAME, "burst_iops", to.burst_iops);
    set(limits::NAME, "burst_bytes", to.burst_bytes);
    set(reservations::NAME, "reservation_iops", to.reservation_iops);
    set(io_cost::NAME, io_cost::WEIGHT, to.io_weight.map(u64::from));
    set(prio_class::NAME, prio_class::NAME, Some(to.prio_class as u64).filter(|class| *class > 0));
    if to.io_max != <[Rates; 2]>::default() || layer.controller(io_max::NAME).is_some() {
        set_io_max(layer, now, tenant, to.io_max);
    }
    let latency_us = to.io_latency.map(|target| (target.0 / 1_000).max(1));
    set_one(layer, now, tenant, (io_latency::NAME, io_latency::NAME, latency_us));
}

/// Sets a value of a controller; `None` is none.
fn set_one(layer: &mut BlockLayer, now: Nanos, tenant: TenantId, (controller, name, value): (&str, &str, Option<u64>)) {
    if layer.controller(controller).is_none() {
        // As in Linux, a weight has no effect unless io.cost is enabled.
        if value.is_none() || controller == io_cost::NAME {
            return;
        }
        let new: Box<dyn Controller> = match controller {
            limits::NAME => Box::new(Limits::default()),
            prio_class::NAME => Box::new(PrioClasses::default()),
            io_latency::NAME => Box::new(IoLatency::default()),
            _ => Box::new(Reservations::default()),
        };
        layer.add_controller(now, new);
    }
    // The controller is there and takes any number.
    let _ = layer.set_control(now, Scope::Tenant(tenant), name, value.unwrap_or(0).into());
}
