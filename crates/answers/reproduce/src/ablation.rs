//! Ours: what each mechanism of BFQ is worth, by leaving it out.

use dumbwaiter_block::Setup;
use dumbwaiter_report::Grid;
use dumbwaiter_schedulers::Choice;

use crate::bfq_2015::{HDD, Launches, StartUp, background, dropped_percent, film_beside, machine};
use crate::replicates::{Runs, case, partitions, replicated};
use crate::{Case, Effort, Error, Figure, FigureResult, Paper, Row};

const NAME: &str = "ablation";
const SSD: &str = "ssd:sata-mlc";
/// A launch is given up after this many seconds.
const TIMEOUT: u32 = 30;

/// Not of a paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Ours: BFQ with each of its mechanisms off on its own",
    calibration: "nothing",
    chosen: &[],
    real: crate::Real::No,
    figures: &[
        Figure {
            name: "mainline",
            title: "mainline: start-up, throughput and shares without each mechanism",
            run: mainline,
        },
        Figure { name: "v7r8", title: "v7r8: start-up, throughput and shares without each mechanism", run: v7r8 },
    ],
};

fn mainline(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    ablate("mainline", effort)
}

fn v7r8(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    ablate("v7r8", effort)
}

/// Mechanisms that are on in a generation, and what switches them off; settings of the kernel that are as good as switches
/// come first.
fn switches(generation: &str) -> Result<Vec<(String, String)>, Error> {
    let choice = Choice::parse(&format!("bfq:{generation}")).map_err(|e| Error::Case(e.to_string()))?;
    let mut all: Vec<(String, String)> = [
        ("heuristics (low_latency)", "low_latency=0"),
        ("idling (slice_idle)", "slice_idle=0"),
        ("auto-tuned budget", "max_budget=16384"),
    ]
    .map(|(name, setting)| (name.to_owned(), setting.to_owned()))
    .to_vec();
    for tunable in choice.build(Setup::default()).tunables() {
        if tunable.help.starts_with("mechanism: ") && tunable.default == 1 {
            all.push((tunable.name.to_owned(), format!("{}=0", tunable.name)));
        }
    }
    Ok(all)
}

/// Figures of each variant.
struct Measured {
    name: String,
    start_s: f64,
    failed: f64,
    sequential: f64,
    mixed: f64,
    dropped: f64,
    hdd_pv: f64,
    ssd_pv: f64,
    ssd_speed: f64,
}

