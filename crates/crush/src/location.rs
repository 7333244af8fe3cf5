//! The place of an item in the hierarchy.

use crate::{BuildError, CrushMap};
use std::collections::BTreeMap;

/// Buckets above an item, by type: `root=default host=a`. One bucket per type; buckets that do not exist are made.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Location(BTreeMap<String, String>);

impl Location {
    /// Parses words of the form `type=name`. Error: the first word that has another form.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Location, &'a str> {
        let mut location = Location::default();
        for word in words {
            match word.split_once('=') {
                Some((kind, name)) if !name.is_empty() => location.0.insert(kind.to_owned(), name.to_owned()),
                _ => return Err(word),
            };
        }
        Ok(location)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns type names with bucket names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(kind, name)| (kind.as_str(), name.as_str()))
    }

    fn get(&self, kind: &str) -> Option<&str> {
        self.0.get(kind).map(String::as_str)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Location {
    fn from(pairs: [(&str, &str); N]) -> Location {
        Location(pairs.iter().map(|(kind, name)| (kind.to_string(), name.to_string())).collect())
    }
}

impl CrushMap {
    /// Returns type and name of every bucket above an item, nearest first.
    pub fn full_location(&self, id: i32) -> Vec<(&str, &str)> {
        let mut path = Vec::new();
        let mut at = id;
        while let Some(parent) = self.parent(at).and_then(|parent| self.bucket(parent)) {
            path.push((self.type_name(parent.kind).unwrap_or(""), self.name(parent.id).unwrap_or("")));
            at = parent.id;
        }
        path
    }

    /// Returns the item's weight if `location` names the bucket that holds it: the bucket of the lowest type named
    /// decides.
    pub fn weight_at(&self, item: i32, location: &Location) -> Option<u32> {
        let (_, name) = self.levels(location).next()?;
        let bucket = self.bucket(self.id(name)?)?;
        bucket.position(item).map(|index| bucket.item_weight(index))
    }

    /// Returns the location's buckets from the lowest type up; types the map does not know are left out.
    pub(crate) fn levels<'a>(&'a self, location: &'a Location) -> impl Iterator<Item = (u16, &'a str)> {
        self.types
            .iter()
            .filter(|(kind, _)| **kind > 0)
            .filter_map(|(kind, type_name)| Some((u16::try_from(*kind).ok()?, location.get(type_name)?)))
    }

    pub(crate) fn check_location(&self, location: &Location) -> Result<(), BuildError> {
        for (kind, name) in location.iter() {
            if self.type_id(kind).is_none_or(|kind| kind == 0) {
                return Err(BuildError::NoType(kind.to_owned()));
            }
            crate::build::check_name(name)?;
        }
        Ok(())
    }
}
