//! What a client asks of the monitors all the time: to set keys, to read and list them, and which map is the newest.

use crate::witness::Witness;
use client::objecter::{Answer, MonAnswer, MonRequest};
use reactor::sim::Rng;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{Epoch, Errno};

/// The keys that are set begin with this.
const KEYS: &str = "sim/";

/// A question under way, with what its answer must show.
#[derive(Debug)]
pub(crate) enum Question {
    /// A key of its own is set. One that is asked twice does no harm.
    Set(String),
    /// Whether it was known to be set.
    Get(String, bool),
    /// Which keys were known to be set.
    List(BTreeSet<String>),
    /// The newest epoch that anybody had.
    Newest(Epoch),
}

/// Draws questions, one at a time.
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

    /// What client `number` asks next, or nothing any more.
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

    /// Before the next question.
    pub(crate) fn pause(&mut self) -> Duration {
        self.rng.duration(&(Duration::ZERO..=self.pause_max))
    }

    /// Looks at an answer.
    ///
    /// Errors: one that makes no sense, in words.
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
