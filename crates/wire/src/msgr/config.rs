//! Identity of a messenger, how it treats its peers, and its limits.

use super::rights::Rights;
use crate::basic::AuthName;
use crate::codec::features;
use crate::{EntityAddrVec, Release, Target};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType};

/// How sessions with a kind of peer behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// A lost connection ends the session; nothing is acknowledged or sent again. Otherwise the session outlives its
    /// connections: each message is delivered exactly once, in order, until one side closes or restarts.
    pub lossy: bool,
    /// Ask an idle peer whether it lives.
    pub keepalive: Option<Keepalive>,
    /// Feature bits the peer must have, besides those the protocol itself needs.
    pub features_required: u64,
    /// Accepted lossy sessions: a newer one from the same address ends the older one, so that nothing the older one
    /// sent can still arrive. Otherwise several stand side by side. Lossless sessions are always one per address.
    pub fences: bool,
}

/// Ask every `interval`; if nothing comes for `timeout`, no answer and nothing else, the connection counts as lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    pub interval: Duration,
    pub timeout: Duration,
}

impl Policy {
    /// A client towards OSDs.
    pub const LOSSY_CLIENT: Policy = Policy { lossy: true, keepalive: None, features_required: 0, fences: true };
    /// Towards a monitor: a dead one must be noticed, within five seconds, since nothing else would make the client ask
    /// another.
    pub const MON_CLIENT: Policy = Policy {
        keepalive: Some(Keepalive { interval: Duration::from_secs(1), timeout: Duration::from_secs(4) }),
        ..Policy::LOSSY_CLIENT
    };
    /// A daemon towards the clients it serves.
    pub const LOSSY_SERVER: Policy = Policy::LOSSY_CLIENT;
    /// A monitor towards those it serves: `ceph tell mon.a` opens a second session beside the client's first.
    pub const MON_SERVER: Policy = Policy { fences: false, ..Policy::LOSSY_SERVER };
    /// A monitor towards another one. What is lost with a connection is said anew, or was said in vain: nothing may
    /// wait for a monitor that is down.
    pub const MON_PEER: Policy = Policy {
        keepalive: Some(Keepalive { interval: Duration::from_secs(1), timeout: Duration::from_secs(4) }),
        ..Policy::MON_SERVER
    };
    /// Daemons among each other. A path that swallows everything would otherwise be noticed after a quarter of an hour,
    /// or never by a side that only waits for the other one.
    pub const LOSSLESS_PEER: Policy = Policy {
        lossy: false,
        keepalive: Some(Keepalive { interval: Duration::from_secs(5), timeout: Duration::from_secs(20) }),
        ..Policy::LOSSY_CLIENT
    };
}

/// Makes a [`crate::msgr::Messenger`].
#[derive(Clone, Debug)]
pub struct Config {
    /// An OSD's id or a monitor's rank; a client's number is learnt from its monitor, [`Config::client`] sets -1.
    pub me: EntityName,
    /// The name to authenticate as: `client.admin`.
    pub auth_name: AuthName,
    /// Addresses that peers dial: advertised addresses, not those bound. A client leaves them empty; its IP is learnt
    /// from the first peer.
    pub my_addrs: EntityAddrVec,
    /// How to treat who connects, by kind; other kinds are turned away.
    pub accept: BTreeMap<EntityType, Policy>,
    /// Feature bits told to peers.
    pub features: u64,
    /// This is a monitor, which hands out global ids (see [`crate::msgr::Messenger::set_global_ids`]).
    pub assigns_global_ids: bool,
    /// Data segments from this size on are announced by [`crate::msgr::Messenger::bulk_wanted`]; `None`: never, all
    /// bytes go through `received`.
    pub bulk_min_bytes: Option<usize>,
    /// Data segments of a block or more are received as a store wants them: aligned in memory, and with the
    /// crc32c of each 4 KiB block. Who has no store spares itself that.
    pub block_crcs: bool,
    /// Bytes of encrypted messages that a connection has handed to its transport, and that the transport has not taken
    /// yet, from which on further messages wait. An encrypted message is memory of its own: beside the message, where a
    /// lossless session may have to send it again, and in place of bytes that others share, such as a cache. The driver
    /// says by [`crate::msgr::Messenger::taken`] what the transport has taken. At least 1. `usize::MAX`: messages never
    /// wait, and the driver need not say it.
    pub sealed_ahead_bytes: usize,
    /// Connections that others made and that have no session yet. Beyond it the oldest of the machine that has most of
    /// them is closed.
    pub half_open_max: usize,
    /// Seed of cookies and of a client's nonce. Two incarnations must not share one.
    pub seed: u64,
}

