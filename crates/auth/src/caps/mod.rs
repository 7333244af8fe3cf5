//! Capabilities: what the texts `allow rw pool=x` or `profile rbd` let their owner do.
//!
//! * [`MonCaps`]: commands and messages at a monitor. Rights of several grants add up.
//! * [`ImageCaps`]: work on block images at the manager.
//! * [`OsdCaps`]: operations on objects. One grant must allow all that an operation reads and writes.
//!
//! A text that is not understood to its end grants nothing and is refused with the place where reading stopped, in the
//! words of `ceph auth caps`. An unknown profile is understood and grants nothing, as in Ceph.

mod ere;
mod images;
mod mon;
mod network;
mod osd;
mod scan;
#[cfg(test)]
mod tests;

pub use ere::Ere;
pub use images::ImageCaps;
pub use mon::{Access, ArgumentRule, MonAllows, MonCaps, MonGrant, MonRequest, caps_arguments};
pub use network::Network;
pub use osd::{
    Applications, ClassCall, Namespace, OsdAccess, OsdAllows, OsdCaps, OsdGrant, OsdRequest, OsdSpec, Place, Tag,
};

#[cfg(test)]
use crate::accepted::Granted;
use std::fmt;

/// A text of capabilities that is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct CapsError {
    /// `mon` or `osd`.
    pub service: &'static str,
    pub text: String,
    /// The rest of the text, from where it is not understood.
    pub rest: String,
}

impl fmt::Display for CapsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CapsError { service, text, rest } = self;
        match (*service, rest.is_empty()) {
            ("mon", true) => write!(f, "{service} capability parse failed, stopped at end of '{text}'"),
            _ => write!(f, "{service} capability parse failed, stopped at '{rest}' of '{text}'"),
        }
    }
}

/// Checks the capabilities of an entity for a service, as `ceph auth caps` does before it stores them. Those for
/// other services have a grammar of their own, and are let through.
pub fn check(service: &str, text: &str) -> Result<(), CapsError> {
    match service {
        "mon" => text.parse::<MonCaps>().map(drop),
        "osd" => text.parse::<OsdCaps>().map(drop),
        _ => Ok(()),
    }
}
