//! What is said to be supported is said the same everywhere.

use tidegate_model::SUPPORTED_FEATURES;

/// The README has it from the rows of the Gateway API: a feature is supported once each row that counts is played.
#[test]
fn a_class_lists_the_features_of_which_the_readme_says_that_they_are_supported() {
    let readme = include_str!("../README.md");
    let supported = readme.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | yes | "));
    let mut supported: Vec<&str> = supported.map(|(feature, _)| feature).collect();
    supported.sort_unstable();
    assert!(supported.contains(&"HTTPRoute"), "the README has no table of features");
    assert_eq!(SUPPORTED_FEATURES.to_vec(), supported, "change crates/model/src/features.rs");
}
