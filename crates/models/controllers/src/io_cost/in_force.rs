//! What is in force on a device: its settings, or what its kind has where nobody set them.

use std::collections::BinaryHeap;

use dumbwaiter_block::Nanos;

use super::device::{Device, Forgiveness, Latencies, Margins};
use super::groups::Groups;
use super::model::{DeviceClass, VTIME_PER_US};
use super::settings::{InForce, SettingError, Settings};
use super::trace::Period;
use crate::kernel_timer::Jiffies;

/// A device must fit another kind for this long, µs.
const CLASS_CHANGE_US: u64 = 10_000_000;

impl Device {
    /// A device with no group but the root. `depth`: what its driver takes, or the requests of its scheduler.
    pub fn new(jiffies: Jiffies, rotational: bool, depth: u32, settings: Settings) -> Device {
        let mut device = Device {
            jiffies,
            settings,
            rotational,
            depth,
            in_force: InForce::of(&settings, super::DeviceClass::SsdDefault),
            base_rate: VTIME_PER_US,
            rate: VTIME_PER_US,
            error: 0,
            margins: Margins::default(),
            running: false,
            period_at_us: 0,
            period_vtime: 0,
            period_no: 0,
            period_ends: None,
            busy: 0,
            groups: Groups::new(),
            active: Vec::new(),
            forgiveness: Forgiveness::default(),
            latencies: Latencies::default(),
            last_period: Period::default(),
            wakes: BinaryHeap::new(),
            scratch: Default::default(),
            trace: None,
        };
        device.refresh(Nanos::ZERO, true);
        device
    }

    /// Changes settings. The caller has drained the device's queue.
    ///
    /// # Errors
    ///
    /// See [`super::Settings::with_qos`].
    pub fn set_qos(&mut self, text: &str, now: Nanos) -> Result<(), SettingError> {
        self.settings = self.settings.with_qos(text)?;
        self.refresh(now, true);
        Ok(())
    }

    /// Changes the model. The caller has drained the device's queue.
    ///
    /// # Errors
    ///
    /// See [`super::Settings::with_model`].
    pub fn set_model(&mut self, text: &str, now: Nanos) -> Result<(), SettingError> {
        self.settings = self.settings.with_model(text)?;
        self.refresh(now, true);
        Ok(())
    }

    /// The driver's depth, or the number of requests, changed.
    pub fn set_depth(&mut self, depth: u32, now: Nanos) {
        self.depth = depth;
        self.refresh(now, false);
    }

    /// The device was declared rotational or not.
    pub fn set_rotational(&mut self, rotational: bool, now: Nanos) {
        self.rotational = rotational;
        self.refresh(now, false);
    }

    /// Follows the kind of device. `always`: also where it stays.
    pub(super) fn refresh(&mut self, now: Nanos, always: bool) {
        let class = self.kind_now(now.0 / 1000);
        if self.in_force.class == Some(class) && !always {
            return;
        }
        let mut new = InForce::of(&self.settings, class);
        if self.in_force.class == Some(class) {
            new.too_fast_since_us = self.in_force.too_fast_since_us;
            new.too_slow_since_us = self.in_force.too_slow_since_us;
        } else {
            self.base_rate = VTIME_PER_US;
            self.rate = VTIME_PER_US;
        }
        new.class = Some(class);
        self.in_force = new;
        // What nobody set shows the values of the kind.
        if !self.settings.user_qos {
            self.settings.qos = class.qos();
        }
        if !self.settings.user_model {
            self.settings.model = class.model();
        }
        self.refresh_margins();
    }

    pub(super) fn refresh_margins(&mut self) {
        let of = |percent: u64| (self.in_force.period_us * percent / 100 * self.base_rate) as i64;
        self.margins = Margins { min: of(10), low: of(20), target: of(50) };
    }

    /// The kind of device, by what it is and by how the rate went.
    fn kind_now(&mut self, now_us: u64) -> DeviceClass {
        if self.rotational {
            return DeviceClass::Hdd;
        }
        if self.depth == 1 {
            return DeviceClass::SsdDepth1;
        }
        let class = match self.in_force.class {
            None | Some(DeviceClass::Hdd | DeviceClass::SsdDepth1) => return DeviceClass::SsdDefault,
            Some(class) => class,
        };
        if self.settings.user_qos || self.settings.user_model {
            return class;
        }
        let percent = self.base_rate * 100 / VTIME_PER_US;
        let (fits, since, next) = match class {
            DeviceClass::SsdDefault => (percent >= 500, &mut self.in_force.too_fast_since_us, DeviceClass::SsdFast),
            _ => (percent <= 10, &mut self.in_force.too_slow_since_us, DeviceClass::SsdDefault),
        };
        if !fits {
            *since = None;
            return class;
        }
        let since = *since.get_or_insert(now_us);
        if now_us.saturating_sub(since) >= CLASS_CHANGE_US { next } else { class }
    }
}
