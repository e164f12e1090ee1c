//! Every option of fio, and how it is handled.

use crate::generate::JobSpec;

/// How an option is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It is one of [`JobSpec::KEYS`].
    Job,
    /// It concerns the job file rather than one job's I/O.
    File,
    /// It does not change the I/O.
    Harmless,
    /// It would change the I/O, unless it has one of the values `off`.
    Refused {
        off: &'static [&'static str],
        /// The alternative.
        advice: &'static str,
    },
    /// fio has no such option.
    Unknown,
}

/// Engines that access a device without the kernel's block layer.
pub(super) const ENGINES_OF_THEIR_OWN: [&str; 9] =
    ["null", "nbd", "rbd", "libiscsi", "libblkio", "xnvme", "libzbc", "sg", "io_uring_cmd"];

const FILE: &[&str] = &[
    "kb_base",
    "name",
    "numjobs",
    "stonewall",
    "wait_for_previous",
    "filename",
    "filesize",
    "cpus_allowed",
    "cpumask",
    "cpus_allowed_policy",
    "cgroup",
    "cgroup_weight",
    "read_iolog",
    "replay_no_stall",
    "replay_time_scale",
];

/// Extensions that fio does not have.
const NOT_FIOS: [&str; 4] = ["burst_on", "burst_off", "burst_process", "fio_job"];

const HARMLESS: &[&str] = &[
    // Names, texts, measurement and output.
    "description",
    "unit_base",
    "clocksource",
    "gtod_reduce",
    "gtod_cpu",
    "job_start_clock_id",
    "unified_rw_reporting",
    "per_job_logs",
    "group_reporting",
    "new_group",
    "stats",
    "write_bw_log",
    "write_lat_log",
    "write_hist_log",
    "write_iops_log",
    "log_entries",
    "log_avg_msec",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_window_value",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_issue_time",
    "log_compression",
    "log_compression_cpus",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "log_alternate_epoch_clock_id",
    "block_error_percentiles",
    "bwavgtime",
    "iopsavgtime",
    "disk_util",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "disable_bw",
    "slat_percentiles",
    "clat_percentiles",
    "lat_percentiles",
    "percentile_list",
    "significant_figures",
    "steadystate",
    "ss",
    "steadystate_duration",
    "ss_dur",
    "steadystate_ramp_time",
    "ss_ramp",
    "steadystate_check_interval",
    "ss_interval",
    "write_iolog",
    // Stopping early by measured values.
    "rate_min",
    "ratemin",
    "rate_iops_min",
    "rate_cycle",
    "ratecycle",
    "max_latency",
    "continue_on_error",
    "exitall_on_error",
    "ignore_error",
    "error_dump",
    "exit_what",
    // Creating and keeping files.
    "directory",
    "filename_format",
    "unique_filename",
    "filetype",
    "openfiles",
    "ioscheduler",
    "create_serialize",
    "create_fsync",
    "create_on_open",
    "allow_file_create",
    "allow_mounted_write",
    "unlink",
    "unlink_each_loop",
    "fallocate",
    "fadvise_hint",
    "write_hint",
    "overwrite",
    "invalidate",
    "file_service_type",
    // File contents and buffers.
    "zero_buffers",
    "refill_buffers",
    "scramble_buffers",
    "buffer_compress_percentage",
    "buffer_compress_chunk",
    "buffer_pattern",
    "dedupe_percentage",
    "dedupe_mode",
    "dedupe_working_set_percentage",
    "dedupe_global",
    "iomem",
    "mem",
    "iomem_align",
    "mem_align",
    "hugepage-size",
    "hugepage_size",
    "lockmem",
    // Random numbers: always seeded here, without a map that can be exhausted.
    "softrandommap",
    "random_generator",
    // CPU cost of submission.
    "fixedbufs",
    "nonvectored",
    "force_async",
    "registerfiles",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "userspace_reap",
    "nowait",
    "libaio_vectored",
    "uncached",
    "cmd_type",
    "iodepth_batch_complete_max",
    "thread",
    "threads",
    "comm",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "uid",
    "gid",
    "exec_prerun",
    "exec_postrun",
    "cgroup_nodelete",
    "priohint",
    "cmdprio_hint",
    "read_iolog_chunked",
    "replay_redirect",
    // No effect without another option that is refused.
    "zonerange",
    "zonesize",
    "zonecapacity",
    "zoneskip",
    "read_beyond_wp",
    "max_open_zones",
    "job_max_open_zones",
    "ignore_zone_limits",
    "zone_reset_threshold",
    "zone_reset_frequency",
    "latency_window",
    "latency_percentile",
    "latency_run",
    "flow_id",
    "flow_sleep",
    "do_verify",
    "verify_offset",
    "verify_interval",
    "verify_pattern",
    "verify_fatal",
    "verify_dump",
    "verify_async",
    "verify_async_cpus",
    "verify_backlog",
    "verify_backlog_batch",
    "verify_policy",
    "verify_pattern_interval",
    "verify_state_save",
    "verify_state_load",
    "verify_write_sequence",
    "verify_header_seed",
    "experimental_verify",
    "trim_verify_zero",
    "trim_backlog",
    "trim_backlog_batch",
    "spr_num_regions",
    "spr_op",
    "spr_cs",
    "merge_blktrace_scalars",
    "merge_blktrace_iters",
    "recover_zbd_write_error",
    "write_zone_remainders",
    // Devices of other engines.
    "uri",
    "pool",
    "rbdname",
    "clientname",
    "clustername",
    "conf",
    "busy_poll",
    "touch_objects",
    "no_completion_thread",
    "md_per_io_size",
    "pi_act",
    "pi_chk",
    "apptag",
    "apptag_mask",
    "cdb_len",
];

