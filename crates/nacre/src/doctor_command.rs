//! `nacre doctor`: what on this machine costs performance or safety.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use doctor::changes::{Outcome, changes};
use doctor::torture::record::RECORD_BYTES;
use doctor::torture::{DriveFacts, FileMedium, Judgement, Kept, Timing, ring, timing};
use doctor::{Change, Machine, Probed, Profile, Undo, examine};
use serde_json::json;

use crate::cli::doctor::{Doctor, Step};
use crate::pages;

/// Readings of the clock that are timed.
const CLOCK_READINGS: u32 = 10_000;
/// Time between two numbers that the first step of a torture shows.
const SHOW: Duration = Duration::from_millis(100);

/// Runs the command; returns the exit status: 1 if something endangers data or costs performance.
pub fn run(options: &Doctor) -> Result<u8> {
    if let Some(path) = &options.torture {
        return torture(path, options);
    }
    if let Some(path) = &options.undo {
        return undo(&Machine::this(Probed::default()), path, options.yes);
    }
    let machine = Machine::this(probed());
    let profile = options.profile.as_deref().map(profile).transpose()?;
    let found = examine(&machine, profile.as_ref());
    let changes = changes(&machine, &found.findings);
    if options.fix {
        return fix(&machine, changes, options);
    }
    if options.json {
        print!("{}", doctor::page::json(&machine, &found, &changes));
    } else {
        let page = doctor::page::page(&machine, &found, &changes);
        match &options.html {
            Some(path) => {
                pages::write(path, &page.to_html(&format!("Made by nacre {}.", env!("CARGO_PKG_VERSION"))))?;
                eprintln!("what was found is in {}", path.display());
            }
            None => print!("{}", page.to_text(pages::width())),
        }
        if !changes.is_empty() {
            eprintln!("'nacre doctor --fix' shows the {} settings that it would change, and asks", changes.len());
        }
    }
    Ok(found.is_bad().into())
}

/// Tries out what no file tells.
fn probed() -> Probed {
    let config = reactor::Config { backend: reactor::BackendKind::Uring, ..reactor::Config::default() };
    let begin = Instant::now();
    let mut last = begin;
    for _ in 0..CLOCK_READINGS {
        last = Instant::now();
    }
    let clock_read_ns = last.duration_since(begin).as_nanos() as f64 / f64::from(CLOCK_READINGS);
    Probed { io_uring: Some(reactor::Reactor::new(config).is_ok()), clock_read_ns: Some(clock_read_ns) }
}

fn profile(name: &str) -> Result<Profile> {
    if name == "reference" {
        return Ok(Profile::reference());
    }
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("cannot read the profile {name} (the shipped one is called 'reference')"))?;
    Profile::from_toml(&text).with_context(|| format!("{name} cannot be used"))
}

fn fix(machine: &Machine, changes: Vec<Change>, options: &Doctor) -> Result<u8> {
    if changes.is_empty() {
        println!("no setting would mend anything; 'nacre doctor' shows what people must do");
        return Ok(0);
    }
    println!("settings to change until the machine boots:");
    for change in &changes {
        println!("  {}: {} -> {}", change.path, change.before, change.after);
    }
    if !confirmed(options.yes, "change them?")? {
        println!("nothing was changed");
        return Ok(1);
    }
    let path = options
        .undo_file
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("nacre-doctor-undo-{}.json", crate::bench::time_stamp())));
    // The way back is on the drive before the first step is taken.
    let text = Undo::new(machine, changes.clone()).to_json();
    write_new(&path, &text).with_context(|| format!("cannot write {}; nothing was changed", path.display()))?;
    let outcomes: Vec<(Change, Outcome)> =
        changes.into_iter().map(|change| (change.clone(), change.apply(machine))).collect();
    let status = tell(&outcomes);
    println!("'nacre doctor --undo {}' takes it back", path.display());
    Ok(status)
}

fn undo(machine: &Machine, path: &Path, yes: bool) -> Result<u8> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let undo = Undo::from_json(&text, machine).with_context(|| format!("{} cannot be used", path.display()))?;
    println!("settings to take back:");
    for change in undo.changes.iter().rev() {
        println!("  {}: {} -> {}", change.path, change.after, change.before);
    }
    if !confirmed(yes, "take them back?")? {
        println!("nothing was changed");
        return Ok(1);
    }
    Ok(tell(&undo.revert(machine)))
}

