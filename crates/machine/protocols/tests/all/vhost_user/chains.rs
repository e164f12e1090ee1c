//! Chains of descriptors and requests: each rule, then anything at all.

use dumbwaiter_protocols::vhost_user::request::Rules;
use dumbwaiter_protocols::vhost_user::{Chain, ChainError, Operation, Refusal, Status};
use proptest::prelude::*;

use crate::vhost_user::guest::{BASE, Guest, REGION};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const SIZE: u16 = 16;
/// Data lies behind the table.
const DATA: u64 = BASE + 0x1000;
const RULES: Rules = Rules { bytes: 1 << 20, block_bytes: 512, readonly: false, max_range_sectors: 1 << 10 };

fn load(guest: &Guest, head: u16) -> Result<Chain, ChainError> {
    let mut chain = Chain::default();
    chain.load(&guest.memory, guest.table(), SIZE, head)?;
    Ok(chain)
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[9; 4], &sector.to_le_bytes()].concat()
}

/// A chain of header, data and status. `data` is written for the device to read, or has the length of what it writes.
fn request(guest: &Guest, header: &[u8], data: &[u8], reads: bool) {
    guest.write(DATA, header);
    guest.write(DATA + 0x100, data);
    guest.descriptor(BASE, 0, DATA, header.len() as u32, NEXT, 1);
    guest.descriptor(BASE, 1, DATA + 0x100, data.len() as u32, NEXT | if reads { 0 } else { WRITE }, 2);
    guest.descriptor(BASE, 2, DATA + 0x80, 1, WRITE, 0);
}

fn answer(guest: &Guest, rules: &Rules) -> Result<(Operation, u64, u32), Option<Status>> {
    let mut chain = load(guest, 0).unwrap();
    match chain.request(&guest.memory, rules) {
        Ok(request) => Ok((request.operation, request.offset, request.length)),
        Err(Refusal::NoStatus) => Err(None),
        Err(Refusal::With(place, status)) => {
            assert_eq!(place, guest.memory.locate(DATA + 0x80, 1).unwrap().0, "the status is the last writable byte");
            Err(Some(status))
        }
    }
}

#[test]
fn chains_that_cannot_be_followed_are_errors() {
    let guest = Guest::new();
    let check = |first: (u64, u32, u16, u16), want: ChainError| {
        guest.descriptor(BASE, 0, first.0, first.1, first.2, first.3);
        assert_eq!(load(&guest, 0).map(|_| ()), Err(want), "{first:x?}");
    };
    guest.descriptor(BASE, 1, DATA, 16, NEXT, 0);
    guest.descriptor(BASE, 2, DATA, 16, NEXT | INDIRECT, 0);
    check((DATA, 16, NEXT, 1), ChainError::TooLong);
    check((DATA, 16, NEXT, SIZE), ChainError::Index);
    check((DATA, 16, NEXT, 2), ChainError::Indirect);
    check((DATA, 16, NEXT | WRITE, 1), ChainError::Order);
    check((0, 16, 0, 0), ChainError::Address);
    check((u64::MAX - 8, 16, 0, 0), ChainError::Address);
    check((BASE + 2 * REGION - 8, 16, 0, 0), ChainError::Address);
    check((DATA, 16, NEXT | INDIRECT, 0), ChainError::Indirect);
    check((DATA, 0, INDIRECT, 0), ChainError::Indirect);
    check((DATA, 15, INDIRECT, 0), ChainError::Indirect);
    check((DATA, 129 * 16, INDIRECT, 0), ChainError::TooLong);
    check((1, 16, INDIRECT, 0), ChainError::Address);
    // A table in a table.
    guest.descriptor(DATA, 0, DATA, 16, INDIRECT, 0);
    check((DATA, 16, INDIRECT, 0), ChainError::Indirect);
    // One that goes on behind its table.
    guest.descriptor(DATA, 0, DATA, 16, NEXT, 1);
    check((DATA, 16, INDIRECT, 0), ChainError::Index);
    assert_eq!(load(&guest, SIZE).map(|_| ()), Err(ChainError::Index));
}

