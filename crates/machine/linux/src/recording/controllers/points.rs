//! The kernel's events of controllers: where each comes from, how it names its disk, and which of its values a row has.

/// A controller before the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Wbt,
    IoMax,
    IoCost,
}

impl Controller {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Controller::Wbt => "wbt",
            Controller::IoMax => "io.max",
            Controller::IoCost => "io.cost",
        }
    }
}

/// How an event names its disk.
#[derive(Clone, Copy)]
pub(crate) enum Names {
    /// As `8:0`, in this field.
    Number(&'static str),
    /// As `sda`, in this field.
    Disk(&'static str),
    /// By the kernel's number of the disk or partition, in the field `dev`.
    Dev,
    /// Not at all.
    Nothing,
}

/// Where an event comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A tracepoint of this system.
    Tracepoint(&'static str),
    /// A probe where this function begins, and what it takes.
    Probe(&'static str, &'static [&'static str]),
    /// A probe where somebody writes a file of settings, and what it takes: the first that this kernel has.
    Write(&'static str, &'static [&'static str]),
}

/// One kind of event.
pub(crate) struct Point {
    pub(crate) of: Controller,
    pub(crate) source: Source,
    /// Of the tracepoint or the probe.
    pub(crate) name: &'static str,
    /// Of the rows.
    pub(crate) row: &'static str,
    pub(crate) names: Names,
    /// A condition beside the disk.
    pub(crate) only: Option<&'static str>,
    /// Values of a row, in this order; `budget` is `vnow` less `vtime`.
    pub(crate) values: &'static [&'static str],
    /// The row is about the process that runs.
    pub(crate) of_process: bool,
    /// Without it there is nothing to compare.
    pub(crate) needed: bool,
}

const POINT: Point = Point {
    of: Controller::Wbt,
    source: Source::Tracepoint("wbt"),
    name: "",
    row: "",
    names: Names::Nothing,
    only: None,
    values: &[],
    of_process: false,
    needed: false,
};

/// What a probe takes of an I/O.
const BIO: &str = "dev=bio->bi_bdev->bd_dev sector=bio->bi_iter.bi_sector bytes=bio->bi_iter.bi_size opf=bio->bi_opf";
/// The number of an I/O's group.
const BIO_GROUP: &str = "group=bio->bi_blkg->blkcg->css.cgroup->kn->id:u64 jiffies=@jiffies_64:u64";
/// What a probe takes of io.cost's record of a group.
const GROUP: &str = "group=iocg->pd.blkg->blkcg->css.cgroup->kn->id:u64 disk=iocg->ioc->rqos.disk->disk_name:string";
const ACTIVE: &[&str] = &[
    "now",
    "vnow",
    "vrate",
    "last_period",
    "cur_period",
    "vtime",
    "weight",
    "inuse",
    "hweight_active",
    "hweight_inuse",
];
const INUSE: &[&str] = &["now", "old_inuse", "new_inuse", "old_hweight_inuse", "new_hweight_inuse"];

const fn wbt(name: &'static str, values: &'static [&'static str]) -> Point {
    Point { name, row: name, names: Names::Number("name"), values, ..POINT }
}

const fn cost(name: &'static str, row: &'static str, values: &'static [&'static str], of_process: bool) -> Point {
    let source = Source::Tracepoint("iocost");
    Point { of: Controller::IoCost, source, name, row, names: Names::Disk("devname"), values, of_process, ..POINT }
}

const fn cost_probe(name: &'static str, row: &'static str, source: Source, values: &'static [&'static str]) -> Point {
    Point { of: Controller::IoCost, source, name, row, names: Names::Disk("disk"), values, ..POINT }
}

/// What a probe takes of a text written for a group: its number, by two kernels' names for the folder of a file.
const OF_GROUP: &[&str] =
    &["group=of->kn->parent->id:u64 text=buf:string", "group=of->kn->__parent->id:u64 text=buf:string"];
/// The same of a text for a disk.
const OF_DISK: &[&str] = &["text=input:string"];

const fn written(name: &'static str, row: &'static str, source: Source) -> Point {
    Point { of: Controller::IoCost, source, name, row, ..POINT }
}

/// All kinds.
pub(crate) const POINTS: [Point; 23] = [
    wbt("wbt_timer", &["status", "step", "inflight"]),
    wbt("wbt_step", &["step", "window", "bg", "normal", "max"]),
    wbt("wbt_lat", &["lat"]),
    wbt("wbt_stat", &["rmean", "rmin", "rmax", "rnr_samples", "wmean", "wmin", "wmax", "wnr_samples"]),
    Point {
        source: Source::Tracepoint("writeback"),
        name: "balance_dirty_pages",
        row: "balance_dirty_pages",
        names: Names::Number("bdi"),
        values: &[
            "limit",
            "dirty",
            "dirty_ratelimit",
            "task_ratelimit",
            "dirtied",
            "paused",
            "pause",
            "period",
            "think",
        ],
        of_process: true,
        ..POINT
    },
    // Before an I/O sleeps: only here its flags tell a direct write from one of fsync.
    Point {
        source: Source::Probe("wbt_wait", &[BIO]),
        name: "wbt_ask",
        row: "wbt_ask",
        names: Names::Dev,
        of_process: true,
        ..POINT
    },
    Point {
        of: Controller::IoMax,
        source: Source::Probe("__blk_throtl_bio", &[BIO, BIO_GROUP]),
        name: "throttle",
        row: "bio_submit",
        names: Names::Dev,
        of_process: true,
        needed: true,
        ..POINT
    },
    cost("iocost_iocg_activate", "ioc_activate", ACTIVE, true),
    cost("iocost_iocg_idle", "ioc_idle", ACTIVE, false),
    cost("iocost_inuse_shortage", "ioc_inuse_shortage", INUSE, false),
    cost("iocost_inuse_transfer", "ioc_inuse_transfer", INUSE, false),
    cost("iocost_inuse_adjust", "ioc_inuse_adjust", INUSE, true),
    cost(
        "iocost_ioc_vrate_adj",
        "ioc_vrate",
        &[
            "old_vrate",
            "new_vrate",
            "busy_level",
            "read_missed_ppm",
            "write_missed_ppm",
            "rq_wait_pct",
            "nr_lagging",
            "nr_shortages",
        ],
        false,
    ),
    cost(
        "iocost_iocg_forgive_debt",
        "ioc_forgive",
        &["now", "vnow", "usage_pct", "old_debt", "new_debt", "old_delay", "new_delay"],
        false,
    ),
    Point {
        of_process: true,
        needed: true,
        ..cost_probe(
            "cost",
            "ioc_cost",
            Source::Probe(
                "adjust_inuse_and_calc_cost",
                &[
                    GROUP,
                    "abs=abs_cost:u64 vtime=vtime:u64 vnow=now->vnow:u64 active=iocg->active:u32",
                    "inuse=iocg->inuse:u32 hwi=iocg->hweight_inuse:u32 debt=iocg->abs_vdebt:u64",
                ],
            ),
            &["abs", "budget", "active", "inuse", "hwi", "debt"],
        )
    },
    // A period of any disk ends: `drop_periods_of_others` finds out whose.
    Point {
        names: Names::Nothing,
        ..cost_probe("period", "ioc_period", Source::Probe("ioc_timer_fn", &["jiffies=@jiffies_64:u64"]), &["jiffies"])
    },
    cost_probe(
        "start",
        "ioc_period_start",
        Source::Probe(
            "ioc_start_period",
            &[
                "disk=ioc->rqos.disk->disk_name:string base=ioc->vtime_base_rate:u64 rate=ioc->vtime_rate.counter:u64",
                "err=ioc->vtime_err:s64 busy=ioc->busy_level:s32 period_us=ioc->period_us:u32 vnow=now->vnow:u64",
                "jiffies=@jiffies_64:u64",
            ],
        ),
        &["base", "rate", "err", "busy", "period_us", "vnow", "jiffies"],
    ),
    Point {
        of_process: true,
        ..cost_probe(
            "debt",
            "ioc_debt",
            Source::Probe("iocg_incur_debt", &[GROUP, "abs=abs_cost:u64 debt=iocg->abs_vdebt:u64"]),
            &["abs", "debt"],
        )
    },
    Point {
        only: Some("debt > 0"),
        ..cost_probe(
            "kick",
            "ioc_kick",
            Source::Probe(
                "iocg_kick_waitq",
                &[
                    GROUP,
                    "vtime=iocg->vtime.counter:u64 vnow=now->vnow:u64",
                    "debt=iocg->abs_vdebt:u64 hwi=iocg->hweight_inuse:u32",
                ],
            ),
            &["budget", "debt", "hwi"],
        )
    },
    Point { of: Controller::IoMax, ..written("limit", "mark", Source::Write("tg_set_limit", OF_GROUP)) },
    written("weight", "group_weight", Source::Write("ioc_weight_write", OF_GROUP)),
    written("qos", "qos", Source::Write("ioc_qos_write", OF_DISK)),
    written("model", "model", Source::Write("ioc_cost_model_write", OF_DISK)),
];
