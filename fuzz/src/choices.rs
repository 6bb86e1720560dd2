//! An input as a row of decisions. *Invariant*: where the input ends, every decision is the first of its possibilities,
//! so targets put there what is simplest.

/// What is left of an input.
#[derive(Clone, Debug)]
pub struct Choices<'b> {
    bytes: &'b [u8],
}

impl<'b> Choices<'b> {
    /// The decisions of these bytes.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Self {
        Choices { bytes }
    }

    /// Whether the input is at its end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte, 0 at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// The next `count` bytes, the first the lowest.
    fn number(&mut self, count: u32) -> u64 {
        (0..count).fold(0, |number, place| number | u64::from(self.byte()) << (8 * place))
    }

    /// Any number.
    pub fn bits(&mut self) -> u64 {
        self.number(8)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        let number = match bound {
            0 | 1 => 0,
            2..=0x100 => self.number(1) % bound,
            0x101..=0x1_0000 => self.number(2) % bound,
            _ => self.number(4) % bound,
        };
        usize::try_from(number).expect("a remainder of a usize is a usize")
    }

    /// True in about `percent` of a hundred cases; false at the end.
    pub fn chance(&mut self, percent: usize) -> bool {
        // The high values: 0 is what the end of the input gives.
        self.below(100) >= 100 - percent
    }

    /// One of the items, of which there must be some.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        &items[self.below(items.len())]
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_input_is_the_first_of_everything() {
        let mut choices = Choices::new(&[7, 1, 0]);
        assert_eq!((choices.below(5), choices.below(1000)), (2, 1));
        assert!(choices.is_over() && !choices.chance(99));
        assert_eq!((choices.bits(), *choices.pick(&['a', 'b']), choices.rest()), (0, 'a', &[][..]));
    }
}
