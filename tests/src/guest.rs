//! A machine of its own: a guest of QEMU with a kernel of Debian, which does what a test tells it.

use crate::background::Killed;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longest time without a line from the guest while it carries out a command. Programs run many times slower there than
/// here, as QEMU translates their instructions.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How often the guest is asked for one answer.
const ANSWERS_MAX: usize = 3;
const QEMU: &str = "qemu-system-x86_64";

/// A guest that runs; dropped, it is killed. Its user network lets it reach what this machine's own programs reach.
pub struct Guest {
    // Killed with the guest. It is never asked again.
    _process: Killed,
    commands: ChildStdin,
    lines: Receiver<String>,
    /// All that was said between test and guest, with times.
    conversation: File,
    started: Instant,
    console: PathBuf,
}

/// The kernel called `name` that `tests/guest/prepare.py` has made ready, and its first file system.
pub struct Kernel {
    folder: PathBuf,
    pub release: String,
}

impl Kernel {
    /// `None`: it is not there, or QEMU is not. The test says so and ends. Kernel `stable` must be there if
    /// `NACRE_REQUIRE_ORACLES` is 1; which others there are is Debian's choice.
    #[track_caller]
    pub fn find(name: &str) -> Option<Kernel> {
        let test = std::env::current_exe().expect("own path");
        let target = test.ancestors().nth(3).expect("tests lie in target/PROFILE/deps");
        let folder = target.join("guest").join(name);
        let release = fs::read_to_string(folder.join("release"));
        let qemu = Command::new(QEMU).arg("--version").output();
        match (release, qemu) {
            (Ok(release), Ok(_)) => Some(Kernel { folder, release: release.trim().to_owned() }),
            (release, qemu) => {
                let missing = [release.err(), qemu.err()].into_iter().flatten().map(|e| e.to_string());
                let missing: Vec<_> = missing.collect();
                let required = std::env::var("NACRE_REQUIRE_ORACLES").is_ok_and(|v| v == "1") && name == "stable";
                assert!(!required, "no guest with {}: {missing:?}", folder.display());
                eprintln!("SKIPPED: no guest with {} ('make guest' makes it): {missing:?}", folder.display());
                None
            }
        }
    }
}

impl Guest {
    /// Boots a guest whose `/dev/vda` is the file `disk`, read-only. `logs`: the folder that gets what its kernel says
    /// (`guest-console.log`) and what it is told and answers (`guest.log`).
    ///
    /// QEMU translates the guest's instructions, on any machine alike. `NACRE_GUEST_ACCEL=kvm` has the processor carry
    /// them out.
    #[track_caller]
    pub fn boot(kernel: &Kernel, disk: &Path, logs: &Path) -> Guest {
        Guest::boot_with(kernel, disk, logs, &[])
    }

    /// As [`Guest::boot`], with more devices: arguments of QEMU.
    #[track_caller]
    pub fn boot_with(kernel: &Kernel, disk: &Path, logs: &Path, devices: &[String]) -> Guest {
        let console = logs.join("guest-console.log");
        let accelerator = std::env::var("NACRE_GUEST_ACCEL").unwrap_or_else(|_| "tcg".to_owned());
        // It ends with the test, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", QEMU]);
        // Linux 6.12 does not boot where QEMU 7.2 translates cmpxchg16b, so the guest has none.
        command.args(["-accel", &accelerator, "-cpu", "max,cx16=off"]);
        command.args(["-nodefaults", "-no-reboot", "-display", "none"]);
        // A busy machine's guest may count too few ticks while its kernel checks the timer, which then panics. System
        // calls are dearer where page tables change with each.
        let parameters = "console=ttyS0 panic=-1 no_timer_check mitigations=off";
        command.args(["-smp", "2", "-m", "512M", "-append", parameters]);
        command.arg("-kernel").arg(kernel.folder.join("vmlinuz"));
        command.arg("-initrd").arg(kernel.folder.join("initramfs"));
        command.args(["-chardev", &format!("file,id=console,path={}", console.display())]);
        command.args(["-serial", "chardev:console", "-serial", "stdio"]);
        command.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
        let drive = format!("file={},format=raw,if=none,id=disk,readonly=on", disk.display());
        command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]).args(devices);
        let conversation = File::create(logs.join("guest.log")).expect("a log can be made");
        let errors = conversation.try_clone().expect("a file");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"));
        let commands = child.stdin.take().expect("piped");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let (tell, lines) = channel();
        // Its output must find a reader.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        let started = Instant::now();
        let mut guest = Guest { _process: Killed(child), commands, lines, conversation, started, console };
        let ready = guest.first_line();
        assert_eq!(ready, format!("ready: Linux {}", kernel.release));
        guest
    }

    /// Waits for what it says once it has booted. What its kernel says meanwhile counts as progress.
    #[track_caller]
    fn first_line(&mut self) -> String {
        let (mut length, mut end) = (0, Instant::now() + SILENCE_MAX);
        loop {
            match self.lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => {
                    self.note(&line);
                    return line;
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the guest has ended: {}", self.end_of_console()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = fs::metadata(&self.console).map_or(0, |file| file.len());
            if now != length {
                (length, end) = (now, Instant::now() + SILENCE_MAX);
            }
            assert!(Instant::now() < end, "the guest does not boot: {}", self.end_of_console());
        }
    }

    /// Has its shell carry out a line. Gives what that said, line by line. Panics if its status is not 0, or if it says
    /// nothing for long.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Vec<String> {
        let (said, status) = self.try_to_run(line);
        assert!(status == 0, "'{line}' ends with status {status}: {said:#?}: {}", self.end_of_console());
        said
    }

    /// As [`Guest::run`], for a line that may fail: gives its status, too.
    #[track_caller]
    pub fn try_to_run(&mut self, line: &str) -> (Vec<String>, u32) {
        // Its terminal takes lines of 4 KiB.
        assert!(line.len() < 4000 && !line.contains('\n'), "no line: {line}");
        self.note(&format!("$ {line}"));
        writeln!(self.commands, "{line}").expect("the guest listens");
        for _ in 0..ANSWERS_MAX {
            let (said, status, bytes) = self.answer(line);
            // Each line ended with a newline.
            if said.iter().map(|line| line.len() + 1).sum::<usize>() == bytes {
                return (said, status);
            }
            self.note("$ again");
            writeln!(self.commands, "again").expect("the guest listens");
        }
        panic!("'{line}': the answer does not come whole: {}", self.end_of_console());
    }

    /// The lines that the guest's command `line` said, its status, and how many bytes it said in truth: its serial
    /// port may lose some.
    #[track_caller]
    fn answer(&mut self, line: &str) -> (Vec<String>, u32, usize) {
        let mut said = Vec::new();
        loop {
            let heard = self.lines.recv_timeout(SILENCE_MAX);
            let next = heard.unwrap_or_else(|e| panic!("'{line}': {e} after {said:#?}: {}", self.end_of_console()));
            self.note(&next);
            let end = next.strip_prefix("= ").and_then(|end| end.split_once(' '));
            if let Some((status, bytes)) = end {
                let number = |text: &str| text.trim().parse::<u32>().unwrap_or_else(|e| panic!("'{next}': {e}"));
                return (said, number(status), number(bytes) as usize);
            }
            said.push(next);
        }
    }

    /// All that its kernel has said.
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    fn end_of_console(&self) -> String {
        let text = self.console();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn note(&mut self, line: &str) {
        let at = self.started.elapsed().as_secs_f32();
        writeln!(self.conversation, "{at:7.2} {line}").expect("the log can be written");
    }
}
