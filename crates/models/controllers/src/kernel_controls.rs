//! What the kernel puts before a scheduler by itself or when it is told to, and its place in the text of a stack:
//! `mq-deadline+wbt=off`, `none+io.cost:qos=rpct=95 rlat=5000 min=50 max=150`, `none+io.max`, `none+io.latency=200us`,
//! `mq-deadline+io.prio.class`.

use dumbwaiter_block::{BlockLayer, Nanos};

use crate::io_cost::{self, IoCost};
use crate::io_max::Release;
use crate::wbt::{self, Wbt};
use crate::{io_latency, io_max, prio_class};

/// The target of write-back throttling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WbtTarget {
    /// As Linux sets it up: 2 ms on flash, 75 ms on disks, off under bfq and where io.cost is enabled.
    #[default]
    Default,
    /// Off by hand.
    Off,
    /// This many µs, by hand: also under bfq and beside io.cost.
    Us(u64),
}

/// Longest target, µs: a minute.
const WBT_MAX_US: u64 = 60_000_000;

impl WbtTarget {
    /// Reads `default`, `off` or a time such as `75ms` or `2000us`.
    ///
    /// # Errors
    ///
    /// Another text; what was expected.
    pub fn parse(text: &str) -> Result<WbtTarget, String> {
        let number = |digits: &str, unit: u64| digits.trim().parse::<u64>().ok()?.checked_mul(unit);
        let us = match text {
            "default" => return Ok(WbtTarget::Default),
            "off" | "0" => return Ok(WbtTarget::Off),
            _ if text.ends_with("us") => number(&text[..text.len() - 2], 1),
            _ if text.ends_with("ms") => number(&text[..text.len() - 2], 1000),
            _ => None,
        };
        let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        let expected =
            || format!("wbt: `{shown}`; expected default, off, or a time up to a minute such as 75ms or 2000us");
        us.filter(|us| (1..=WBT_MAX_US).contains(us)).map(WbtTarget::Us).ok_or_else(expected)
    }

    /// In the syntax of [`WbtTarget::parse`].
    pub fn text(self) -> String {
        match self {
            WbtTarget::Default => "default".to_owned(),
            WbtTarget::Off => "off".to_owned(),
            WbtTarget::Us(us) if us % 1000 == 0 => format!("{}ms", us / 1000),
            WbtTarget::Us(us) => format!("{us}us"),
        }
    }
}

/// Controllers that stand before a scheduler, as somebody asked for them; `None`: nobody did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelControls {
    /// Write-back throttling.
    pub wbt: Option<WbtTarget>,
    /// Proportional sharing by modelled cost.
    pub io_cost: Option<io_cost::Settings>,
    /// Requests of the device when wbt was set up, which stay its depth; `None`: those that the scheduler has.
    pub wbt_depth: Option<u32>,
    /// The limits of tenants apply, in percent of what they state.
    pub io_max_percent: Option<u32>,
    /// The targets of tenants apply.
    pub io_latency: Option<LatencyTarget>,
    /// The priority classes of tenants apply.
    pub prio_class: bool,
    /// The kernel's release, where releases differ; not part of a stack's text.
    pub release: Release,
}

/// The latency target of tenants that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyTarget {
    /// Each its own.
    Own,
    /// This many µs.
    Us(u64),
}

/// Names by which controllers are appended to a scheduler.
const NAMES: [&str; 5] = [wbt::NAME, io_cost::NAME, io_max::NAME, io_latency::NAME, prio_class::NAME];
/// Most that limits of tenants can be scaled to, in percent.
const IO_MAX_PERCENT_MAX: u32 = 10_000;

impl KernelControls {
    /// Parts the text of a stack into the scheduler and the controllers before it: the first `+` that a controller follows parts
    /// them.
    pub fn split(text: &str) -> (&str, Option<&str>) {
        let is_controller = |rest: &str| {
            let name = |name: &&str| {
                rest.strip_prefix(*name).is_some_and(|after| after.is_empty() || after.starts_with(['=', ':', '+']))
            };
            NAMES.iter().any(name)
        };
        let part = text.match_indices('+').find(|(at, _)| is_controller(text[at + 1..].trim_start()));
        part.map_or((text, None), |(at, _)| (&text[..at], Some(text[at + 1..].trim())))
    }

    /// Reads controllers such as `wbt=off+io.cost:qos=rlat=5000 min=50,model=rbps=100000000`.
    ///
    /// # Errors
    ///
    /// An unknown controller, one that is named twice, or a value that it does not take.
    pub fn parse(text: &str) -> Result<KernelControls, String> {
        let mut found = KernelControls::default();
        for part in text.split('+').map(str::trim) {
            let shown: String = part.chars().take(60).flat_map(char::escape_debug).collect();
            let twice = || format!("`{shown}`: the controller is named twice");
            if let Some(target) = part.strip_prefix("wbt") {
                let target = match target.trim_start() {
                    "" => "default",
                    rest => rest.strip_prefix(['=', ':']).ok_or_else(|| unknown(&shown))?,
                };
                if found.wbt.replace(WbtTarget::parse(target.trim())?).is_some() {
                    return Err(twice());
                }
            } else if let Some(rest) = part.strip_prefix(io_cost::NAME) {
                if found.io_cost.replace(io_cost_settings(rest)?).is_some() {
                    return Err(twice());
                }
            } else if let Some(rest) = part.strip_prefix(io_max::NAME) {
                if found.io_max_percent.replace(percent(rest, &shown)?).is_some() {
                    return Err(twice());
                }
            } else if let Some(rest) = part.strip_prefix(io_latency::NAME) {
                if found.io_latency.replace(latency_target(rest, &shown)?).is_some() {
                    return Err(twice());
                }
            } else if part == prio_class::NAME {
                if std::mem::replace(&mut found.prio_class, true) {
                    return Err(twice());
                }
            } else {
                return Err(unknown(&shown));
            }
        }
        Ok(found)
    }

