//! A survey of a drive, and a device model fitted to it.
//!
//! A [`plan`] says, as data, which loads show what. [`survey`] measures them on a [`Subject`]: a real drive ([`Drive`]) or one of
//! our models in virtual time ([`Model`]). [`fit`] is a pure function from the measured points to the parameters of a
//! device model. Some of the points are held back from it and predicted afterwards, so that a [`Fitted`] says how far it
//! can be trusted. [`device_file`] writes it as a parameter file that `dumbwaiter_devices::load` accepts.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use dumbwaiter_realworld::fit::{Model, Options, fit, survey};
//!
//! let model = dumbwaiter_devices::load("null:0us?latency_ns=2000000&depth=1").expect("a model");
//! let mut subject = Model::new(model, 1);
//! let found = survey(&mut subject, &Options::default(), &AtomicBool::new(false), &mut |_| {}).expect("a survey");
//! let fitted = fit(&found).expect("a fit");
//! assert_eq!(fitted.depth, Some(1));
//! assert!((fitted.service_us.read_4k - 2000.0).abs() < 1.0);
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod device_file;
mod document;
mod drive;
mod error;
mod fitted;
mod kinds;
mod load;
mod model;
mod open;
mod parameters;
pub mod plan;
mod point;
mod predict;
mod search;
mod subject;
mod survey;

pub use device_file::device_file;
pub use document::{Document, document};
pub use drive::{Drive, DriveOptions};
pub use error::Error;
pub use fitted::{Compared, Fitted, HeldBack, ServiceTime, fit};
pub use load::{Load, Pattern};
pub use model::Model;
pub use open::{Opened, open};
pub use parameters::{Origin, Parameter};
pub use point::Point;
pub use subject::{Facts, Limits, Subject};
pub use survey::{Measured, Options, Progress, Survey, survey};
