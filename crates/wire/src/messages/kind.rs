//! Names of message types.

use super::*;
use crate::{Message, nacre};

/// Type numbers of Ceph's messages between daemons and the manager that have no type in this crate.
pub mod manager_kind {
    pub const OPEN: u16 = 0x700;
    pub const CONFIGURE: u16 = 0x701;
    pub const REPORT: u16 = 0x702;
    pub const CLOSE: u16 = 0x708;
}

/// Type number of Ceph's map of metadata servers, which nobody here sends or reads.
const MDS_MAP: u16 = 21;

/// Name for logs of a message of type `kind`: Ceph's, or ours if the message is one of Nacre's own that is not for OSDs
/// among each other. `unknown` for all others.
pub fn kind_name(kind: u16) -> &'static str {
    match kind {
        Ping::TYPE => "ping",
        MonMap::TYPE => "mon_map",
        MonGetMap::TYPE => "mon_getmap",
        MonGetOsdMap::TYPE => "mon_get_osdmap",
        Statfs::TYPE => "statfs",
        StatfsReply::TYPE => "statfs_reply",
        MonSubscribe::TYPE => "mon_subscribe",
        MonSubscribeAck::TYPE => "mon_subscribe_ack",
        Auth::TYPE => "auth",
        AuthReply::TYPE => "auth_reply",
        MonGetVersion::TYPE => "mon_get_version",
        MonGetVersionReply::TYPE => "mon_get_version_reply",
        MDS_MAP => "mdsmap",
        OsdMap::TYPE => "osd_map",
        OsdOp::TYPE => "osd_op",
        OsdOpReply::TYPE => "osd_op_reply",
        WatchNotify::TYPE => "watch_notify",
        FsMap::TYPE => "fsmap",
        PoolOpReply::TYPE => "pool_op_reply",
        PoolOp::TYPE => "pool_op",
        MonCommand::TYPE => "mon_command",
        MonCommandAck::TYPE => "mon_command_ack",
        Log::TYPE => "log",
        LogAck::TYPE => "log_ack",
        GetPoolStats::TYPE => "getpoolstats",
        GetPoolStatsReply::TYPE => "getpoolstatsreply",
        OsdBackoff::TYPE => "osd_backoff",
        ConfigOptions::TYPE => "config",
        GetConfig::TYPE => "get_config",
        Command::TYPE => "command",
        CommandReply::TYPE => "command_reply",
        FsMapUser::TYPE => "fsmap.user",
        manager_kind::OPEN => "mgropen",
        manager_kind::CONFIGURE => "mgrconfigure",
        manager_kind::REPORT => "mgrreport",
        MgrMap::TYPE => "mgrmap",
        ServiceMap::TYPE => "service_map",
        manager_kind::CLOSE => "mgrclose",
        MgrCommand::TYPE => "mgr_command",
        MgrCommandReply::TYPE => "mgr_command_reply",
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
        assert_eq!(kind_name(OsdOp::TYPE), "osd_op");
        assert_eq!(kind_name(nacre::FIRST_KIND), "unknown");
    }
}
