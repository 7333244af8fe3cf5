//! Processes that run on nodes.

use crate::client_process::ClientProcess;
use crate::format_process::FormatProcess;
use crate::mon_process::MonProcess;
use crate::timeline;
use osd::OsdInOneLoop;
use osd::heartbeat::HeartbeatNode;
use reactor::sim::SimIo;
use reactor::{Event, Handler};

/// The program that a process runs.
pub enum Program {
    /// An OSD with its heartbeats. In a real OSD the heartbeats have a thread of their own.
    Osd(Box<OsdInOneLoop>, Box<HeartbeatNode>),
    Mon(Box<MonProcess>),
    Client(Box<ClientProcess>),
    Format(FormatProcess),
}

/// A process with its name in the timeline.
pub struct Process {
    pub name: String,
    pub program: Program,
}

impl Process {
    fn enter(&self, io: &SimIo) {
        timeline::at(io.world_time(), &self.name);
    }
}

impl Handler<SimIo> for Process {
    fn received(&mut self, io: &mut SimIo, conn: reactor::ConnId, bytes: &[u8]) -> usize {
        self.enter(io);
        match &mut self.program {
            Program::Osd(_, heartbeats) if heartbeats.owns(conn) => heartbeats.received(io, conn, bytes),
            Program::Osd(osd, _) => osd.received(io, conn, bytes),
            Program::Mon(mon) => mon.received(io, conn, bytes),
            Program::Client(client) => client.received(io, conn, bytes),
            Program::Format(format) => format.received(io, conn, bytes),
        }
    }

    fn event(&mut self, io: &mut SimIo, event: Event) {
        self.enter(io);
        match &mut self.program {
            Program::Osd(_, heartbeats) if heartbeats.concerns(&event) => heartbeats.event(io, event),
            Program::Osd(osd, _) => osd.event(io, event),
            Program::Mon(mon) => mon.event(io, event),
            Program::Client(client) => client.event(io, event),
            Program::Format(format) => format.event(io, event),
        }
    }

    fn turn_end(&mut self, io: &mut SimIo) {
        self.enter(io);
        match &mut self.program {
            Program::Osd(osd, heartbeats) => {
                heartbeats.turn_end(io);
                osd.turn_end(io);
            }
            Program::Mon(mon) => mon.turn_end(io),
            Program::Client(client) => client.turn_end(io),
            Program::Format(format) => Handler::turn_end(format, io),
        }
    }

    fn heeds_sent(&self) -> bool {
        match &self.program {
            Program::Osd(osd, _) => Handler::<SimIo>::heeds_sent(osd),
            Program::Mon(_) | Program::Client(_) | Program::Format(_) => true,
        }
    }
}
