//! Commands to the monitors, and to single daemons.

use super::paxos::{get_head, put_head};
use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};
use std::fmt;
use types::Fsid;

/// Writes of a command how long it is.
fn asked(f: &mut fmt::Formatter<'_>, name: &str, cmd: &[String], input: &Rope) -> fmt::Result {
    let bytes: usize = cmd.iter().map(String::len).sum();
    write!(f, "{name}({bytes} bytes, with {} bytes of input)", input.len())
}

/// Writes of an answer how long it is, and how the command ended.
fn answered(f: &mut fmt::Formatter<'_>, name: &str, result: i32, output: &Rope) -> fmt::Result {
    write!(f, "{name}(result {result}, with {} bytes of output)", output.len())
}

/// A command to the monitors. Ceph's `MMonCommand`. Its `Debug` shows no content, which may be keys.
#[derive(Clone, PartialEq, Eq)]
pub struct MonCommand {
    /// Newest version that the client has seen; an answer must not be older.
    pub have: u64,
    pub fsid: Fsid,
    /// One JSON object, `{"prefix": "osd tree", ...}`.
    pub cmd: Vec<String>,
    /// Data that `ceph` takes by its option `-i`.
    pub input: Rope,
}

impl fmt::Debug for MonCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        asked(f, "MonCommand", &self.cmd, &self.input)
    }
}

impl Message for MonCommand {
    const TYPE: u16 = 50;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.have);
        w.put(&self.fsid);
        w.put(&self.cmd);
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.input)
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<MonCommand, DecodeError> {
        Ok(MonCommand { have: get_head(r)?, fsid: r.get()?, cmd: r.get()?, input: data.clone() })
    }
}

/// The answer to a [`MonCommand`], whose transaction id it carries. Ceph's `MMonCommandAck`. Its `Debug` shows no
/// content, which may be keys.
#[derive(Clone, PartialEq, Eq)]
pub struct MonCommandAck {
    /// Version of the state that the answer was read from.
    pub version: u64,
    /// 0 or above, or a negated error number.
    pub result: i32,
    /// One line for people, which clients print on standard error.
    pub status: String,
    /// The command, repeated.
    pub cmd: Vec<String>,
    /// Output, which clients print on standard output.
    pub output: Rope,
}

impl fmt::Debug for MonCommandAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        answered(f, "MonCommandAck", self.result, &self.output)
    }
}

impl Message for MonCommandAck {
    const TYPE: u16 = 51;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.version);
        w.i32(self.result);
        w.str(&self.status);
        w.put(&self.cmd);
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.output)
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<MonCommandAck, DecodeError> {
        Ok(MonCommandAck {
            version: get_head(r)?,
            result: r.i32()?,
            status: r.get()?,
            cmd: r.get()?,
            output: data.clone(),
        })
    }
}

macro_rules! daemon_commands {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq)]
            pub struct $name {
                pub fsid: Fsid,
                /// One JSON object, as in [`MonCommand::cmd`].
                pub cmd: Vec<String>,
                pub input: Rope,
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    asked(f, stringify!($name), &self.cmd, &self.input)
                }
            }

            impl Message for $name {
                const TYPE: u16 = $kind;

                fn encode_front(&self, w: &mut Writer) {
                    w.put(&self.fsid);
                    w.put(&self.cmd);
                }

                fn take_data(&mut self) -> Rope {
                    std::mem::take(&mut self.input)
                }

                fn decode(_: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<$name, DecodeError> {
                    Ok($name { fsid: r.get()?, cmd: r.get()?, input: data.clone() })
                }
            }
        )*
    };
}

macro_rules! daemon_replies {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq)]
            pub struct $name {
                /// 0 or above, or a negated error number.
                pub result: i32,
                /// One line for people.
                pub status: String,
                pub output: Rope,
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    answered(f, stringify!($name), self.result, &self.output)
                }
            }

            impl Message for $name {
                const TYPE: u16 = $kind;

                fn encode_front(&self, w: &mut Writer) {
                    w.i32(self.result);
                    w.str(&self.status);
                }

                fn take_data(&mut self) -> Rope {
                    std::mem::take(&mut self.output)
                }

                fn decode(_: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<$name, DecodeError> {
                    Ok($name { result: r.i32()?, status: r.get()?, output: data.clone() })
                }
            }
        )*
    };
}

daemon_commands! {
    /// A command to one daemon (`ceph tell`). Ceph's `MCommand`.
    Command = 97;
    /// A command to a manager. Ceph's `MMgrCommand`.
    MgrCommand = 0x709;
}

daemon_replies! {
    /// The answer to a [`Command`], whose transaction id it carries. Ceph's `MCommandReply`.
    CommandReply = 98;
    /// The answer to a [`MgrCommand`], whose transaction id it carries. Ceph's `MMgrCommandReply`.
    MgrCommandReply = 0x70a;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "AQDBiAlru/32OBAAed62k2sQrvSFZPR9PkqFpg==";

    #[test]
    fn debug_shows_no_content() {
        let (cmd, rope) = (vec![SECRET.to_owned()], Rope::from(SECRET.as_bytes().to_vec()));
        let (fsid, status) = (Fsid::default(), SECRET.to_owned());
        let shown = [
            format!("{:?}", MonCommand { have: 0, fsid, cmd: cmd.clone(), input: rope.clone() }),
            format!(
                "{:?}",
                MonCommandAck {
                    version: 1,
                    result: -2,
                    status: status.clone(),
                    cmd: cmd.clone(),
                    output: rope.clone()
                }
            ),
            format!("{:?}", Command { fsid, cmd: cmd.clone(), input: rope.clone() }),
            format!("{:#?}", MgrCommand { fsid, cmd, input: rope.clone() }),
            format!("{:?}", CommandReply { result: 0, status, output: rope }),
        ];
        for shown in shown {
            assert!(!shown.contains(&SECRET[..8]) && shown.contains("40 bytes"), "{shown}");
        }
    }
}
