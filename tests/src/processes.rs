//! The machine's state when a command did not end: was it the command, a daemon, or neither that got to run?

use std::fs;
use std::process::{Command, Stdio};

/// The load, every daemon of Nacre on this machine, and each thread of process `pid` with its stack if gdb can tell.
pub fn circumstances(pid: u32) -> String {
    let mut lines = vec![format!("load {}", fs::read_to_string("/proc/loadavg").unwrap_or_default().trim())];
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let words = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default().replace('\0', " ");
        if id == pid || words.split(' ').next().is_some_and(|program| program.ends_with("nacre")) {
            lines.push(format!("{} {words}", thread_line(&format!("/proc/{id}"))));
        }
    }
    for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        lines.push(format!("  thread {}", thread_line(&entry.path().to_string_lossy())));
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-p", &pid.to_string(), "-batch", "-ex", "thread apply all bt 12"]).stdin(Stdio::null());
    let stacks = gdb.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    lines.push(stacks.unwrap_or_else(|e| format!("no stacks: gdb: {e}")));
    lines.join("\n")
}

/// Id, name, state (`T`: stopped by a signal), ticks of CPU time as user and as system, and where it sleeps.
fn thread_line(folder: &str) -> String {
    let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
    let (name, rest) = stat.rsplit_once(')').unwrap_or(("", ""));
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |n: usize| fields.get(n).copied().unwrap_or("?");
    let place = fs::read_to_string(format!("{folder}/wchan")).unwrap_or_default();
    format!("{name}) {} user {} system {} in {place}", field(0), field(11), field(12))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_is_described() {
        let text = super::circumstances(std::process::id());
        assert!(text.starts_with("load ") && text.contains("  thread ") && text.contains(" user "), "{text}");
    }
}
