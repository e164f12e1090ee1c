//! The names of applications and their options.

use dumbwaiter_block::Nanos;
use dumbwaiter_block::hint::did_you_mean_of;

use crate::generate::parse::{extent, switch};
use crate::generate::{BuildError, Extent};
use dumbwaiter_text::units::{self, BareTime, Prefixes};

/// Whether a program computes between its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// As the traced program did.
    #[default]
    Paced,
    /// Never, like the suite's own replayer.
    Greedy,
}

/// The video of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Video {
    /// 5 Mb/s.
    #[default]
    P720,
    /// 12 Mb/s.
    P1080,
}

impl Video {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Video::P720 => "player 720p",
            Video::P1080 => "player 1080p",
        }
    }

    /// Bits per second.
    pub(super) fn bits(self) -> u64 {
        match self {
            Video::P720 => 5_000_000,
            Video::P1080 => 12_000_000,
        }
    }
}

/// An application with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    name: &'static str,
    think: Option<Think>,
    video: Option<Video>,
    timeout: Option<Nanos>,
    launch_after: Option<Nanos>,
    every: Option<Nanos>,
    runtime: Option<Nanos>,
    repeat: Option<u32>,
    fps: Option<u32>,
    readers: Option<u32>,
    maxrate: Option<u64>,
    raw: Option<bool>,
    log: Option<bool>,
    offset: Option<Extent>,
    size: Option<Extent>,
}

impl App {
    /// Names of all applications.
    pub const NAMES: [&'static str; 22] = [
        "oowriter-like",
        "terminal-like",
        "desktop-terminal-like",
        "player",
        "player-interference",
        "sync",
        "10r-seq",
        "10r-rand",
        "5r5w-seq",
        "5r5w-rand",
        "interleaved",
        "ycsb-a",
        "ycsb-d",
        "fileserver",
        "fileserver-r",
        "fileserver-w",
        "msn",
        "prj",
        "prn",
        "rand-4K",
        "rand-32K",
        "rand-256K",
    ];

    /// Names of the options of all applications.
    pub const KEYS: [&'static str; 14] = [
        "every",
        "fps",
        "launch_after",
        "log",
        "maxrate",
        "offset",
        "raw",
        "readers",
        "repeat",
        "runtime",
        "size",
        "think",
        "timeout",
        "video",
    ];

    /// The application of this name; the error suggests others.
    pub fn new(name: &str) -> Result<App, String> {
        let Some(name) = App::NAMES.into_iter().find(|n| *n == name) else {
            return Err(format!("unknown application `{name}`{}", did_you_mean_of(name, &App::NAMES)));
        };
        Ok(App {
            name,
            think: None,
            video: None,
            timeout: None,
            launch_after: None,
            every: None,
            runtime: None,
            repeat: None,
            fps: None,
            readers: None,
            maxrate: None,
            raw: None,
            log: None,
            offset: None,
            size: None,
        })
    }

