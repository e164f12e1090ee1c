//! A hostile virtual machine: messages from any bytes, and a guest whose memory is any bytes.
#![no_main]

use dumbwaiter_protocols::vhost_user::inflight::Inflight;
use dumbwaiter_protocols::vhost_user::request::Rules;
use dumbwaiter_protocols::vhost_user::ring::RingAddresses;
use dumbwaiter_protocols::vhost_user::{Assembler, Chain, Memory, Operation, Region, Ring};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

const BYTES: u64 = 1 << 16;

thread_local! {
    static MEMORY: Memory = {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, BYTES).expect("memory");
        let mut memory = Memory::default();
        for half in 0..2 {
            let offset = half * BYTES / 2;
            memory.add(Region { guest: offset, bytes: BYTES / 2, user: offset, offset }, &file).expect("memory");
        }
        memory
    };
}

fuzz_target!(|bytes: &[u8]| {
    messages(bytes);
    MEMORY.with(|memory| guest(memory, bytes));
});

fn messages(bytes: &[u8]) {
    let (mut assembler, mut rest) = (Assembler::<u8>::default(), bytes);
    while !rest.is_empty() {
        let count = assembler.room().len().min(rest.len());
        assembler.room()[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        match assembler.received(count, (count % 3 == 0).then_some(0)) {
            Ok(Some(envelope)) => drop(envelope.open()),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

fn guest(memory: &Memory, bytes: &[u8]) {
    let (place, _) = memory.locate(0, 1).expect("memory");
    let count = bytes.len().min(BYTES as usize / 2);
    memory.write(place, &bytes[..count]);
    let size = 1u16 << bytes.first().map_or(3, |byte| byte % 11);
    let word = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
    let available = (word(1) << 8 | word(2)) & !1;
    let used = (word(3) << 8 | word(4)) & !3;
    let addresses = RingAddresses { descriptors: 16 * word(5), available, used };
    // New memory for the records costs more than all the rest: one input in sixteen has them.
    let inflight = (word(7) >> 4 == 15).then(|| Inflight::create(1, 1024).expect("memory"));
    let inflight = inflight.as_ref();
    let Some((mut ring, _)) = Ring::start(0, size, &addresses, 0, word(6) & 1 == 1, memory, inflight) else {
        return;
    };
    let rules = Rules { bytes: 1 << 20, block_bytes: 512, readonly: word(7) & 1 == 1, max_range_sectors: 1 << 10 };
    let mut chain = Chain::default();
    for _ in 0..2 * size {
        let Ok(Some(head)) = ring.take(memory, inflight) else { break };
        if chain.load(memory, ring.descriptors(), size, head).is_ok()
            && let Ok(request) = chain.request(memory, &rules)
        {
            assert!(request.offset + u64::from(request.length) <= rules.bytes);
            let data = chain.data(request.operation);
            assert!(data.iter().all(|piece| memory.pointer(*piece).is_some()));
            let sum: u64 = data.iter().map(|piece| u64::from(piece.len)).sum();
            assert!(
                !matches!(request.operation, Operation::Read | Operation::Write) || sum == u64::from(request.length)
            );
        }
        ring.complete(memory, head, 0);
        ring.publish(memory, inflight);
    }
    let _ = inflight.map(|records| records.recover(0, size, word(8) as u16));
}
