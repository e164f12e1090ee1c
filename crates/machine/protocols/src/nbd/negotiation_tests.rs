use proptest::prelude::*;

use super::*;
use crate::nbd::export::BlockSizes;

struct Two;

impl Exports for Two {
    fn find(&self, name: &str) -> Option<Description> {
        let name = if name.is_empty() { "a" } else { name };
        ["a", "b"].contains(&name).then(|| Description {
            name: name.to_owned(),
            text: "a disk".to_owned(),
            size: 1 << 30,
            flags: transmission::SEND_FLUSH,
            block_sizes: BlockSizes::default(),
        })
    }
    fn list(&self) -> Vec<(String, String)> {
        vec![("a".to_owned(), "a disk".to_owned()), ("b".to_owned(), String::new())]
    }
}

fn opt(number: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &length, data].concat()
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let counted = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let mut data = counted(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| counted(query)));
    data
}

/// Option and type of each reply.
fn replies(mut out: &[u8]) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    while !out.is_empty() {
        assert_eq!(u64_at(out, 0), OPTION_REPLY_MAGIC);
        found.push((u32_at(out, 8), u32_at(out, 12)));
        out = &out[20 + u32_at(out, 16) as usize..];
    }
    found
}

fn talk(parts: &[Vec<u8>]) -> (Progress, Vec<u8>) {
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    let all = [&3u32.to_be_bytes()[..], &parts.concat()].concat();
    (negotiation.feed(&all, &Two, &mut out), out)
}

#[test]
fn go_describes_the_export_and_agrees_on_it() {
    let (progress, out) =
        talk(&[opt(option::STRUCTURED_REPLY, &[]), opt(option::GO, &go("b", &[info::NAME, info::BLOCK_SIZE]))]);
    let Progress::Agreed(agreed) = progress else { panic!("{progress:?}") };
    assert_eq!((agreed.export.name.as_str(), agreed.structured, agreed.allocation), ("b", true, false));
    assert!(agreed.export.flags & transmission::SEND_DF != 0);
    let go = option::GO;
    assert_eq!(replies(&out), [(8, 1), (go, 3), (go, 3), (go, 3), (go, 1)]);
}

#[test]
fn export_name_is_answered_with_padding_unless_both_do_without() {
    let (progress, out) = talk(&[opt(option::EXPORT_NAME, b"")]);
    assert!(matches!(progress, Progress::Agreed(_)));
    assert_eq!(out.len(), 10);
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    let all = [&1u32.to_be_bytes()[..], &opt(option::EXPORT_NAME, b"a")].concat();
    assert!(matches!(negotiation.feed(&all, &Two, &mut out), Progress::Agreed(_)));
    assert_eq!(out.len(), 134);
    assert!(matches!(talk(&[opt(option::EXPORT_NAME, b"no")]).0, Progress::Violation(_)));
}

#[test]
fn a_selection_holds_for_the_export_that_it_named() {
    let structured = || opt(option::STRUCTURED_REPLY, &[]);
    let set = |name: &str, query: &str| opt(option::SET_META_CONTEXT, &meta(name, &[query]));
    let selected = |parts: &[Vec<u8>]| match talk(parts).0 {
        Progress::Agreed(agreed) => agreed.allocation,
        other => panic!("{other:?}"),
    };
    let go_a = || opt(option::GO, &go("a", &[]));
    assert!(selected(&[structured(), set("a", BASE_ALLOCATION), go_a()]));
    assert!(!selected(&[structured(), set("b", BASE_ALLOCATION), go_a()]));
    assert!(!selected(&[structured(), set("a", BASE_ALLOCATION), set("a", "qemu:dirty"), go_a()]));
    let failed = opt(option::SET_META_CONTEXT, &[0, 0, 0, 9]);
    assert!(!selected(&[structured(), set("a", BASE_ALLOCATION), failed, go_a()]));
    let (_, out) = talk(&[set("a", BASE_ALLOCATION)]);
    assert_eq!(replies(&out), [(10, option_reply::ERR_INVALID)], "not before structured replies");
}

