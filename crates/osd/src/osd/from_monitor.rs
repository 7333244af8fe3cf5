//! Messages from the monitor that an OSD has a session with.

use super::Running;
use crate::shards::ToWorker;
use reactor::Io;
use wire::messages::{self, kind_name};
use wire::nacre::mon::OsdRefused;
use wire::nacre::{FIRST_KIND, kind};
use wire::{Envelope, Message};

impl Running {
    pub(super) fn monitor_message(&mut self, io: &impl Io, envelope: &Envelope) {
        let outcome = match envelope.header.kind {
            messages::OsdMap::TYPE => messages::OsdMap::open(envelope).map(|maps| self.maps_came(maps)),
            messages::MonMap::TYPE => messages::MonMap::open(envelope).and_then(|message| {
                let map: osdmap::MonMap = wire::Decode::from_slice(&message.map)?;
                self.monitor.are_now(map.by_rank().map(|mon| mon.addrs.clone()).collect());
                Ok(())
            }),
            messages::ConfigOptions::TYPE => {
                messages::ConfigOptions::open(envelope).map(|config| self.options_came(io, &config.options))
            }
            messages::LogAck::TYPE => {
                messages::LogAck::open(envelope).map(|ack| self.commands.cluster_log.acknowledged(ack.last))
            }
            kind::OSD_REFUSED => OsdRefused::open(envelope).map(|refused| {
                if self.refused.as_ref() != Some(&refused.reason) {
                    tracing::error!("the monitors do not let {} serve: {}", refused.osd, refused.reason);
                    self.refused = Some(refused.reason);
                }
            }),
            kind::OSD_GOING_DOWN_ACK => {
                if let Some(leaving) = &mut self.leaving {
                    leaving.acknowledged();
                }
                Ok(())
            }
            own if own >= FIRST_KIND => {
                self.others.tell_all(|| ToWorker::FromMonitor(envelope.clone()));
                self.shard.monitor_message(envelope)
            }
            _ => Ok(()),
        };
        if let Err(e) = outcome {
            tracing::error!(kind = kind_name(envelope.header.kind), "malformed message from a monitor: {e}");
        }
    }
}
