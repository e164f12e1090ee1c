//! The speed of what we built, as figures and ratios: [`schedulers`] and [`controllers`] alone, the [`simulator`], and the disk path of the
//! [`engine`] beside fio and a bare ring, the disk server ([`serve`]) beside others, the [`shares`] of its tenants, and inference of the models that
//! [`learn`](mod@learn) times.
#![forbid(unsafe_code)]

pub mod controllers;
pub mod engine;
pub mod learn;
pub mod schedulers;
pub mod serve;
pub mod shares;
pub mod simulator;
