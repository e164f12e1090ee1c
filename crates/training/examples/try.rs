use dumbwaiter_training::{data::DataSet, evaluate::*, task::*, train::*};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let task = Task::ALL.into_iter().find(|t| t.name() == args[1]).unwrap();
    let train: Vec<String> = args[2].split(',').map(String::from).collect();
    let val: Vec<String> = args[3].split(',').map(String::from).collect();
    let test: Vec<String> = args[4].split(',').map(String::from).collect();
    let device = args.get(5).filter(|d| d.contains(':')).cloned();
    let data = DataSet::read(std::path::Path::new("/work/shared/data/rocksdb-loop-ext4"), &[]).unwrap();
    for seed in 0..args.get(6).map_or(1, |s| s.parse().unwrap()) {
        let t = std::time::Instant::now();
        let req = Request {
            task,
            features: task.features(),
            train: train.clone(),
            validate: val.clone(),
            seed,
            device: device.clone(),
            args: String::new(),
        };
        let model = train_model(&data, &req).unwrap();
        let took = t.elapsed();
        let e = evaluate(
            ("m", &model),
            &[],
            &data.only(&test),
            if device.is_some() { Times::Served } else { Times::Recorded },
        )
        .unwrap();
        println!("seed {seed} {:?} rows {} {} T {}", took, model.about.trained.rows, e.rows, model.about.temperature);
        if let Some(a) = e.accuracy {
            println!("{a:?}");
        }
        if let Some(l) = e.latency {
            println!("{l:?}");
        }
        for b in e.baselines {
            println!("  {} {:?} {:?}", b.name, b.accuracy.map(|a| (a.raw, a.merged_a)), b.latency);
        }
    }
}
