//! The search: one parameter after another, in smaller and smaller steps.

use std::collections::BTreeMap;

use dumbwaiter_experiment::Control;

use super::parameter::FittedParameter;
use crate::measured::answer::MeasuredAgainst;

/// Factors by which a parameter is moved, round after round.
const STEPS: [f64; 5] = [1.6, 1.25, 1.12, 1.05, 1.02];
/// Times that a parameter moves on in one direction.
const MOVES_MAX: usize = 4;
/// How far a parameter is moved to see whether these loads depend on it.
const SCREEN: f64 = 1.4;
/// Mean change of the figures below which they do not.
const MATTERS: f64 = 0.004;
/// A parameter is determined if errors grow by this part where it is 10 % off.
const DETERMINED: f64 = 0.002;
/// What leaving the class by a factor of e costs, as an error: of two parameters that do the same, neither runs away.
const OF_CLASS: f64 = 0.003;
/// Largest error of one figure that counts, as a logarithm.
const ERROR_MAX: f64 = 1.5;
/// Values that are tried for a parameter that the class has at 0, where it names a time.
const FROM_ZERO_US: [f64; 4] = [1.0, 5.0, 20.0, 60.0];
/// A parameter that may move.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) whole: bool,
    /// Where the search begins, and what stays if nothing determines it.
    pub(super) class: f64,
    pub(super) value: f64,
}

impl Parameter {
    /// Was it moved?
    pub(super) fn moved(&self) -> bool {
        self.value != self.class
    }
}

/// What is moved, and what is compared.
pub(super) struct Space {
    pub(super) parameters: Vec<Parameter>,
    /// Somebody named them: all are moved, also those on which little depends.
    pub(super) named: bool,
    /// Processor time counts.
    pub(super) with_cpu: bool,
}

/// What was found.
pub(super) struct Found {
    /// All parameters with their values.
    pub(super) values: Vec<Parameter>,
    pub(super) parameters: Vec<FittedParameter>,
    pub(super) undetermined: Vec<String>,
    pub(super) error_of_class: f64,
    pub(super) error_fitted: f64,
}

/// Runs the conditions with these values.
type Evaluate<'a> = &'a dyn Fn(&[Parameter]) -> Vec<MeasuredAgainst>;

pub(super) struct Search<'a> {
    space: Space,
    evaluate: Evaluate<'a>,
    control: &'a Control,
    /// Errors of what was tried.
    tried: BTreeMap<String, f64>,
}

