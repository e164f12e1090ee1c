//! Forms of the values of options: how each is read from text, and written so that it reads back the same.

use std::fmt::Display;

use dumbwaiter_block::Nanos;

use crate::generate::parse::{
    Parsed, between, block_size, delay, distribution, extent, niceness, pattern, per_dir, switch, whole_percent, wrong,
};
use crate::generate::{BlockSize, Distribution, Engine, Extent, Pattern, PerDir, Scalar};
use dumbwaiter_text::units::{self, BareTime, Prefixes};

/// How a value of type `T` is read and written.
pub(crate) trait Form<T> {
    /// Whether it is a time, so that arithmetic in it counts in microseconds.
    const TIME: bool = false;
    fn read(&self, text: &str, prefixes: Prefixes) -> Parsed<T>;
    /// `None` if it is not set.
    fn show(&self, value: &T) -> Option<Scalar>;
}

/// A form without parameters.
pub(super) struct Plain<T>(fn(&str, Prefixes) -> Parsed<T>, fn(&T) -> Option<Scalar>);

impl<T> Form<T> for Plain<T> {
    fn read(&self, text: &str, prefixes: Prefixes) -> Parsed<T> {
        (self.0)(text, prefixes)
    }
    fn show(&self, value: &T) -> Option<Scalar> {
        (self.1)(value)
    }
}

fn text<T: Display>(value: &T) -> Option<Scalar> {
    Some(Scalar::Text(value.to_string()))
}

fn bytes(value: &u64) -> Option<Scalar> {
    text(&units::format_size(*value))
}

/// 1 and 0, true and false.
pub(super) const FLAG: Plain<bool> = Plain(|text, _| switch(text), |value| Some(Scalar::Bool(*value)));
/// `sync`, `dsync` or `none`, or a flag.
pub(super) const SYNC: Plain<bool> = Plain(sync, FLAG.1);
/// A whole percentage.
pub(super) const PERCENT: Plain<u8> =
    Plain(|text, _| whole_percent(text), |value| Some(Scalar::Number((*value).into())));
/// A CPU niceness.
pub(super) const NICENESS: Plain<i8> = Plain(|text, _| niceness(text), text);
/// A size in bytes.
pub(super) const SIZE: Plain<u64> = Plain(units::size, bytes);
/// Bytes per second.
pub(super) const RATE: Plain<u64> = Plain(units::rate, bytes);
/// A size, or a percentage of the device.
pub(super) const SIZE_OR_SHARE: Plain<Extent> = Plain(extent, text);
/// Direction and order of the I/Os.
pub(super) const PATTERN: Plain<Pattern> = Plain(pattern, text);
/// A block size, a range, a split or a log-normal distribution.
pub(super) const BLOCKS: Plain<BlockSize> = Plain(block_size, text);
/// A distribution of random offsets.
pub(super) const OFFSETS: Plain<Distribution> = Plain(distribution, text);
/// A text that is not empty.
pub(super) const NAME: Plain<String> =
    Plain(|text, _| if text.is_empty() { wrong(text, "a name") } else { Ok(text.to_string()) }, text);
/// The name of an I/O engine.
pub(super) const ENGINE: Plain<Engine> = Plain(engine, |value| text(&value.name));

fn sync(text: &str, _: Prefixes) -> Parsed<bool> {
    match text.trim() {
        "sync" | "dsync" => Ok(true),
        "none" => Ok(false),
        other => switch(other).or_else(|_| wrong(text, "none, sync or dsync")),
    }
}

fn engine(text: &str, _: Prefixes) -> Parsed<Engine> {
    let known = "an I/O engine that does block I/O, such as io_uring, libaio, posixaio, sync, psync, pvsync2 or mmap";
    Engine::named(text.trim()).map_or_else(|| wrong(text, known), Ok)
}

/// A whole number from the first to the second.
pub(super) struct Number(pub(super) u64, pub(super) u64);

