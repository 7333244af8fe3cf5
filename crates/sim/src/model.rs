//! What one object should be: the naive model that answers are compared with.

use crate::content::{Content, OpId};
use std::collections::BTreeMap;
use std::fmt;
use types::Errno;

/// One stripe of an erasure-coded pool: two data shards, 4 KiB of each.
pub const STRIPE_WORDS: u64 = 2 * 4096 / crate::content::WORD_BYTES;

/// One part of a compound change. Positions and lengths count words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Holds if the attribute is what this operation left, or, for 0, absent.
    Guard {
        attr: u8,
        left_by: OpId,
    },
    Write {
        at: u64,
        words: u64,
    },
    WriteFull {
        words: u64,
    },
    Append {
        words: u64,
    },
    /// To an erasure-coded pool: fails if the object does not end with a stripe.
    AppendStripe {
        words: u64,
    },
    Truncate {
        words: u64,
    },
    Zero {
        at: u64,
        words: u64,
    },
    Create {
        exclusive: bool,
    },
    Remove,
    SetAttr {
        attr: u8,
    },
    RemoveAttr {
        attr: u8,
    },
    OmapSet {
        keys: Vec<u8>,
    },
    OmapRemove {
        key: u8,
    },
    OmapClear,
}

/// An object that exists.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Object {
    pub content: Content,
    /// Attributes by name, with the operation that set each.
    pub attrs: BTreeMap<u8, OpId>,
    pub omap: BTreeMap<u8, OpId>,
}

/// An object, or its absence.
pub type State = Option<Object>;

/// Carries out `changes` as operation `op`, all or none.
///
/// Errors: the first part that fails; `state` is then as before.
pub fn apply(state: &mut State, op: OpId, changes: &[Change]) -> Result<(), Errno> {
    let mut next = state.clone();
    for change in changes {
        step(&mut next, op, change)?;
    }
    *state = next;
    Ok(())
}

fn step(state: &mut State, op: OpId, change: &Change) -> Result<(), Errno> {
    match change {
        Change::Guard { attr, left_by } => {
            let found = state.as_ref().and_then(|object| object.attrs.get(attr)).copied().unwrap_or(0);
            if found != *left_by {
                return Err(Errno::ECANCELED);
            }
        }
        Change::Write { at, words } => {
            let content = Content::written_by(op, *words);
            state.get_or_insert_default().content.write(*at, &content);
        }
        Change::WriteFull { words } => state.get_or_insert_default().content = Content::written_by(op, *words),
        Change::Append { words } => {
            let content = &mut state.get_or_insert_default().content;
            content.write(content.words(), &Content::written_by(op, *words));
        }
        Change::AppendStripe { words } => {
            let content = &mut state.get_or_insert_default().content;
            if !content.words().is_multiple_of(STRIPE_WORDS) {
                return Err(Errno::EOPNOTSUPP);
            }
            content.write(content.words(), &Content::written_by(op, *words));
        }
        Change::Truncate { words } => {
            if let Some(object) = state {
                object.content.truncate(*words);
            }
        }
        Change::Zero { at, words } => {
            if let Some(object) = state
                && *at < object.content.words()
            {
                // Zeroing through to the end cuts.
                match at + words >= object.content.words() {
                    true => object.content.truncate(*at),
                    false => object.content.zero(*at, *words),
                }
            }
        }
        Change::Create { exclusive } => {
            if *exclusive && state.is_some() {
                return Err(Errno::EEXIST);
            }
            state.get_or_insert_default();
        }
        Change::Remove => drop(state.take().ok_or(Errno::ENOENT)?),
        Change::SetAttr { attr } => drop(state.get_or_insert_default().attrs.insert(*attr, op)),
        Change::RemoveAttr { attr } => drop(state.as_mut().ok_or(Errno::ENOENT)?.attrs.remove(attr)),
        Change::OmapSet { keys } => {
            let omap = &mut state.get_or_insert_default().omap;
            omap.extend(keys.iter().map(|key| (*key, op)));
        }
        Change::OmapRemove { key } => drop(state.as_mut().ok_or(Errno::ENOENT)?.omap.remove(key)),
        Change::OmapClear => state.as_mut().ok_or(Errno::ENOENT)?.omap.clear(),
    }
    Ok(())
}

/// A state, for people.
pub struct Shown<'a>(pub &'a State);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(object) = self.0 else { return write!(f, "absent") };
        write!(f, "[{}]", object.content)?;
        object.attrs.iter().try_for_each(|(name, op)| write!(f, " a{name}=#{op}"))?;
        object.omap.iter().try_for_each(|(key, op)| write!(f, " k{key}=#{op}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compound_change_happens_as_a_whole_or_not_at_all() {
        let mut state = None;
        apply(&mut state, 1, &[Change::WriteFull { words: 4 }, Change::SetAttr { attr: 0 }]).expect("no guard");
        let before = state.clone();
        let guarded = |left_by| [Change::Append { words: 1 }, Change::Guard { attr: 0, left_by }];
        assert_eq!(apply(&mut state, 2, &guarded(7)), Err(Errno::ECANCELED));
        assert_eq!(state, before);
        assert_eq!(apply(&mut state, 3, &guarded(1)), Ok(()));
        assert_eq!(Shown(&state).to_string(), "[#1*4 #3*1] a0=#1");
        assert_eq!(apply(&mut state, 4, &[Change::Remove, Change::Write { at: 1, words: 1 }]), Ok(()));
        assert_eq!(Shown(&state).to_string(), "[zeros*1 #4*1]");
        assert_eq!(apply(&mut state, 5, &[Change::Create { exclusive: true }]), Err(Errno::EEXIST));
    }
}