    /// Sets an option from text; the error says what is wrong with name or value.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let wrong = |expected: &str| format!("{text:?} is not {expected}");
        let time = || match units::time(text, BareTime::Seconds) {
            Ok(Nanos::ZERO) => Err(wrong("a time above 0")),
            other => other.map_err(|e| e.to_string()),
        };
        let number = |most: u64, expected: &str| {
            let found = units::count(text).ok().filter(|n| (1..=most).contains(n));
            found.map(|n| n as u32).ok_or_else(|| wrong(expected))
        };
        let flag = || switch(text).map(Some).map_err(|e| e.to_string());
        let extent = || extent(text, Prefixes::Plain).map(Some).map_err(|e| e.to_string());
        match key {
            "think" => {
                self.think = Some(match text {
                    "paced" => Think::Paced,
                    "greedy" => Think::Greedy,
                    _ => return Err(wrong("paced or greedy")),
                });
            }
            "video" => {
                self.video = Some(match text {
                    "720p" => Video::P720,
                    "1080p" => Video::P1080,
                    _ => return Err(wrong("720p or 1080p")),
                });
            }
            "raw" => self.raw = flag()?,
            "log" => self.log = flag()?,
            "timeout" => self.timeout = Some(time()?),
            "launch_after" => self.launch_after = Some(time()?),
            "every" => self.every = Some(time()?),
            "runtime" => self.runtime = Some(time()?),
            "repeat" => self.repeat = Some(number(10_000, "a number of launches from 1 to 10000")?),
            "fps" => self.fps = Some(number(1000, "a number of frames per second from 1 to 1000")?),
            "readers" => self.readers = Some(number(1024, "a number of readers from 1 to 1024")?),
            "maxrate" => {
                let rate = units::rate(text, Prefixes::Plain).map_err(|e| e.to_string())?;
                self.maxrate = Some(rate).filter(|rate| *rate >= 5);
                self.maxrate.ok_or_else(|| wrong("a rate above 0"))?;
            }
            "offset" => self.offset = extent()?,
            "size" => self.size = extent()?,
            _ => return Err(format!("unknown option {key:?} of an application")),
        }
        Ok(())
    }

    /// The options that are set, by name, in the form that [`App::set`] reads.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        let mut add = |key, value: Option<String>| out.extend(value.map(|value| (key, value)));
        let time = |t: Option<Nanos>| t.map(units::format_time);
        let count = |n: Option<u32>| n.map(|n| n.to_string());
        add("every", time(self.every));
        add("fps", count(self.fps));
        add("launch_after", time(self.launch_after));
        add("log", self.log.map(|log| log.to_string()));
        add("maxrate", self.maxrate.map(units::format_size));
        add("offset", self.offset.map(|e| e.to_string()));
        add("raw", self.raw.map(|raw| raw.to_string()));
        add("readers", count(self.readers));
        add("repeat", count(self.repeat));
        add("runtime", time(self.runtime));
        add("size", self.size.map(|e| e.to_string()));
        add("think", self.think.map(|t| if t == Think::Paced { "paced" } else { "greedy" }.to_string()));
        add("timeout", time(self.timeout));
        add("video", self.video.map(|v| if v == Video::P720 { "720p" } else { "1080p" }.to_string()));
        out
    }

    /// The options that this application takes.
    fn takes(&self) -> &'static [&'static str] {
        match self.name {
            "oowriter-like" | "terminal-like" | "desktop-terminal-like" => {
                &["launch_after", "log", "offset", "repeat", "size", "think", "timeout"]
            }
            "player" => &["fps", "offset", "runtime", "size", "video"],
            "player-interference" => &["every", "offset", "size"],
            "sync" => &["every"],
            "10r-seq" | "10r-rand" => &["offset", "raw", "size"],
            "5r5w-seq" | "5r5w-rand" => &["maxrate", "offset", "size"],
            "interleaved" => &["offset", "readers", "size"],
            _ => &["offset", "size"],
        }
    }

    /// Checks that every option given is one that this application takes.
    pub fn validate(&self) -> Result<(), BuildError> {
        for (given, _) in self.entries() {
            if !self.takes().contains(&given) {
                let reason = format!("{} takes {}", self.name, self.takes().join(", "));
                return Err(BuildError { key: given, reason });
            }
        }
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it runs until it is stopped.
    pub fn endless(&self) -> bool {
        !matches!(self.name, "oowriter-like" | "terminal-like" | "desktop-terminal-like" | "player")
    }

    pub(super) fn think(&self) -> Think {
        self.think.unwrap_or_default()
    }

    pub(super) fn video(&self) -> Video {
        self.video.unwrap_or_default()
    }

    pub(super) fn timeout(&self) -> Nanos {
        self.timeout.unwrap_or(Nanos::from_secs(60))
    }

    pub(super) fn launch_after(&self) -> Nanos {
        self.launch_after.unwrap_or(Nanos::from_secs(3))
    }

    /// Period of `sync`, and the pause of a player's interference.
    pub(super) fn every(&self) -> Nanos {
        self.every.unwrap_or(Nanos::from_secs(if self.name == "sync" { 2 } else { 3 }))
    }

    pub(super) fn runtime(&self) -> Nanos {
        self.runtime.unwrap_or(Nanos::from_secs(40))
    }

    pub(super) fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(5)
    }

    pub(super) fn fps(&self) -> u32 {
        self.fps.unwrap_or(25)
    }

    pub(super) fn readers(&self) -> u32 {
        self.readers.unwrap_or(4)
    }

    pub(super) fn maxrate(&self) -> Option<u64> {
        self.maxrate
    }

    /// Whether it writes a log through the page cache.
    pub fn log(&self) -> bool {
        self.log.unwrap_or(false)
    }

    /// Whether any of its writes goes through the page cache.
    pub fn is_buffered(&self) -> bool {
        self.log() || matches!(self.name(), "5r5w-seq" | "5r5w-rand")
    }

    pub(super) fn raw(&self) -> bool {
        self.raw.unwrap_or(false)
    }

    /// Its first byte on a device of `device` bytes; by default at `percent` of the device.
    pub(super) fn offset_in(&self, device: u64, percent: f64) -> u64 {
        self.offset.unwrap_or(Extent::Percent(percent)).of(device)
    }

    /// The size in bytes, if set.
    pub(super) fn size_in(&self, device: u64) -> Option<u64> {
        self.size.map(|size| size.of(device))
    }
}