impl<T: TryFrom<u64> + Into<u64> + Copy> Form<T> for Number {
    fn read(&self, text: &str, _: Prefixes) -> Parsed<T> {
        between(text, self.0, self.1)
    }
    fn show(&self, value: &T) -> Option<Scalar> {
        Some(Scalar::Number((*value).into()))
    }
}

/// An amount of what the text names, with the suffixes of sizes.
pub(super) struct Amount(pub(super) &'static str);

impl Form<u64> for Amount {
    fn read(&self, text: &str, prefixes: Prefixes) -> Parsed<u64> {
        units::size(text, prefixes).or_else(|_| wrong(text, self.0))
    }
    fn show(&self, value: &u64) -> Option<Scalar> {
        Some(Scalar::Number(*value))
    }
}

/// A time; the unit of bare numbers.
pub(super) struct Time(pub(super) BareTime);

impl Form<Nanos> for Time {
    const TIME: bool = true;
    fn read(&self, text: &str, _: Prefixes) -> Parsed<Nanos> {
        units::time(text, self.0)
    }
    fn show(&self, value: &Nanos) -> Option<Scalar> {
        text(&units::format_time(*value))
    }
}

/// A time or a range of times, in seconds.
pub(super) struct Delay;

impl Form<(Nanos, Nanos)> for Delay {
    const TIME: bool = true;
    fn read(&self, text: &str, _: Prefixes) -> Parsed<(Nanos, Nanos)> {
        delay(text)
    }
    fn show(&self, (from, to): &(Nanos, Nanos)) -> Option<Scalar> {
        let (first, last) = (units::format_time(*from), units::format_time(*to));
        text(&if from == to { first } else { format!("{first}-{last}") })
    }
}

/// One of two words.
pub(super) struct Words<T: 'static>(pub(super) [(&'static str, T); 2]);

impl<T: Copy + PartialEq> Form<T> for Words<T> {
    fn read(&self, text: &str, _: Prefixes) -> Parsed<T> {
        let found = self.0.iter().find(|(word, _)| *word == text.trim());
        found.map_or_else(|| wrong(text, format!("{} or {}", self.0[0].0, self.0[1].0)), |(_, value)| Ok(*value))
    }
    fn show(&self, value: &T) -> Option<Scalar> {
        self.0.iter().find(|(_, other)| other == value).and_then(|(word, _)| text(word))
    }
}

/// A value that need not be set.
pub(super) struct Optional<F>(pub(super) F);

impl<T, F: Form<T>> Form<Option<T>> for Optional<F> {
    const TIME: bool = F::TIME;
    fn read(&self, text: &str, prefixes: Prefixes) -> Parsed<Option<T>> {
        self.0.read(text, prefixes).map(Some)
    }
    fn show(&self, value: &Option<T>) -> Option<Scalar> {
        value.as_ref().and_then(|value| self.0.show(value))
    }
}

/// A value that 0 unsets.
pub(super) struct UnlessZero<F>(pub(super) F);

impl<T: Default + PartialEq, F: Form<T>> Form<Option<T>> for UnlessZero<F> {
    const TIME: bool = F::TIME;
    fn read(&self, text: &str, prefixes: Prefixes) -> Parsed<Option<T>> {
        self.0.read(text, prefixes).map(|value| Some(value).filter(|value| *value != T::default()))
    }
    fn show(&self, value: &Option<T>) -> Option<Scalar> {
        value.as_ref().and_then(|value| self.0.show(value))
    }
}

/// A value by direction; the second fills what the text leaves out.
pub(super) struct Each<F, T>(pub(super) F, pub(super) T);

impl<T: Clone, F: Form<T>> Form<PerDir<T>> for Each<F, T> {
    fn read(&self, text: &str, prefixes: Prefixes) -> Parsed<PerDir<T>> {
        per_dir(text, PerDir::all(self.1.clone()), |text| self.0.read(text, prefixes))
    }
    fn show(&self, value: &PerDir<T>) -> Option<Scalar> {
        let each = value.map(|value| self.0.show(value).map_or_else(String::new, |shown| shown.text())).to_string();
        (!each.is_empty()).then_some(Scalar::Text(each))
    }
}
