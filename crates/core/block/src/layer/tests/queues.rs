//! Several hardware queues: tags of each or of all, places in the device, who sleeps where.

use super::*;

const NOW: Nanos = Nanos::ZERO;

fn on(cpu: u16, n: u64) -> Io {
    Io { cpu, ..read(n * 100) }
}

fn polled(layer: &mut BlockLayer) -> Vec<RequestId> {
    std::iter::from_fn(|| layer.poll(NOW)).collect()
}

/// Four CPUs, each with a hardware queue of 32 tags.
fn four(direct: bool, change: impl FnOnce(&mut Setup)) -> BlockLayer {
    let mut setup = Setup { cpus: 4, hw_queues: 4, device_depth: 128, nr_requests: 64, ..Setup::default() };
    change(&mut setup);
    layer(direct, Config { setup, tasks_sleep: true, ..Config::default() })
}

fn submit(layer: &mut BlockLayer, cpu: u16, count: u64) -> u64 {
    let first = u64::from(cpu) * 1000;
    (0..count).take_while(|n| layer.submit(NOW, on(cpu, first + n), None) == Submitted::Entered).count() as u64
}

#[test]
fn a_task_finds_the_tags_of_its_own_queue_only() {
    let mut layer = four(true, |_| {});
    assert_eq!(submit(&mut layer, 0, 100), 32, "and sleeps although 96 tags are free");
    let sent = polled(&mut layer);
    assert_eq!(sent.len(), 32);
    for cpu in 1..4 {
        assert_eq!(submit(&mut layer, cpu, 100), 32);
    }
    assert_eq!((polled(&mut layer).len(), layer.in_device()), (96, 128));
    // A tag of another queue helps none that sleeps for one of this.
    let of_three = layer.requests().iter().find(|(id, _)| layer.hw_queue(*id) == 3).unwrap().0;
    layer.complete(NOW, of_three, Ok(()), &mut Vec::new());
    assert_eq!(layer.next_woken().map(|id| layer.hw_queue(id)), None, "four make a batch of a queue of 32");
    for id in &sent[..4] {
        layer.complete(NOW, *id, Ok(()), &mut Vec::new());
    }
    assert_eq!(layer.next_woken().map(|id| layer.hw_queue(id)), Some(0));
}

#[test]
fn a_scheduler_has_its_requests_for_each_queue() {
    let mut layer = four(false, |_| {});
    for cpu in 0..4 {
        assert_eq!(submit(&mut layer, cpu, 100), 64);
    }
    let sent = polled(&mut layer);
    // One is picked ahead, for a queue that is full, and ends the run of the queue that picked it.
    assert!(sent.len() >= 32 && sent.len() <= 128, "{}", sent.len());
    for hw in 0..4 {
        assert!(sent.iter().filter(|id| layer.hw_queue(**id) == hw).count() <= 32);
    }
}

#[test]
fn shared_tags_are_one_set_and_the_device_takes_no_more_than_it_has_places() {
    let mut layer = four(false, |setup| {
        setup.shared_tags = true;
        setup.nr_requests = 256;
        setup.lun_depth = Some(64);
    });
    let entered: u64 = (0..4).map(|cpu| submit(&mut layer, cpu, 100)).sum();
    assert_eq!(entered, 256, "in all");
    assert_eq!(polled(&mut layer).len(), 64);
    assert_eq!(layer.queued(), 256 + 2 - 64, "one task each of two CPUs sleeps beside them");
}

#[test]
fn without_ncq_a_port_keeps_its_tags_and_the_drive_has_one_place() {
    let setup = Setup { device_depth: 32, lun_depth: Some(1), nr_requests: 64, ..Setup::default() };
    let mut layer = layer(true, Config { setup, tasks_sleep: true, ..Config::default() });
    assert_eq!(submit(&mut layer, 0, 64), 32, "32 have a tag");
    let mut order = Vec::new();
    while let Some(id) = layer.poll(NOW) {
        assert_eq!((layer.poll(NOW), layer.in_device()), (None, 1));
        order.push(layer.request(id).sector);
        layer.complete(NOW, id, Ok(()), &mut Vec::new());
    }
    assert_eq!(order, (0..32).map(|n| n * 100).collect::<Vec<_>>(), "in order of submission");
}

/// A device of SCSI has a place before the scheduler is asked, so that what comes meanwhile may be chosen.
#[test]
fn nothing_is_picked_ahead_for_a_device_without_a_place() {
    let picked_ahead = |lun_depth| {
        let setup = Setup {
            device_depth: if lun_depth { 32 } else { 1 },
            lun_depth: lun_depth.then_some(1),
            ..Setup::default()
        };
        let mut layer = layer(false, Config { setup, ..Config::default() });
        for n in 0..3 {
            layer.submit(NOW, read(n * 100), None);
            layer.poll(NOW);
        }
        layer.ledger.dispatched - layer.ledger.issued
    };
    assert_eq!((picked_ahead(false), picked_ahead(true)), (1, 0));
}

#[test]
fn lowering_the_depth_of_a_scsi_device_moves_its_places_and_no_tags() {
    let setup = Setup { device_depth: 32, lun_depth: Some(32), nr_requests: 64, ..Setup::default() };
    let mut layer = layer(false, Config { setup, ..Config::default() });
    layer.set_device_depth(NOW, 2);
    assert_eq!((layer.config().setup.device_depth, layer.config().setup.commands()), (32, 2));
    for n in 0..10 {
        layer.submit(NOW, read(n * 100), None);
    }
    assert_eq!(polled(&mut layer).len(), 2);
    layer.set_device_depth(NOW, 5);
    assert_eq!((polled(&mut layer).len(), layer.in_device()), (3, 5));
}
