//! Conversations between Ceph 16.2.15's clients, monitor and OSD, as they went over the wire.
//!
//! `tests/golden/handshakes.jsonl` holds the bytes of both directions of some connections, up to the signatures in crc
//! mode and some frames further in secure mode, and the keys of the parties. All of it was made for the purpose.

use crate::key::Key;
use serde_json::Value;
use std::collections::BTreeMap;
use types::Utime;

pub(super) mod tag {
    pub const AUTH_REQUEST: u8 = 2;
    pub const AUTH_BAD_METHOD: u8 = 3;
    pub const AUTH_REPLY_MORE: u8 = 4;
    pub const AUTH_REQUEST_MORE: u8 = 5;
    pub const AUTH_DONE: u8 = 6;
    pub const AUTH_SIGNATURE: u8 = 7;
}

/// One direction of a connection.
pub(super) struct Stream {
    pub bytes: Vec<u8>,
    /// Tag, payload and end of each frame in crc mode.
    frames: Vec<(u8, Vec<u8>, usize)>,
    /// Bodies of `MAuth` or `MAuthReply` messages.
    pub messages: Vec<Vec<u8>>,
}

impl Stream {
    fn new(bytes: Vec<u8>, messages: Vec<Vec<u8>>) -> Stream {
        let mut frames = Vec::new();
        // The banner is "ceph v2\n", a length and two numbers.
        let mut at = 26;
        while let Some(preamble) = bytes.get(at..at + 32) {
            let length = u32::from_le_bytes(preamble[2..6].try_into().unwrap()) as usize;
            let end = at + 32 + length + 4;
            let Some(frame) = bytes.get(at..end).filter(|_| preamble[1] == 1 && preamble[0] <= tag::AUTH_SIGNATURE)
            else {
                break;
            };
            frames.push((preamble[0], frame[32..32 + length].to_vec(), end));
            at = end;
            if preamble[0] == tag::AUTH_DONE {
                break;
            }
        }
        // Frames of the accepting side behind AUTH_DONE, and the other's behind its last, are encrypted in secure mode.
        if let Some(preamble) = bytes.get(at..at + 32).filter(|p| p[..2] == [tag::AUTH_SIGNATURE, 1]) {
            let length = u32::from_le_bytes(preamble[2..6].try_into().unwrap()) as usize;
            assert_eq!(length, 32);
            frames.push((tag::AUTH_SIGNATURE, bytes[at + 32..at + 64].to_vec(), at + 68));
        }
        Stream { bytes, frames, messages }
    }

    fn find(&self, tag: u8) -> &(u8, Vec<u8>, usize) {
        self.frames.iter().find(|frame| frame.0 == tag).unwrap_or_else(|| panic!("no frame with tag {tag}"))
    }

    pub fn payload(&self, tag: u8) -> &[u8] {
        &self.find(tag).1
    }

    /// A payload that is one blob.
    pub fn blob(&self, tag: u8) -> &[u8] {
        let payload = self.payload(tag);
        assert_eq!(u32::from_le_bytes(payload[..4].try_into().unwrap()) as usize, payload.len() - 4);
        &payload[4..]
    }

    /// All bytes up to the end of a frame.
    pub fn up_to(&self, tag: u8) -> &[u8] {
        &self.bytes[..self.find(tag).2]
    }

    /// All bytes after a frame.
    pub fn after(&self, tag: u8) -> &[u8] {
        &self.bytes[self.find(tag).2..]
    }
}

pub(super) struct Conversation {
    /// Time at which the connection was made.
    pub at: Utime,
    pub client: Stream,
    pub server: Stream,
}

impl Conversation {
    /// Method, modes and payload of the request.
    pub fn request(&self) -> (u32, Vec<u32>, &[u8]) {
        let payload = self.client.payload(tag::AUTH_REQUEST);
        let mut r = wire::Reader::new(payload);
        (r.u32().unwrap(), r.get().unwrap(), r.blob().unwrap())
    }

    /// Id, mode and payload of the good news.
    pub fn done(&self) -> (u64, u32, &[u8]) {
        let mut r = wire::Reader::new(self.server.payload(tag::AUTH_DONE));
        (r.u64().unwrap(), r.u32().unwrap(), r.blob().unwrap())
    }
}

pub(super) struct Recorded {
    pub keys: BTreeMap<String, Key>,
    conversations: BTreeMap<String, Conversation>,
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

impl Recorded {
    pub fn read() -> Recorded {
        let text = include_str!("../../../tests/golden/handshakes.jsonl");
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let keys = lines.next().unwrap();
        let keys = keys["keys"].as_object().unwrap().iter();
        let keys = keys.map(|(name, key)| (name.clone(), Key::from_text(key.as_str().unwrap()).unwrap())).collect();
        let stream = |line: &Value, side: &str| {
            let messages = line[format!("{side}_auth")].as_array().cloned().unwrap_or_default();
            let messages = messages.iter().map(|message| hex(message.as_str().unwrap())).collect();
            Stream::new(hex(line[side].as_str().unwrap()), messages)
        };
        let conversations = lines.map(|line| {
            let at = Utime { sec: line["sec"].as_u64().unwrap() as u32, nsec: 0 };
            let conversation = Conversation { at, client: stream(&line, "client"), server: stream(&line, "server") };
            (line["name"].as_str().unwrap().to_owned(), conversation)
        });
        Recorded { keys, conversations: conversations.collect() }
    }

    pub fn of(&self, name: &str) -> &Conversation {
        &self.conversations[name]
    }
}

/// Entropy that gives the bytes that somebody drew when the conversation was recorded, in their order.
pub(super) fn scripted(pieces: Vec<Vec<u8>>) -> impl FnMut(&mut [u8]) {
    let mut pieces = pieces.into_iter();
    move |out: &mut [u8]| out.copy_from_slice(&pieces.next().expect("more is drawn than was recorded"))
}
