//! What is set: `io.cost.qos` and `io.cost.model` as texts and as values, and what follows from them.

use std::fmt;

use super::model::{Coefficients, DeviceClass, Model, Qos, RATE_MAX_PPM, RATE_MIN_PPM, VTIME_PER_US};

/// The two files of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Is it on?
    pub enabled: bool,
    /// Quality of service; [`Settings::user_qos`] says whether somebody set it.
    pub qos: Qos,
    /// See `qos`. What nobody set follows the kind of device.
    pub user_qos: bool,
    /// Model; [`Settings::user_model`] says whether somebody set it.
    pub model: Model,
    /// See `model`.
    pub user_model: bool,
}

impl Default for Settings {
    /// Off, and nothing set.
    fn default() -> Settings {
        let class = DeviceClass::SsdDefault;
        Settings { enabled: false, qos: class.qos(), user_qos: false, model: class.model(), user_model: false }
    }
}

/// Why a text is no setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError(String);

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

fn expected(key: &str, value: &str, what: &str) -> SettingError {
    let value: String = value.chars().take(40).collect();
    SettingError(format!("{key}: `{}`; expected {what}", value.escape_debug()))
}

impl Settings {
    /// These settings after a text such as `enable=1 rpct=95 rlat=5000 min=50 max=150` was written to `io.cost.qos`. Keys are
    /// read from left to right; those that are not named keep their values.
    ///
    /// # Errors
    ///
    /// An unknown key, a value that is none, or `min` above `max`; nothing changes then.
    pub fn with_qos(self, text: &str) -> Result<Settings, SettingError> {
        let mut new = self;
        for (key, value) in pairs(text)? {
            match (key, value) {
                ("enable", "0") => new.enabled = false,
                ("enable", "1") => new.enabled = true,
                ("enable", _) => return Err(expected(key, value, "0 or 1")),
                ("ctrl", "auto") => new.user_qos = false,
                ("ctrl", "user") => new.user_qos = true,
                ("ctrl", _) => return Err(expected(key, value, "auto or user")),
                ("rpct" | "wpct", _) => {
                    let ppm = percent(key, value)?;
                    let most = || expected(key, value, "a percentage from 0 to 100");
                    new.qos.pct_ppm[usize::from(key == "wpct")] =
                        u32::try_from(ppm).ok().filter(|ppm| *ppm <= 1_000_000).ok_or_else(most)?;
                    new.user_qos = true;
                }
                ("rlat" | "wlat", _) => {
                    let lat = value.parse().map_err(|_| expected(key, value, "microseconds, up to 4294967295"))?;
                    new.qos.lat_us[usize::from(key == "wlat")] = lat;
                    new.user_qos = true;
                }
                ("min" | "max", _) => {
                    let ppm = percent(key, value)?.clamp(RATE_MIN_PPM.into(), RATE_MAX_PPM.into()) as u32;
                    let of = if key == "min" { &mut new.qos.min_ppm } else { &mut new.qos.max_ppm };
                    *of = ppm;
                    new.user_qos = true;
                }
                _ => return Err(unknown(key, "enable, ctrl, rpct, rlat, wpct, wlat, min, max")),
            }
        }
        if new.qos.min_ppm > new.qos.max_ppm {
            let shown = |ppm: u32| f64::from(ppm) / 1e4;
            let (min, max) = (shown(new.qos.min_ppm), shown(new.qos.max_ppm));
            return Err(SettingError(format!("min: {min} % is above max, {max} %; expected min up to max")));
        }
        Ok(new)
    }

    /// These settings after a text such as `ctrl=user model=linear rbps=.. rseqiops=..` was written to `io.cost.model`.
    ///
    /// # Errors
    ///
    /// An unknown key or model, or a value that is no number above 0; nothing changes then.
    pub fn with_model(self, text: &str) -> Result<Settings, SettingError> {
        let mut new = self;
        for (key, value) in pairs(text)? {
            match (key, value) {
                ("ctrl", "auto") => new.user_model = false,
                ("ctrl", "user") => new.user_model = true,
                ("ctrl", _) => return Err(expected(key, value, "auto or user")),
                ("model", "linear") => {}
                ("model", _) => return Err(expected(key, value, "linear")),
                _ => {
                    let (dir, of) = match key.split_at_checked(1) {
                        Some(("r", of)) => (0, of),
                        Some(("w", of)) => (1, of),
                        _ => return Err(unknown(key, MODEL_KEYS)),
                    };
                    let number = value.parse().ok().filter(|n: &u64| *n > 0);
                    let number = number.ok_or_else(|| expected(key, value, "a number above 0"))?;
                    let rates = &mut new.model[dir];
                    match of {
                        "bps" => rates.bps = number,
                        "seqiops" => rates.seqiops = number,
                        "randiops" => rates.randiops = number,
                        _ => return Err(unknown(key, MODEL_KEYS)),
                    }
                    new.user_model = true;
                }
            }
        }
        Ok(new)
    }