/// Virtio 1.2, "Indirect Descriptors": a device must take descriptors of the ring that are followed by one with a table.
#[test]
fn a_chain_may_end_in_a_table() {
    let guest = Guest::new();
    guest.write(DATA, &header(1, 8));
    guest.descriptor(BASE, 0, DATA, 16, NEXT, 3);
    guest.descriptor(BASE, 3, DATA + 0x200, 32, INDIRECT, 0);
    guest.descriptor(DATA + 0x200, 0, DATA + 0x400, 512, NEXT, 1);
    guest.descriptor(DATA + 0x200, 1, DATA + 0x80, 1, WRITE, 0);
    assert_eq!(answer(&guest, &RULES), Ok((Operation::Write, 4096, 512)));
    // The bound holds for both parts together.
    (0..128).for_each(|at| guest.descriptor(DATA + 0x200, at, DATA + 0x400, 1, NEXT, at + 1));
    guest.descriptor(BASE, 3, DATA + 0x200, 128 * 16, INDIRECT, 0);
    assert_eq!(load(&guest, 0).map(|_| ()), Err(ChainError::TooLong));
}

#[test]
fn a_descriptor_over_adjoining_regions_is_two_pieces() {
    let guest = Guest::new();
    guest.descriptor(BASE, 0, BASE + REGION - 512, 1024, WRITE, 0);
    let mut chain = load(&guest, 0).unwrap();
    chain.request(&guest.memory, &RULES).unwrap_err();
    let lengths: Vec<u32> = chain.data(Operation::Read).iter().map(|piece| piece.len).collect();
    assert_eq!(lengths, [512, 511], "the last byte was taken for the status");
}

#[test]
fn a_header_may_be_cut_anywhere() {
    let guest = Guest::new();
    let bytes = [header(1, 8), vec![0x5a; 512]].concat();
    guest.write(DATA, &bytes);
    for cut in 1..bytes.len() as u32 {
        guest.descriptor(BASE, 0, DATA, cut, NEXT, 1);
        guest.descriptor(BASE, 1, DATA + u64::from(cut), bytes.len() as u32 - cut, NEXT, 2);
        guest.descriptor(BASE, 2, DATA + 0x800, 1, WRITE, 0);
        let mut chain = load(&guest, 0).unwrap();
        let request = chain.request(&guest.memory, &RULES).unwrap();
        assert_eq!((request.operation, request.offset, request.length), (Operation::Write, 4096, 512));
        let data: u32 = chain.data(request.operation).iter().map(|piece| piece.len).sum();
        assert_eq!(data, 512);
    }
}

#[test]
fn requests_are_checked_against_the_disk() {
    let guest = Guest::new();
    let last = RULES.bytes / 512 - 1;
    let error = Err(Some(Status::IoError));
    let unsupported = Err(Some(Status::Unsupported));
    let readonly = Rules { readonly: true, ..RULES };
    let blocks = Rules { block_bytes: 4096, ..RULES };
    for (kind, sector, bytes, reads, rules, want) in [
        (0, 0, 512, false, RULES, Ok((Operation::Read, 0, 512))),
        (0, last, 512, false, RULES, Ok((Operation::Read, RULES.bytes - 512, 512))),
        (0, last, 1024, false, RULES, error),
        (0, u64::MAX, 512, false, RULES, error),
        (0, u64::MAX / 512, 512, false, RULES, error),
        (0, last + 1, 0, false, RULES, Ok((Operation::Read, RULES.bytes, 0))),
        (0, 0, 0, false, RULES, Ok((Operation::Read, 0, 0))),
        (0, 0, 100, false, RULES, error),
        (0, 0, 512, true, RULES, error),
        (1, 3, 512, true, RULES, Ok((Operation::Write, 1536, 512))),
        (1, 3, 512, false, RULES, error),
        (1, 3, 512, true, readonly, error),
        (0, 3, 512, false, readonly, Ok((Operation::Read, 1536, 512))),
        (0, 1, 512, false, blocks, error),
        (4, 0, 0, false, RULES, Ok((Operation::Flush, 0, 0))),
        (8, 0, 20, false, RULES, Ok((Operation::GetId, 0, 0))),
        (2, 0, 512, false, RULES, unsupported),
        (u32::MAX, 0, 512, false, RULES, unsupported),
    ] {
        request(&guest, &header(kind, sector), &vec![0; bytes], reads);
        assert_eq!(answer(&guest, &rules), want, "{kind} {sector} {bytes} {reads}");
    }
}

