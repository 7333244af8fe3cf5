//! An object's attributes in little memory.

use bytes::Bytes;

/// The attribute that names the snapshots for which a clone was made: see [`crate::snaps_attr`].
pub const SNAPS_ATTR: &[u8] = b"snaps";

/// Attributes, ordered by name. One sorted list holds them: objects have a few, and a tree's node would cost more than
/// all of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Attrs(Vec<(Box<[u8]>, Bytes)>);

impl Attrs {
    pub fn new() -> Attrs {
        Attrs::default()
    }

    pub fn get(&self, name: &[u8]) -> Option<&Bytes> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    pub fn contains_key(&self, name: &[u8]) -> bool {
        self.position(name).is_ok()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns names and values, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Bytes)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Sets an attribute and returns its former value.
    pub fn insert(&mut self, name: &[u8], value: Bytes) -> Option<Bytes> {
        match self.position(name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name.into(), value));
                None
            }
        }
    }

    /// Removes an attribute and returns its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<Bytes> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(n, _)| (**n).cmp(name))
    }
}

impl FromIterator<(Vec<u8>, Bytes)> for Attrs {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Bytes)>>(pairs: I) -> Attrs {
        let mut attrs = Attrs::new();
        for (name, value) in pairs {
            attrs.insert(&name, value);
        }
        attrs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
            let (mut attrs, mut model) = (Attrs::new(), BTreeMap::new());
            for (name, value) in changes {
                match value.map(Bytes::from) {
                    Some(v) => prop_assert_eq!(attrs.insert(&name, v.clone()), model.insert(name.clone(), v)),
                    None => prop_assert_eq!(attrs.remove(&name), model.remove(&name)),
                }
                prop_assert_eq!(attrs.get(&name), model.get(&name));
                prop_assert!(attrs.iter().eq(model.iter().map(|(n, v)| (&n[..], v))));
            }
        }
    }
}