#[test]
fn listing_contexts_without_a_query_lists_all_and_selecting_without_one_selects_none() {
    let queries = |number, queries: &[&str]| {
        replies(&talk(&[opt(option::STRUCTURED_REPLY, &[]), opt(number, &meta("a", queries))]).1)[1..].to_vec()
    };
    assert_eq!(queries(9, &[]), [(9, 4), (9, 1)]);
    assert_eq!(queries(9, &["base:"]), [(9, 4), (9, 1)]);
    assert_eq!(queries(9, &["x:"]), [(9, 1)]);
    assert_eq!(queries(10, &[]), [(10, 1)]);
    assert_eq!(queries(10, &["base:"]), [(10, 1)]);
}

#[test]
fn malformed_options_are_answered_and_the_next_one_is_read() {
    let list = || opt(option::LIST, &[]);
    let too_long_name = go(&"n".repeat(MAX_STRING + 1), &[]);
    for (bad, answer) in [
        (opt(option::LIST, b"x"), option_reply::ERR_INVALID),
        (opt(option::STRUCTURED_REPLY, b"x"), option_reply::ERR_INVALID),
        (opt(option::GO, &[0, 0, 0, 200, b'a']), option_reply::ERR_INVALID),
        (opt(option::GO, &[go("a", &[]), vec![0]].concat()), option_reply::ERR_INVALID),
        (opt(option::GO, &too_long_name), option_reply::ERR_INVALID),
        (opt(option::GO, &go("nobody", &[])), option_reply::ERR_UNKNOWN),
        (opt(option::STARTTLS, &[]), option_reply::ERR_POLICY),
        (opt(11, &[]), option_reply::ERR_UNSUP),
        (opt(4, b"peek"), option_reply::ERR_UNSUP),
        (opt(77, &vec![0; MAX_OPTION_BYTES + 1]), option_reply::ERR_TOO_BIG),
    ] {
        let (progress, out) = talk(&[bad.clone(), list()]);
        let found = replies(&out);
        assert_eq!(progress, Progress::More);
        assert_eq!(found[0].1, answer, "{:?}", &bad[..12]);
        assert_eq!(found[1..], [(3, 2), (3, 2), (3, 1)], "{:?}", &bad[..12]);
    }
}

#[test]
fn what_cannot_be_answered_ends_the_connection() {
    assert!(matches!(talk(&[vec![0; 16]]).0, Progress::Violation(_)));
    assert!(matches!(talk(&[opt(option::LIST, &[])[..12].to_vec(), vec![0x80, 0, 0, 0]]).0, Progress::Violation(_)));
    assert!(matches!(talk(&vec![opt(option::LIST, &[]); 65]).0, Progress::Violation(_)));
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    assert!(matches!(negotiation.feed(&8u32.to_be_bytes(), &Two, &mut out), Progress::Violation(_)));
    assert_eq!(talk(&[opt(option::ABORT, b"bye")]).0, Progress::Ended);
}

#[test]
fn a_server_that_shuts_down_says_so() {
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    negotiation.shut_down();
    let all = [&3u32.to_be_bytes()[..], &opt(option::GO, &go("a", &[]))].concat();
    assert_eq!(negotiation.feed(&all, &Two, &mut out), Progress::More);
    assert_eq!(replies(&out), [(7, option_reply::ERR_SHUTDOWN)]);
}

/// A negotiation that has read its client's flags.
fn with_policy(tls: TlsPolicy) -> Negotiation {
    let (mut negotiation, mut out) = (Negotiation::new(tls), Vec::new());
    assert_eq!(negotiation.feed(&3u32.to_be_bytes(), &Two, &mut out), Progress::More);
    negotiation
}

#[test]
fn required_tls_refuses_all_options_but_starttls_and_abort() {
    let mut negotiation = with_policy(TlsPolicy::Required);
    for (number, data) in [
        (option::LIST, vec![]),
        (option::GO, go("a", &[])),
        (option::INFO, go("a", &[])),
        (option::STRUCTURED_REPLY, vec![]),
        (option::SET_META_CONTEXT, meta("a", &[BASE_ALLOCATION])),
        (77, vec![]),
    ] {
        let mut out = Vec::new();
        assert_eq!(negotiation.feed(&opt(number, &data), &Two, &mut out), Progress::More);
        assert_eq!(replies(&out), [(number, option_reply::ERR_TLS_REQD)]);
    }
    let mut out = Vec::new();
    assert_eq!(negotiation.clone().feed(&opt(option::ABORT, &[]), &Two, &mut out), Progress::Ended);
    let by_name = negotiation.clone().feed(&opt(option::EXPORT_NAME, b"a"), &Two, &mut out);
    assert!(matches!(by_name, Progress::Violation(_)));
    out.clear();
    assert_eq!(negotiation.feed(&opt(option::STARTTLS, &[]), &Two, &mut out), Progress::StartTls);
    assert_eq!(replies(&out), [(5, option_reply::ACK)]);
    assert!(matches!(negotiation.feed(&opt(option::GO, &go("a", &[])), &Two, &mut out), Progress::Agreed(_)));
}