/// Tells what became of changes; 1 if one of them was not made.
fn tell(outcomes: &[(Change, Outcome)]) -> u8 {
    let done = outcomes.iter().filter(|(_, outcome)| outcome.is_good()).count();
    for (change, outcome) in outcomes {
        match outcome {
            Outcome::Done | Outcome::Already => {}
            Outcome::ChangedSince(now) => {
                println!("left alone: {} is {now}, as somebody else has made it", change.path)
            }
            Outcome::Failed(why) => println!("failed: {}: {why}", change.path),
        }
    }
    println!("{done} of {} settings are as they were to be", outcomes.len());
    u8::from(done < outcomes.len())
}

fn confirmed(yes: bool, question: &str) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked; --yes changes without asking");
    }
    print!("{question} [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes a file that was not there, durably, its name included.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn torture(path: &Path, options: &Doctor) -> Result<u8> {
    let bytes = u64::from(ring::SLOTS) * RECORD_BYTES as u64;
    let failed = || format!("the test of {} failed", path.display());
    match options.step {
        Step::Measure => {
            let mut medium = FileMedium::create(path, bytes)?;
            let timing = timing::measure(&mut medium).with_context(failed)?;
            let drives = drives_under(&Machine::this(Probed::default()), path);
            Ok(tell_timing(&medium, &timing, &drives, options.json))
        }
        Step::Write => {
            let mut medium = FileMedium::create(path, bytes)?;
            let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let run = u64::from(since.subsec_nanos()) << 32 ^ since.as_secs() ^ u64::from(std::process::id()) << 16;
            println!(
                "numbers of records that are flushed; cut the power, then 'nacre doctor --torture {} --step verify \
                      --acknowledged NUMBER' with the last one",
                path.display()
            );
            let (mut last, mut shown) = (0, Instant::now());
            ring::write(&mut medium, ring::SLOTS, run, |sequence| {
                last = sequence;
                if shown.elapsed() >= SHOW {
                    println!("{sequence}");
                    shown = Instant::now();
                }
                end.is_none_or(|end| Instant::now() < end)
            })
            .with_context(failed)?;
            println!("{last}");
            Ok(0)
        }
        Step::Verify => {
            let mut medium = FileMedium::open(path, bytes)?;
            let kept = ring::verify(&mut medium, ring::SLOTS, options.acknowledged)?;
            Ok(tell_kept(&kept, options))
        }
    }
}

/// Drives under a file: those of which a device mapper's or a RAID is made, each.
fn drives_under(machine: &Machine, path: &Path) -> Vec<DriveFacts> {
    let mut names: Vec<String> = crate::machine::drive_of(path).into_iter().collect();
    for _ in 0..8 {
        names = names
            .into_iter()
            .flat_map(|name| {
                let below = machine.list(&format!("/sys/block/{name}/slaves"));
                if below.is_empty() { vec![name] } else { below }
            })
            .collect();
    }
    names.iter().map(|name| DriveFacts::of(machine, name)).collect()
}

fn tell_timing(medium: &FileMedium, timing: &Timing, drives: &[DriveFacts], json: bool) -> u8 {
    let judgement = drives.iter().map(|drive| timing::judge(timing, Some(drive))).max();
    let judgement = judgement.unwrap_or(Judgement::NoDrive);
    if json {
        let all = json!({"format": "nacre-doctor-torture", "version": 1, "path": medium.path, "direct": medium.is_direct,
                         "timing": timing, "drives": drives, "judgement": judgement});
        println!("{all:#}");
    } else {
        let names: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
        println!(
            "{}, on {}",
            medium.path.display(),
            if names.is_empty() { "no drive".into() } else { names.join(", ") }
        );
        println!(
            "a write of 4 KiB takes {:.0} us, a flush after it {:.0} us (p99 {:.0}), one with nothing to flush {:.0}",
            timing.write_us, timing.flush_us, timing.flush_p99_us, timing.idle_flush_us
        );
        println!("{}", judgement.words());
    }
    judgement.is_bad().into()
}

