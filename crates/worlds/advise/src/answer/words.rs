//! Words an answer. Every clause states something that the rule compared; a property test checks each against the runs.

use dumbwaiter_measure::RunResult;

use super::estimate::Against;
use super::field::{Answer, Doubt, Field};
use super::frontier::level;
use super::rates::{rate_text, turns_at};
use super::{Decision, HARMFUL, USEFUL_GAIN};
use crate::Goal;
use crate::confidence::Confidence;
use crate::figures::repeats_a_recording;
use crate::focus::Focus;
use crate::measured_error::DriveClass;
use crate::metric::Metric;
use crate::row::Axes;
use crate::sentence::{list, percent, percent_down, percent_up, signed, with_article};

/// A trade is shown where latency or throughput moves by this.
const SHOWN_FROM: f64 = 0.10;
/// Most trades on the first screen.
const TRADES_MAX: usize = 3;
/// A tenant that gets less than this part of its data starves.
const STARVES_BELOW: f64 = 0.1;
/// What another tenant loses is said from here.
const LOSES_FROM: f64 = 0.10;
/// Requests of which a p99 rests on ten.
const P99_REQUESTS: f64 = 1000.0;

/// The words of one answer.
pub(crate) struct Words<'a> {
    pub(crate) field: &'a Field<'a>,
    pub(crate) found: &'a Answer,
    pub(crate) axes: Axes,
}

/// A ratio as people read it: down in percent, up in percent or as a factor.
pub(crate) fn change_text(ratio: f64) -> String {
    match ratio {
        ratio if ratio.is_nan() => "unknown".to_owned(),
        ratio if ratio >= 10.0 => format!("{ratio:.0} times"),
        ratio if ratio >= 2.0 => format!("{ratio:.1} times"),
        ratio => signed(ratio - 1.0),
    }
}

