//! Messages by which daemons of other services register with the manager and report to it.

use super::{Monitor, MonitorAction};
use crate::volatile::Introduction;
use std::collections::BTreeMap;
use wire::messages::manager_kind;
use wire::msgr::SessionId;
use wire::{DecodeError, Header, Message, Reader, Rope, Writer};

/// Seconds between two reports of a daemon.
const REPORT_SECONDS: u32 = 5;
/// Least priority of counters that daemons report: none has so high a one.
const COUNTERS_FROM: u32 = 11;

/// A daemon opens its session with the manager. Ceph's `MMgrOpen`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MgrOpen {
    pub daemon: String,
    pub service: String,
    /// True if it is to stand in the service map.
    pub registers: bool,
    pub metadata: BTreeMap<String, String>,
    pub status: BTreeMap<String, String>,
}

impl Message for MgrOpen {
    const TYPE: u16 = manager_kind::OPEN;
    const VERSION: u16 = 3;

    fn encode_front(&self, w: &mut Writer) {
        w.str(&self.daemon);
        w.str(&self.service);
        w.bool(self.registers);
        if self.registers {
            w.put(&self.metadata);
            w.put(&self.status);
        }
        // The daemon's options, and their defaults.
        w.blob(&[]);
        w.blob(&[]);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MgrOpen, DecodeError> {
        let mut open = MgrOpen { daemon: r.get()?, ..MgrOpen::default() };
        if header.version >= 2 {
            open.service = r.get()?;
            open.registers = r.bool()?;
            if open.registers {
                open.metadata = r.get()?;
                open.status = r.get()?;
            }
        }
        Ok(open)
    }
}

/// Answer to [`MgrOpen`]: how often a daemon is to report, and which counters. Ceph's `MMgrConfigure`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MgrConfigure {
    pub period_s: u32,
    pub counters_from: u32,
}

impl Message for MgrConfigure {
    const TYPE: u16 = manager_kind::CONFIGURE;
    const VERSION: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        w.u32(self.period_s);
        w.u32(self.counters_from);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MgrConfigure, DecodeError> {
        Ok(MgrConfigure { period_s: r.u32()?, counters_from: r.u32()? })
    }
}

/// A daemon's report, as far as it is read: what it says of itself, if that has changed. Ceph's `MMgrReport`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MgrReport {
    pub status: Option<BTreeMap<String, String>>,
}

impl Message for MgrReport {
    const TYPE: u16 = manager_kind::REPORT;
    const VERSION: u16 = 3;

    fn encode_front(&self, w: &mut Writer) {
        w.str("");
        w.u32(0);
        w.blob(&[]);
        w.u32(0);
        w.str("");
        w.put(&self.status);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MgrReport, DecodeError> {
        let _name: String = r.get()?;
        for _ in 0..r.u32()? {
            r.versioned("type of a counter", u8::MAX)?;
        }
        r.blob()?;
        if header.version < 3 {
            return Ok(MgrReport::default());
        }
        let _forgotten: Vec<String> = r.get()?;
        let _service: String = r.get()?;
        Ok(MgrReport { status: r.get()? })
    }
}

/// A daemon ends its session, and wants to hear that back. Ceph's `MMgrClose`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MgrClose {
    pub daemon: String,
    pub service: String,
}

impl Message for MgrClose {
    const TYPE: u16 = manager_kind::CLOSE;

    fn encode_front(&self, w: &mut Writer) {
        w.str(&self.daemon);
        w.str(&self.service);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MgrClose, DecodeError> {
        Ok(MgrClose { daemon: r.get()?, service: r.get()? })
    }
}

impl Monitor {
    pub(super) fn mgr_open(&mut self, session: SessionId, tid: u64, open: MgrOpen, out: &mut Vec<MonitorAction>) {
        let Some(known) = self.sessions.get(&session).filter(|known| known.is_at_manager) else { return };
        if open.registers && !open.service.is_empty() && !open.daemon.is_empty() {
            let who = Introduction {
                service: open.service,
                name: open.daemon,
                session,
                gid: known.peer.global_id,
                addrs: known.peer.addrs.clone(),
                metadata: open.metadata,
                status: open.status,
            };
            let now = self.volatile.now;
            self.volatile.services.register(who, now);
        }
        self.send(session, tid, MgrConfigure { period_s: REPORT_SECONDS, counters_from: COUNTERS_FROM }, out);
    }

    pub(super) fn mgr_report(&mut self, session: SessionId, report: MgrReport) {
        let now = self.volatile.now;
        self.volatile.services.report(session, report.status, now);
    }

    pub(super) fn mgr_close(&mut self, session: SessionId, tid: u64, close: MgrClose, out: &mut Vec<MonitorAction>) {
        let now = self.volatile.now;
        self.volatile.services.leave(session, now);
        self.send(session, tid, close, out);
    }
}