    /// In the syntax of [`KernelControls::parse`]; empty where nobody asked for any.
    pub fn text(&self) -> String {
        let wbt = self.wbt.map(|target| format!("{}={}", wbt::NAME, target.text()));
        let io_cost = self.io_cost.map(|settings| {
            let standard = io_cost::Settings::default();
            let part = |file: &str, user: bool, text: String, standard: String| {
                user.then(|| format!("{file}={}", what_differs(&text, &standard)))
            };
            let qos = part("qos", settings.user_qos, settings.qos_text(), standard.qos_text());
            let model = part("model", settings.user_model, settings.model_text(), standard.model_text());
            let of: Vec<String> = qos.into_iter().chain(model).collect();
            format!("{}{}{}", io_cost::NAME, if of.is_empty() { "" } else { ":" }, of.join(","))
        });
        let io_max = self.io_max_percent.map(|percent| match percent {
            100 => io_max::NAME.to_owned(),
            percent => format!("{}={percent}%", io_max::NAME),
        });
        let io_latency = self.io_latency.map(|target| match target {
            LatencyTarget::Own => io_latency::NAME.to_owned(),
            LatencyTarget::Us(us) => format!("{}={}", io_latency::NAME, WbtTarget::Us(us).text()),
        });
        let prio_class = self.prio_class.then(|| prio_class::NAME.to_owned());
        let all = [wbt, io_cost, io_max, io_latency, prio_class];
        all.into_iter().flatten().collect::<Vec<String>>().join("+")
    }

    /// These controls where they were asked for, else those of `others`.
    pub fn or(self, others: KernelControls) -> KernelControls {
        KernelControls {
            wbt: self.wbt.or(others.wbt),
            io_cost: self.io_cost.or(others.io_cost),
            wbt_depth: others.wbt_depth,
            release: others.release,
            ..self
        }
    }

    /// Does it name controllers that act by what tenants state?
    pub fn is_of_tenants(&self) -> bool {
        self.io_max_percent.is_some() || self.io_latency.is_some() || self.prio_class
    }

    /// Does nothing stand before the scheduler?
    pub fn is_empty(&self) -> bool {
        self.wbt.is_none() && self.io_cost.is_none() && !self.is_of_tenants()
    }

    /// Adds the controllers to a block layer, as Linux would: wbt with its default gives way to io.cost.
    pub fn add_to(&self, layer: &mut BlockLayer, now: Nanos) {
        let by_default = matches!(self.wbt, Some(WbtTarget::Default));
        let gives_way = by_default && self.io_cost.is_some_and(|settings| settings.enabled);
        let wbt = self.wbt.filter(|_| !gives_way).map(|target| match target {
            WbtTarget::Default => Wbt::new(),
            WbtTarget::Off => Wbt::with_target_us(0),
            WbtTarget::Us(us) => Wbt::with_target_us(us),
        });
        if let Some(wbt) = wbt {
            layer.add_controller(now, Box::new(wbt.set_up_with(self.wbt_depth)));
        }
        if let Some(settings) = self.io_cost {
            layer.add_controller(now, Box::new(IoCost::new(settings)));
        }
    }
}

/// The pairs of a text that differ from the standard ones, which a reader begins with.
fn what_differs(text: &str, standard: &str) -> String {
    let standard: Vec<&str> = standard.split(' ').collect();
    let own = text.split(' ').filter(|pair| !standard.contains(pair) && !pair.starts_with("enable="));
    let (control, values): (Vec<&str>, Vec<&str>) = own.partition(|pair| pair.starts_with("ctrl="));
    // A user who set what is standard.
    if values.is_empty() { control.join(" ") } else { values.join(" ") }
}

/// `=50%`: a part of the limits that tenants state; nothing: all of them.
fn percent(rest: &str, shown: &str) -> Result<u32, String> {
    if rest.is_empty() {
        return Ok(100);
    }
    let number = rest.strip_prefix(['=', ':']).and_then(|text| text.trim().strip_suffix('%')?.trim().parse().ok());
    let valid = number.filter(|percent| (1..=IO_MAX_PERCENT_MAX).contains(percent));
    let expected = "io.max, or io.max=PERCENT of what tenants state, such as io.max=50%";
    valid.ok_or_else(|| format!("`{shown}`; expected {expected}, from 1 % to {IO_MAX_PERCENT_MAX} %"))
}

