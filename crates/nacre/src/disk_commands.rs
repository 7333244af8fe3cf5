//! `nacre disk`: drives are listed, divided for OSDs, and wiped. Crate `drives` decides and does it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use drives::namespaces::{Controller, divide};
use drives::wipe::{Depth, wipe};
use drives::{By, Drive, Inventory, Purpose, Step, Wanted, carry_out, page, prepare};
use serde_json::Value;

use crate::cli::disk::{Disk, DiskList, DiskNamespaces, DiskPrepare, DiskWipe, Division};
use crate::pages;

/// Runs the command.
pub fn run(command: &Disk) -> Result<()> {
    match command {
        Disk::List(options) => list(options),
        Disk::Prepare(options) => prepare_drives(options),
        Disk::Wipe(options) => wipe_drives(options),
        Disk::Namespaces(options) => namespaces(options),
    }
}

fn find(paths: &[PathBuf]) -> Result<Vec<Drive>> {
    let inventory = Inventory::this();
    Ok(paths.iter().map(|path| inventory.drive(path)).collect::<Result<_, _>>()?)
}

fn list(options: &DiskList) -> Result<()> {
    let drives = if options.drives.is_empty() { Inventory::this().drives()? } else { find(&options.drives)? };
    match options.json {
        true => print!("{}", page::list_json(&drives)),
        false => print!("{}", page::list(&drives).to_text(pages::width())),
    }
    Ok(())
}

fn prepare_drives(options: &DiskPrepare) -> Result<()> {
    let preparation = prepare(&Wanted {
        data: find(&options.drives)?,
        osds_per_drive: options.osds_per_drive,
        wal: find(&options.wal)?,
        wal_bytes: options.wal_size.0,
        metadata: find(&options.metadata)?,
        metadata_bytes: options.metadata_size.map(|size| size.0),
        by: match options.by {
            Division::Partitions => By::Partitions,
            Division::Lvm => By::Lvm,
        },
    })?;
    if options.yes {
        carry_out_all(&preparation.steps, options.json)?;
    }
    if options.json {
        print!("{}", page::preparation_json(&preparation, options.yes));
        return Ok(());
    }
    for path in &preparation.ready {
        println!("{} is divided so already", path.display());
    }
    show(&preparation.steps, options.yes);
    println!("\nOSDs, each made by 'nacre osd --mkfs' with links or flags to its areas:");
    for areas in &preparation.osds {
        let more = [("log", &areas.wal), ("metadata", &areas.metadata)];
        let more = more.iter().filter_map(|(what, path)| Some(format!(", {what} {}", path.as_ref()?.display())));
        println!("data {} ({} MiB){}", areas.data.display(), areas.data_bytes >> 20, more.collect::<String>());
    }
    Ok(())
}

fn wipe_drives(options: &DiskWipe) -> Result<()> {
    let depth = if options.quick { Depth::Marks } else { Depth::All };
    let steps = wipe(&find(&options.drives)?, depth)?;
    finish(&steps, options.yes, options.json)
}

fn namespaces(options: &DiskNamespaces) -> Result<()> {
    let path = &options.controller;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_controller = name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok());
    if !is_controller {
        bail!("{} is no NVMe controller; name one such as /dev/nvme0", path.display());
    }
    // Namespaces that somebody uses are not deleted.
    let drives = Inventory::this().drives()?;
    let own: Vec<Drive> = drives.into_iter().filter(|drive| drive.name.starts_with(&format!("{name}n"))).collect();
    for drive in &own {
        if let Some(why) = drives::obstacle::obstacles(drive, Purpose::Wipe).first() {
            bail!("{}: {why}", drive.path.display());
        }
    }
    let first = own.first().with_context(|| format!("{} has no namespace that tells its format", path.display()))?;
    let controller = Controller::of(&nvme("id-ctrl", path)?, &nvme("id-ns", &first.path)?)?;
    let older: Vec<PathBuf> = own.iter().map(|drive| drive.path.clone()).collect();
    finish(&divide(path, controller, options.count, &older)?, options.yes, options.json)
}