fn ablate(generation: &str, effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut variants = vec![("nothing".to_owned(), String::new())];
    variants.extend(switches(generation)?.into_iter().map(|(name, setting)| (name, format!(",{setting}"))));
    let hdd = effort.pick(20, 8);
    let start =
        |load| StartUp { launches: effort.pick(3, 1), greedy: true, timeout: TIMEOUT }.beside(Some(load), false);
    let alone = |load| machine(10, hdd, &background(load, false));
    let mut readers = format!("warmup = \"1s\"\nduration = \"{}s\"\n", 2 * hdd);
    for (i, weight) in [1, 2, 4, 5].into_iter().enumerate() {
        readers += &format!(
            "[[tenant]]\nname = \"t{weight}\"\nweight = {}\n[[tenant.task]]\nname = \"r\"\nrw = \"read\"\nbs = \"128k\"\nioengine = \"psync\"\noffset = \"{}GB\"\nsize = \"50GB\"\n",
            weight * 100,
            i * 50
        );
    }
    let head = format!("warmup = \"1s\"\nduration = \"{}s\"", effort.pick(20, 5));
    let prn = partitions(&head, &[1, 2, 4, 5].map(|w| (w, "prn")));
    let texts = [
        (start("10r-seq"), HDD),
        (start("10r-rand"), HDD),
        (alone("10r-seq"), HDD),
        (alone("5r5w-rand"), HDD),
        (film_beside("10r-seq"), HDD),
        (readers, HDD),
        (prn, SSD),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (_, setting) in &variants {
        for (i, (text, device)) in texts.iter().enumerate() {
            // Raised queues have no shares.
            let plain = i >= 5 && !setting.contains("low_latency");
            let shares = if plain { ",low_latency=0" } else { "" };
            cases.push(case(text, device, &format!("bfq:{generation}{setting}{shares}"))?);
        }
    }
    let runs = replicated(&cases, effort.pick(5, 3), effort)?;
    let measured: Vec<Measured> =
        variants.iter().zip(runs.chunks(texts.len())).map(|((name, _), runs)| measure(name, runs)).collect();
    let mut out = FigureResult::default();
    let Some(whole) = measured.first() else { return Ok(out) };
    out.tables.push(table(generation, &measured));
    out.tables.push(bars("Start-up beside ten readers, s; a launch that fails counts 30 s", &measured, |m| {
        if m.start_s.is_finite() {
            m.start_s * (1.0 - m.failed) + f64::from(TIMEOUT) * m.failed
        } else {
            f64::from(TIMEOUT)
        }
    }));
    out.tables.push(bars("Throughput of ten sequential readers, MB/s", &measured, |m| m.sequential));
    out.tables.push(bars("PV on the disk, weights 1:2:4:5", &measured, |m| m.hdd_pv));
    out.tables.push(bars("PV on the SSD, weights 1:2:4:5", &measured, |m| m.ssd_pv));
    for m in &measured {
        let case = if std::ptr::eq(m, whole) { "all mechanisms".to_owned() } else { format!("without {}", m.name) };
        let mut push = |metric: &str, value: f64, unit: &str| {
            out.rows.push(Row::new(NAME, generation, metric, &case, value, unit));
        };
        push("start-up beside ten readers, of those that started", m.start_s, "s");
        push("launches that took more than 30 s", 100.0 * m.failed, "%");
        push("throughput of ten sequential readers", m.sequential, "MB/s");
        push("throughput of five random readers and five writers", m.mixed, "MB/s");
        push("frames that a player drops beside ten sequential readers", m.dropped, "%");
        push("PV on the disk", m.hdd_pv, "");
        push("PV on the SSD", m.ssd_pv, "");
        push("throughput on the SSD", m.ssd_speed, "MB/s");
    }
    out.notes.push("start-ups and throughput are on hdd:st1000dm003, beside 10r-seq and 10r-rand alike; the film is beside 10r-seq; shares of four sequential readers there, and of prn on ssd:sata-mlc, with low_latency = 0".to_owned());
    Ok(out)
}

fn measure(name: &str, runs: &[Runs]) -> Measured {
    let (seq, rand) = (Launches::of(&runs[0]), Launches::of(&runs[1]));
    let started = (seq.started + rand.started) as f64;
    let sum = |l: &Launches| if l.started == 0 { 0.0 } else { l.mean_s() * l.started as f64 };
    Measured {
        name: name.to_owned(),
        start_s: (sum(&seq) + sum(&rand)) / started,
        failed: f64::midpoint(seq.failed(), rand.failed()),
        sequential: runs[2].mb_per_s(),
        mixed: runs[3].mb_per_s(),
        dropped: dropped_percent(&runs[4]),
        hdd_pv: runs[5].pv(),
        ssd_pv: runs[6].pv(),
        ssd_speed: runs[6].mb_per_s(),
    }
}

fn table(generation: &str, measured: &[Measured]) -> Grid {
    let header = [
        "without",
        "start-up s",
        "over 30 s %",
        "10r-seq MB/s",
        "5r5w-rand MB/s",
        "dropped %",
        "disk PV",
        "SSD PV",
        "SSD MB/s",
    ];
    let row = |m: &Measured| {
        let start = if m.start_s.is_finite() { format!("{:.2}", m.start_s) } else { "X".to_owned() };
        vec![
            m.name.clone(),
            start,
            format!("{:.0}", 100.0 * m.failed),
            format!("{:.0}", m.sequential),
            format!("{:.2}", m.mixed),
            format!("{:.1}", m.dropped),
            format!("{:.3}", m.hdd_pv),
            format!("{:.3}", m.ssd_pv),
            format!("{:.0}", m.ssd_speed),
        ]
    };
    Grid {
        title: format!("bfq:{generation} without one mechanism at a time"),
        header: header.map(str::to_owned).to_vec(),
        rows: measured.iter().map(row).collect(),
    }
}

/// A bar a variant, from zero to the largest.
fn bars(title: &str, measured: &[Measured], of: impl Fn(&Measured) -> f64) -> Grid {
    const WIDTH: f64 = 40.0;
    let most = measured.iter().map(&of).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let row = |m: &Measured| {
        let value = of(m);
        let cells = if value.is_finite() && most > 0.0 { (WIDTH * value / most).round() as usize } else { 0 };
        let text = if value.is_finite() { format!("{value:.3}") } else { "–".to_owned() };
        vec![m.name.clone(), text, format!("{:<40}", "█".repeat(cells))]
    };
    Grid {
        title: title.to_owned(),
        header: ["without", "", ""].map(str::to_owned).to_vec(),
        rows: measured.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_that_is_on_is_left_out_once() {
        let of = |generation| -> Vec<String> { switches(generation).unwrap().into_iter().map(|s| s.0).collect() };
        let (mainline, v7r8) = (of("mainline"), of("v7r8"));
        for name in ["raising", "injection", "stable_merge", "time_charge"] {
            assert_eq!(mainline.iter().filter(|m| *m == name).count(), 1, "{name}");
        }
        assert!(v7r8.iter().all(|m| m != "injection" && m != "linear_raise"));
        for (_, setting) in switches("mainline").unwrap() {
            Choice::parse(&format!("bfq:mainline,{setting}")).unwrap();
        }
    }
}
