//! The targets: what an input is to each, and what must hold.

mod ads;

mod log;

mod manifests;

mod normalize;

use std::collections::BTreeSet;

/// One thing that takes input from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder below `fuzz/corpus`.
    pub name: &'static str,
    /// The longest input that is made up, in bytes.
    pub max_len: usize,
    /// How many inputs are made up in an ordinary test run.
    pub inputs: u32,
    /// Plays an input; panics if something does not hold.
    pub run: fn(&[u8]) -> Seen,
}

/// All targets, in the order of the data.
pub const TARGETS: [Target; 7] = [
    Target { name: "manifest-text", max_len: 4096, inputs: 8000, run: manifests::text },
    Target { name: "manifests", max_len: 768, inputs: 1000, run: manifests::directory },
    Target { name: "log-text", max_len: 4096, inputs: 4000, run: log::text },
    Target { name: "log", max_len: 256, inputs: 1500, run: log::damaged },
    Target { name: "normalize", max_len: 256, inputs: 150, run: normalize::objects },
    Target { name: "ads-messages", max_len: 1024, inputs: 4000, run: ads::messages },
    Target { name: "ads", max_len: 512, inputs: 600, run: ads::clients },
];

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }
}

/// What an input made the program do, as far as it can be told from outside: kinds of answers, reasons, shapes of
/// messages. An input that shows something new is worth to be changed further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(BTreeSet<u64>);

impl Seen {
    /// Notes something by its shape: letters count, but nothing in quotes and no number.
    pub fn note(&mut self, text: &str) {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut quoted = false;
        // Long enough for any sentence of ours; what follows is the user's.
        for byte in text.bytes().take(400) {
            quoted ^= byte == b'"';
            if !quoted && !byte.is_ascii_digit() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        self.0.insert(hash);
    }

    /// What was noted.
    #[must_use]
    pub fn shapes(&self) -> &BTreeSet<u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_quoted_texts_make_no_new_shape() {
        let shapes = |texts: &[&str]| {
            let mut seen = Seen::default();
            texts.iter().for_each(|text| seen.note(text));
            seen.shapes().len()
        };
        assert_eq!(shapes(&["a \"b\" 1", "a \"ccc\" 23"]), 1);
        assert_eq!(shapes(&["a", "b"]), 2);
    }
}
