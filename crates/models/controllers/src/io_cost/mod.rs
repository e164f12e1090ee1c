//! `io.cost`: Linux's proportional sharing by modelled cost (6.12 and 6.18, cgroup v2).

mod asking;
mod controller;
mod device;
mod donation;
mod groups;
mod in_force;
mod lenders;
mod model;
mod period;
mod settings;
mod trace;

pub use asking::{Answer, Asking, Joined};
pub use controller::{IoCost, NAME, WEIGHT};
pub use device::Device;
pub use model::{Coefficients, DeviceClass, Model, Qos, RATE_MAX_PPM, RATE_MIN_PPM, Rates, VTIME_PER_S, VTIME_PER_US};
pub use settings::{SettingError, Settings};
pub use trace::{Lent, Period, Trace};

#[cfg(test)]
mod tests;
