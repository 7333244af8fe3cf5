//! Steps that watch an object, and that notify those who do.

use super::execute::{Execution, StepOutput, done, output, own};
use crate::watch::WatchInfo;
use bytes::Bytes;
use std::sync::Arc;
use types::{EntityName, Errno};
use wire::messages::listing::{Watcher, Watchers};
use wire::messages::op_data::{NotifyAckInput, NotifyInput};
use wire::messages::{Op, OpArgs, OpCode, Watch};
use wire::{Decode, EntityAddr};

/// Time that a client may be silent before its watch is removed, unless it says otherwise. Ceph's
/// `osd_client_watch_timeout`.
const WATCH_TIMEOUT_S: u32 = 30;
/// Time that watchers may take to answer, unless the notifier says otherwise. Ceph's `osd_default_notify_timeout`.
const NOTIFY_TIMEOUT_S: u32 = 30;

/// Bytes that one watcher takes in a list of watchers, and in the structures that the list is made of.
const WATCHER_BYTES: u64 = 100;

/// Change of watches or notifications that an operation makes once it is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchEffect {
    /// The client watches from now on over the session that asked. If it `pings`, it must do so to be taken for alive.
    Connect {
        cookie: u64,
        info: WatchInfo,
        pings: bool,
    },
    Ping {
        cookie: u64,
    },
    /// The watch is no more. Where the object was removed its holder is told.
    Ended {
        cookie: u64,
        watcher: EntityName,
        object_removed: bool,
    },
    /// `cookie` is the notifier's.
    Notify {
        id: u64,
        cookie: u64,
        timeout_s: u32,
        payload: Bytes,
    },
    /// Answers a notification for one watch of the client, or without a cookie for all of them.
    Ack {
        notify_id: u64,
        cookie: Option<u64>,
        reply: Bytes,
    },
}