type Refusal = (&'static str, &'static [&'static str], &'static str);

const REFUSED: &[Refusal] = &[
    ("nrfiles", &["1"], "give each file a section, or use numjobs"),
    ("opendir", &[], "name one file or device"),
    ("lockfile", &["none"], "files are not locked here"),
    ("zonemode", &["none"], "zoned devices are not simulated; use random_distribution=zoned for zones of access"),
    ("pre_read", &["0"], "use ramp_time to reach a steady state"),
    ("file_append", &["0"], "use offset"),
    ("fill_device", &["0"], "use size=100%"),
    ("fill_fs", &["0"], "use size=100%"),
    ("create_only", &["0"], "it does no I/O at all"),
    ("bs_is_seq_rand", &["0"], "give reads and writes their sizes with bs=R,W"),
    ("random_sequence_stride", &["0"], "use rw=read:STEP"),
    ("sprandom", &["0"], "choose a preconditioned device model"),
    ("write_barrier", &["0"], "use fsync or sync=dsync"),
    ("sync_file_range", &[], "use fsync"),
    ("end_syncfs", &["0"], "use end_fsync"),
    ("fsync_on_close", &["0"], "use end_fsync"),
    ("hipri_percentage", &["0"], "use hipri, for all I/Os"),
    ("atomic", &["0"], "atomic writes are not simulated"),
    ("cmdprio_bssplit", &[], "use cmdprio_percentage, or a job for each size"),
    ("serialize_overlap", &["0"], "use iodepth=1, or leave it out"),
    ("thinkcycles", &["0"], "use thinktime"),
    ("ramp_size", &["0"], "use ramp_time"),
    ("latency_target", &["0"], "give the depth with iodepth"),
    ("flow", &["0"], "use rate or weights"),
    ("wait_for", &[], "use stonewall to run jobs after each other"),
    ("exitall", &["0"], "give all jobs the same runtime with time_based"),
    ("verify", &["0", "none"], "data is not kept here; leave it out"),
    ("verify_only", &["0"], "data is not kept here; leave it out"),
    ("trim_percentage", &["0"], "give the trims a job of their own"),
    ("replay_align", &["0"], "convert the trace first"),
    ("replay_scale", &["0", "1"], "convert the trace first"),
    ("replay_skip", &[], "convert the trace first"),
    ("merge_blktrace_file", &[], "give each trace a job"),
    ("profile", &[], "write its jobs out"),
    ("readfua", &["0"], "reads past the cache are not simulated"),
    ("writefua", &["0"], "use sync=dsync"),
    ("sg_write_mode", &["write"], "it sends other commands than writes"),
    ("write_mode", &["write"], "it sends other commands than writes"),
    ("read_mode", &["read"], "it sends other commands than reads"),
    ("fdp", &["0"], "data placement is not simulated"),
    ("dataplacement", &["none"], "data placement is not simulated"),
    ("num_range", &["0", "1"], "one trim has one range here"),
];

/// Options of engines that do no block I/O (network, file operations, CPU load …), which are refused themselves.
const OTHER_ENGINES: &[&str] = &[
    "arguments",
    "bindname",
    "chunk_size",
    "cont",
    "cpuchunks",
    "cpuload",
    "cpumode",
    "cuda_io",
    "donorname",
    "exit_on_io_done",
    "gpu_dev_ids",
    "grace_time",
    "hdfsdirectory",
    "hostname",
    "https",
    "inplace",
    "interface",
    "listen",
    "mss",
    "namenode",
    "nfs_url",
    "nodelay",
    "object_class",
    "pingpong",
    "port",
    "program",
    "protocol",
    "proto",
    "rocm_io",
    "skip_bad",
    "stat_type",
    "std_redirect",
    "ttl",
    "verb",
    "window_size",
];

/// How the option of this name is handled.
pub(super) fn class(key: &str) -> Class {
    if FILE.contains(&key) {
        Class::File
    } else if JobSpec::is_key(key) && !NOT_FIOS.contains(&key) {
        Class::Job
    } else if HARMLESS.contains(&key) || ["libblkio_", "xnvme_", "rbd_"].iter().any(|engine| key.starts_with(engine)) {
        Class::Harmless
    } else if OTHER_ENGINES.contains(&key) || key.starts_with("http_") {
        Class::Refused { off: &[], advice: "it belongs to an engine that does no block I/O" }
    } else if let Some((_, off, advice)) = REFUSED.iter().find(|(name, ..)| *name == key) {
        Class::Refused { off, advice }
    } else {
        Class::Unknown
    }
}

/// Names of all fio options for block I/O.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let jobs = JobSpec::KEYS.iter().copied().filter(|key| !NOT_FIOS.contains(key));
    let aliases = JobSpec::ALIASES.iter().map(|(alias, _)| *alias);
    jobs.chain(aliases)
        .chain(FILE.iter().copied())
        .chain(HARMLESS.iter().copied())
        .chain(REFUSED.iter().map(|(name, ..)| *name))
}

/// The first unit such as KiB in a value.
pub(super) fn doubtful_suffix(value: &str) -> Option<&str> {
    value.split([',', '/', ':', '-']).find_map(|part| {
        let at = part.trim_start().find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let suffix = part.trim_start()[at..].trim();
        let lower = suffix.to_ascii_lowercase();
        let binary = lower
            .strip_suffix("ib")
            .or(lower.strip_suffix('i'))
            .is_some_and(|p| matches!(p, "k" | "m" | "g" | "t" | "p"));
        (at > 0 && binary).then_some(suffix)
    })
}
