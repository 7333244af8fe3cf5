//! Checks OSDs' memory: each OSD counts exactly the memory that it has, and has no more than it may.

use crate::cluster::{CLIENTS_SHARE, Cluster, LITTLE_WINDOW_BYTES, MEMORY_BYTES};
use crate::process::Program;
use osd::MemoryShares;

/// The most bytes of one client's message that an OSD receives although there is no room, because no other large one is
/// being received. It has at most two writes of 128 KiB, or 50 long values.
const MESSAGE_BYTES_MAX: usize = 640 << 10;
/// The most bytes of operations that start although there is no room. Always one of clients, one that asks for copies,
/// and one of another OSD may start. Each reads all of an object at most twice, which counts as 4 MiB each time.
const STARTED_BYTES_MAX: usize = 3 * (8 << 20);

/// The most bytes of the first part of a message of another OSD, which tells how long the message is.
const WAITING_PART_BYTES_MAX: usize = 64 << 10;

impl Cluster {
    /// Checks all OSDs that run, but for those in the midst of a turn: they settle their counts at its end.
    ///
    /// Errors: memory that is not counted, or was never given back, or is too much.
    pub(crate) fn memory_is_counted(&self) -> Result<(), String> {
        for osd in 0..self.osd_count() {
            let node = self.osd_node(osd);
            let looks = self.osd_runs(osd) && !self.world.is_amid_turn(node);
            let Some(process) = self.world.handler(node).filter(|_| looks) else { continue };
            let Program::Osd(program, _) = &process.program else { continue };
            let Some((memory, connections)) = program.memory_use() else { continue };
            let ((reserved, received), (unsent, not_taken)) = (connections.receiving, connections.unsent);
            if memory.counted != memory.found {
                let (counted, found) = (memory.counted, memory.found);
                return Err(format!("osd.{osd} counts {counted} bytes of clients' operations, and holds {found}"));
            }
            if reserved != received {
                return Err(format!("osd.{osd} counts {reserved} bytes that are being received, of {received}"));
            }
            if memory.copied != memory.copied_found {
                let (counted, found) = (memory.copied, memory.copied_found);
                return Err(format!("osd.{osd} counts {counted} bytes that copies have fetched, of {found}"));
            }
            if unsent != not_taken {
                return Err(format!("osd.{osd} counts {unsent} bytes of answers that were not taken, of {not_taken}"));
            }
            let (joined, found) = connections.joined;
            if joined != found {
                return Err(format!("osd.{osd} counts {joined} bytes of messages that came in part, of {found}"));
            }
            let (joins, reserved_bytes) = connections.joins;
            let share = MemoryShares::of(self.memory_bytes()).uncommitted_bytes as usize;
            if joins > 1 && reserved_bytes > share {
                return Err(format!(
                    "osd.{osd} puts messages of other OSDs together, of {share} bytes: {connections:?}"
                ));
            }
            if self.memory_bytes() < MEMORY_BYTES {
                // One turn may bring more of a message before its session is held.
                let of_waiting = connections.joins_waiting * (WAITING_PART_BYTES_MAX + LITTLE_WINDOW_BYTES);
                if joined > reserved_bytes + of_waiting {
                    return Err(format!("osd.{osd} has {joined} bytes of messages that came in part: {connections:?}"));
                }
                let share = (self.memory_bytes() / CLIENTS_SHARE) as usize * self.shards();
                // The data that one turn brings, on all connections, is there before it is counted.
                let turn = self.client_count() * LITTLE_WINDOW_BYTES + MESSAGE_BYTES_MAX + STARTED_BYTES_MAX;
                let held = memory.counted + memory.copied + memory.waiting + reserved;
                if held > share + turn {
                    return Err(format!("osd.{osd} holds {held} bytes for clients, of {share}: {memory:?}"));
                }
            }
        }
        Ok(())
    }
}
