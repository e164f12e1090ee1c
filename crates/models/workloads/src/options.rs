//! Every option of a job, fio's and ours: one row each, for scenario files, job files, errors, hints and the manual.
//!
//! An option that is new in fio is a row: with the form of its value, or with the reason why it is ignored or refused.

pub(crate) mod form;

use dumbwaiter_block::hint::nearest;

use crate::fio::state::{
    Given, JobState, base, cpu_list, cpu_mask, cpu_policy, file_names, file_service, file_size, trace_files,
};
use crate::generate::parse::{Parsed, block_size, block_split, per_dir, switch, whole_percent};
use crate::generate::{BlockSize, BurstProcess, Distribution, JobSpec, RateProcess, Scalar};
use crate::generate::{Sequencer, SubmitMode, ThinkBlocks};
use dumbwaiter_text::units::{BareTime, Prefixes};

use form::{
    Amount, BLOCKS, Delay, ENGINE, Each, FLAG, Form, NAME, NICENESS, Number, OFFSETS, Optional, PATTERN, PERCENT, RATE,
    SIZE, SIZE_OR_SHARE, SYNC, Time, UnlessZero, Words,
};

/// An option, or several that are ignored or refused for one reason.
pub(crate) struct OptionRow {
    /// Its name and its other names, or the names of the several. One that ends in `*` stands for all that begin so.
    names: &'static str,
    pub(crate) effect: Effect,
    /// Its effect, why it is ignored, or the option to use instead.
    pub(crate) about: &'static str,
}

/// Treatment of an option.
pub(crate) enum Effect {
    /// It describes the I/O of a job.
    Job(JobOption),
    /// It concerns the job file rather than one job's I/O.
    File(fn(&mut JobState, &Given) -> Result<(), String>),
    /// It does not change the I/O here.
    Ignored,
    /// It would change the I/O, unless it has one of these values.
    Refused(&'static [&'static str]),
}

/// An option of scenario files and job files.
pub(crate) struct JobOption {
    pub(crate) read: fn(&mut JobSpec, &str, Prefixes) -> Parsed<()>,
    /// The value as it is written; `None` if it is not set, or written as another option.
    pub(crate) show: fn(&JobSpec) -> Option<Scalar>,
    pub(crate) time: bool,
    /// Whether fio has it.
    pub(crate) fios: bool,
}

impl OptionRow {
    /// Its names; the first is the usual one of an option that is read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split(' ')
    }

    fn is(&self, name: &str) -> bool {
        self.names().any(|own| match own.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => own == name,
        })
    }

    /// The option that scenario files have, too.
    pub(crate) fn job(&self) -> Option<&JobOption> {
        match &self.effect {
            Effect::Job(option) => Some(option),
            _ => None,
        }
    }

    /// Whether it can be in a job file.
    pub(crate) fn in_job_file(&self) -> bool {
        self.job().is_none_or(|option| option.fios)
    }
}

/// The row of the option of this name.
pub(crate) fn find(name: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| row.is(name))
}

/// The option of a job file that is most likely meant by a word that is none.
pub(crate) fn meant(word: &str) -> Option<&'static str> {
    let rows = OPTIONS.iter().filter(|row| row.in_job_file() && row.about != NO_BLOCK_IO);
    synonym(word).or_else(|| nearest(word, rows.flat_map(OptionRow::names).filter(|name| !name.ends_with('*'))))
}

/// The option that people or other tools call by this name, which is no option.
pub(crate) fn synonym(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    SYNONYMS.iter().find(|(_, words)| words.split(' ').any(|other| other == word)).map(|(option, _)| *option)
}

const fn is_time<T, F: Form<T>>(_: &F, _: fn(&JobSpec) -> &T) -> bool {
    F::TIME
}

/// An option of a job: names, field, form and help.
macro_rules! job {
    ($names:literal, $field:ident, $form:expr, $about:literal) => {
        job!($names, $field, $form, $about, true)
    };
    ($names:literal, $field:ident, $form:expr, $about:literal, $fios:literal) => {
        OptionRow {
            names: $names,
            effect: Effect::Job(JobOption {
                read: |job, text, prefixes| $form.read(text, prefixes).map(|value| job.$field = value),
                show: |job| $form.show(&job.$field),
                time: is_time(&$form, |job| &job.$field),
                fios: $fios,
            }),
            about: $about,
        }
    };
}

/// One that fio does not have.
macro_rules! ours {
    ($name:literal, $field:ident, $form:expr, $about:literal) => {
        job!($name, $field, $form, $about, false)
    };
}