    /// What reading `io.cost.qos` gives, without the device's number.
    pub fn qos_text(&self) -> String {
        let percent = |ppm: u32| format!("{}.{:02}", ppm / 10_000, ppm % 10_000 / 100);
        let Qos { pct_ppm: [rpct, wpct], lat_us: [rlat, wlat], min_ppm, max_ppm } = self.qos;
        format!(
            "enable={} ctrl={} rpct={} rlat={rlat} wpct={} wlat={wlat} min={} max={}",
            u8::from(self.enabled),
            control(self.user_qos),
            percent(rpct),
            percent(wpct),
            percent(min_ppm),
            percent(max_ppm),
        )
    }

    /// What reading `io.cost.model` gives, without the device's number.
    pub fn model_text(&self) -> String {
        let [r, w] = self.model;
        format!(
            "ctrl={} model=linear rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} wrandiops={}",
            control(self.user_model),
            r.bps,
            r.seqiops,
            r.randiops,
            w.bps,
            w.seqiops,
            w.randiops,
        )
    }
}

const MODEL_KEYS: &str = "ctrl, model, rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops";

fn control(user: bool) -> &'static str {
    if user { "user" } else { "auto" }
}

fn unknown(key: &str, known: &str) -> SettingError {
    SettingError(format!("unknown key `{}`; expected {known}", key.escape_debug()))
}

fn pairs(text: &str) -> Result<Vec<(&str, &str)>, SettingError> {
    let pair = |word| <str>::split_once(word, '=').ok_or_else(|| expected("setting", word, "KEY=VALUE"));
    let words = text.split(|c: char| c.is_whitespace() || c == ';').filter(|word| !word.is_empty());
    words.map(pair).collect()
}

/// Millionths of a percentage with up to two decimals.
fn percent(key: &str, text: &str) -> Result<u64, SettingError> {
    let fail = || expected(key, text, "a percentage with up to two decimals");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || part.len() > 2 || !digits(whole) || !digits(part) {
        return Err(fail());
    }
    let hundredths: u64 = format!("{part:0<2}").parse().map_err(|_| fail())?;
    Ok(whole.parse::<u64>().map_err(|_| fail())? * 10_000 + hundredths * 100)
}

/// What follows from settings and the kind of device.
#[derive(Clone, Copy, Debug)]
pub(super) struct InForce {
    /// `None` before the first look.
    pub(super) class: Option<DeviceClass>,
    /// Since when the rate is so high, or so low, that another kind would fit, µs.
    pub(super) too_fast_since_us: Option<u64>,
    pub(super) too_slow_since_us: Option<u64>,
    pub(super) qos: Qos,
    /// Reads and writes.
    pub(super) coefficients: [Coefficients; 2],
    pub(super) rate_min: u64,
    pub(super) rate_max: u64,
    pub(super) period_us: u64,
}

impl InForce {
    pub(super) fn of(settings: &Settings, class: DeviceClass) -> InForce {
        let qos = if settings.user_qos { settings.qos } else { class.qos() };
        let model = if settings.user_model { settings.model } else { class.model() };
        let limit = |ppm: u32| (u64::from(ppm) * VTIME_PER_US).div_ceil(1_000_000);
        InForce {
            class: None,
            too_fast_since_us: None,
            too_slow_since_us: None,
            qos,
            coefficients: model.map(Coefficients::of),
            rate_min: limit(qos.min_ppm),
            rate_max: limit(qos.max_ppm),
            period_us: period_us(&qos),
        }
    }

    /// How late a timer may run.
    #[inline]
    pub(super) fn slack_ns(&self) -> u64 {
        self.period_us * 10
    }
}

/// The larger latency sets the period: twice of it, and more where fewer I/Os must meet it.
fn period_us(qos: &Qos) -> u64 {
    let of = usize::from(qos.lat_us[0] < qos.lat_us[1]);
    let multiple = match qos.pct_ppm[of] {
        0 => 2,
        ppm => 2.max((1_000_000 - ppm) / 50_000),
    };
    (u64::from(multiple) * u64::from(qos.lat_us[of])).clamp(1_000, 1_000_000)
}
