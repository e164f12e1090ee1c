//! Serves a target over NBD until its standard input ends: `serve_disk TARGET DIR EXPORT...`.

use std::io::Read;

use dumbwaiter_serve::{Cache, ExportSettings, ServeSettings, Server, TargetSettings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(target), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_disk TARGET DIR EXPORT...".into());
    };
    let mut target = TargetSettings::new(&target);
    if std::env::var_os("WRITEBACK").is_some() {
        target.cache = Cache::Writeback;
    }
    if let Ok(scheduler) = std::env::var("SCHEDULER") {
        target.scheduler = scheduler;
    }
    if let Some(depth) = std::env::var("DEPTH").ok().and_then(|text| text.parse().ok()) {
        target.device_depth = Some(depth);
    }
    target.exports = arguments.map(|export| ExportSettings::parse(&export)).collect::<Result<_, _>>()?;
    let settings = ServeSettings { targets: vec![target], unix: Some(folder.into()), ..ServeSettings::default() };
    let server = Server::start(settings, |line| eprintln!("{line}"))?;
    println!("ready {}", server.uris().join(" "));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let safe = server.shut_down(|| false)?;
    if safe { Ok(()) } else { Err("the last flush failed".into()) }
}