fn tell_kept(kept: &Kept, options: &Doctor) -> u8 {
    if options.json {
        let all =
            json!({"format": "nacre-doctor-kept", "version": 1, "acknowledged": options.acknowledged, "kept": kept});
        println!("{all:#}");
    } else {
        println!("the newest record is {}; all up to {} had been flushed", kept.newest, kept.flushed);
        match (kept.lost.as_slice(), options.acknowledged) {
            ([], Some(_)) => println!("all are there: the drive kept its word"),
            ([], None) => println!(
                "none is missing between others; --acknowledged, with the last number that was shown, tells if the last \
                 ones are missing, too"
            ),
            (lost, _) => {
                let shown: Vec<String> = lost.iter().take(10).map(u64::to_string).collect();
                println!(
                    "{} are LOST, though they had been flushed: {}{}",
                    lost.len(),
                    shown.join(", "),
                    if lost.len() > shown.len() { ", ..." } else { "" }
                );
            }
        }
    }
    u8::from(!kept.is_good())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn options(args: &[&str]) -> Doctor {
        let command = Cli::try_parse_from([&["nacre", "doctor"], args].concat()).unwrap().command;
        let Command::Doctor(options) = command else { panic!("{command:?}") };
        options
    }

    /// A machine with one fault.
    fn sick(folder: &Path) -> (Machine, PathBuf) {
        let (proc, setting) = (folder.join("proc/sys/vm"), folder.join("proc/sys/vm/zone_reclaim_mode"));
        std::fs::create_dir_all(&proc).unwrap();
        std::fs::write(&setting, "1\n").unwrap();
        (Machine::at(folder, Probed::default()), setting)
    }

    #[test]
    fn what_is_fixed_is_taken_back() {
        let folder = crate::scratch::Scratch::new();
        let (machine, setting) = sick(folder.path());
        let read = || std::fs::read_to_string(&setting).unwrap();
        let file = folder.path().join("undo.json");
        let asked = options(&["--fix", "--yes", "--undo-file", &file.display().to_string()]);
        let found = || changes(&machine, &examine(&machine, None).findings);
        assert_eq!(fix(&machine, found(), &asked).unwrap(), 0);
        assert_eq!(read(), "0\n");
        assert_eq!(fix(&machine, found(), &asked).unwrap(), 0, "there is nothing to do");
        assert_eq!(undo(&machine, &file, true).unwrap(), 0);
        assert_eq!(read(), "1\n");
        let error = format!("{:#}", fix(&machine, found(), &asked).unwrap_err());
        assert!(error.contains("nothing was changed"), "the file is there: {error}");
        assert_eq!(read(), "1\n");
        std::fs::write(&setting, "4\n").unwrap();
        assert_eq!(undo(&machine, &file, true).unwrap(), 1, "somebody else has changed it");
        assert_eq!(read(), "4\n");
    }

    #[test]
    fn two_steps_of_a_torture() {
        let folder = crate::scratch::Scratch::new();
        let file = folder.path().join("t");
        let path = file.display().to_string();
        assert_eq!(run(&options(&["--torture", &path, "--step", "write", "--seconds", "0.2"])).unwrap(), 0);
        assert_eq!(run(&options(&["--torture", &path, "--step", "verify"])).unwrap(), 0);
        let seen = ["--torture", &path, "--step", "verify", "--acknowledged", "100000000"];
        assert_eq!(run(&options(&seen)).unwrap(), 1, "so many were not written");
        assert!(run(&options(&["--torture", &path, "--step", "measure"])).is_ok());
        std::fs::write(&file, "mine").unwrap();
        assert!(run(&options(&["--torture", &path])).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        for bad in [
            &["--fix", "--undo", "f"][..],
            &["--step", "write"],
            &["--undo-file", "f"],
            &["--torture", "f", "--fix"],
            &["--json", "--html", "f"],
        ] {
            assert!(Cli::try_parse_from([&["nacre", "doctor"], bad].concat()).is_err(), "{bad:?}");
        }
        assert!(profile("no-such-profile").unwrap_err().to_string().contains("'reference'"));
        assert_eq!(profile("reference").unwrap().name, "reference");
    }

    #[test]
    fn this_machine_is_looked_at() {
        let probed = probed();
        assert!(probed.io_uring.is_some() && probed.clock_read_ns.is_some_and(|ns| ns > 0.0), "{probed:?}");
        let folder = crate::scratch::Scratch::new();
        let html = folder.path().join("page.html");
        run(&options(&["--html", &html.display().to_string(), "--profile", "reference"])).unwrap();
        assert!(std::fs::read_to_string(html).unwrap().contains("What this machine costs a storage cluster"));
    }
}
