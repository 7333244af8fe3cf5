//! Memory of OSDs: what each counts is what it has, and no more than it may have.

use crate::cluster::{CLIENTS_SHARE, Cluster, LITTLE_WINDOW_BYTES, MEMORY_BYTES};
use crate::process::Program;

/// What one message of a client may bring that is received where there is no room: the first of some size. It writes
/// twice 128 KiB at most.
const MESSAGE_BYTES_MAX: usize = 320 << 10;
/// Bytes that operations are taken to bring which start where there is no room. One of clients always may, one that
/// asks for copies, and one of another OSD. Each reads all of an object at most twice, which is taken for 4 MiB each
/// time.
const STARTED_BYTES_MAX: usize = 3 * (8 << 20);

impl Cluster {
    /// Looks at all OSDs that run.
    ///
    /// Errors: what is not counted, or never given back, or too much.
    pub(crate) fn memory_is_counted(&self) -> Result<(), String> {
        for osd in 0..self.osd_count() {
            let Some(process) = self.world.handler(self.osd_node(osd)).filter(|_| self.osd_runs(osd)) else { continue };
            let Program::Osd(program, _) = &process.program else { continue };
            let Some((memory, (reserved, received))) = program.memory_use() else { continue };
            if memory.counted != memory.found {
                let (counted, found) = (memory.counted, memory.found);
                return Err(format!("osd.{osd} counts {counted} bytes of clients' operations, and holds {found}"));
            }
            if reserved != received {
                return Err(format!("osd.{osd} counts {reserved} bytes that are being received, of {received}"));
            }
            if self.memory_bytes() < MEMORY_BYTES {
                let share = (self.memory_bytes() / CLIENTS_SHARE) as usize * self.shards();
                // What one turn brings, on all connections, is there before it is counted.
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
