//! The state that one object should have: the naive model that answers are compared with.

use crate::content::{Content, OpId, WORD_BYTES};
use crate::values::{TOO_LONG_NAME, value};
use std::collections::BTreeMap;
use std::fmt;
use types::Errno;

/// Words of one stripe of an erasure-coded pool: two data shards of 4 KiB each.
pub const STRIPE_WORDS: u64 = 2 * 4096 / crate::content::WORD_BYTES;

/// Each client's operations are numbered from its own number times this.
pub const OPERATIONS_MAX: u64 = 10_000;

fn client_of(op: OpId) -> u64 {
    op / OPERATIONS_MAX
}

/// One part of a compound change. Positions and lengths count words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Holds if the attribute's value, before the operation, is the one that this operation left, or, for 0, if the
    /// attribute is absent. There must be an object, or one that is gone and that snapshots still have.
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
    /// Appends to an object of an erasure-coded pool. Fails if the object does not end at the end of a stripe.
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
    /// The operation knows the snapshots up to this one. Before it changes the object, the state is preserved for those
    /// that are new to the object.
    ///
    /// `without`: a bit for each of them that the operation knows to be removed.
    Knows {
        seq: u64,
        without: u64,
    },
    /// The class `numops` adds to the object's number. No other change comes with it, and none with the next three
    /// kinds.
    Count {
        by: u64,
    },
    /// The class `lock` gives the object's lock to the client, unless another client has it.
    Lock,
    /// The client gives the lock back.
    Unlock,
    /// The class `version` adds one to the object's version if that is at least this. An object without a version gets
    /// 1.
    Version {
        at_least: u64,
    },
    /// The object gets its state at a snapshot. No other change comes with this one.
    RollBack {
        snap: u64,
    },
    /// Writes the words of this operation `times` times, one copy after another.
    WriteSame {
        at: u64,
        words: u64,
        times: u64,
    },
    /// Reads everything. If the read fails, the operation goes on. If a later part fails, the operation still returns
    /// much data.
    Peek {
        by_class: bool,
    },
    /// A guard that does not stop the operation if it fails.
    Ask {
        attr: u8,
        left_by: OpId,
    },
    /// The object becomes a copy of its own state at a snapshot. No other change comes with it, and none with the next
    /// kind.
    CopyOwn {
        snap: u64,
    },
    /// The object, which is a copy, gets the present content of its log.
    CopyLog,
    /// Creates the object, if it is absent, in so many steps of the operation.
    Touch {
        times: usize,
    },
    /// The operation knows snapshots with numbers that no snapshot has.
    NoSnaps,
    /// The operation asks for more than one may: it fails here.
    TooMuch,
}

impl Change {
    /// True if the change copies an object, which must be read in time for that.
    pub fn copies(&self) -> bool {
        matches!(self, Change::CopyOwn { .. } | Change::CopyLog)
    }
}

/// An object that exists.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Object {
    pub content: Content,
    /// Attributes by name, each with the operation that set it.
    pub attrs: BTreeMap<u8, OpId>,
    pub omap: BTreeMap<u8, OpId>,
    /// The object's number, which is in its omap, too.
    pub count: Option<u64>,
    /// The object's version, which is in an attribute, too.
    pub version: Option<u64>,
    /// The client that has the object's lock.
    pub locked_by: Option<u64>,
}

/// True if a read that saw `seen` may have found `state`. A read does not show who has the lock.
pub fn shows(state: &State, seen: &State) -> bool {
    match (state, seen) {
        (Some(state), Some(seen)) => {
            (&state.content, &state.attrs, &state.omap, state.count, state.version)
                == (&seen.content, &seen.attrs, &seen.omap, seen.count, seen.version)
        }
        (state, seen) => state.is_none() && seen.is_none(),
    }
}

impl Object {
    /// Bytes of the object's data, attributes and omap.
    pub fn bytes(&self) -> usize {
        let values = self.attrs.iter().chain(&self.omap).map(|(name, op)| value(*name, *op).len());
        (self.content.words() * WORD_BYTES) as usize + values.sum::<usize>()
    }
}

/// An object, or its absence.
pub type State = Option<Object>;

/// An object with its states at snapshots.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Snapped {
    pub head: State,
    /// The newest snapshot that a change of the object knew.
    pub seq: u64,
    /// States at snapshots. At a snapshot that is missing here and not newer than `seq`, the object was absent.
    at: BTreeMap<u64, Object>,
}