impl Config {
    /// A client, authenticating as `auth_name`, that accepts nobody.
    pub fn client(auth_name: AuthName, seed: u64) -> Config {
        Config {
            me: EntityName { kind: auth_name.kind, num: -1 },
            auth_name,
            my_addrs: EntityAddrVec::empty(),
            accept: BTreeMap::new(),
            features: features::PACIFIC,
            assigns_global_ids: false,
            bulk_min_bytes: Some(limits::BULK_MIN_BYTES),
            block_crcs: false,
            sealed_ahead_bytes: usize::MAX,
            half_open_max: limits::HALF_OPEN_MAX,
            seed,
        }
    }

    /// A monitor: everybody is lossy, other monitors, too.
    pub fn mon(rank: i64, id: &str, my_addrs: EntityAddrVec, seed: u64) -> Config {
        let kinds = [EntityType::CLIENT, EntityType::OSD, EntityType::MGR, EntityType::MDS, EntityType::MON];
        let accept = kinds.into_iter().map(|kind| (kind, Policy::MON_SERVER)).collect();
        Config {
            me: EntityName::mon(rank),
            my_addrs,
            accept,
            assigns_global_ids: true,
            ..Config::client(AuthName::new(EntityType::MON, id), seed)
        }
    }

    /// An OSD: clients and monitors are lossy, other OSDs are peers.
    pub fn osd(id: types::OsdId, my_addrs: EntityAddrVec, seed: u64) -> Config {
        let lossy = [EntityType::CLIENT, EntityType::MON, EntityType::MGR, EntityType::MDS];
        let mut accept: BTreeMap<_, _> = lossy.into_iter().map(|kind| (kind, Policy::LOSSY_SERVER)).collect();
        accept.insert(EntityType::OSD, Policy::LOSSLESS_PEER);
        Config {
            me: EntityName::osd(id),
            my_addrs,
            accept,
            block_crcs: true,
            ..Config::client(AuthName::new(EntityType::OSD, id.0.to_string()), seed)
        }
    }
}

/// The other end of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// For a client the number is its global id.
    pub name: EntityName,
    /// As it authenticated, for an accepted session: the name that it has proven, or with method `none` the one that it
    /// claims. By default for one we dialled.
    pub auth_name: AuthName,
    pub addrs: EntityAddrVec,
    /// Feature bits both sides have.
    pub features: u64,
    /// Given by a monitor when the client first authenticated; 0 for a peer we dialled.
    pub global_id: u64,
    pub rights: Rights,
    pub lossy: bool,
    /// The peer counts all its connections with this: of two sessions, whoever they are with, that which it opened
    /// later has the higher number. 0 for a peer we dialled.
    pub global_seq: u64,
}

impl Peer {
    /// For whom to encode messages to this peer.
    pub fn target(&self) -> Target {
        Target { features: self.features, release: Release::PACIFIC }
    }
}

/// Bounds on what a peer can make us keep.
pub mod limits {
    use std::time::Duration;

    /// All bytes of a connection before its session stands.
    pub const HANDSHAKE_BYTES: usize = 64 << 10;
    /// Default of [`super::Config::half_open_max`].
    pub const HALF_OPEN_MAX: usize = 2048;
    /// Bytes of all connections without a session together. Beyond it those are closed that have sent more than the
    /// share of one.
    pub const HALF_OPEN_BYTES: usize = 8 << 20;
    pub const HALF_OPEN_SHARE_BYTES: usize = 4 << 10;
    /// Payload of a control frame.
    pub const CONTROL_BYTES: usize = 64 << 10;
    /// Front, and middle, of a message.
    pub const FRONT_BYTES: usize = 32 << 20;
    /// Data of a message. Ceph's clients write at most 90 MiB at once.
    pub const DATA_BYTES: usize = 128 << 20;
    /// Default of [`super::Config::bulk_min_bytes`].
    pub const BULK_MIN_BYTES: usize = 16 << 10;
    /// A value of [`super::Config::sealed_ahead_bytes`]: the network is busy with so much while more is encrypted.
    pub const SEALED_AHEAD_BYTES: usize = 256 << 10;
    /// A connection must have a session by then.
    pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
    /// Number of clients that may wait, for so long each, until a monitor that has no ids left gets new ones.
    pub const AWAITING_IDS_MAX: usize = 10_000;
    pub const ID_TIME: Duration = Duration::from_secs(3);
    /// Lossless sessions acknowledge after so many messages or bytes, or this long after the first.
    pub const ACK_MESSAGES: u64 = 32;
    pub const ACK_BYTES: usize = 1 << 20;
    pub const ACK_DELAY: Duration = Duration::from_millis(50);
    /// First and longest wait before a lossless session dials again.
    pub const BACKOFF_MIN: Duration = Duration::from_millis(100);
    pub const BACKOFF_MAX: Duration = Duration::from_secs(5);
}
