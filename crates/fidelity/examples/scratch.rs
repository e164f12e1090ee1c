use dumbwaiter_fidelity::recording::Recording;
use dumbwaiter_fidelity::{call_by_call, scheduler_of};
use dumbwaiter_schedulers::Choice;
fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let explain = args[0].parse::<u64>().ok();
    if explain.is_some() {
        args.remove(0);
    }
    let (mut calls, mut same) = (0, 0);
    for a in args {
        let r = Recording::open(a.as_ref()).unwrap();
        let s = scheduler_of(&r).unwrap();
        let c = Choice::parse(&s.to_string()).unwrap();
        let f = call_by_call(&r, &|setup| c.build(setup), explain);
        calls += f.calls();
        same += f.same + f.none_same;
        println!(
            "{:45} {:6} {:8.4} % disp {:8.4} none {:8.4} choice {} {:8.4} diffs {}",
            a.rsplit('/').next().unwrap(),
            f.calls(),
            f.agreement() * 100.0,
            f.dispatch_agreement() * 100.0,
            f.none_agreement() * 100.0,
            f.choices,
            f.choice_agreement() * 100.0,
            f.differences.len()
        );
        if let Some(e) = f.explanation {
            println!("{e}");
        }
        if explain.is_some() {
            let mut prev = 0;
            for d in &f.differences {
                println!("{:?} +{}", d, d.call - prev);
                prev = d.call;
            }
        }
    }
    println!("pooled {:.4} %", same as f64 / calls as f64 * 100.0);
}
