//! Every target on its kept inputs and on some made-up ones, the same at every run. `TIDEGATE_FUZZ_SECONDS` sets for how
//! many seconds each goes on.

use std::time::Duration;
use tidegate_fuzz::{Target, hunt};

fn check(name: &str) {
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().map_or(0, |text| text.parse().expect("a number"));
    hunt::check(Target::of(name).expect("a target"), Duration::from_secs(seconds));
}

#[test]
fn any_text_can_stand_in_a_manifest() {
    check("manifest-text");
}

#[test]
fn a_directory_of_any_manifests_does_what_it_says() {
    check("manifests");
}

#[test]
fn any_text_can_stand_in_a_log() {
    check("log-text");
}

#[test]
fn a_damaged_log_is_read_up_to_the_damage() {
    check("log");
}

#[test]
fn any_object_is_translated_as_the_reference_does() {
    check("normalize");
}

#[test]
fn any_message_can_come_from_a_client() {
    check("ads-messages");
}

#[test]
fn clients_of_any_kind_are_served_right() {
    check("ads");
}

#[test]
fn every_target_is_run() {
    assert_eq!(tidegate_fuzz::TARGETS.len(), 7, "add a test above");
}
