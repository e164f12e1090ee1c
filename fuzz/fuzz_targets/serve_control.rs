//! What a client may send to the control socket of a server.
#![no_main]

use dumbwaiter_serve::fuzzing;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static INSPECTOR: dumbwaiter_serve::Inspector = fuzzing::inspector();
}

fuzz_target!(|bytes: &[u8]| INSPECTOR.with(|inspector| fuzzing::control(inspector, bytes)));
