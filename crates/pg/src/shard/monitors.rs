//! Monitors: their messages, and the beacons that they get.

use super::Shard;
use crate::context::{MonitorRequests, Output};
use types::{Epoch, PgId};
use wire::messages::kind_name;
use wire::nacre::kind;
use wire::nacre::mon::{
    NewerMapGet, OsdBeacon, OsdStats, PgActivate, PgActivated, PgForce, PgHistoryGet, PgHistoryReply, PgScrub, PgTemp,
};
use wire::{DecodeError, Envelope, Message, Target};

impl Shard {
    /// Takes a message of our own kind from a monitor.
    ///
    /// Errors: it is malformed.
    pub fn monitor_message(&mut self, envelope: &Envelope) -> Result<(), DecodeError> {
        match envelope.header.kind {
            kind::PG_HISTORY => {
                let PgHistoryReply { epoch, pgs } = PgHistoryReply::open(envelope)?;
                for history in pgs {
                    let id = self.instance(history.pgid);
                    self.with_group(id, |pg, cx| pg.agreement().history_told(cx, epoch, history));
                }
            }
            kind::PG_ACTIVATED => {
                for history in PgActivated::open(envelope)?.pgs {
                    let id = self.instance(history.pgid);
                    self.with_group(id, |pg, cx| pg.agreement().recorded(cx, history));
                }
            }
            kind::PG_SCRUB => {
                let PgScrub { pgs, deep, repair } = PgScrub::open(envelope)?;
                let pgs: Vec<PgId> = pgs.into_iter().map(|id| self.instance(id)).collect();
                for id in
                    pgs.into_iter().filter(|id| self.pgs.get(id).is_some_and(|pg| pg.core.is_primary(self.host.whoami)))
                {
                    self.scrubs.order(id, deep, repair, self.host.now);
                }
            }
            kind::PG_FORCE => {
                let PgForce { pgs, backfill, cancel } = PgForce::open(envelope)?;
                for id in pgs.into_iter().map(|id| self.instance(id)).collect::<Vec<_>>() {
                    if let Some(pg) = self.pgs.get_mut(&id).filter(|pg| pg.core.is_primary(self.host.whoami)) {
                        pg.healer().force(&mut self.host.context(), backfill, cancel);
                    }
                }
                self.settle();
            }
            other => tracing::warn!(kind = kind_name(other), "message of unknown type from a monitor ignored"),
        }
        Ok(())
    }

    /// Says everything again, as a session with a monitor has begun and everything said before may be lost.
    pub fn monitor_connected(&mut self) {
        let whoami = self.host.whoami;
        for pg in self.pgs.values_mut().filter(|pg| pg.core.is_primary(whoami)) {
            pg.queue_report(&mut self.host.context());
            pg.ask_again(&mut self.host.context());
        }
        self.settle();
    }

    /// Tells whether groups have changed state since the last beacon, or the store has become full or is so no longer.
    pub fn has_reports(&self) -> bool {
        !self.host.outbox.reports.is_empty() || self.fullness() != self.fullness_told
    }

    /// Returns the number of the cluster's limits for full OSDs that this one has reached.
    fn fullness(&self) -> u8 {
        let (map, usage) = (self.host.maps.current(), self.host.store.usage());
        let used = 1.0 - usage.free_bytes_for_cluster() as f64 / usage.total_bytes.max(1) as f64;
        let limits = [map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio];
        limits.iter().map(|limit| u8::from(used >= f64::from(*limit))).sum()
    }

    /// Returns the beacon that is due, with all reports that have gathered.
    pub fn beacon(&mut self, heartbeat_peers: u64, commit_latency_us: u64) -> OsdBeacon {
        let whoami = self.host.whoami;
        for pg in self.pgs.values_mut() {
            if pg.core.is_primary(whoami) && (pg.healing.may_work() || pg.has_served()) {
                pg.queue_report(&mut self.host.context());
            }
        }
        self.settle();
        self.fullness_told = self.fullness();
        let usage = self.host.store.usage();
        let (slow_ops, oldest) = self.slow_ops(self.host.now);
        let stats = OsdStats {
            total_bytes: usage.total_bytes,
            free_bytes: usage.free_bytes_for_cluster(),
            data_bytes: usage.data_bytes,
            stored_bytes: usage.stored_bytes,
            omap_bytes: usage.omap_bytes,
            metadata_bytes: usage.metadata_bytes,
            commit_latency_us,
            pg_count: self.pgs.len() as u64,
            heartbeat_peers,
            slow_ops,
            oldest_slow_op_ms: oldest.as_millis() as u64,
            bad_copies: self.host.shared.bad_copies,
        };
        let pgs = std::mem::take(&mut self.host.outbox.reports).into_values().collect();
        OsdBeacon { osd: self.host.whoami, epoch: self.host.maps.epoch(), stats, pgs, options: None, pings: None }
    }

    /// Sends what was gathered over a turn for monitors.
    pub(super) fn flush_monitor_requests(&mut self, epoch: Epoch) {
        let MonitorRequests { history, activations, temps, newer_than } =
            std::mem::take(&mut self.host.outbox.to_monitor);
        if let Some(after) = newer_than {
            self.send_monitor(NewerMapGet { after });
        }
        if !history.is_empty() {
            self.send_monitor(PgHistoryGet { epoch, pgs: history });
        }
        if !temps.is_empty() {
            self.send_monitor(PgTemp { epoch, pgs: temps });
        }
        if !activations.is_empty() {
            self.send_monitor(PgActivate { epoch, pgs: activations });
        }
    }

    fn send_monitor(&mut self, message: impl Message) {
        self.host.outbox.outputs.push(Output::ToMonitor { envelope: message.seal(0, Target::default()) });
    }
}
