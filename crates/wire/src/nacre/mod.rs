//! Nacre's own messages: between OSDs and monitors ([`mon`]), between monitors ([`quorum`]) and, defined in the `pg` crate,
//! between OSDs.
//!
//! They travel in the same frames as Ceph's messages, under type numbers from [`FIRST_KIND`] on, which no release of
//! Ceph uses. Each front is one versioned block, so that fields can be added without breaking a rolling upgrade.

pub mod heartbeat;
pub mod long;
pub mod mon;
mod pg_state_names;
pub mod quorum;

pub use pg_state_names::{pg_state_bit, pg_state_text};

/// Implements [`crate::Message`] for a struct whose front is one versioned block of its fields, in order.
#[macro_export]
macro_rules! own_message {
    ($ty:ident = $kind:expr, version $version:literal { $($field:ident),* $(,)? }) => {
        impl $crate::Message for $ty {
            const TYPE: u16 = $kind;

            fn encode_front(&self, w: &mut $crate::Writer) {
                w.versioned($version, 1, |w| { $(w.put(&self.$field);)* });
            }

            fn decode(
                _: &$crate::Header,
                front: &mut $crate::Reader<'_>,
                _: &$crate::Rope,
            ) -> Result<$ty, $crate::DecodeError> {
                let (_, mut r) = front.versioned(stringify!($ty), $version)?;
                Ok($ty { $($field: r.get()?),* })
            }
        }
    };
}

/// Own message types start here.
pub const FIRST_KIND: u16 = 0x4e00;

/// Type numbers in use.
pub mod kind {
    pub const OSD_BOOT: u16 = 0x4e01;
    pub const OSD_BEACON: u16 = 0x4e02;
    pub const OSD_FAILURE: u16 = 0x4e03;
    pub const OSD_GOING_DOWN: u16 = 0x4e04;
    pub const OSD_GOING_DOWN_ACK: u16 = 0x4e05;
    pub const PG_HISTORY_GET: u16 = 0x4e06;
    pub const PG_HISTORY: u16 = 0x4e07;
    pub const PG_ACTIVATE: u16 = 0x4e08;
    pub const PG_ACTIVATED: u16 = 0x4e09;
    pub const PG_TEMP: u16 = 0x4e0a;
    pub const PG_SCRUB: u16 = 0x4e10;
    pub const OSD_REFUSED: u16 = 0x4e11;
    pub const PG_FORCE: u16 = 0x4e12;
    pub const NEWER_MAP_GET: u16 = 0x4e13;

    /// Between OSDs (bodies in the `pg` crate).
    pub const REP_OP: u16 = 0x4e20;
    pub const REP_OP_REPLY: u16 = 0x4e21;
    pub const PG_QUERY: u16 = 0x4e22;
    pub const PG_INFO: u16 = 0x4e23;
    pub const PG_LOG_GET: u16 = 0x4e24;
    pub const PG_LOG: u16 = 0x4e25;
    pub const PG_SCAN: u16 = 0x4e26;
    pub const PG_OBJECTS: u16 = 0x4e27;
    pub const PG_PULL: u16 = 0x4e28;
    pub const PG_PUSH: u16 = 0x4e29;
    pub const PG_PUSH_ACK: u16 = 0x4e2a;
    pub const PG_START: u16 = 0x4e2b;
    pub const PG_STARTED: u16 = 0x4e2c;
    pub const OSD_PING: u16 = 0x4e2d;
    pub const OSD_PING_REPLY: u16 = 0x4e2e;
    pub const LEASE_GET: u16 = 0x4e2f;
    pub const LEASE_GRANT: u16 = 0x4e30;
    pub const PG_BACKFILLED: u16 = 0x4e31;
    pub const PG_RESERVE: u16 = 0x4e32;
    pub const PG_RESERVED: u16 = 0x4e33;
    pub const PG_RELEASED: u16 = 0x4e34;
    pub const PG_STRAYS: u16 = 0x4e35;
    pub const PG_UNNEEDED: u16 = 0x4e36;
    pub const STRAY_READ: u16 = 0x4e37;
    pub const PG_INTERRUPTED: u16 = 0x4e3f;
    pub const ROOM_GET: u16 = 0x4e50;
    pub const ROOM_TOLD: u16 = 0x4e51;
    pub const ROOM_SEEN: u16 = 0x4e52;
    pub const SCRUB_GET: u16 = 0x4e38;
    pub const SCRUB_GOT: u16 = 0x4e39;
    pub const SCRUB_BAD: u16 = 0x4e3a;
    pub const SCRUB_DONE: u16 = 0x4e3b;
    pub const SHARD_READ: u16 = 0x4e3c;
    pub const SHARD_READ_REPLY: u16 = 0x4e3d;
    pub const ROLL_FORWARD: u16 = 0x4e3e;
    pub const READ_SHARE_GET: u16 = 0x4e53;
    pub const READ_SHARE: u16 = 0x4e54;
    pub const LONG_PART: u16 = 0x4e57;
    pub const PG_SOUGHT: u16 = 0x4e55;
    pub const PG_FOUND: u16 = 0x4e56;

    /// Between monitors.
    pub const MON_HELLO: u16 = 0x4e40;
    pub const MON_HELLO_REPLY: u16 = 0x4e41;
    pub const RAFT_PACKET: u16 = 0x4e42;
    pub const MON_FORWARD: u16 = 0x4e43;
    pub const MON_FORWARD_END: u16 = 0x4e44;
    pub const MON_ROUTED: u16 = 0x4e45;
    pub const MON_INDEX_GET: u16 = 0x4e46;
    pub const MON_INDEX: u16 = 0x4e47;
    pub const MON_IDS_GET: u16 = 0x4e48;
    pub const MON_IDS: u16 = 0x4e49;
    pub const MON_OSD_SAID: u16 = 0x4e4a;
}