/// `=200us`: the target of tenants that have one; nothing: each its own.
fn latency_target(rest: &str, shown: &str) -> Result<LatencyTarget, String> {
    if rest.is_empty() {
        return Ok(LatencyTarget::Own);
    }
    let time = rest.strip_prefix(['=', ':']).and_then(|text| WbtTarget::parse(text.trim()).ok());
    match time {
        Some(WbtTarget::Us(us)) => Ok(LatencyTarget::Us(us)),
        _ => Err(format!("`{shown}`; expected io.latency, or a time up to a minute such as io.latency=200us")),
    }
}

fn unknown(name: &str) -> String {
    let known = "wbt (wbt=off, wbt=75ms), io.cost (io.cost:qos=rlat=5000 min=50), io.max (io.max=50%), io.latency (io.latency=200us) or io.prio.class";
    format!("unknown controller `{name}`; expected {known}")
}

/// Enabled, with `:qos=KEY=VALUE ..` and `,model=KEY=VALUE ..` as they are written to the kernel's files.
fn io_cost_settings(text: &str) -> Result<io_cost::Settings, String> {
    let mut settings = io_cost::Settings { enabled: true, ..io_cost::Settings::default() };
    let Some(text) = text.trim_start().strip_prefix(':') else {
        return match text.trim() {
            "" => Ok(settings),
            other => Err(format!("io.cost: `{}`; expected :qos=.. or :model=..", other.escape_debug())),
        };
    };
    for part in text.split(',').map(str::trim) {
        let (file, values) = part.split_once('=').unwrap_or((part, ""));
        settings = match file.trim() {
            "qos" => settings.with_qos(values).map_err(|why| format!("io.cost qos: {why}"))?,
            "model" => settings.with_model(values).map_err(|why| format!("io.cost model: {why}"))?,
            other => return Err(format!("io.cost: unknown file `{}`; expected qos or model", other.escape_debug())),
        };
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_a_scheduler_and_what_stands_before_it() {
        assert_eq!(KernelControls::split("mq-deadline+wbt=off"), ("mq-deadline", Some("wbt=off")));
        assert_eq!(KernelControls::split("none+io.cost:qos=min=50"), ("none", Some("io.cost:qos=min=50")));
        assert_eq!(KernelControls::split("bfq"), ("bfq", None));
        let adaptive = "adaptive:candidates=none+kyber";
        assert_eq!(KernelControls::split(adaptive), (adaptive, None));
        assert_eq!(KernelControls::split("adaptive:candidates=none+kyber+wbt"), (adaptive, Some("wbt")));
    }

    #[test]
    fn texts_come_back_as_they_were_meant() {
        for text in [
            "wbt=off",
            "wbt=75ms",
            "wbt=1500us",
            "wbt=default",
            "io.cost",
            "wbt=2ms+io.cost:qos=rpct=95.00 rlat=5000 min=50.00 max=150.00",
            "io.cost:qos=ctrl=user",
            "io.cost:model=rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6",
        ] {
            let controls = KernelControls::parse(text).unwrap();
            assert_eq!(controls.text(), text);
            assert_eq!(KernelControls::parse(&controls.text()), Ok(controls));
        }
        assert_eq!(KernelControls::parse("wbt").unwrap().wbt, Some(WbtTarget::Default));
        // In a shell, without spaces.
        let short = KernelControls::parse("io.cost:qos=rpct=95;rlat=5000").unwrap().io_cost.unwrap();
        assert_eq!((short.enabled, short.qos.pct_ppm[0], short.qos.lat_us[0]), (true, 950_000, 5_000));
    }

    #[test]
    fn what_is_no_controller_is_named() {
        let fails = |text: &str| KernelControls::parse(text).unwrap_err();
        assert_eq!(
            fails("wbt=fast"),
            "wbt: `fast`; expected default, off, or a time up to a minute such as 75ms or 2000us"
        );
        assert_eq!(fails("wbt=off+wbt"), "`wbt`: the controller is named twice");
        assert!(fails("io.cost:speed=5").contains("unknown file `speed`; expected qos or model"));
        assert!(fails("io.cost:qos=min=60 max=50").contains("min: 60 % is above max"));
        assert!(fails("io.cost+wbtoff").starts_with("unknown controller `wbtoff`; expected wbt"));
        assert!(fails("wbt=off+io.min").starts_with("unknown controller `io.min`; expected wbt"));
        assert!(fails("io.max=half").starts_with("`io.max=half`; expected io.max, or io.max=PERCENT"));
        assert!(fails("io.latency=off").starts_with("`io.latency=off`; expected io.latency, or a time"));
        assert!(fails("io.max+io.max=50%").contains("named twice"));
        let text = "wbt=off+io.max=50%+io.latency=200us+io.prio.class";
        assert_eq!(KernelControls::parse(text).unwrap().text(), text);
        assert_eq!(KernelControls::parse("io.max=100%+io.latency").unwrap().text(), "io.max+io.latency");
        assert!(fails("io.cost:model=rbps=0").contains("rbps: `0`; expected a number above 0"));
    }
}
