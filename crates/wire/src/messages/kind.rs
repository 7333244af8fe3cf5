//! Names of message types.

use crate::nacre;

/// Name for logs of a message of type `kind`: Ceph's, or ours if the message is one of Nacre's own that is not for OSDs
/// among each other. `unknown` for all others.
pub fn kind_name(kind: u16) -> &'static str {
    match kind {
        2 => "ping",
        4 => "mon_map",
        5 => "mon_getmap",
        6 => "mon_get_osdmap",
        13 => "statfs",
        14 => "statfs_reply",
        15 => "mon_subscribe",
        16 => "mon_subscribe_ack",
        17 => "auth",
        18 => "auth_reply",
        19 => "mon_get_version",
        20 => "mon_get_version_reply",
        21 => "mdsmap",
        41 => "osd_map",
        42 => "osd_op",
        43 => "osd_op_reply",
        44 => "watch_notify",
        45 => "fsmap",
        48 => "pool_op_reply",
        49 => "pool_op",
        50 => "mon_command",
        51 => "mon_command_ack",
        52 => "log",
        53 => "log_ack",
        58 => "getpoolstats",
        59 => "getpoolstatsreply",
        61 => "osd_backoff",
        62 => "config",
        63 => "get_config",
        97 => "command",
        98 => "command_reply",
        103 => "fsmap.user",
        0x700 => "mgropen",
        0x701 => "mgrconfigure",
        0x702 => "mgrreport",
        0x704 => "mgrmap",
        0x707 => "service_map",
        0x708 => "mgrclose",
        0x709 => "mgr_command",
        0x70a => "mgr_command_reply",
        own => nacre::kind::name(own).unwrap_or("unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_messages_have_names_in_logs() {
        assert_eq!(kind_name(nacre::kind::OSD_BEACON), "osd_beacon");
        assert_eq!(kind_name(nacre::kind::MON_OSD_SAID), "mon_osd_said");
        assert_eq!(kind_name(42), "osd_op");
        assert_eq!(kind_name(nacre::FIRST_KIND), "unknown");
    }
}
