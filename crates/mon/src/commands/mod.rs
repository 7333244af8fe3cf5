//! What `ceph` asks: a JSON object with the command's words under `prefix` and its arguments by name.
//!
//! A handler looks at the state and either answers or proposes updates together with the answer to give once they are
//! durable. It never waits: at most one batch is on its way to the log at a time, and a command that may change
//! something is handled when none is, so that what it looks at is what its updates apply to.

use crate::{MonState, Update, Volatile};
use bytes::Bytes;
use types::{EntityName, Errno, Utime};

/// One command as it came.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The JSON text.
    pub command: &'a str,
    /// What came with it (`ceph ... -i FILE`).
    pub input: Bytes,
    /// Who asks.
    pub from: EntityName,
    /// Whether it was sent to this monitor in person (`ceph tell mon.a ...`).
    pub tell: bool,
    /// Wall clock.
    pub now: Utime,
    /// Fresh random bytes, for keys and ids.
    pub random: [u8; 32],
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// 0, a positive result, or a negative error number.
    pub code: i32,
    /// For people; `ceph` prints it to stderr.
    pub status: String,
    /// For stdout.
    pub output: Bytes,
}

impl Reply {
    /// Success, with something for stdout.
    pub fn output(output: impl Into<Bytes>) -> Reply {
        Reply { code: 0, status: String::new(), output: output.into() }
    }

    /// Success, with a sentence for stderr.
    pub fn status(status: impl Into<String>) -> Reply {
        Reply { code: 0, status: status.into(), output: Bytes::new() }
    }

    pub fn error(errno: Errno, status: impl Into<String>) -> Reply {
        Reply { code: errno.as_result(), status: status.into(), output: Bytes::new() }
    }
}

/// What is to be done about a command.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    Reply(Reply),
    /// Append the updates as one batch and answer once they are applied.
    Propose {
        updates: Vec<Update>,
        reply: Reply,
    },
}

/// Handles one command.
pub fn handle(state: &MonState, volatile: &Volatile, request: &Request<'_>) -> Outcome {
    let _ = volatile;
    let Ok(serde_json::Value::Object(command)) = serde_json::from_str(request.command) else {
        return Outcome::Reply(Reply::error(Errno::EINVAL, "command is not a JSON object"));
    };
    match command.get("prefix").and_then(serde_json::Value::as_str) {
        Some("fsid") => Outcome::Reply(Reply::output(format!("{}\n", state.fsid))),
        _ => Outcome::Reply(Reply::error(Errno::EINVAL, "command not known")),
    }
}