impl Words<'_> {
    fn label(&self, i: usize) -> String {
        self.field.rows[i].name(self.axes)
    }

    /// The name of a scheduler in prose, where `none` must not read as a word.
    pub(super) fn name(&self, i: usize) -> String {
        match self.label(i) {
            name if name == "none" => "`none`".to_owned(),
            name => name,
        }
    }

    fn names(&self, of: &[usize]) -> String {
        list(&of.iter().map(|i| self.name(*i)).collect::<Vec<_>>())
    }

    fn incumbent(&self) -> usize {
        self.field.incumbent
    }

    fn runs(&self, i: usize) -> &[&RunResult] {
        &self.field.groups[i]
    }

    fn focus(&self) -> String {
        self.field.objective.focus.name()
    }

    fn level(&self, metric: Metric, i: usize) -> f64 {
        level(self.runs(i), |run| metric.of(run, &self.field.objective.focus))
    }

    fn recorded(&self) -> bool {
        self.field.groups.iter().flatten().all(|run| repeats_a_recording(run))
    }

    /// `keep mq-deadline`, `change mq-deadline to bfq`, `too short to tell (30 s)`.
    pub(crate) fn headline(&self) -> String {
        let (incumbent, pick) = (self.label(self.incumbent()), self.label(self.found.pick));
        match self.found.decision {
            Decision::Keep => format!("keep {incumbent}"),
            Decision::Change => match self.starved(self.found.pick) {
                starved if starved.is_empty() => format!("change {incumbent} to {pick}"),
                starved => format!("change {incumbent} to {pick}, which starves {}", list(&starved)),
            },
            Decision::Depends => "it depends".to_owned(),
            Decision::TooShort => {
                let seconds = self.runs(self.incumbent()).iter().map(|run| run.duration_s).fold(0.0, f64::max);
                format!("too short to tell ({})", seconds_text(seconds))
            }
        }
    }

    /// What a gain is worth, in the figure that brings it: `16 % lower latency`.
    fn worth(&self, gain: f64, of: &Against, round: fn(f64) -> String) -> String {
        let rates = self.field.objective.rates;
        let by_rate = rates.throughput * of.rate;
        let by_latency = -rates.latency * of.latency;
        if by_rate > by_latency || self.field.goal == Goal::Throughput {
            format!("{} higher throughput", round(libm::expm1(gain / rates.throughput)))
        } else {
            format!("{} lower latency", round(-libm::expm1(-gain / rates.latency)))
        }
    }

    /// The number behind the confidence: the least that a change is worth, the most that keeping may miss.
    pub(crate) fn certainty(&self) -> String {
        let of = |i: usize| self.found.of(i);
        match (self.found.decision, self.found.doubt, &self.found.short) {
            (_, Some(Doubt::NoIo), _) => "no I/O finished".to_owned(),
            (_, Some(Doubt::Busy), _) => "the machine was busy".to_owned(),
            (_, Some(_), _) => "nothing to compare".to_owned(),
            (_, _, Some(short)) => short.why.clone(),
            (Decision::Change, ..) => {
                let Some(change) = of(self.found.pick) else { return String::new() };
                match change.lo {
                    lo if change.n < 2 => format!(
                        "one run of each; worth {} as it looks{}",
                        with_article(&self.worth(change.gain, change, percent)),
                        if lo > 0.0 { "" } else { ", or nothing" }
                    ),
                    lo if lo > 0.0 => format!("at least {}", self.worth(lo, change, percent_down)),
                    lo => format!("a loss of more than {} is ruled out", percent_up(-libm::expm1(lo))),
                }
            }
            _ => match self.found.may_gain() {
                Some(most) if most <= 0.0 => "nothing else is better".to_owned(),
                Some(most) if most <= USEFUL_GAIN => {
                    format!("nothing is worth over {}", percent_up(-libm::expm1(-most)))
                }
                Some(most) => format!("another may be worth up to {}", percent_up(-libm::expm1(-most))),
                None => "nothing to compare".to_owned(),
            },
        }
    }

    /// Schedulers that do the same as the incumbent.
    fn same(&self) -> Vec<usize> {
        self.found.alternatives.iter().copied().filter(|i| self.found.of(*i).is_some_and(|of| of.same)).collect()
    }

    /// The reason in a clause.
    pub(crate) fn because(&self) -> String {
        if let Some(doubt) = self.found.doubt {
            return self.doubt(doubt);
        }
        if let Some(short) = &self.found.short {
            return format!("{}; {}", short.why, self.next().unwrap_or_default());
        }
        match self.found.decision {
            Decision::Change => self.change(),
            _ => self.keep(),
        }
    }

    /// What the goal pays, and where the answer would turn.
    fn change(&self) -> String {
        let pick = self.found.pick;
        let Some(of) = self.found.of(pick) else { return String::new() };
        let rates = self.field.objective.rates;
        let least = if of.lo > 0.0 && of.n > 1 {
            format!(" (at least {})", percent_down(self.part(of.lo, of)))
        } else {
            String::new()
        };
        let mut text =
            format!("{}; worth {}{least}, where {}", self.trade(pick), self.worth(of.gain, of, percent), rates.words());
        if let Some(at) = self.turn(of) {
            let side = if of.latency < 0.0 { "less" } else { "more" };
            text += &format!("; keep {} if it is worth {side} than {}", self.name(self.incumbent()), rate_text(at));
        }
        text
    }

    /// The reason with what a first screen has room for; the exchange rate stands below it once.
    pub(crate) fn brief(&self) -> String {
        let pick = self.found.pick;
        match (self.found.decision, self.found.of(pick)) {
            (Decision::Change, Some(of)) => {
                let turn = self.turn(of).map_or(String::new(), |at| {
                    let side = if of.latency < 0.0 { "less" } else { "more" };
                    let incumbent = self.name(self.incumbent());
                    format!(
                        "; keep {incumbent} if half the latency is worth {side} than {} of the throughput",
                        rate_text(at)
                    )
                });
                format!("{}{turn}", self.trade(pick))
            }
            _ => self.because(),
        }
    }

    /// A gain as the fraction that [`Words::worth`] words.
    fn part(&self, gain: f64, of: &Against) -> f64 {
        let rates = self.field.objective.rates;
        if rates.throughput * of.rate > -rates.latency * of.latency || self.field.goal == Goal::Throughput {
            libm::expm1(gain / rates.throughput)
        } else {
            -libm::expm1(-gain / rates.latency)
        }
    }

    /// The rate at which an alternative is worth as much as the incumbent, where nothing but latency and throughput counts.
    fn turn(&self, of: &Against) -> Option<f64> {
        let rates = self.field.objective.rates;
        let rest = of.gain + rates.latency * of.latency - rates.throughput * of.rate;
        turns_at(of.latency, of.rate).filter(|at| rest.abs() < 0.03 && *at > 0.0005 && *at < 0.9995)
    }

    fn keep(&self) -> String {
        let mut text = match self.found.may_gain() {
            Some(most) if most > USEFUL_GAIN => {
                let may = |i: &usize| self.found.of(*i).is_some_and(|of| of.hi > USEFUL_GAIN);
                let mut open: Vec<usize> = self.found.alternatives.iter().copied().filter(may).collect();
                open.truncate(TRADES_MAX);
                let most = percent_up(-libm::expm1(-most));
                let runs = self.runs(self.incumbent()).len();
                let shown = match runs {
                    _ if self.recorded() => "one recorded load does not show it".to_owned(),
                    1 => "one run does not show it".to_owned(),
                    runs => format!("{runs} runs do not show it"),
                };
                let names: Vec<String> = open.iter().map(|i| self.name(*i)).collect();
                format!("up to {most} may be gained with {}, but {shown}", names.join(" or "))
            }
            _ => format!("nothing else is better by a useful amount ({})", percent(USEFUL_GAIN)),
        };
        let same = self.same();
        if !same.is_empty() {
            let verb = if same.len() == 1 { "does" } else { "do" };
            text += &format!("; {} {verb} the same here", self.names(&same));
        }
        if self.found.usage.is_idle() {
            let next =
                if self.recorded() { "; try --depth N or --closed-per-task" } else { "; a heavier load may tell more" };
            text = format!("the drive was {} busy{next}; {text}", self.found.usage.busy_text());
        }
        text
    }

    fn doubt(&self, doubt: Doubt) -> String {
        match doubt {
            Doubt::NoIo => {
                "no I/O finished in the measured time; a longer `duration` or a shorter `warmup` may help".to_owned()
            }
            Doubt::Alone => format!("only {} was run, so there is nothing to compare", self.name(self.incumbent())),
            Doubt::NothingElseToSet => format!(
                "none of the others can be set on a current kernel; add none, mq-deadline, kyber or bfq{}",
                self.elsewhere()
            ),
            Doubt::NothingToSet => format!(
                "a current kernel has none of these schedulers; add none, mq-deadline, kyber or bfq{}",
                self.elsewhere()
            ),
            Doubt::Busy => {
                let (load, cpus) = self.field.conditions.busy.unwrap_or_default();
                format!(
                    "the machine was busy with other work (load {load:.1} on {cpus:.0} CPUs), which can hide or feign a \
                     difference; measure again when it is quiet"
                )
            }
        }
    }

    /// The best of those that cannot be set.
    fn elsewhere(&self) -> String {
        let others = (0..self.field.rows.len()).filter(|i| !self.found.settable.contains(i) && *i != self.incumbent());
        let gain = |i: &usize| self.found.of(*i).map_or(f64::NEG_INFINITY, |of| of.gain);
        let best = others.reduce(|a, b| if gain(&b) > gain(&a) { b } else { a }).filter(|i| gain(i) >= USEFUL_GAIN);
        best.map_or(String::new(), |i| format!("; not in this kernel: {}", self.trade(i)))
    }

    /// What would do where the runs do not.
    pub(crate) fn next(&self) -> Option<String> {
        let short = self.found.short.as_ref()?;
        Some(match short.seconds {
            Some(seconds) => format!("--duration {seconds:.0}s would do"),
            None => "more of the recorded load would do".to_owned(),
        })
    }

    /// A level, with `at least` where only a bound is known.
    fn value(&self, metric: Metric, i: usize) -> String {
        let bounded = self.field.rows[i].is_lower_bound(metric);
        let text = metric.shown(self.level(metric, i));
        if bounded { format!("at least {text}") } else { text }
    }

    /// Does the answer show p99, and a smaller one for this than for the other?
    pub(super) fn has_smaller_p99(&self, i: usize, other: usize) -> bool {
        let shown = self.field.objective.shown();
        shown == Metric::FocusP99 && self.level(shown, i) < self.level(shown, other)
    }

    /// One line of an alternative: `bfq: p99 of person 356 ms in place of 921 ms (-61 %), mean -40 %, throughput -25 %`.
    pub(crate) fn trade(&self, i: usize) -> String {
        let (o, inc) = (self.field.objective, self.incumbent());
        let ratio = |metric: Metric| self.level(metric, i) / self.level(metric, inc);
        let mut parts: Vec<String> = Vec::new();
        let main = |metric: Metric, what: String| {
            // Of what never happened under one of them there is no change in percent.
            let change = ratio(metric);
            let change =
                if change > 0.0 && change.is_finite() { format!(" ({})", change_text(change)) } else { String::new() };
            format!("{what} {} in place of {}{change}", self.value(metric, i), self.value(metric, inc))
        };
        if o.launches {
            parts.push(main(Metric::StartUp, "start-up".to_owned()));
        }
        if o.plays {
            let of = |i: usize| self.field.rows[i].mean(Metric::DroppedFrames);
            parts.push(format!("dropped frames {:.1} % in place of {:.1} %", of(i), of(inc)));
        }
        if o.waits && !o.launches {
            let got_nothing = self.runs(i).iter().filter(|run| o.focus.pooled(run).samples == 0).count();
            if got_nothing > 0 {
                parts.push(format!("{} got nothing in {got_nothing} of {} runs", self.focus(), self.runs(i).len()));
            } else if o.shown() == Metric::FocusP99 {
                parts.push(main(Metric::FocusP99, format!("p99 of {}", self.focus())));
                parts.push(format!("mean {}", change_text(ratio(Metric::FocusMean))));
            } else {
                parts.push(main(Metric::FocusMean, format!("mean of {}", self.focus())));
                if o.requests >= 20.0 {
                    parts.push(format!("p95 {}", change_text(ratio(Metric::FocusP95))));
                }
            }
        }
        if o.shares {
            let of = |i: usize| Metric::ShareError.shown(self.field.rows[i].mean(Metric::ShareError));
            if of(i) != of(inc) {
                parts.push(format!("share error {} in place of {}", of(i), of(inc)));
            }
        }
        parts.push(format!("throughput {}", change_text(ratio(Metric::MbPerS))));
        format!("{}: {}", self.label(i), parts.join(", "))
    }

    /// Lines of the first screen: the trades that nobody beats, where a figure moves by 10 %; then the others in one.
    pub(crate) fn trades(&self) -> Vec<String> {
        if self.found.doubt.is_some() {
            return Vec::new();
        }
        let moves = |i: &usize| {
            self.found.of(*i).is_some_and(|of| {
                !of.same && (libm::expm1(of.latency).abs() >= SHOWN_FROM || libm::expm1(of.rate).abs() >= SHOWN_FROM)
            })
        };
        let changed = self.found.decision == Decision::Change;
        let members = self.found.frontier(self.incumbent());
        let mut lines = Vec::new();
        let mut shown: Vec<usize> = Vec::new();
        for i in members.into_iter().filter(|i| *i != self.incumbent()) {
            // The pick's line begins the sentence.
            if changed && i == self.found.pick {
                shown.push(i);
            } else if moves(&i) && shown.len() < TRADES_MAX && !self.does_the_same_as(i, &shown) {
                lines.push(self.trade_and_turn(i));
                shown.push(i);
            }
        }
        let rest: Vec<String> = self
            .found
            .alternatives
            .iter()
            .copied()
            .filter(|i| !shown.contains(i) && (!changed || *i != self.found.pick))
            // The reason to keep what is set names those that do the same.
            .filter(|i| self.found.decision != Decision::Keep || !self.same().contains(i))
            .map(|i| self.in_short(i, &shown))
            .collect();
        if !rest.is_empty() {
            lines.push(rest.join(" "));
        }
        lines
    }

    /// Whether a row does what one of these does.
    fn does_the_same_as(&self, i: usize, of: &[usize]) -> bool {
        let near = |a: &Against, b: &Against| {
            (a.latency - b.latency).abs() < 0.002 && (a.rate - b.rate).abs() < 0.002 && (a.gain - b.gain).abs() < 0.004
        };
        let Some(own) = self.found.of(i) else { return false };
        of.iter().filter_map(|other| self.found.of(*other)).any(|other| near(own, other))
    }

    /// A trade that is not taken, and the rate at which it would be.
    fn trade_and_turn(&self, i: usize) -> String {
        let Some(of) = self.found.of(i) else { return self.trade(i) };
        let line = self.trade(i);
        let verdict = if of.gain >= USEFUL_GAIN && of.lo <= -HARMFUL {
            format!("it looks worth {}, but is not sure", percent(-libm::expm1(-of.gain)))
        } else if self.found.decision == Decision::Change {
            return format!("{line}.");
        } else {
            match self.turn(of) {
                Some(at) if of.latency < 0.0 => {
                    format!("take it if half the latency is worth more than {} of the throughput", rate_text(at))
                }
                Some(at) => {
                    format!("take it if half the latency is worth less than {} of the throughput", rate_text(at))
                }
                None if of.gain < 0.0 => "worse".to_owned(),
                None => return format!("{line}."),
            }
        };
        format!("{line}: {verdict}.")
    }

    /// `kyber: the same as mq-deadline.`, `none: latency +13 %, throughput -6.0 %, worse.`
    fn in_short(&self, i: usize, shown: &[usize]) -> String {
        let Some(of) = self.found.of(i) else { return String::new() };
        let like = shown.iter().copied().find(|other| self.does_the_same_as(i, &[*other]));
        match (of.same, like) {
            (true, _) => format!("{}: the same as {}.", self.label(i), self.label(self.incumbent())),
            (false, Some(other)) => format!("{}: the same as {}.", self.label(i), self.label(other)),
            _ => {
                let latency = if self.field.objective.has_latency() {
                    format!("latency {}, ", change_text(libm::exp(of.latency)))
                } else {
                    String::new()
                };
                let word = match of {
                    of if of.gain <= -HARMFUL => ", worse",
                    _ => "",
                };
                format!("{}: {latency}throughput {}{word}.", self.label(i), change_text(libm::exp(of.rate)))
            }
        }
    }

    /// Tenants that a scheduler gives less than a tenth of what the incumbent gives them.
    fn starved(&self, i: usize) -> Vec<String> {
        self.tenants(i).into_iter().filter(|(_, ratio)| *ratio < STARVES_BELOW).map(|(name, _)| name).collect()
    }

    /// The data of each tenant, as a part of what it moves under the incumbent.
    fn tenants(&self, i: usize) -> Vec<(String, f64)> {
        let Some(first) = self.runs(self.incumbent()).first().filter(|run| run.tenants.len() > 1) else {
            return Vec::new();
        };
        let moved = |runs: &[&RunResult], name: &str| {
            let all = runs.iter().flat_map(|run| run.tenants.iter().filter(|tenant| tenant.name == name));
            all.map(|tenant| tenant.mb_per_s).sum::<f64>() / runs.len() as f64
        };
        let one = |name: &String| {
            let before = moved(self.runs(self.incumbent()), name);
            (before > 0.0).then(|| (name.clone(), moved(self.runs(i), name) / before))
        };
        first.tenants.iter().filter_map(|tenant| one(&tenant.name)).collect()
    }

    /// Caveats, those that weaken the answer most first, and how many weaken it.
    pub(crate) fn caveats(&self) -> (Vec<String>, usize) {
        let (found, pick) = (self.found, self.found.pick);
        let mut caveats = Vec::new();
        let failed: u64 = self.runs(pick).iter().map(|run| run.errors).sum();
        if failed > 0 {
            caveats.push(format!("{failed} of the requests of {} failed", self.name(pick)));
        }
        let starved = if found.decision == Decision::Change { self.starved(pick) } else { Vec::new() };
        if !starved.is_empty() {
            caveats.push(format!(
                "under {} {} moves less than a tenth of what it moves under {}",
                self.name(pick),
                list(&starved),
                self.name(self.incumbent())
            ));
        }
        caveats.extend(found.within_model_error.and_then(|i| self.model_error(i)));
        if !self.field.is_set && found.doubt.is_none() {
            caveats.push(format!("what is set was not run, so {} stands in for it", self.name(self.incumbent())));
        }
        let goal = self.field.goal;
        if goal == Goal::Fairness && !self.field.objective.shares {
            caveats.push("no weights differ, so shares do not count".to_owned());
        }
        if self.field.objective.focus == Focus::Nobody {
            caveats.push("nobody waits for what is written back, so latency does not count".to_owned());
        }
        if let Some(of) = found.of(pick).filter(|of| of.bounded[0] || of.bounded[1]) {
            let whose = if of.bounded[0] { pick } else { self.incumbent() };
            let whose = self.name(whose);
            caveats.push(match self.field.objective.launches {
                true => format!("launches had not ended under {whose}, so that its start-up is a lower bound"),
                false => {
                    let focus = self.focus();
                    format!("I/Os of {focus} were unfinished under {whose}, so that its latency is a lower bound")
                }
            });
        }
        if self.field.rows.len() > 1 && self.recorded() {
            caveats.push("the load is recorded and the same in every run: other days may differ".to_owned());
        }
        if found.decision == Decision::Change {
            let lose =
                self.tenants(pick).into_iter().filter(|(_, part)| (STARVES_BELOW..1.0 - LOSES_FROM).contains(part));
            // What writeback does for no group of its own is in the root.
            let called = |name: String| if name == "/" { "writeback".to_owned() } else { name };
            let lose: Vec<String> =
                lose.map(|(name, part)| format!("{} {}", called(name), signed(part - 1.0))).collect();
            if !lose.is_empty() {
                caveats.push(format!("others move less: {}", list(&lose)));
            }
        }
        let weakening = caveats.len();
        caveats.extend(self.unmeasured());
        let o = self.field.objective;
        if o.waits && !o.launches && o.requests < P99_REQUESTS && found.doubt.is_none() {
            let decide =
                if o.requests < 200.0 { "the mean decides more than the tail" } else { "mean, p95 and p99 decide" };
            caveats.push(format!(
                "{decide}: {:.0} requests of {} in a run are few for a p99",
                o.requests,
                self.focus()
            ));
        }
        if found.confidence != Confidence::Open {
            caveats.extend(self.fairer());
        }
        if caveats.is_empty() {
            caveats.push("this result covers only this workload and device".to_owned());
        }
        (caveats, weakening)
    }

    /// What the simulator was found to be wrong by, where the difference is smaller.
    fn model_error(&self, i: usize) -> Option<String> {
        let error = self.field.model_error(i)?;
        let of = error.of_differences?;
        Some(format!(
            "on real {} differences under {} were off by up to {} in latency, {} in throughput: more than this",
            class_text(error.class),
            error.load.words(),
            factor_text(of.latency),
            factor_text(of.throughput)
        ))
    }

    /// That nobody has measured how wrong the simulator is here.
    fn unmeasured(&self) -> Option<String> {
        let compared = self.found.alternatives.first().copied().filter(|_| self.found.doubt.is_none());
        let error = self.field.model_error(compared?).filter(|error| error.of_differences.is_none())?;
        Some(format!(
            "this is simulated, and how far differences under {} on real {} are off was not measured",
            error.load.words(),
            class_text(error.class)
        ))
    }

    /// One that keeps nearer to the weights that somebody set.
    fn fairer(&self) -> Option<String> {
        let error = |i: usize| self.field.rows[i].mean(Metric::ShareError);
        let all = self.found.settable.iter().copied().filter(|i| self.field.objective.shares && error(*i).is_finite());
        let fairest = all.reduce(|a, b| if error(b) < error(a) { b } else { a })?;
        let own = error(self.found.pick);
        (own > error(fairest) + 0.1).then(|| {
            format!(
                "{} keeps nearer to the weights (share error {:.3} against {own:.3})",
                self.name(fairest),
                error(fairest)
            )
        })
    }
}

fn class_text(class: DriveClass) -> &'static str {
    match class {
        DriveClass::Flash => "flash drives",
        DriveClass::Disk => "disks",
        DriveClass::Volume => "volumes",
    }
}

/// How far off: `16 times`, `32 %`.
fn factor_text(factor: f64) -> String {
    if factor >= 2.0 { format!("{factor:.1} times") } else { percent(factor - 1.0) }
}

/// `30 s`, `1.5 s`, `250 ms`.
pub(crate) fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if (s - s.round()).abs() < 0.01 => format!("{s:.0} s"),
        s => format!("{s:.1} s"),
    }
}
