//! The host of an experiment.

mod cache;
mod costs;
mod profile;

pub use self::cache::CacheSize;
pub use self::costs::{Cooling, CpuScheduler, HostCosts, LockCost, SchedulerNs};
pub use self::profile::Profile;

/// Whether tasks that are given no CPU stay on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affinity {
    /// Task i stays on CPU i, modulo their number.
    #[default]
    Pinned,
    /// It begins there; one that is woken while another task has its CPU goes to the next idle one.
    Free,
}

impl Affinity {
    fn is_default(&self) -> bool {
        *self == Affinity::default()
    }
}

/// The host that the tasks run on.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Number of logical CPUs.
    pub cpus: u16,
    /// Whether tasks without CPUs of their own stay on one.
    #[serde(skip_serializing_if = "Affinity::is_default")]
    pub affinity: Affinity,
    /// What an I/O costs its CPUs.
    pub profile: Profile,
    /// Two CPUs share a core; `None` for what the profile says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// Clock of the CPUs in MHz, with which the profile's costs are scaled; `None` for the profile's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<u32>,
    /// Rings submit as other engines do: the thread sleeps until an I/O has its request, and no worker threads take it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ring_sleeps: bool,
    /// Latency ends where the kernel has completed an I/O, not where its application sees it, as in the recordings of a kernel.
    #[serde(skip)]
    pub kernel_latency: bool,
    /// Hardware queues; `None` for the device's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hw_queues: Option<u16>,
    /// Ticks per second of the kernel's coarse clock (HZ).
    pub hz: u32,
    /// Memory of the page cache of buffered jobs, bytes; `None` for [`Host::PAGE_CACHE_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<CacheSize>,
    /// Dirty data at which writers stop, percent of that memory; `None` for 20, unless `dirty_bytes` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_ratio: Option<u32>,
    /// The same in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<CacheSize>,
    /// Dirty data above which it is written in the background, percent; `None` for 10, unless `dirty_background_bytes` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_background_ratio: Option<u32>,
    /// The same in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_background_bytes: Option<CacheSize>,
    /// Age at which a file's dirty pages are written, 1/100 s; `None` for 3000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_expire_centisecs: Option<u32>,
    /// Time between looks for such files, 1/100 s; `None` for 500, 0 for no looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_writeback_centisecs: Option<u32>,
    /// Each tenant's dirty pages are written back by a flusher of its own, in its group, as with the memory and the I/O controller of
    /// cgroup v2; `None`: where a tenant has `io_max`, `io_latency` or `io_weight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_writeback: Option<bool>,
    /// Largest read-ahead window, KiB; `None` for 128, 0 for no read-ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<u32>,
    /// Written to sysfs `rotational` once the scheduler is attached; `None` leaves what the device says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Scheduler depth at which the scheduler was attached and from which its limits on asynchronous I/O and writes stay
    /// computed, as in Linux 6.12; `None`: they follow `nr_requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests_at_attach: Option<u32>,
}

impl Default for Host {
    fn default() -> Self {
        Host {
            cpus: 4,
            affinity: Affinity::Pinned,
            profile: Profile::default(),
            smt: None,
            cpu_mhz: None,
            ring_sleeps: false,
            kernel_latency: false,
            hw_queues: None,
            hz: 250,
            page_cache: None,
            dirty_ratio: None,
            dirty_bytes: None,
            dirty_background_ratio: None,
            dirty_background_bytes: None,
            dirty_expire_centisecs: None,
            dirty_writeback_centisecs: None,
            cgroup_writeback: None,
            read_ahead_kb: None,
            rotational: None,
            nr_requests_at_attach: None,
        }
    }
}
