//! The machine: files below a root, commands, and facts that only a system call tells.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Longest time that a command may take, for `timeout`.
const COMMAND_SECONDS: &str = "10";
/// Folder of a recorded machine with the outputs of commands.
const RECORDED: &str = "commands";
/// Beginnings of names of block devices that are no drives.
const NO_DRIVES: [&str; 9] = ["loop", "ram", "zram", "sr", "fd", "nbd", "dm-", "md", "zd"];

/// A machine. All paths are absolute, as on the machine itself.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    is_recorded: bool,
    pub probed: Probed,
    /// Answers of commands that were run: a drive that hangs is asked once.
    told: RefCell<BTreeMap<String, Option<String>>>,
}

/// Facts that were tried out; `None` where nobody tried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probed {
    /// Rings of io_uring can be made.
    pub io_uring: Option<bool>,
    /// Time that it takes to read the clock, in ns.
    pub clock_read_ns: Option<f64>,
}

impl Machine {
    /// The machine on which this runs.
    pub fn this(probed: Probed) -> Machine {
        Machine { root: "/".into(), is_recorded: false, probed, told: RefCell::default() }
    }

    /// A machine as a folder of files: `proc`, `sys`, `run` as they lie on it, and `commands` with a file for each
    /// command that it would run, named by the command line with `_` for `/`.
    pub fn at(root: impl Into<PathBuf>, probed: Probed) -> Machine {
        Machine { root: root.into(), is_recorded: true, probed, told: RefCell::default() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without the white space around it; `None` if it is not there or cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read(self.path(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// A setting in its plain form: of choices (`a [b] c`) the one that is made, of several numbers single spaces.
    pub fn setting(&self, path: &str) -> Option<String> {
        self.read(path).map(|text| plain_setting(&text))
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder, sorted as people count; none if there is no such folder.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_key(|name| {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let number: u64 = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().unwrap_or(0);
            (name[..name.len() - digits.len()].to_owned(), number, name.clone())
        });
        names
    }

    /// Writes a setting.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        std::fs::write(self.path(path), format!("{value}\n"))
    }

    /// Standard output of a command, which is run once; `None` if it cannot be run or says nothing.
    pub fn command(&self, words: &[&str]) -> Option<String> {
        if self.is_recorded {
            return self.read(&format!("{RECORDED}/{}", words.join(" ").replace('/', "_")));
        }
        self.told.borrow_mut().entry(words.join(" ")).or_insert_with(|| output(words)).clone()
    }

    /// Folders of the processors that are online.
    pub fn processors(&self) -> Vec<String> {
        let folder = "/sys/devices/system/cpu";
        let is_one = |name: &String| {
            name.strip_prefix("cpu").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
        };
        let paths = self.list(folder).into_iter().filter(is_one).map(|name| format!("{folder}/{name}"));
        paths.filter(|path| self.number(&format!("{path}/online")) != Some(0)).collect()
    }

    /// Names of drives.
    pub fn drives(&self) -> Vec<String> {
        let names = self.list("/sys/block").into_iter();
        let is_drive = |name: &String| {
            let other = NO_DRIVES.iter().any(|start| {
                name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            });
            !other && self.number(&format!("/sys/block/{name}/size")) != Some(0)
        };
        names.filter(is_drive).collect()
    }

    /// Names of interfaces that belong to a device and are up.
    pub fn interfaces(&self) -> Vec<String> {
        let file = |name: &String, what: &str| format!("/sys/class/net/{name}/{what}");
        let is_up = |name: &String| {
            self.exists(&file(name, "device")) && self.read(&file(name, "operstate")).as_deref() == Some("up")
        };
        self.list("/sys/class/net").into_iter().filter(is_up).collect()
    }

    /// Memory in KiB.
    pub fn memory_kib(&self) -> Option<u64> {
        let table = self.read("/proc/meminfo")?;
        let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Name, kernel and sizes, for headings.
    pub fn facts(&self) -> Vec<(String, String)> {
        let text = |path: &str| self.read(path).unwrap_or_default();
        let model = self.read("/proc/cpuinfo").and_then(|table| {
            let line = table.lines().find(|line| line.starts_with("model name"))?;
            line.split_once(':').map(|(_, name)| name.trim().to_owned())
        });
        let memory = self.memory_kib().map(|kib| format!("{:.1} GiB", kib as f64 / f64::from(1 << 20)));
        let facts = [
            ("host", text("/proc/sys/kernel/hostname")),
            ("kernel", text("/proc/sys/kernel/osrelease")),
            ("processors", format!("{} {}", self.processors().len(), model.unwrap_or_default()).trim().to_owned()),
            ("memory", memory.unwrap_or_default()),
            ("drives", self.drives().join(", ")),
            ("interfaces", self.interfaces().join(", ")),
        ];
        facts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.into(), value)).collect()
    }
}

fn output(words: &[&str]) -> Option<String> {
    let mut command = Command::new("timeout");
    command.arg(COMMAND_SECONDS).args(words).stdin(Stdio::null()).stderr(Stdio::null()).env("LC_ALL", "C");
    let text = String::from_utf8_lossy(&command.output().ok()?.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// A setting in its plain form, as [`Machine::setting`] has it.
pub fn plain_setting(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    chosen.map_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}