#[test]
fn discards_and_zeroes_have_one_range_of_whole_blocks() {
    let guest = Guest::new();
    let range = |sector: u64, sectors: u32, flags: u32| {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    };
    let blocks = Rules { block_bytes: 4096, ..RULES };
    let readonly = Rules { readonly: true, ..RULES };
    let (error, unsupported) = (Err(Some(Status::IoError)), Err(Some(Status::Unsupported)));
    let zeroes = |unmap| Operation::WriteZeroes { unmap };
    for (kind, data, rules, want) in [
        (11, range(8, 16, 0), RULES, Ok((Operation::Discard, 4096, 8192))),
        (11, range(8, 16, 1), RULES, unsupported),
        (11, range(8, 16, 2), RULES, unsupported),
        (13, range(8, 16, 0), RULES, Ok((zeroes(false), 4096, 8192))),
        (13, range(8, 16, 1), RULES, Ok((zeroes(true), 4096, 8192))),
        (13, range(8, 16, 3), RULES, unsupported),
        (13, range(1, 16, 0), blocks, error),
        (11, range(1, 16, 0), blocks, Ok((Operation::Discard, 4096, 4096))),
        (11, range(1, 6, 0), blocks, Ok((Operation::Discard, 0, 0))),
        (11, range(8, 16, 0), readonly, error),
        (11, range(2040, 16, 0), RULES, error),
        (11, range(u64::MAX, 16, 0), RULES, error),
        (11, range(u64::MAX, 16, 0), blocks, error),
        (13, range(0, 2000, 0), RULES, error),
        (11, [range(0, 1, 0), range(1, 1, 0)].concat(), RULES, unsupported),
        (11, vec![0; 15], RULES, error),
        (11, vec![], RULES, error),
    ] {
        request(&guest, &header(kind, 0), &data, true);
        assert_eq!(answer(&guest, &rules), want, "{kind} {data:?}");
    }
}

#[test]
fn without_header_or_status_nothing_is_done() {
    let guest = Guest::new();
    guest.descriptor(BASE, 0, DATA, 16, 0, 0);
    assert_eq!(answer(&guest, &RULES), Err(None));
    guest.descriptor(BASE, 0, DATA, 15, NEXT, 1);
    guest.descriptor(BASE, 1, DATA + 0x80, 1, WRITE, 0);
    assert_eq!(answer(&guest, &RULES), Err(Some(Status::IoError)));
    guest.descriptor(BASE, 0, DATA, 16, NEXT, 1);
    guest.descriptor(BASE, 1, DATA + 0x80, 0, WRITE, 0);
    assert_eq!(answer(&guest, &RULES), Err(None));
}

proptest! {
    #[test]
    fn any_table_is_a_request_within_memory_and_disk_or_an_error(
        descriptors in prop::collection::vec((0u64..8, 0u64..0x1_2000, prop_oneof![0u32..40, any::<u32>()], 0u16..8, 0u16..20), 16),
        bytes in prop::collection::vec(any::<u8>(), 64),
        kind in 0u32..14,
        head in 0u16..17,
    ) {
        let guest = Guest::new();
        for (index, (region, at, len, flags, next)) in descriptors.into_iter().enumerate() {
            guest.descriptor(BASE, index as u16, region * REGION + at, len, flags, next);
        }
        guest.write(DATA, &bytes);
        guest.write(DATA + 16, &header(kind, u64::from(bytes[0])));
        let Ok(mut chain) = load(&guest, head) else { return Ok(()) };
        let Ok(request) = chain.request(&guest.memory, &RULES) else { return Ok(()) };
        prop_assert!(request.offset + u64::from(request.length) <= RULES.bytes);
        let mut sum = 0;
        for piece in chain.data(request.operation) {
            prop_assert!(piece.len > 0 && guest.memory.pointer(*piece).is_some());
            sum += u64::from(piece.len);
        }
        if matches!(request.operation, Operation::Read | Operation::Write) {
            prop_assert_eq!(sum, u64::from(request.length));
        }
        prop_assert!(guest.memory.write(request.status, &[0]));
    }
}