impl Snapped {
    /// The object's state at a snapshot.
    pub fn at(&self, snap: u64) -> State {
        if snap > self.seq { self.head.clone() } else { self.at.get(&snap).cloned() }
    }

    /// The state after the snapshots are removed for which alone the object is kept. `None`: it is kept for others, or
    /// it exists.
    pub fn given_up(&self) -> Option<Snapped> {
        let goes = self.head.is_none() && self.seq > 0 && self.at.keys().all(|snap| is_removable(*snap));
        goes.then(Snapped::default)
    }

    /// Errors: there is no object, not even for snapshots; the attribute has another value.
    fn guard(&self, attr: u8, left_by: OpId) -> Result<(), Errno> {
        let found = match &self.head {
            Some(object) => object.attrs.get(&attr).copied().unwrap_or(0),
            None if self.at.is_empty() => return Err(Errno::ENOENT),
            None => 0,
        };
        if found == left_by { Ok(()) } else { Err(Errno::ECANCELED) }
    }
}

/// Carries out `changes` as operation `op`, all or none.
///
/// Errors: the first part that fails; the object is then as before.
pub fn apply(object: &mut Snapped, op: OpId, changes: &[Change]) -> Result<(), Errno> {
    let (mut next, mut seq, mut modified) = (object.head.clone(), 0, false);
    for change in changes {
        match change {
            Change::Knows { seq: known, .. } => seq = *known,
            Change::Guard { attr, left_by } => object.guard(*attr, *left_by)?,
            Change::Peek { .. } | Change::Ask { .. } => {}
            Change::TooMuch => return Err(Errno::EMSGSIZE),
            Change::NoSnaps => return Err(Errno::EINVAL),
            Change::CopyOwn { snap } => {
                next = Some(object.at(*snap).ok_or(Errno::ENOENT)?);
                modified = true;
            }
            Change::RollBack { snap } => {
                let then = object.at(*snap);
                modified |= then.is_some() || next.is_some();
                next = then;
            }
            change => {
                modified |= changes_something(&next, change);
                step(&mut next, op, change)?;
            }
        }
    }
    let before = std::mem::replace(&mut object.head, next);
    if modified {
        if let Some(before) = before {
            object.at.extend((object.seq + 1..=seq).map(|snap| (snap, before.clone())));
        }
        object.seq = object.seq.max(seq);
    }
    if object.head.is_none() && object.at.is_empty() {
        // Nothing is left that would remember the snapshot.
        object.seq = 0;
    }
    Ok(())
}

/// True if a change counts as a change of the object, whatever effect it has.
fn changes_something(state: &State, change: &Change) -> bool {
    match (change, state) {
        (Change::Truncate { .. } | Change::Zero { .. }, None) => false,
        (Change::Zero { at, .. }, Some(object)) => *at < object.content.words(),
        (Change::OmapClear, Some(object)) => !object.omap.is_empty() || object.count.is_some(),
        _ => true,
    }
}