#[test]
fn starttls_forgets_what_was_negotiated_and_comes_once() {
    let mut negotiation = with_policy(TlsPolicy::Allowed);
    let before = [opt(option::STRUCTURED_REPLY, &[]), opt(option::SET_META_CONTEXT, &meta("a", &[BASE_ALLOCATION]))];
    let mut out = Vec::new();
    assert_eq!(negotiation.feed(&before.concat(), &Two, &mut out), Progress::More);
    out.clear();
    assert_eq!(negotiation.feed(&opt(option::STARTTLS, b"x"), &Two, &mut out), Progress::More);
    assert_eq!(replies(&out), [(5, option_reply::ERR_INVALID)]);
    assert_eq!(negotiation.feed(&opt(option::STARTTLS, &[]), &Two, &mut out), Progress::StartTls);
    out.clear();
    assert_eq!(negotiation.feed(&opt(option::STARTTLS, &[]), &Two, &mut out), Progress::More);
    assert_eq!(replies(&out), [(5, option_reply::ERR_INVALID)]);
    let Progress::Agreed(agreed) = negotiation.feed(&opt(option::GO, &go("a", &[])), &Two, &mut out) else { panic!() };
    assert!(!agreed.structured && !agreed.allocation);
}

#[test]
fn bytes_that_come_with_starttls_are_not_taken_for_encrypted_ones() {
    let mut out = Vec::new();
    let both = [opt(option::STARTTLS, &[]), opt(option::LIST, &[])].concat();
    let progress = with_policy(TlsPolicy::Allowed).feed(&both, &Two, &mut out);
    assert!(matches!(progress, Progress::Violation(_)), "{progress:?}");
}

#[test]
fn a_client_without_the_fixed_style_flag_is_served_the_same() {
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    let all = [&0u32.to_be_bytes()[..], &opt(option::LIST, &[])].concat();
    assert_eq!(negotiation.feed(&all, &Two, &mut out), Progress::More);
    assert_eq!(replies(&out), [(3, 2), (3, 2), (3, 1)]);
}

proptest! {
    #[test]
    fn any_split_gives_the_same_answers(cuts in prop::collection::vec(1usize..60, 0..30), tail in prop::collection::vec(any::<u8>(), 0..40)) {
        let all = [
            3u32.to_be_bytes().to_vec(),
            opt(option::STRUCTURED_REPLY, &[]),
            opt(option::LIST, &[]),
            opt(99, &vec![1; MAX_OPTION_BYTES + 3]),
            opt(option::SET_META_CONTEXT, &meta("b", &["x:y", BASE_ALLOCATION])),
            opt(option::GO, &go("b", &[3])),
            tail.clone(),
        ].concat();
        let (mut whole, mut expected) = (Negotiation::default(), Vec::new());
        let Progress::Agreed(agreed) = whole.feed(&all, &Two, &mut expected) else { panic!() };
        prop_assert_eq!(&agreed.rest, &tail);
        let (mut negotiation, mut out, mut rest) = (Negotiation::default(), Vec::new(), &all[..]);
        let mut last = Progress::More;
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            rest = behind;
            last = negotiation.feed(piece, &Two, &mut out);
            if last != Progress::More {
                break;
            }
        }
        let Progress::Agreed(last) = last else { panic!("{last:?}") };
        prop_assert!(last.allocation && tail.starts_with(&last.rest));
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn arbitrary_options_never_panic_and_keep_the_input_bounded(
        options in prop::collection::vec((0u32..12, prop::collection::vec(any::<u8>(), 0..64)), 0..30),
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
        let mut all = vec![0, 0, 0, 3];
        all.extend(options.iter().flat_map(|(number, data)| opt(*number, data)));
        all.extend(noise);
        for piece in all.chunks(17) {
            if negotiation.feed(piece, &Two, &mut out) != Progress::More {
                break;
            }
            prop_assert!(negotiation.input.len() <= MAX_OPTION_BYTES + OPTION_HEADER);
        }
    }
}
