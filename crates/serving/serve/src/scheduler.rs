//! The scheduler of a served drive, with the settings that a server gives it where its user does not.

use dumbwaiter_block::{Setup, Stack};
use dumbwaiter_schedulers::Choice;

/// Clients and the kernel take requests and replies of one task together for less CPU than in turns, and neighbours for less in one request.
/// 16 KiB is four small requests; 128 KiB leaves a client with 32 requests of 64 KiB a backlog, from which shares come.
/// 10 ms are more than clients wait for a CPU that they share with a few others.
const HEADWAY: [(&str, i128); 3] = [("run_kib", 16), ("join_kib", 128), ("hold_us", 10_000)];

/// Builds the chosen scheduler for a served drive.
pub(crate) fn build(choice: &Choice, setup: Setup) -> Stack {
    let defaults: &[(&str, i128)] = if choice.entry().name == "headway" { &HEADWAY } else { &[] };
    choice.build_over(setup, defaults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_the_user_goes_before_that_of_the_server() {
        let built = |text: &str| build(&Choice::parse(text).unwrap(), Setup::default());
        assert_eq!(built("headway").get("join_kib"), Some(128));
        assert_eq!(built("headway").get("run_kib"), Some(16));
        assert_eq!(built("headway:join_kib=0").get("join_kib"), Some(0));
        assert_eq!(built("headway:join_kib=0").get("run_kib"), Some(16));
        assert_eq!(built("none").get("join_kib"), None);
    }
}