/// An answer of nvme-cli.
fn nvme(command: &str, path: &Path) -> Result<Value> {
    let output = Command::new("nvme").arg(command).arg(path).args(["--output-format", "json"]).output();
    let output = output.context("cannot run nvme; on Debian it is in the package nvme-cli")?;
    if !output.status.success() {
        bail!("'nvme {command} {}': {}", path.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("'nvme {command}' answered with no JSON"))
}

fn finish(steps: &[Step], yes: bool, json: bool) -> Result<()> {
    if yes {
        carry_out_all(steps, json)?;
    }
    match json {
        true => print!("{}", page::steps_json(steps, yes)),
        false => show(steps, yes),
    }
    Ok(())
}

/// Does one step after the other.
fn carry_out_all(steps: &[Step], quietly: bool) -> Result<()> {
    for (index, step) in steps.iter().enumerate() {
        if !quietly {
            eprintln!("{step}");
        }
        let left = steps.len() - index;
        carry_out(step).with_context(|| format!("{index} steps were done, and {left} were not"))?;
    }
    Ok(())
}

fn show(steps: &[Step], done: bool) {
    if done {
        println!("done: {} steps", steps.len());
    } else if !steps.is_empty() {
        println!("nothing was done; with --yes this would be:");
        steps.iter().for_each(|step| println!("  {step}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command as Commands};
    use crate::scratch::Scratch;
    use clap::Parser;

    fn disk(args: &[&str]) -> Result<()> {
        let command = Cli::try_parse_from([&["nacre", "disk"], args].concat())?.command;
        let Commands::Disk(command) = command else { panic!("{command:?}") };
        run(&command)
    }

    #[test]
    fn a_drive_in_a_file_is_prepared_once_and_wiped() {
        let is_there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|folder: PathBuf| folder.join("sgdisk").is_file());
        if !is_there {
            eprintln!("SKIPPED: sgdisk is not installed");
            return;
        }
        let dir = Scratch::new();
        let image = dir.path().join("drive");
        std::fs::File::create(&image).unwrap().set_len(4 << 30).unwrap();
        let path = image.to_str().unwrap();
        let content = || devices::occupant_of(&image).unwrap().map(|occupant| occupant.to_string());
        let arguments = ["prepare", path, "--osds-per-drive", "2"];
        disk(&arguments).unwrap();
        assert_eq!(content(), None, "nothing is done without --yes");
        let with_yes = [&arguments[..], &["--yes"]].concat();
        disk(&with_yes).unwrap();
        let labels = || {
            let drive = Inventory::this().drive(&image).unwrap();
            drive.partitions.iter().map(|part| (part.label.clone(), part.bytes)).collect::<Vec<_>>()
        };
        let bytes = 2044 << 20;
        assert_eq!(labels(), [("nacre-data-0".to_owned(), bytes), ("nacre-data-1".to_owned(), bytes)]);
        let made = std::fs::metadata(&image).unwrap().modified().unwrap();
        disk(&with_yes).unwrap();
        assert_eq!(std::fs::metadata(&image).unwrap().modified().unwrap(), made, "it was ready");
        let error = disk(&["prepare", path, "--yes"]).unwrap_err().to_string();
        assert!(error.contains("2 partitions that are not those asked for"), "{error}");
        disk(&["wipe", path, "--quick"]).unwrap();
        assert!(content().is_some(), "nothing is done without --yes");
        disk(&["wipe", path, "--quick", "--yes"]).unwrap();
        assert_eq!((content(), labels()), (None, Vec::new()));
    }

    #[test]
    fn an_image_that_an_osd_has_is_not_wiped() {
        let dir = Scratch::new();
        let image = dir.path().join("block");
        std::fs::write(&image, vec![5; 4 << 20]).unwrap();
        let osd = std::fs::File::open(&image).unwrap();
        rustix::fs::flock(&osd, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = disk(&["wipe", image.to_str().unwrap(), "--yes"]).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(osd);
        disk(&["wipe", image.to_str().unwrap(), "--yes"]).unwrap();
        assert!(std::fs::read(&image).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_is_no_drive_is_refused() {
        let dir = Scratch::new();
        assert!(
            disk(&["wipe", dir.path().to_str().unwrap()]).unwrap_err().to_string().contains("neither a whole drive")
        );
        let missing = dir.path().join("none");
        assert!(disk(&["list", missing.to_str().unwrap()]).unwrap_err().to_string().contains("cannot look at"));
        let error = disk(&["namespaces", "/dev/sda", "--count", "2"]).unwrap_err().to_string();
        assert!(error.contains("no NVMe controller"), "{error}");
        for args in [
            &["prepare"][..],
            &["wipe"],
            &["prepare", "x", "--wal-size", "1GiB"],
            &["prepare", "x", "--osds-per-drive", "0"],
        ] {
            assert!(Cli::try_parse_from([&["nacre", "disk"], args].concat()).is_err(), "{args:?}");
        }
    }
}
