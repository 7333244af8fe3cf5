//! Nacre's own messages: between OSDs and monitors ([`mon`]), between monitors ([`quorum`]) and, defined in the `pg`
//! crate, between OSDs.
//!
//! They travel in the same frames as Ceph's messages, under type numbers from [`FIRST_KIND`] on, which no release of
//! Ceph uses. Each front is one versioned block, so that fields can be added without breaking a rolling upgrade.

pub mod heartbeat;
pub mod long;
pub mod mon;
mod pg_state_names;
mod pg_times;
pub mod quorum;

pub use pg_state_names::{pg_state_bit, pg_state_text};
pub use pg_times::PgTimes;

/// Implements [`crate::Message`] for a struct whose front is one versioned block of its fields, in order. Fields behind
/// `since N` came with version N of the block; earlier ones give their default.
#[macro_export]
macro_rules! own_message {
    ($ty:ident = $kind:expr, version $version:literal {
        $($field:ident),* $(; since $since:literal { $($later:ident),* })* $(,)?
    }) => {
        impl $crate::Message for $ty {
            const TYPE: u16 = $kind;

            fn encode_front(&self, w: &mut $crate::Writer) {
                w.versioned($version, 1, |w| { $(w.put(&self.$field);)* $($(w.put(&self.$later);)*)* });
            }

            fn decode(
                _: &$crate::Header,
                front: &mut $crate::Reader<'_>,
                _: &$crate::Rope,
            ) -> Result<$ty, $crate::DecodeError> {
                let (_head, mut r) = front.versioned(stringify!($ty), $version)?;
                Ok($ty {
                    $($field: r.get()?,)*
                    $($($later: if _head.version >= $since { r.get()? } else { Default::default() },)*)*
                })
            }
        }
    };
}

/// Own message types start here.
pub const FIRST_KIND: u16 = 0x4e00;

macro_rules! own_kinds {
    ($($number:literal $name:ident $log_name:literal;)*) => {
        /// Type numbers in use, but for those of messages between OSDs, whose table is in the `pg` crate.
        pub mod kind {
            $(pub const $name: u16 = $number;)*

            /// Name for logs; `None`: the number is not in use, or a message's between OSDs.
            pub const fn name(kind: u16) -> Option<&'static str> {
                match kind {
                    $($number => Some($log_name),)*
                    _ => None,
                }
            }

            pub(super) const ALL: &[u16] = &[$($number),*];
        }
    };
}

own_kinds! {
    // Between OSDs and monitors.
    0x4e01 OSD_BOOT "osd_boot";
    0x4e02 OSD_BEACON "osd_beacon";
    0x4e03 OSD_FAILURE "osd_failure";
    0x4e04 OSD_GOING_DOWN "osd_going_down";
    0x4e05 OSD_GOING_DOWN_ACK "osd_going_down_ack";
    0x4e06 PG_HISTORY_GET "pg_history_get";
    0x4e07 PG_HISTORY "pg_history";
    0x4e08 PG_ACTIVATE "pg_activate";
    0x4e09 PG_ACTIVATED "pg_activated";
    0x4e0a PG_TEMP "pg_temp";
    0x4e10 PG_SCRUB "pg_scrub";
    0x4e11 OSD_REFUSED "osd_refused";
    0x4e12 PG_FORCE "pg_force";
    0x4e13 NEWER_MAP_GET "newer_map_get";
    // Heartbeats.
    0x4e2d OSD_PING "osd_ping";
    0x4e2e OSD_PING_REPLY "osd_ping_reply";
    // Between monitors.
    0x4e40 MON_HELLO "mon_hello";
    0x4e41 MON_HELLO_REPLY "mon_hello_reply";
    0x4e42 RAFT_PACKET "raft_packet";
    0x4e43 MON_FORWARD "mon_forward";
    0x4e44 MON_FORWARD_END "mon_forward_end";
    0x4e45 MON_ROUTED "mon_routed";
    0x4e46 MON_INDEX_GET "mon_index_get";
    0x4e47 MON_INDEX "mon_index";
    0x4e48 MON_IDS_GET "mon_ids_get";
    0x4e49 MON_IDS "mon_ids";
    0x4e4a MON_OSD_SAID "mon_osd_said";
    // Parts of any message between OSDs.
    0x4e57 LONG_PART "long_part";
}

// Numbers grow from line to line, so that none is given twice.
const _: () = {
    let mut line = 1;
    assert!(kind::ALL[0] >= FIRST_KIND);
    while line < kind::ALL.len() {
        assert!(kind::ALL[line - 1] < kind::ALL[line], "numbers out of order");
        line += 1;
    }
};