impl<'a> Search<'a> {
    pub(super) fn new(space: Space, evaluate: Evaluate<'a>, control: &'a Control) -> Search<'a> {
        Search { space, evaluate, control, tried: BTreeMap::new() }
    }

    pub(super) fn run(&mut self) -> Found {
        let class = (self.evaluate)(&self.space.parameters);
        let error_of_class = self.error(&class);
        let mut best = error_of_class;
        let moving = self.screen(&class, &mut best);
        for step in STEPS {
            for i in &moving {
                if self.control.cancelled() {
                    break;
                }
                best = self.settle(*i, step, best);
            }
        }
        let mut parameters = Vec::new();
        let mut undetermined: Vec<String> = Vec::new();
        for i in 0..self.space.parameters.len() {
            let determined = if moving.contains(&i) { self.determined(i, &mut best) } else { 0.0 };
            let Parameter { name, class, value, .. } = self.space.parameters[i].clone();
            if determined < DETERMINED {
                self.space.parameters[i].value = class;
                undetermined.push(name);
            } else {
                parameters.push(FittedParameter { name, value, class, determined });
            }
        }
        // Of the values that the file has, where nothing determines one that of the class.
        let error_fitted = self.error(&(self.evaluate)(&self.space.parameters));
        Found { values: self.space.parameters.clone(), parameters, undetermined, error_of_class, error_fitted }
    }

    /// The error of the present values, with what leaving the class costs.
    fn error_now(&mut self) -> f64 {
        let values = self.space.parameters.iter().map(|p| p.value.to_string()).collect::<Vec<_>>().join(" ");
        if let Some(error) = self.tried.get(&values) {
            return *error;
        }
        let found = self.error(&(self.evaluate)(&self.space.parameters)) + self.penalty();
        self.tried.insert(values, found);
        found
    }

    fn penalty(&self) -> f64 {
        let moved = self.space.parameters.iter().filter(|p| p.class > 0.0 && p.value > 0.0);
        moved.map(|p| OF_CLASS * (p.value / p.class).ln().abs()).sum()
    }

    /// Sets a parameter, within its range; `false` where it does not change.
    fn set(&mut self, i: usize, value: f64) -> bool {
        let p = &mut self.space.parameters[i];
        let digits = 10f64.powf(3.0 - value.abs().max(1e-9).log10().ceil());
        let rounded = if p.whole { value.round() } else { (value * digits).round() / digits };
        let bounded = rounded.clamp(p.low, p.high);
        let changed = bounded != p.value;
        p.value = bounded;
        changed
    }

    /// The parameters on which these loads depend, those that matter most first.
    fn screen(&mut self, class: &[MeasuredAgainst], best: &mut f64) -> Vec<usize> {
        let mut effects: Vec<(f64, usize)> = Vec::new();
        for i in 0..self.space.parameters.len() {
            if self.control.cancelled() {
                break;
            }
            let own = self.space.parameters[i].value;
            if own == 0.0 {
                if self.space.parameters[i].name.ends_with("_us") && self.leave_zero(i, best) {
                    effects.push((0.0, i));
                }
                continue;
            }
            if self.set(i, own * SCREEN) || self.set(i, own / SCREEN) {
                let effect = self.change(class, &(self.evaluate)(&self.space.parameters));
                self.space.parameters[i].value = own;
                if effect > MATTERS || self.space.named {
                    effects.push((effect, i));
                }
            }
        }
        effects.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        effects.into_iter().map(|(_, i)| i).collect()
    }

    /// Tries values for a parameter that is off in the class; `true` if one is better.
    fn leave_zero(&mut self, i: usize, best: &mut f64) -> bool {
        let mut chosen = 0.0;
        for value in FROM_ZERO_US {
            self.set(i, value);
            let found = self.error_now() + OF_CLASS;
            if found < *best {
                (*best, chosen) = (found, value);
            }
        }
        self.set(i, chosen);
        chosen > 0.0
    }

    /// Moves a parameter by a factor, up or down, as long as that is better.
    fn settle(&mut self, i: usize, step: f64, mut best: f64) -> f64 {
        for factor in [step, 1.0 / step] {
            let mut moved = false;
            for _ in 0..MOVES_MAX {
                let own = self.space.parameters[i].value;
                if !self.set(i, own * factor) {
                    break;
                }
                let found = self.error_now();
                if found >= best {
                    self.space.parameters[i].value = own;
                    break;
                }
                (best, moved) = (found, true);
            }
            if moved {
                break;
            }
        }
        best
    }

    /// How much larger the errors are where a parameter is 10 % off, on the better side. Where they are smaller there, it moves on.
    fn determined(&mut self, i: usize, best: &mut f64) -> f64 {
        loop {
            let own = self.space.parameters[i].value;
            let (mut least, mut there) = (f64::INFINITY, own);
            for factor in [1.1, 1.0 / 1.1] {
                if self.set(i, own * factor) {
                    let found = self.error_now();
                    if found < least {
                        (least, there) = (found, self.space.parameters[i].value);
                    }
                }
                self.space.parameters[i].value = own;
            }
            if !least.is_finite() {
                return 0.0;
            }
            if least >= *best {
                return (least - *best) / best.max(1e-9);
            }
            self.space.parameters[i].value = there;
            *best = least;
        }
    }

    fn error(&self, rows: &[MeasuredAgainst]) -> f64 {
        error(rows, self.space.with_cpu)
    }

    /// Mean change of the predicted figures from one set of values to another.
    fn change(&self, from: &[MeasuredAgainst], to: &[MeasuredAgainst]) -> f64 {
        let of = |row| ratios(row, self.space.with_cpu);
        let pairs = from.iter().zip(to).flat_map(|(a, b)| of(a).into_iter().zip(of(b)));
        let known = pairs.filter_map(|(a, b)| Some((b? / a?).ln().abs())).filter(|change| change.is_finite());
        let (sum, n) = known.fold((0.0, 0u32), |(sum, n), change| (sum + change, n + 1));
        if n == 0 { 0.0 } else { sum / f64::from(n) }
    }
}

