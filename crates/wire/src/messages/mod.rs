//! Messages between Ceph's clients, monitors and OSDs, and the inputs and outputs of operations.
//!
//! Types are named as Ceph names them, without the leading `M`. Several share their name with the map that they carry,
//! so users write `use wire::messages as msg` and `msg::OsdOp`. A receiver compares `envelope.header.kind` with
//! [`crate::Message::TYPE`] and then calls [`crate::Message::open`].
//!
//! * Operations on objects: [`OsdOp`], [`OsdOpReply`]; their parts [`Op`], [`OpCode`], [`OpArgs`], [`OpFlags`]; the
//!   parts' inputs and outputs in [`op_data`] and [`listing`].
//! * Unrequested messages of OSDs: [`OsdMap`], [`WatchNotify`], [`OsdBackoff`].
//! * Conversation with a monitor: [`MonSubscribe`] and the maps that it brings, [`MonGetVersion`], [`ConfigOptions`];
//!   commands ([`MonCommand`], and [`Command`] to a daemon); pools ([`PoolOp`]), statistics ([`Statfs`],
//!   [`GetPoolStats`]), the cluster log ([`Log`]), tickets ([`Auth`]).

mod auth;
mod backoff;
mod command;
mod config;
mod fs_map;
mod kind;
pub mod listing;
mod log;
mod maps;
mod mon;
mod op;
mod op_args;
mod op_build;
mod op_code;
pub mod op_data;
mod op_flags;
mod osd_op;
mod osd_reply;
mod paxos;
mod ping;
mod pool;
mod service_map;
mod stats;
mod subscribe;
mod watch;

pub use auth::{Auth, AuthReply};
pub use backoff::{BackoffOp, OsdBackoff};
pub use command::{Command, CommandReply, MgrCommand, MgrCommandReply, MonCommand, MonCommandAck};
pub use config::{ConfigOptions, GetConfig};
pub use fs_map::{CompatSet, FeatureSet, FsMap, FsMapUser, FsName};
pub use kind::{kind_name, manager_kind};
pub use log::{Log, LogAck, LogEntry, LogPriority};
pub use maps::{MgrMap, MonGetOsdMap, MonMap, OsdMap};
pub use mon::{MonGetMap, MonGetVersion, MonGetVersionReply};
pub use op::{Op, to_rope};
pub use op_args::{AllocHint, Call, Checksum, Comparison, CopyFrom, Extent, OpArgs, Watch, WriteSame, XattrArgs};
pub use op_code::OpCode;
pub use op_flags::{OpFlags, op_flag};
pub use osd_op::{OsdOp, Trace};
pub use osd_reply::{OpReply, OsdOpReply, Redirect};
pub use ping::Ping;
pub use pool::{GetPoolStats, GetPoolStatsReply, PoolOp, PoolOpKind, PoolOpReply, Statfs, StatfsReply};
pub use service_map::{Service, ServiceDaemon, ServiceMap};
pub use stats::{ObjectStatCollection, ObjectStats, PoolStat, StoreStatfs};
pub use subscribe::{MonSubscribe, MonSubscribeAck, Subscription};
pub use watch::{NotifyReplies, WatchNotify, WatchNotifyOp};
