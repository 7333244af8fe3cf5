//! Questions that a client asks monitors all the time: it sets keys, reads and lists them, and asks for the newest map.

use crate::witness::Witness;
use client::objecter::{Answer, MonAnswer, MonRequest};
use reactor::sim::Rng;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{Epoch, Errno};

/// Prefix of the keys that are set.
const KEYS: &str = "sim/";

/// A question under way, with the facts that its answer must show.
#[derive(Debug)]
pub(crate) enum Question {
    /// Sets a key that only this question sets. It does no harm if the question is asked twice.
    Set(String),
    /// Reads a key. The flag: somebody knew that it was set.
    Get(String, bool),
    /// Lists the keys. The set: those that somebody knew to be set.
    List(BTreeSet<String>),
    /// Asks for the newest epoch. The number: the newest that anybody had.
    Newest(Epoch),
}

/// Draws questions one at a time.
pub struct Commands {
    rng: Rng,
    left: u32,
    pause_max: Duration,
    witness: Witness,
    keys_made: u32,
}

impl Commands {
    pub fn new(seed: u64, questions: u32, pause_max: Duration, witness: Witness) -> Commands {
        Commands { rng: Rng::new(seed), left: questions, pause_max, witness, keys_made: 0 }
    }

    /// The next question of client `number`; `None` if there are no more.
    pub(crate) fn draw(&mut self, number: u64) -> Option<(Question, MonRequest)> {
        self.left = self.left.checked_sub(1)?;
        let command = |json| MonRequest::Command { json, input: bytes::Bytes::new() };
        let known = self.rng.next_u64();
        Some(match (self.rng.below(4), self.witness.key(known)) {
            (0, _) => {
                let newest = MonRequest::Version { map: "osdmap".to_owned() };
                (Question::Newest(self.witness.epoch()), newest)
            }
            (2, Some(_)) => {
                let list = command(r#"{"prefix": "config-key ls", "format": "json"}"#.to_owned());
                (Question::List(self.witness.known_keys()), list)
            }
            (1, Some(key)) => {
                let json = format!(r#"{{"prefix": "config-key get", "key": "{key}"}}"#);
                let is_known = self.witness.is_known(&key);
                (Question::Get(key, is_known), command(json))
            }
            _ => {
                self.keys_made += 1;
                let key = format!("{KEYS}{number}/{}", self.keys_made);
                self.witness.asks_to_set(&key);
                let json = format!(r#"{{"prefix": "config-key set", "key": "{key}", "val": "{key}"}}"#);
                (Question::Set(key), command(json))
            }
        })
    }

    /// The pause before the next question.
    pub(crate) fn pause(&mut self) -> Duration {
        self.rng.duration(&(Duration::ZERO..=self.pause_max))
    }

    /// Checks an answer.
    ///
    /// Errors: a sentence about an answer that makes no sense.
    pub(crate) fn answered(
        &self,
        question: Question,
        result: Result<Answer, client::Error>,
        who: impl FnOnce() -> String,
    ) -> Result<(), String> {
        match (question, result) {
            (Question::Set(key), Ok(Answer::Mon(MonAnswer::Command(reply)))) if reply.result == 0 => {
                self.witness.is_set(&key);
            }
            (Question::Get(key, known), Ok(Answer::Mon(MonAnswer::Command(reply))))
                if reply.result == 0 && reply.output == key.as_bytes() =>
            {
                self.witness.was_read(&key, known, true);
            }
            (Question::Get(key, known), Ok(Answer::Mon(MonAnswer::Command(reply))))
                if reply.result == Errno::ENOENT.as_result() =>
            {
                self.witness.was_read(&key, known, false);
            }
            (Question::List(known), Ok(Answer::Mon(MonAnswer::Command(reply)))) if reply.result == 0 => {
                let listed = serde_json::from_slice::<BTreeSet<String>>(&reply.output);
                let mut listed = listed.map_err(|e| format!("keys are listed as {:?}: {e}", reply.output))?;
                listed.retain(|key| key.starts_with(KEYS));
                self.witness.was_listed(&known, &listed);
            }
            (Question::Newest(least), Ok(Answer::Mon(MonAnswer::Version(version)))) => {
                let epoch = u32::try_from(version).map_err(|_| format!("epoch {version} is none"))?;
                self.witness.told_newest(who, least, Epoch(epoch));
            }
            (question, result) => return Err(format!("{question:?} is answered by {result:?}")),
        }
        Ok(())
    }
}