/// Figures that are compared: predicted by measured.
fn ratios(row: &MeasuredAgainst, with_cpu: bool) -> [Option<f64>; 6] {
    let f = &row.figures;
    let p50 = f.p50_ratio.filter(|_| !row.clipped.p50);
    let p95 = f.p95_ratio.filter(|_| !row.clipped.p95);
    [f.iops_ratio, f.mean_ratio, p50, p95, f.p99_ratio, f.cpu_ratio.filter(|_| with_cpu)]
}

/// Mean error of all figures of all rows, as |ln(predicted / measured)|.
pub(super) fn error(rows: &[MeasuredAgainst], with_cpu: bool) -> f64 {
    let counted = rows.iter().filter(|row| !row.total);
    let each = counted.flat_map(|row| ratios(row, with_cpu).into_iter().flatten());
    let (sum, n) = each.fold((0.0, 0u32), |(sum, n), ratio| {
        let size = if ratio > 0.0 { ratio.ln().abs().min(ERROR_MAX) } else { ERROR_MAX };
        (sum + size, n + 1)
    });
    if n == 0 { ERROR_MAX } else { sum / f64::from(n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::answer::Compared;
    use crate::measured::case::Clipped;
    use crate::measured::kind::LoadKind;

    fn row(cpu_ratio: f64) -> MeasuredAgainst {
        MeasuredAgainst {
            figure: String::new(),
            condition: String::new(),
            scheduler: "none".into(),
            role: String::new(),
            total: false,
            load: LoadKind::ALL[0],
            devices: 1,
            device: None,
            class: None,
            file: String::new(),
            line: 1,
            figures: Compared { cpu_ratio: Some(cpu_ratio), ..Compared::default() },
            clipped: Clipped::default(),
            seconds: None,
            note: None,
            reason: None,
        }
    }

    /// What is found of one parameter, 100 in the class, where the error is `error` of its value.
    fn found(error: impl Fn(f64) -> f64) -> Found {
        let name = "work_percent".to_owned();
        let parameter = Parameter { name, low: 1.0, high: 1000.0, whole: false, class: 100.0, value: 100.0 };
        let space = Space { parameters: vec![parameter], named: true, with_cpu: true };
        let evaluate = |values: &[Parameter]| vec![row(error(values[0].value).exp())];
        Search::new(space, &evaluate, &Control::default()).run()
    }

    #[test]
    fn a_valley_between_the_steps_is_found_where_ten_percent_off_is_better() {
        let found = found(|value| if (108.0..111.0).contains(&value) { 0.2 } else { 1.0 });
        let [parameter] = &found.parameters[..] else { panic!("undetermined: {:?}", found.undetermined) };
        assert_eq!((parameter.value, found.error_of_class), (110.0, 1.0));
        assert!((found.error_fitted - 0.2).abs() < 1e-9 && parameter.determined > 3.0);
    }

    #[test]
    fn what_nothing_depends_on_stays_as_in_the_class() {
        let found = found(|_| 0.5);
        assert_eq!((found.parameters.len(), &found.undetermined[..]), (0, &["work_percent".to_owned()][..]));
        assert_eq!((found.values[0].value, found.error_fitted), (100.0, 0.5));
    }
}