fn step(state: &mut State, op: OpId, change: &Change) -> Result<(), Errno> {
    match change {
        Change::Knows { .. } | Change::RollBack { .. } | Change::Guard { .. } | Change::CopyOwn { .. } => {
            unreachable!("they are about more than the present state")
        }
        Change::Peek { .. } | Change::Ask { .. } => unreachable!("they change nothing"),
        Change::TooMuch | Change::NoSnaps => unreachable!("they fail"),
        Change::Touch { .. } => drop(state.get_or_insert_default()),
        Change::CopyLog => unreachable!("copies of logs are judged by these"),
        Change::WriteSame { at, words, times } => {
            let content = &mut state.get_or_insert_default().content;
            (0..*times).for_each(|n| content.write(at + n * words, &Content::written_by(op, *words)));
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
                // If the zeros reach the end, the object is cut.
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
        Change::SetAttr { attr: TOO_LONG_NAME } => return Err(Errno::ENAMETOOLONG),
        Change::SetAttr { attr } => drop(state.get_or_insert_default().attrs.insert(*attr, op)),
        Change::RemoveAttr { attr } => drop(state.as_mut().ok_or(Errno::ENOENT)?.attrs.remove(attr)),
        Change::OmapSet { keys } => {
            let omap = &mut state.get_or_insert_default().omap;
            omap.extend(keys.iter().map(|key| (*key, op)));
        }
        Change::OmapRemove { key } => drop(state.as_mut().ok_or(Errno::ENOENT)?.omap.remove(key)),
        Change::OmapClear => {
            let object = state.as_mut().ok_or(Errno::ENOENT)?;
            (object.omap, object.count) = Default::default();
        }
        Change::Count { by } => {
            let count = &mut state.get_or_insert_default().count;
            *count = Some(count.unwrap_or(0) + by);
        }
        Change::Lock => {
            let client = Some(client_of(op));
            match state.as_ref().and_then(|object| object.locked_by) {
                None => state.get_or_insert_default().locked_by = client,
                holder if holder == client => return Err(Errno::EEXIST),
                Some(_) => return Err(Errno::EBUSY),
            }
        }
        Change::Unlock => {
            let held = state.as_mut().filter(|object| object.locked_by == Some(client_of(op)));
            held.ok_or(Errno::ENOENT)?.locked_by = None;
        }
        Change::Version { at_least } => {
            let have = state.as_ref().and_then(|object| object.version).unwrap_or(1);
            if have < *at_least {
                return Err(Errno::ECANCELED);
            }
            state.get_or_insert_default().version = Some(have + 1);
        }
    }
    Ok(())
}

/// True for a snapshot that may be removed while clients work. No client reads such a snapshot or rolls back to it,
/// because nobody can tell when that stops working.
pub const fn is_removable(snap: u64) -> bool {
    snap.is_multiple_of(3)
}

/// Shows a state to people.
pub struct Shown<'a>(pub &'a State);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(object) = self.0 else { return write!(f, "absent") };
        write!(f, "[{}]", object.content)?;
        object.attrs.iter().try_for_each(|(name, op)| write!(f, " a{name}=#{op}"))?;
        object.omap.iter().try_for_each(|(key, op)| write!(f, " k{key}=#{op}"))?;
        object.count.iter().try_for_each(|count| write!(f, " count={count}"))?;
        object.version.iter().try_for_each(|version| write!(f, " version={version}"))?;
        object.locked_by.iter().try_for_each(|client| write!(f, " locked by {client}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compound_change_happens_as_a_whole_or_not_at_all() {
        let mut state = Snapped::default();
        apply(&mut state, 1, &[Change::WriteFull { words: 4 }, Change::SetAttr { attr: 0 }]).expect("no guard");
        let before = state.clone();
        let guarded = |left_by| [Change::Append { words: 1 }, Change::Guard { attr: 0, left_by }];
        assert_eq!(apply(&mut state, 2, &guarded(7)), Err(Errno::ECANCELED));
        assert_eq!(state, before);
        assert_eq!(apply(&mut state, 3, &guarded(1)), Ok(()));
        assert_eq!(Shown(&state.head).to_string(), "[#1*4 #3*1] a0=#1");
        assert_eq!(apply(&mut state, 4, &[Change::Remove, Change::Write { at: 1, words: 1 }]), Ok(()));
        assert_eq!(Shown(&state.head).to_string(), "[zeros*1 #4*1]");
        assert_eq!(apply(&mut state, 5, &[Change::Create { exclusive: true }]), Err(Errno::EEXIST));
    }

    #[test]
    fn a_copy_of_a_snapshot_has_everything_that_the_object_had() {
        let mut object = Snapped::default();
        let knows = Change::Knows { seq: 2, without: 0 };
        let copy = |snap| [knows.clone(), Change::CopyOwn { snap }];
        assert_eq!(apply(&mut object, 1, &copy(1)), Err(Errno::ENOENT));
        apply(&mut object, 2, &[Change::WriteFull { words: 3 }]).expect("it fits");
        apply(&mut object, 3, &[Change::Count { by: 4 }]).expect("it fits");
        let same = Change::WriteSame { at: 2, words: 1, times: 2 };
        apply(&mut object, 4, &[knows.clone(), Change::Peek { by_class: true }, same]).expect("it fits");
        assert_eq!(Shown(&object.head).to_string(), "[#2*2 #4*1 #4*1] count=4");
        apply(&mut object, 5, &[knows.clone(), Change::OmapClear]).expect("it is there");
        assert_eq!(apply(&mut object, 6, &copy(2)), Ok(()));
        assert_eq!(Shown(&object.head).to_string(), "[#2*3] count=4");
    }

    #[test]
    fn a_lock_has_one_holder_and_is_not_seen() {
        let (mut object, [a, b]) = (Snapped::default(), [1, 2].map(|client| client * OPERATIONS_MAX));
        assert_eq!(apply(&mut object, a, &[Change::Unlock]), Err(Errno::ENOENT));
        assert_eq!(apply(&mut object, a, &[Change::Lock]), Ok(()));
        assert_eq!(apply(&mut object, a + 1, &[Change::Lock]), Err(Errno::EEXIST));
        assert_eq!(apply(&mut object, b, &[Change::Lock]), Err(Errno::EBUSY));
        assert_eq!(apply(&mut object, b, &[Change::Unlock]), Err(Errno::ENOENT));
        assert!(shows(&object.head, &Some(Object::default())) && !shows(&object.head, &None));
        assert_eq!(apply(&mut object, b, &[Change::Count { by: 4 }]), Ok(()));
        assert!(!shows(&object.head, &Some(Object::default())));
        assert_eq!(apply(&mut object, a + 2, &[Change::Unlock]), Ok(()));
        assert_eq!(Shown(&object.head).to_string(), "[] count=4");
    }

    #[test]
    fn a_version_grows_by_one_if_it_is_large_enough() {
        let mut object = Snapped::default();
        assert_eq!(apply(&mut object, 1, &[Change::Version { at_least: 2 }]), Err(Errno::ECANCELED));
        assert_eq!(object.head, None);
        assert_eq!(apply(&mut object, 2, &[Change::Version { at_least: 1 }]), Ok(()));
        assert_eq!(apply(&mut object, 3, &[Change::Version { at_least: 2 }]), Ok(()));
        assert_eq!(apply(&mut object, 4, &[Change::WriteFull { words: 1 }]), Ok(()));
        assert_eq!(Shown(&object.head).to_string(), "[#4*1] version=3");
        assert!(!shows(&object.head, &Some(Object { version: None, ..object.head.clone().expect("it is there") })));
    }

    #[test]
    fn what_is_kept_for_removed_snapshots_alone_may_go() {
        let kept_for = |seq| {
            let mut object = Snapped::default();
            apply(&mut object, 1, &[Change::Knows { seq: seq - 1, without: 0 }, Change::WriteFull { words: 1 }])
                .expect("it fits");
            assert_eq!(object.given_up(), None, "it is there");
            apply(&mut object, 2, &[Change::Knows { seq, without: 0 }, Change::Remove]).expect("it is there");
            object.given_up()
        };
        assert_eq!((kept_for(3), kept_for(4)), (Some(Snapped::default()), None));
    }

    #[test]
    fn a_snapshot_is_what_the_object_was_before_the_first_change_that_knows_it() {
        let mut object = Snapped::default();
        let write = |seq| [Change::Knows { seq, without: 0 }, Change::WriteFull { words: 1 }];
        apply(&mut object, 1, &write(1)).expect("a write fits");
        assert_eq!((object.at(1), object.at(2).is_some()), (None, true));
        apply(&mut object, 2, &write(3)).expect("a write fits");
        apply(&mut object, 3, &[Change::Knows { seq: 2, without: 0 }, Change::Remove]).expect("it is there");
        let shown: Vec<String> = (1..=4).map(|snap| Shown(&object.at(snap)).to_string()).collect();
        assert_eq!(shown, ["absent", "[#1*1]", "[#1*1]", "absent"]);
        apply(&mut object, 4, &[Change::Knows { seq: 4, without: 0 }, Change::RollBack { snap: 2 }]).expect("always");
        assert_eq!((Shown(&object.head).to_string(), object.seq), ("[#1*1]".to_owned(), 4));
        // The object still exists for its snapshots.
        let guarded = |left_by| [Change::Guard { attr: 0, left_by }, Change::Create { exclusive: true }];
        assert_eq!(apply(&mut Snapped::default(), 5, &guarded(0)), Err(Errno::ENOENT));
        apply(&mut object, 5, &[Change::Knows { seq: 4, without: 0 }, Change::Remove]).expect("it is there");
        assert_eq!(apply(&mut object, 6, &guarded(3)), Err(Errno::ECANCELED));
        assert_eq!(apply(&mut object, 7, &guarded(0)), Ok(()));
    }
}
