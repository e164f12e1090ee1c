//! Tests of a session within one turn.

use std::io::Read;
use std::os::unix::net::UnixStream;

use dumbwaiter_protocols::vhost_user::BlockFacts;
use dumbwaiter_protocols::vhost_user::message::encode;
use dumbwaiter_protocols::vhost_user::wire::code;

use super::session::{MAX_MESSAGES, Session};
use crate::client::{Client, ServeContext};
use crate::settings::ExportSettings;
use crate::test_volume::null_volume;

/// Bytes of a reply that carries a number.
const REPLY_BYTES: usize = 20;

#[test]
fn a_front_end_that_sends_without_end_holds_others_up_for_a_few_messages_only() {
    let mut volume = null_volume();
    let tenant = volume.add_tenant(ExportSettings::whole("a")).unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let facts = BlockFacts { bytes: 1 << 20, block_bytes: 512, readonly: false, queues: 1 };
    let mut session = Session::new(theirs.into(), "a machine".into(), tenant, "a", facts, 32);
    let sent = 3 * MAX_MESSAGES as usize;
    for _ in 0..sent {
        dumbwaiter_protocols::vhost_user::socket::send(&ours, &encode(code::GET_FEATURES, 0, &[]), &[]).unwrap();
    }
    let mut turn = || {
        let mut context = ServeContext { volume: &mut volume, status: &None, most: 1, draining: false };
        session.serve(&mut context).unwrap().again
    };
    assert!(turn(), "there is more");
    ours.set_nonblocking(true).unwrap();
    let mut answered = || {
        let mut bytes = [0; 4096];
        ours.read(&mut bytes).unwrap_or(0) / REPLY_BYTES
    };
    let mut all = answered();
    assert!((1..=8).contains(&all), "{all} messages in one turn");
    while turn() {}
    all += answered();
    assert_eq!(all, sent);
}
