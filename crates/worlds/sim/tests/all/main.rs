//! Whole runs of the simulator, in one program: a test program more is a link more.

mod allocations;
mod bfq_shares;
mod cfq_shares;
mod fair_queueing;
mod headway;
mod host;
mod io_cost_parameters;
mod life;
mod limits;
mod page_cache;
mod rejection;
mod several_drives;
mod sleeping;
mod time_parts;
mod tune;
mod whole_runs;
mod write_back;
