//! The state of a key: its versions.

use crate::records::{Head, Older, VersionEntry};

/// The name of the null version.
pub const NULL_VERSION: &str = "null";

/// The state of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Present {
    pub head: Head,
    pub older: Vec<Older>,
}

/// A version of a key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum FoundVersion<'a> {
    Newest(&'a Head),
    Older(&'a Older),
}

fn is_named(version: Option<&str>, name: &str) -> bool {
    version.unwrap_or(NULL_VERSION) == name
}

impl Present {
    /// The version of this name.
    pub fn find(&self, name: &str) -> Option<FoundVersion<'_>> {
        if is_named(self.head.version.as_deref(), name) {
            return Some(FoundVersion::Newest(&self.head));
        }
        self.older.iter().find(|older| is_named(older.version.as_deref(), name)).map(FoundVersion::Older)
    }

    /// True if the key never had anything but a null version.
    pub fn is_plain(&self) -> bool {
        self.older.is_empty() && self.head.version.is_none() && !self.head.is_marker
    }

    /// Versions as lists show them, newest first.
    pub fn versions(&self) -> Vec<(u64, VersionEntry)> {
        let (version, is_marker) = (self.head.version.clone(), self.head.is_marker);
        let newest = VersionEntry { version, is_marker, entry: self.head.entry() };
        let older = self.older.iter().map(|older| {
            let (version, is_marker) = (older.version.clone(), older.place.is_none());
            (older.order, VersionEntry { version, is_marker, entry: older.entry.clone() })
        });
        std::iter::once((self.head.order, newest)).chain(older).collect()
    }
}
