//! Operations by their numbers.

use std::ops::Index;

/// Operations by numbers, which grow from one to the next that comes. Each lies where it was made: it is large, and
/// goes from hand to hand.
#[derive(Debug)]
pub(super) struct Numbered<Op>(
    /// By number. Few are there at a time.
    Vec<(u64, Box<Op>)>,
);

impl<Op> Default for Numbered<Op> {
    fn default() -> Numbered<Op> {
        Numbered(Vec::new())
    }
}

impl<Op> Numbered<Op> {
    fn place(&self, number: u64) -> Option<usize> {
        self.0.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    /// Adds an operation. Its number is larger than those of all that came before.
    pub fn insert(&mut self, number: u64, op: Box<Op>) {
        assert!(self.0.last().is_none_or(|(last, _)| *last < number), "operation {number} comes late");
        self.0.push((number, op));
    }

    pub fn get(&self, number: &u64) -> Option<&Op> {
        self.place(*number).map(|place| &*self.0[place].1)
    }

    pub fn get_mut(&mut self, number: &u64) -> Option<&mut Op> {
        self.place(*number).map(|place| &mut *self.0[place].1)
    }

    pub fn remove(&mut self, number: &u64) -> Option<Box<Op>> {
        self.place(*number).map(|place| self.0.remove(place).1)
    }

    /// Gives all operations with their numbers, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&u64, &Op)> {
        self.0.iter().map(|(number, op)| (number, &**op))
    }

    /// Gives all operations, in the order in which they came.
    pub fn values(&self) -> impl Iterator<Item = &Op> {
        self.0.iter().map(|(_, op)| &**op)
    }

    /// Gives all operations, in the order in which they came.
    pub fn into_values(self) -> impl Iterator<Item = Box<Op>> {
        self.0.into_iter().map(|(_, op)| op)
    }
}

impl<Op> Index<&u64> for Numbered<Op> {
    type Output = Op;

    fn index(&self, number: &u64) -> &Op {
        self.get(number).expect("operation is known")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_found_by_number_and_come_in_their_order() {
        let mut ops = Numbered::default();
        [(3, 'a'), (4, 'b'), (9, 'c'), (10, 'd')].into_iter().for_each(|(number, op)| ops.insert(number, Box::new(op)));
        assert_eq!((ops.remove(&4), ops.remove(&4), ops.remove(&5)), (Some(Box::new('b')), None, None));
        *ops.get_mut(&9).expect("it is there") = 'e';
        assert_eq!((ops.get(&9), ops.get(&4), ops[&10]), (Some(&'e'), None, 'd'));
        assert_eq!(ops.iter().map(|(number, op)| (*number, *op)).collect::<Vec<_>>(), [(3, 'a'), (9, 'e'), (10, 'd')]);
        assert_eq!(ops.values().copied().collect::<String>(), "aed");
        assert_eq!(ops.into_values().map(|op| *op).collect::<String>(), "aed");
    }

    #[test]
    #[should_panic(expected = "comes late")]
    fn numbers_grow() {
        let mut ops = Numbered::default();
        ops.insert(4, Box::new(()));
        ops.insert(4, Box::new(()));
    }
}