/// One more way to set the field of another option.
const fn also(
    names: &'static str,
    read: fn(&mut JobSpec, &str, Prefixes) -> Parsed<()>,
    about: &'static str,
) -> OptionRow {
    OptionRow { names, effect: Effect::Job(JobOption { read, show: |_| None, time: false, fios: true }), about }
}

/// An option of the job file: names, field of [`JobState`], form and help.
macro_rules! file {
    ($names:literal, $field:ident, $form:expr, $about:literal) => {
        OptionRow {
            names: $names,
            effect: Effect::File(|state, given| given.read(&$form).map(|value| state.$field = value)),
            about: $about,
        }
    };
}

/// One whose value needs more than a form.
const fn special(
    names: &'static str,
    set: fn(&mut JobState, &Given) -> Result<(), String>,
    about: &'static str,
) -> OptionRow {
    OptionRow { names, effect: Effect::File(set), about }
}

const fn ignored(about: &'static str, names: &'static str) -> OptionRow {
    OptionRow { names, effect: Effect::Ignored, about }
}

const fn refused(names: &'static str, off: &'static [&'static str], about: &'static str) -> OptionRow {
    OptionRow { names, effect: Effect::Refused(off), about }
}

const ANY: u64 = u32::MAX as u64;
const SECONDS: Time = Time(BareTime::Seconds);
const MICROSECONDS: Time = Time(BareTime::Microseconds);
const NO_BLOCK_IO: &str = "it belongs to an engine that does no block I/O";

/// All options, in the order in which those of a job are written.
pub(crate) static OPTIONS: &[OptionRow] = &[
    job!("rw readwrite", rw, PATTERN, "direction and order, such as randrw or read:64k"),
    job!(
        "rw_sequencer",
        rw_sequencer,
        Words([("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)]),
        "offsets of the I/Os that follow a random offset"
    ),
    job!("rwmixread", rwmixread, PERCENT, "percentage of reads in a mix"),
    also("rwmixwrite", |job, text, _| whole_percent(text).map(|n| job.rwmixread = 100 - n), "100 - rwmixread"),
    job!("bs blocksize", bs, Each(BLOCKS, BlockSize::Fixed(4096)), "block sizes by direction"),
    also("bsrange blocksize_range", block_ranges, "ranges of block sizes by direction"),
    also("bssplit", block_splits, "block sizes by direction, each with its percentage"),
    job!(
        "bs_unaligned blocksize_unaligned",
        bs_unaligned,
        FLAG,
        "sizes of a range or split need not be multiples of the smallest"
    ),
    job!("blockalign ba", blockalign, Each(Optional(SIZE), None), "alignment of random offsets by direction"),
    ours!("drive", drive, Optional(Number(1, 32)), "the drive that takes its I/O, from 1"),
    job!("nrfiles", nrfiles, Number(1, 1 << 16), "files that take the I/Os in turn: equal parts of the region"),
    job!("offset", offset, SIZE_OR_SHARE, "start of the region"),
    job!("offset_increment", offset_increment, SIZE_OR_SHARE, "added once for each earlier instance"),
    job!("offset_align", offset_align, SIZE, "a percentage offset is rounded up to this"),
    job!("size", size, UnlessZero(SIZE_OR_SHARE), "length of the region; 0: the whole device"),
    also(
        "fill_device fill_fs",
        |job, text, _| switch(text).map(|on| job.size = if on { None } else { job.size }),
        "the whole device, as size=100%",
    ),
    job!("io_size io_limit", io_size, UnlessZero(SIZE_OR_SHARE), "bytes or percent to transfer"),
    job!("number_ios", number_ios, UnlessZero(Amount("a number of I/Os")), "I/Os after which the job ends"),
    job!("loops", loops, UnlessZero(Number(0, ANY)), "passes over size"),
    job!("time_based", time_based, Optional(FLAG), "continue until runtime, whatever was transferred"),
    job!("runtime timeout", runtime, UnlessZero(SECONDS), "time after the start and ramp_time"),
    job!("startdelay start_delay", startdelay, Delay, "time before the start, or a range of times"),
    job!("ramp_time", ramp_time, SECONDS, "I/O in this time after the start is not counted"),
    job!("ioengine", ioengine, ENGINE, "any engine that does block I/O; whether it waits for each I/O"),
    job!("direct", direct, FLAG, "bypass the page cache"),
    also("fsync_on_close", |job, text, _| switch(text).map(|on| job.end_fsync |= on), "as end_fsync"),
    also("buffered", |job, text, _| switch(text).map(|on| job.direct = !on), "the opposite of direct"),
    job!("sync", sync, SYNC, "writes carry FUA"),
    job!("hipri", hipri, FLAG, "poll for completions"),
    job!("iodepth", iodepth, Number(1, 1 << 20), "I/Os outstanding; synchronous engines have one"),
    job!("iodepth_low", iodepth_low, UnlessZero(Number(0, ANY)), "once full, drain to this before filling again"),
    job!("iodepth_batch iodepth_batch_submit", iodepth_batch, Number(0, ANY), "I/Os submitted at once; 0: the depth"),
    job!(
        "iodepth_batch_complete_min iodepth_batch_complete",
        iodepth_batch_complete_min,
        Number(0, ANY),
        "once full, wait for this many completions"
    ),
    job!(
        "iodepth_batch_complete_max",
        iodepth_batch_complete_max,
        Number(0, ANY),
        "completions reaped at once, at most"
    ),
    job!("thinktime", thinktime, MICROSECONDS, "pause after each thinktime_blocks I/Os"),
    job!("thinktime_spin", thinktime_spin, MICROSECONDS, "part of the pause that burns CPU"),
    job!("thinktime_blocks", thinktime_blocks, Number(1, ANY), "I/Os between pauses"),
    job!(
        "thinktime_blocks_type",
        thinktime_blocks_type,
        Words([("complete", ThinkBlocks::Complete), ("issue", ThinkBlocks::Issue)]),
        "whether thinktime_blocks counts completed or issued I/Os"
    ),
    job!("thinktime_iotime", thinktime_iotime, UnlessZero(SECONDS), "pause also after issuing for this long"),
    job!("rate", rate, Each(UnlessZero(RATE), None), "bytes per second at most, by direction"),
    job!(
        "rate_iops",
        rate_iops,
        Each(UnlessZero(Amount("a number of I/Os per second")), None),
        "I/Os per second at most, by direction"
    ),
    job!(
        "io_submit_mode",
        io_submit_mode,
        Words([("inline", SubmitMode::Inline), ("offload", SubmitMode::Offload)]),
        "whether submission waits for completions when it is ahead of a rate"
    ),
    job!(
        "rate_process",
        rate_process,
        Words([("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)]),
        "even or Poisson arrivals under a rate"
    ),
    job!("rate_ignore_thinktime", rate_ignore_thinktime, FLAG, "do not catch up with a rate after a pause"),
    ours!("burst_on", burst_on, SECONDS, "submit for this long, then rest"),
    ours!("burst_off", burst_off, SECONDS, "length of the rest between bursts"),
    ours!(
        "burst_process",
        burst_process,
        Words([("fixed", BurstProcess::Fixed), ("exponential", BurstProcess::Exponential)]),
        "whether the lengths of bursts and rests are exact or means"
    ),
    job!(
        "random_distribution",
        random_distribution,
        Each(OFFSETS, Distribution::Uniform),
        "distribution of random offsets by direction"
    ),
    job!("percentage_random", percentage_random, Each(PERCENT, 100), "percentage that is random, by direction"),
    job!("norandommap", norandommap, FLAG, "blocks may repeat before all have been accessed"),
    job!("randseed", randseed, Optional(Number(0, u64::MAX)), "mixed into the run's seed"),
    job!("randrepeat", randrepeat, FLAG, "offsets are the same in each run of fio"),
    job!("allrandrepeat", allrandrepeat, FLAG, "all random numbers are the same in each run of fio"),
    ours!("fio_job", fio_job, Optional(Number(1, 1 << 20)), "number of the job in its fio file, from 1"),
    job!("fsync", fsync, Number(0, ANY), "flush after this many writes; 0: never"),
    job!("fdatasync", fdatasync, Number(0, ANY), "as fsync"),
    job!("end_fsync", end_fsync, FLAG, "flush at the end of a job that wrote"),
    job!(
        "prioclass",
        prioclass,
        Optional(Number(0, 3)),
        "I/O priority class: 0 none, 1 realtime, 2 best effort, 3 idle"
    ),
    job!("prio", prio, Optional(Number(0, 7)), "I/O priority level, 0 the best"),
    job!("nice", nice, NICENESS, "CPU niceness, which gives the level if nothing else does"),
    job!("cmdprio_percentage", cmdprio_percentage, Each(PERCENT, 0), "percentage of I/Os with this priority"),
    job!("cmdprio_class", cmdprio_class, Each(Number(0, 3), 1), "their priority class"),
    job!("cmdprio", cmdprio, Each(Number(0, 7), 0), "their priority level"),
    // Of the job file.
    special("kb_base", base, "1024 or 1000: what the suffix k means"),
    file!("name", name, Optional(NAME), "name of the job instead of the section's title"),
    file!("numjobs", numjobs, Number(1, 65_535), "instances of the job"),
    file!("stonewall wait_for_previous", stonewall, FLAG, "begin after all jobs above have ended"),
    special("filename", file_names, "files or devices, which jobs that name the same share"),
    special("filesize", file_size, "size of each file; of a range the middle"),
    special("file_service_type", file_service, "sequential: one file after another; else they take turns"),
    special("cpus_allowed", cpu_list, "processors of the instances, such as 0,5,8-15"),
    special("cpumask", cpu_mask, "processors of the instances as a bit mask"),
    special("cpus_allowed_policy", cpu_policy, "instances take the processors in turn, as with split"),
    file!("cgroup", cgroup, Optional(NAME), "control group, which becomes a tenant"),
    file!("cgroup_weight", cgroup_weight, Optional(Number(1, 10_000)), "weight of the control group"),
    special("read_iolog", trace_files, "traces to replay; instances take them in turn"),
    file!("replay_no_stall", no_stall, FLAG, "replay as fast as iodepth allows"),
    file!("replay_time_scale", time_scale, Number(1, 1_000_000), "replay speed in percent of the recorded one"),
    // Without effect on the I/O.
    ignored(
        "a text, or measurement and output",
        "description unit_base clocksource gtod_reduce gtod_cpu job_start_clock_id unified_rw_reporting \
         per_job_logs group_reporting new_group stats write_bw_log write_lat_log write_hist_log write_iops_log \
         log_entries log_avg_msec log_hist_msec log_hist_coarseness log_window_value log_max_value log_offset \
         log_prio log_issue_time log_compression log_compression_cpus log_store_compressed log_unix_epoch \
         log_alternate_epoch log_alternate_epoch_clock_id block_error_percentiles bwavgtime iopsavgtime disk_util \
         disable_lat disable_clat disable_slat disable_bw_measurement disable_bw slat_percentiles \
         clat_percentiles lat_percentiles percentile_list significant_figures steadystate ss steadystate_duration \
         ss_dur steadystate_ramp_time ss_ramp steadystate_check_interval ss_interval write_iolog",
    ),
    ignored(
        "stops early by measured values",
        "rate_min ratemin rate_iops_min rate_cycle ratecycle max_latency continue_on_error exitall_on_error \
         ignore_error error_dump exit_what",
    ),
    ignored(
        "creates, reads and keeps files before and after the run",
        "pre_read directory filename_format unique_filename filetype openfiles ioscheduler create_serialize create_fsync \
         create_on_open allow_file_create allow_mounted_write unlink unlink_each_loop fallocate fadvise_hint \
         write_hint overwrite invalidate",
    ),
    ignored(
        "contents of files and buffers",
        "zero_buffers refill_buffers scramble_buffers buffer_compress_percentage buffer_compress_chunk \
         buffer_pattern dedupe_percentage dedupe_mode dedupe_working_set_percentage dedupe_global iomem mem \
         iomem_align mem_align hugepage-size hugepage_size lockmem",
    ),
    ignored(
        "random numbers are always seeded here, without a map that can be exhausted",
        "softrandommap random_generator use_os_rand rwmixcycle",
    ),
    ignored(
        "what submission costs the CPU, and who pays",
        "fixedbufs nonvectored force_async registerfiles sqthread_poll sqthread_poll_cpu userspace_reap nowait \
         libaio_vectored uncached cmd_type thread threads comm numa_cpu_nodes \
         numa_mem_policy uid gid exec_prerun exec_postrun cgroup_nodelete priohint cmdprio_hint \
         read_iolog_chunked replay_redirect",
    ),
    ignored(
        "no effect without another option that is refused",
        "zonerange zonesize zonecapacity zoneskip read_beyond_wp max_open_zones job_max_open_zones \
         ignore_zone_limits zone_reset_threshold zone_reset_frequency latency_window latency_percentile \
         latency_run flow_id flow_sleep do_verify verify_offset verify_interval verify_pattern verify_fatal \
         verify_dump verify_async verify_async_cpus verify_backlog verify_backlog_batch verify_policy \
         verify_pattern_interval verify_state_save verify_state_load verify_write_sequence verify_header_seed \
         experimental_verify trim_verify_zero trim_backlog trim_backlog_batch spr_num_regions spr_op spr_cs \
         merge_blktrace_scalars merge_blktrace_iters recover_zbd_write_error write_zone_remainders",
    ),
    ignored(
        "devices of other engines",
        "uri pool rbdname clientname clustername conf busy_poll touch_objects no_completion_thread md_per_io_size \
         pi_act pi_chk apptag apptag_mask cdb_len libblkio_* xnvme_* rbd_*",
    ),
    // With one that is not supported.
    refused("opendir", &[], "name one file or device"),
    refused("lockfile", &["none"], "files are not locked here"),
    refused(
        "zonemode",
        &["none"],
        "zoned devices are not simulated; use random_distribution=zoned for zones of access",
    ),
    refused("file_append", &["0"], "use offset"),
    refused("create_only", &["0"], "it does no I/O at all"),
    refused("bs_is_seq_rand", &["0"], "give reads and writes their sizes with bs=R,W"),
    refused("random_sequence_stride", &["0"], "use rw=read:STEP"),
    refused("sprandom", &["0"], "choose a preconditioned device model"),
    refused("write_barrier", &["0"], "use fsync or sync=dsync"),
    refused("sync_file_range", &[], "use fsync"),
    refused("end_syncfs", &["0"], "use end_fsync"),
    refused("hipri_percentage", &["0"], "use hipri, for all I/Os"),
    refused("atomic", &["0"], "atomic writes are not simulated"),
    refused("cmdprio_bssplit", &[], "use cmdprio_percentage, or a job for each size"),
    refused("serialize_overlap", &["0"], "use iodepth=1, or leave it out"),
    refused("thinkcycles", &["0"], "use thinktime"),
    refused("ramp_size", &["0"], "use ramp_time"),
    refused("latency_target", &["0"], "give the depth with iodepth"),
    refused("flow", &["0"], "use rate or weights"),
    refused("wait_for", &[], "use stonewall to run jobs after each other"),
    refused("exitall", &["0"], "give all jobs the same runtime with time_based"),
    refused("verify", &["0", "none"], "data is not kept here; leave it out"),
    refused("verify_only", &["0"], "data is not kept here; leave it out"),
    refused("trim_percentage", &["0"], "give the trims a job of their own"),
    refused("replay_align", &["0"], "convert the trace first"),
    refused("replay_scale", &["0", "1"], "convert the trace first"),
    refused("replay_skip", &[], "convert the trace first"),
    refused("merge_blktrace_file", &[], "give each trace a job"),
    refused("profile", &[], "write its jobs out"),
    refused("readfua", &["0"], "reads past the cache are not simulated"),
    refused("writefua", &["0"], "use sync=dsync"),
    refused("sg_write_mode write_mode", &["write"], "it sends other commands than writes"),
    refused("read_mode", &["read"], "it sends other commands than reads"),
    refused("fdp", &["0"], "data placement is not simulated"),
    refused("dataplacement", &["none"], "data placement is not simulated"),
    refused("num_range", &["0", "1"], "one trim has one range here"),
    refused(
        "arguments bindname chunk_size cont cpuchunks cpuload cpumode cuda_io donorname exit_on_io_done \
         gpu_dev_ids grace_time hdfsdirectory hostname https inplace interface listen mss namenode nfs_url \
         nodelay object_class pingpong port program protocol proto rocm_io skip_bad stat_type std_redirect ttl \
         verb window_size http_*",
        &[],
        NO_BLOCK_IO,
    ),
];

fn block_ranges(job: &mut JobSpec, text: &str, prefixes: Prefixes) -> Parsed<()> {
    let text = text.replace('/', ",").replace(':', "-");
    job.bs = per_dir(&text, job.bs.clone(), |text| block_size(text, prefixes))?;
    Ok(())
}

fn block_splits(job: &mut JobSpec, text: &str, prefixes: Prefixes) -> Parsed<()> {
    job.bs = per_dir(text, job.bs.clone(), |text| block_split(text, prefixes).or_else(|_| block_size(text, prefixes)))?;
    Ok(())
}

/// Words of other tools and of people for options, which are no options.
const SYNONYMS: [(&str, &str); 13] = [
    ("bs", "block block_size iosize request_size request_bytes"),
    ("iodepth", "qd depth queue_depth"),
    ("numjobs", "jobs num_jobs processes threads"),
    ("rate_iops", "iops io_rate"),
    ("rate", "bandwidth max_rate"),
    ("rw", "access mode op pattern type workload"),
    ("rwmixread", "rwmix read_percent mix"),
    ("ioengine", "engine"),
    ("thinktime", "think think_time"),
    ("startdelay", "delay"),
    ("random_distribution", "distribution"),
    ("randseed", "seed"),
    ("size", "span working_set"),
];
