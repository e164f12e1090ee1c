//! A closed loop over one NBD connection. The answers of one receive bring the next requests, in one send.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use dumbwaiter_protocols::nbd::socket::{Address, NbdClient};
use dumbwaiter_protocols::nbd::{Command, Request};

use super::{ClosedLoop, LoadReport, Requests, Signals};

pub(super) fn run(load: &ClosedLoop, address: &Address, export: &str, signals: Signals<'_>) -> io::Result<LoadReport> {
    let mut client = NbdClient::connect(address, export)?;
    let mut requests = Requests::new(load, client.offer().size, load.depth)?;
    let payload: Vec<u8> = if load.writes { (0..load.block_bytes).map(|i| i as u8).collect() } else { Vec::new() };
    let command = if load.writes { Command::Write } else { Command::Read };
    let read_length = if load.writes { 0 } else { load.block_bytes };
    let ask = |client: &mut NbdClient, requests: &mut Requests<'_>, cookie: u64| {
        let offset = requests.next(cookie as usize);
        client.ask(&Request { flags: 0, command, cookie, offset, length: load.block_bytes }, &payload);
    };
    (0..u64::from(load.depth)).for_each(|cookie| ask(&mut client, &mut requests, cookie));
    let (mut answered, mut under_way) = (Vec::new(), load.depth);
    while under_way > 0 {
        client.send()?;
        client.receive(|_| read_length, &mut answered)?;
        let (now, stopping, before) = (Instant::now(), signals.stopping(), requests.report.ios);
        for one in answered.drain(..) {
            requests.answered(one.cookie as usize, one.error == 0, now);
            match stopping {
                true => under_way -= 1,
                false => ask(&mut client, &mut requests, one.cookie),
            }
        }
        signals.done.fetch_add(requests.report.ios - before, Ordering::Relaxed);
    }
    Ok(requests.report)
}
