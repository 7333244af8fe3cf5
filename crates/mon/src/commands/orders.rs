//! Orders that OSDs get on an operator's word, at once and without a change of the state.

use super::Reply;
use super::force::ForceAsked;
use super::scrub::ScrubAsked;
use types::OsdId;
use wire::nacre::mon::{PgForce, PgScrub};

/// An order for one OSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    Scrub(PgScrub),
    Force(PgForce),
}

/// An operator's order, for the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    Scrub(ScrubAsked),
    Force(ForceAsked),
}

impl Asked {
    /// Returns the answer, once some OSDs were told and the others turned out not to be connected.
    pub(crate) fn reply(self, told: &[OsdId], absent: &[OsdId]) -> Reply {
        match self {
            Asked::Scrub(asked) => asked.reply(told, absent),
            Asked::Force(asked) => asked.reply(told),
        }
    }
}
