use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::*;
fn main() {
    let mut s = Scenario::builtin();
    let a: Vec<String> = std::env::args().collect();
    if a.len() > 3 {
        s = Scenario::from_toml(&std::fs::read_to_string(&a[3]).unwrap(), "x").unwrap();
    }
    let m = dumbwaiter_devices::load(&a[1]).unwrap();
    let c = Choice::parse(&a[2]).unwrap();
    let p = Prepared::new(&s).unwrap();
    let ctl = Control::default();
    let t = std::time::Instant::now();
    let r = p.run(&m, &c, 0, &ctl).unwrap().result;
    let e = t.elapsed().as_secs_f64();
    println!(
        "{} {} reqs {} {:.3}s {:.0}/s  iops {:.0} mb/s {:.1} mean {:.2} p50 {:.2} p99 {:.2} read p50 {:.2} write {:.2}",
        a[1],
        a[2],
        r.requests,
        e,
        r.requests as f64 / e,
        r.iops,
        r.mb_per_s,
        r.latency_us.mean,
        r.latency_us.p50,
        r.latency_us.p99,
        r.read.latency_us.p50,
        r.write.latency_us.p50
    );
    for t in &r.tenants {
        println!("  {} share {:.3} mb/s {:.2} p99 {:.1}", t.name, t.share, t.mb_per_s, t.latency_us.p99);
    }
}
