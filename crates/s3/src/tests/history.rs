//! Histories of keys: which values a read may give.

use std::collections::BTreeMap;

/// A change of a key: a value, or its absence, with the time at which it was asked for and that of its answer.
#[derive(Clone, Debug)]
struct Change {
    value: Option<u64>,
    start: u64,
    /// Without an answer it may have happened or not, and may still happen.
    end: Option<u64>,
    /// Refused for sure.
    refused: bool,
}

/// All changes of all keys.
#[derive(Default)]
pub(super) struct History {
    keys: BTreeMap<String, Vec<Change>>,
}

impl History {
    pub fn begin(&mut self, key: &str, value: Option<u64>, start: u64) -> usize {
        let changes = self.keys.entry(key.to_owned()).or_default();
        changes.push(Change { value, start, end: None, refused: false });
        changes.len() - 1
    }

    pub fn end(&mut self, key: &str, change: usize, end: u64) {
        self.keys.get_mut(key).expect("begun")[change].end = Some(end);
    }

    pub fn refuse(&mut self, key: &str, change: usize) {
        self.keys.get_mut(key).expect("begun")[change].refused = true;
    }

    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.keys.keys()
    }

    /// Checks that a read from `start` to `end` may have given `value`: it was written by a change that had begun, and
    /// no other change lies wholly between that one and the read.
    pub fn check(&self, key: &str, value: Option<u64>, (start, end): (u64, u64)) -> Result<(), String> {
        let initial = Change { value: None, start: 0, end: Some(0), refused: false };
        let changes = || std::iter::once(&initial).chain(self.keys.get(key).into_iter().flatten());
        let is_current = |change: &Change| {
            let own_end = change.end.unwrap_or(u64::MAX);
            !changes().any(|other| !other.refused && other.start > own_end && other.end.is_some_and(|e| e < start))
        };
        let may_be = |change: &&Change| !change.refused && change.value == value && change.start < end;
        if changes().filter(may_be).any(is_current) {
            return Ok(());
        }
        let of_key: Vec<&Change> = changes().collect();
        Err(format!("{key:?} gave {value:?} from {start} to {end}, where its changes are {of_key:?}"))
    }
}

#[test]
fn a_read_may_give_only_what_was_there() {
    let mut history = History::default();
    let put = history.begin("k", Some(1), 10);
    history.end("k", put, 20);
    let open = history.begin("k", Some(2), 30);
    assert!(history.check("k", None, (11, 15)).is_ok());
    assert!(history.check("k", None, (21, 25)).is_err());
    assert!(history.check("k", Some(1), (21, 25)).is_ok());
    assert!(history.check("k", Some(2), (21, 25)).is_err());
    assert!(history.check("k", Some(2), (31, 35)).is_ok());
    let delete = history.begin("k", None, 40);
    history.end("k", delete, 50);
    assert!(history.check("k", Some(1), (51, 55)).is_err());
    assert!(history.check("k", Some(2), (51, 55)).is_ok(), "it may come late");
    history.refuse("k", open);
    assert!(history.check("k", Some(2), (51, 55)).is_err());
}
