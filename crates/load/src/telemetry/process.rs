//! Counters of one process, from `/proc/PID`.

use serde::{Deserialize, Serialize};

/// Running counts of a process, all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// CPU time, in steps of 10 ms.
    pub user_s: f64,
    pub system_s: f64,
    /// Resident memory now, and its peak since the start or the last [`forget_peak`].
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    /// Voluntary and forced switches, of the threads that live.
    pub context_switches: Option<u64>,
    /// Bytes read from and written to devices; absent for processes of other users.
    pub device_read_bytes: Option<u64>,
    pub device_written_bytes: Option<u64>,
}

impl Process {
    /// The sum of both. A count that one of them lacks is absent.
    pub fn plus(self, other: Process) -> Process {
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Process {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            memory_bytes: add(self.memory_bytes, other.memory_bytes),
            memory_peak_bytes: add(self.memory_peak_bytes, other.memory_peak_bytes),
            context_switches: add(self.context_switches, other.context_switches),
            device_read_bytes: add(self.device_read_bytes, other.device_read_bytes),
            device_written_bytes: add(self.device_written_bytes, other.device_written_bytes),
        }
    }

    /// Reads the counts; `None` if there is no such process.
    pub fn read(pid: u32) -> Option<Process> {
        let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let (user, system) = cpu_ticks(&file("stat")?)?;
        let status = file("status").unwrap_or_default();
        let io = file("io").unwrap_or_default();
        Some(Process {
            user_s: user as f64 * TICK_S,
            system_s: system as f64 * TICK_S,
            memory_bytes: status_kib(&status, "VmRSS:"),
            memory_peak_bytes: status_kib(&status, "VmHWM:"),
            context_switches: context_switches(pid),
            device_read_bytes: field(&io, "read_bytes:"),
            device_written_bytes: field(&io, "write_bytes:"),
        })
    }

    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// CPU time of child processes that have ended and were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Children {
    pub user_s: f64,
    pub system_s: f64,
}

impl Children {
    pub fn read() -> Option<Children> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // These fields come after the process's own user and system time.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
        let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 * TICK_S);
        Some(Children { user_s: seconds()?, system_s: seconds()? })
    }

    /// The difference to `before`.
    pub fn since(self, before: Children) -> Children {
        Children { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s }
    }
}

/// Makes the kernel count a process's peak memory from now on, if permitted.
pub fn forget_peak(pid: u32) {
    let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Seconds per tick of the kernel's times in `/proc`: a hundred ticks per second, whatever the kernel's own clock is.
pub const TICK_S: f64 = 0.01;

/// User and system time from the text of `stat`.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    // The program's name, in brackets, may contain any characters: fields are counted from the closing bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The number after `key`, which begins a line.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

fn status_kib(status: &str, key: &str) -> Option<u64> {
    field(status, key)?.checked_mul(1024)
}

fn context_switches(pid: u32) -> Option<u64> {
    let mut sum = None;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let voluntary = field(&status, "voluntary_ctxt_switches:")?;
        let forced = field(&status, "nonvoluntary_ctxt_switches:")?;
        *sum.get_or_insert(0u64) += voluntary + forced;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let stat = "12 (a) b) (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 100 1 2";
        assert_eq!(cpu_ticks(stat), Some((250, 50)));
        assert_eq!(cpu_ticks("12 (a) S 1"), None);
        assert_eq!(cpu_ticks(""), None);
        let status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t    4 kB\nvoluntary_ctxt_switches:\t7\n";
        assert_eq!(status_kib(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(status_kib(status, "VmSwap:"), None);
        assert_eq!(field(status, "voluntary_ctxt_switches:"), Some(7));
    }

    #[test]
    fn children_count_once_they_have_ended() {
        let before = Children::read().unwrap();
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        assert!(command.status().unwrap().success());
        let spent = Children::read().unwrap().since(before);
        assert!(spent.user_s + spent.system_s > 0.0, "{spent:?}");
    }

    #[test]
    fn own_process() {
        let before = Process::read(std::process::id()).unwrap();
        // The loop runs until some time has been counted, however busy the machine is.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let mut after = before;
        while after.cpu_s() <= before.cpu_s() {
            assert!(std::time::Instant::now() < end, "{before:?} {after:?}");
            std::hint::black_box((0..100_000).sum::<u64>());
            after = Process::read(std::process::id()).unwrap();
        }
        assert!(after.memory_bytes.unwrap() > 1 << 20 && after.memory_peak_bytes >= after.memory_bytes);
        assert!(after.context_switches.is_some());
        assert_eq!(Process::read(u32::MAX), None);
    }
}
