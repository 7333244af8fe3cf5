//! Values of condition keys in one request.

use std::collections::BTreeMap;

/// Values of condition keys. A key that is not there is absent, which is not the same as an empty value.
///
/// Names of keys are equal in either case up to a `/`; what follows, the key of a tag, is taken as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    values: BTreeMap<String, Vec<String>>,
}

impl Context {
    /// Gives a key one value, in place of those that it has.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.values.insert(Context::canonical_key(key), vec![value.into()]);
    }

    /// Gives a key one value more.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        self.values.entry(Context::canonical_key(key)).or_default().push(value.into());
    }

    /// Values of a key in the form that [`Context::canonical_key`] makes; empty if it is absent.
    pub fn values(&self, canonical_key: &str) -> &[String] {
        self.values.get(canonical_key).map_or(&[], Vec::as_slice)
    }

    /// Value of a key that has exactly one.
    pub fn single(&self, canonical_key: &str) -> Option<&str> {
        match self.values(canonical_key) {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Keys that have a value, in the form that [`Context::canonical_key`] makes.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The form in which keys are compared.
    pub fn canonical_key(key: &str) -> String {
        match key.split_once('/') {
            None => key.to_ascii_lowercase(),
            Some((name, tag)) => format!("{}/{tag}", name.to_ascii_lowercase()),
        }
    }
}
