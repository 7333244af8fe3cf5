//! Facts that daemons tell about the machine that they run on, under Ceph's names.

use std::collections::BTreeMap;
use std::path::Path;

/// Facts that `ceph mon metadata` and `ceph osd metadata` show of it.
pub fn facts() -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (memory, cpus, release) = (read("/proc/meminfo"), read("/proc/cpuinfo"), read("/etc/os-release"));
    let kib = |key: &str| field(&memory, key, ':').unwrap_or("0").trim_end_matches(" kB").to_owned();
    let system = |key: &str| field(&release, key, '=').unwrap_or_default().trim_matches('"').to_owned();
    [
        ("arch", text(uname.machine())),
        // A process cannot tell the name of its container.
        ("container_name", String::new()),
        ("cpu", field(&cpus, "model name", ':').unwrap_or_default().to_owned()),
        ("distro", system("ID")),
        ("distro_description", system("PRETTY_NAME")),
        ("distro_version", system("VERSION_ID")),
        ("hostname", text(uname.nodename())),
        ("kernel_description", text(uname.version())),
        ("kernel_version", text(uname.release())),
        ("mem_swap_kb", kib("SwapTotal")),
        ("mem_total_kb", kib("MemTotal")),
        ("os", text(uname.sysname())),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// The first value of `key` in lines of keys and values.
fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let values = text.lines().filter_map(|line| line.split_once(separator));
    values.into_iter().find_map(|(name, value)| (name.trim() == key).then_some(value.trim()))
}

/// The name of the drive under a file or block device (`sda`, `nvme0n1`); `None` where there is none that is known.
pub fn drive_of(path: &Path) -> Option<String> {
    use std::os::linux::fs::MetadataExt;
    use std::os::unix::fs::FileTypeExt;
    let metadata = std::fs::metadata(path).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.st_rdev() } else { metadata.st_dev() };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition lies in the folder of its drive.
    let drive = if device.join("partition").exists() { device.parent()? } else { &device };
    Some(drive.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys() {
        let text = "MemTotal:       16314432 kB\nMemFree:  1 kB\nmodel name\t: A CPU\nNAME=\"Debian\"\nID=debian\n";
        assert_eq!(field(text, "MemTotal", ':'), Some("16314432 kB"));
        assert_eq!(field(text, "model name", ':'), Some("A CPU"));
        assert_eq!((field(text, "ID", '='), field(text, "VERSION_ID", '=')), (Some("debian"), None));
    }

    #[test]
    fn this_machine_is_told_of() {
        let facts = facts();
        let known = |key: &str| facts.get(key).is_some_and(|value| !value.is_empty());
        assert!(["arch", "hostname", "kernel_version", "os"].into_iter().all(known), "{facts:?}");
        assert!(facts["mem_total_kb"].parse::<u64>().is_ok_and(|kib| kib > 1024), "{facts:?}");
        assert_eq!(drive_of(Path::new("/no/such/file")), None);
    }
}