impl Execution<'_> {
    pub(super) fn watch(&mut self, op: &Op) -> StepOutput {
        // An object that was removed and stays in name can be watched, as in Ceph.
        if op.code != OpCode::WATCH || !self.was_whiteout() {
            self.must_exist()?;
        }
        match op.code {
            OpCode::WATCH => self.watch_step(op),
            OpCode::NOTIFY => {
                let OpArgs::Notify { cookie } = op.args else { return Err(Errno::EINVAL.into()) };
                // Input that cannot be read is taken for a notification that says nothing.
                let input = NotifyInput::from_slice(&op.indata.to_vec()).ok();
                let (timeout_s, payload) =
                    input.map(|input| (input.timeout_s, own(&input.payload))).unwrap_or_default();
                let timeout_s = if timeout_s == 0 { NOTIFY_TIMEOUT_S } else { timeout_s };
                let earlier = self.watch.iter().filter(|effect| matches!(effect, WatchEffect::Notify { .. })).count();
                let id = self.request.notify_id.wrapping_add(earlier as u64);
                self.watch.push(WatchEffect::Notify { id, cookie, timeout_s, payload });
                output(|w| w.u64(id))
            }
            OpCode::NOTIFY_ACK => {
                let NotifyAckInput { notify_id, cookie, reply } = match NotifyAckInput::from_slice(&op.indata.to_vec())
                {
                    Ok(input) => input,
                    // Clients of old name the notification among the arguments.
                    Err(_) => NotifyAckInput { notify_id: first_number(&op.args), cookie: 0, reply: None },
                };
                let cookie = Some(cookie).filter(|cookie| *cookie != 0);
                let reply = own(&reply.unwrap_or_default());
                self.watch.push(WatchEffect::Ack { notify_id, cookie, reply });
                done()
            }
            OpCode::LIST_WATCHERS => {
                let watchers = self.info.watchers.iter().map(|((cookie, name), info)| Watcher {
                    name: *name,
                    cookie: *cookie,
                    timeout_s: info.timeout_s,
                    addr: info.addr,
                });
                self.answers.take(4 + WATCHER_BYTES * watchers.len() as u64)?;
                let watchers = Watchers(watchers.collect());
                output(|w| w.put(&watchers))
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    fn watch_step(&mut self, op: &Op) -> StepOutput {
        let OpArgs::Watch(Watch { cookie, op: what, timeout_s, .. }) = op.args else {
            return Err(Errno::EINVAL.into());
        };
        let client = self.request.reqid.name;
        let key = (cookie, client);
        let info = watch_info(timeout_s, self.request.caller.addr);
        let is_known = self.info.watchers.contains_key(&key);
        match what {
            Watch::WATCH | Watch::LEGACY_WATCH => {
                if !is_known {
                    Arc::make_mut(&mut self.info).watchers.insert(key, info);
                    // Clients see no change of the object.
                    self.modified = true;
                }
                self.watch.push(WatchEffect::Connect { cookie, info, pings: what == Watch::WATCH });
            }
            Watch::RECONNECT if !is_known => return Err(Errno::ENOTCONN.into()),
            Watch::RECONNECT => self.watch.push(WatchEffect::Connect { cookie, info, pings: true }),
            Watch::PING if !is_known => return Err(Errno::ENOTCONN.into()),
            // Known, and not over this session: the client has to connect again.
            Watch::PING if !self.request.connected.contains(&cookie) => return Err(Errno::ETIMEDOUT.into()),
            Watch::PING => self.watch.push(WatchEffect::Ping { cookie }),
            // Ceph takes a watch that it does not know for ended already.
            Watch::UNWATCH => {
                if is_known {
                    Arc::make_mut(&mut self.info).watchers.remove(&key);
                    self.modified = true;
                }
                self.watch.push(WatchEffect::Ended { cookie, watcher: client, object_removed: false });
            }
            _ => {}
        }
        done()
    }

    /// Ends all watches of the object, which is being removed.
    pub(super) fn end_all_watches(&mut self) {
        if self.info.watchers.is_empty() {
            return;
        }
        for (cookie, watcher) in std::mem::take(&mut Arc::make_mut(&mut self.info).watchers).into_keys() {
            self.watch.push(WatchEffect::Ended { cookie, watcher, object_removed: true });
        }
    }
}

fn watch_info(timeout_s: u32, addr: EntityAddr) -> WatchInfo {
    WatchInfo { timeout_s: if timeout_s == 0 { WATCH_TIMEOUT_S } else { timeout_s }, addr }
}

/// Effects on watches that the steps of a successful update had for the `client` that asked, whose address is `addr`.
pub(crate) fn watch_effects_of(ops: &[Op], client: EntityName, addr: EntityAddr) -> Vec<WatchEffect> {
    let of = |op: &Op| {
        let (OpCode::WATCH, OpArgs::Watch(Watch { cookie, op: what, timeout_s, .. })) = (op.code, &op.args) else {
            return None;
        };
        let (cookie, info) = (*cookie, watch_info(*timeout_s, addr));
        match *what {
            Watch::WATCH | Watch::RECONNECT => Some(WatchEffect::Connect { cookie, info, pings: true }),
            Watch::LEGACY_WATCH => Some(WatchEffect::Connect { cookie, info, pings: false }),
            Watch::PING => Some(WatchEffect::Ping { cookie }),
            Watch::UNWATCH => Some(WatchEffect::Ended { cookie, watcher: client, object_removed: false }),
            _ => None,
        }
    };
    ops.iter().filter_map(of).collect()
}

/// Returns the first eight bytes of arguments whose layout depends on the client's age.
fn first_number(args: &OpArgs) -> u64 {
    match args {
        OpArgs::Notify { cookie } => *cookie,
        OpArgs::Raw(bytes) => u64::from_le_bytes(*bytes.first_chunk().expect("arguments are longer")),
        _ => 0,
    }
}
