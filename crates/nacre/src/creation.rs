//! Makes a new cluster's files, or none.

use crate::ceph_engine;
use crate::conf_writer::{admin_keyring, ceph_conf, keyring_of};
use crate::layout::Layout;
use crate::new_keys;
use crate::process::daemon_args;
use crate::report::{Event, Report};
use crate::state_file::{ClusterState, Engine, mon_id, write_durably};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Initialises everything that `state` says in `layout`'s directory, which exists and is empty but for `run/`. The
/// state file is saved first as not complete, and last as complete: a creation that was cut off is recognised.
///
/// Errors: whatever went wrong; call [`clear`] then.
pub async fn create(layout: &Layout, state: &ClusterState, program: &Path, report: &mut Report) -> Result<()> {
    ClusterState { complete: false, ..state.clone() }.save(layout)?;
    std::fs::create_dir_all(layout.log_dir())
        .with_context(|| format!("cannot create {}", layout.log_dir().display()))?;
    let mut keyring = admin_keyring()?;
    if state.engine == Engine::Ceph {
        // Ceph's monitors are made with a key, used or not. All know everybody's whom the keyring names then.
        keyring += &keyring_of("mon.", &["mon"])?;
        for daemon in state.daemons().iter().filter(|daemon| state.cephx && !daemon.starts_with("mon.")) {
            keyring += &keyring_of(daemon, &["mgr", "mon", "osd"])?;
        }
    }
    write_durably(&layout.keyring(), keyring.as_bytes(), 0o600)?;
    if state.cephx && state.engine.is_nacre() {
        new_keys::give_first(layout, state, &keyring)?;
    }
    write_durably(&layout.conf(), ceph_conf(layout, state).as_bytes(), 0o644)?;
    let daemons = state.daemons();
    for (index, daemon) in daemons.iter().enumerate() {
        report.send(Event::Step(format!("creating {daemon} ({} of {})", index + 1, daemons.len())))?;
        match state.engine {
            Engine::Nacre => mkfs(layout, daemon, program, None).await?,
            Engine::Ceph => ceph_engine::make(layout, state, daemon).await?,
        }
    }
    new_keys::forget_first(layout)?;
    ClusterState { complete: true, ..state.clone() }.save(layout)
}

/// Makes the directories of the OSDs' files outside `layout`'s directory, in which none of these may be yet: to be
/// called before [`create`], so that what [`clear_outside`] removes is the creation's own.
pub fn claim_outside(state: &ClusterState) -> Result<()> {
    for dir in [&state.wal_dir, &state.metadata_dir].into_iter().flatten() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    match state.outside_files().into_iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => bail!("{} exists already; remove it if nothing in it is needed", path.display()),
        None => Ok(()),
    }
}

/// Removes the OSDs' files outside the directory of a cluster that is not complete. Their names have the cluster's
/// identity, so nobody else made them, and nothing was ever stored.
pub fn clear_outside(state: &ClusterState) -> Result<()> {
    for path in state.outside_files() {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes the store of one daemon, in another folder than its own if one is given.
pub async fn mkfs(layout: &Layout, daemon: &str, program: &Path, folder: Option<&Path>) -> Result<()> {
    let mut command = Command::new(program);
    command.arg0("nacre").args(daemon_args(layout, daemon));
    if let Some(folder) = folder {
        command.arg("--data").arg(folder);
    }
    command.arg("--mkfs");
    // The first monitor begins the cluster, the others join it when they are started, and know it by its key.
    if daemon.starts_with("mon.") {
        let first = format!("mon.{}", mon_id(0));
        let keyring =
            if daemon == first { new_keys::first_keyring(layout) } else { layout.dir().join(&first).join("keyring") };
        if daemon != first {
            command.arg("--join");
        }
        if keyring.exists() {
            command.arg("--keyring").arg(keyring);
        }
    }
    command.stdin(std::process::Stdio::null());
    let output =
        command.kill_on_drop(true).output().await.with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        let said = last_words(&output.stderr);
        bail!("{daemon} could not be created: {}", said.as_deref().unwrap_or("it said nothing"));
    }
    Ok(())
}

/// The line of a daemon's output that best says why it ended: its last error or panic, else its last line.
pub fn last_words(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().rposition(|line| line.starts_with("error: "));
    // A panic's message stands on the line behind its place in the source.
    let panic = lines.iter().rposition(|line| line.contains("panicked at")).map(|at| at + 1);
    let line = error.max(panic).and_then(|at| lines.get(at)).or(lines.last())?;
    Some(line.trim_start_matches("error: ").to_owned())
}

/// Removes what [`create`] makes, and the directory itself where `dir_too`. `run/` stays, with the supervisor's lock.
pub fn clear(layout: &Layout, dir_too: bool) -> Result<()> {
    let context = |path: PathBuf| move || format!("cannot remove {}", path.display());
    let entries = std::fs::read_dir(layout.dir()).with_context(context(layout.dir().to_owned()))?;
    for entry in entries {
        let entry = entry.with_context(context(layout.dir().to_owned()))?;
        let name = entry.file_name();
        // The state file goes last: without it what remains would look like somebody else's.
        let ours = name.to_str().is_some_and(|name| {
            matches!(name, "log" | "crash" | "ceph.conf" | "ceph.client.admin.keyring" | "s3.master-keys")
                || name.starts_with("mon.")
                || name.starts_with("mgr.")
                || name.starts_with("osd.")
                || name.ends_with(".new")
        });
        if ours {
            let remove = if entry.path().is_dir() { std::fs::remove_dir_all } else { std::fs::remove_file };
            remove(entry.path()).with_context(context(entry.path()))?;
        }
    }
    match std::fs::remove_file(layout.state_file()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(e).with_context(context(layout.state_file()));
        }
        _ => {}
    }
    if dir_too {
        std::fs::remove_dir_all(layout.run_dir()).with_context(context(layout.run_dir()))?;
        // Refuses if something of somebody else's has come to lie there, which is as well.
        let _ = std::fs::remove_dir(layout.dir());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::state_file::{Found, look, tests::sample};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_line_that_says_why() {
        let check = |output: &str, line| assert_eq!(last_words(output.as_bytes()).as_deref(), line, "{output}");
        check("", None);
        check("starting\n\nbusy \n", Some("busy"));
        check("error: no room\nstack backtrace:\n", Some("no room"));
        check("error: old\nthread 'x' panicked at a.rs:1:2:\nextent lost\nnote: more\n", Some("extent lost"));
    }

    #[test]
    fn files_on_other_drives_are_taken_only_if_nobody_has_them() {
        let dir = Scratch::new();
        let (wal, metadata) = (dir.path().join("a/wal"), dir.path().join("metadata"));
        let state = ClusterState { wal_dir: Some(wal.clone()), metadata_dir: Some(metadata.clone()), ..sample() };
        claim_outside(&state).unwrap();
        assert_eq!(state.outside_files().len(), 2 * state.osds as usize);
        // Another cluster's OSDs, which have the same numbers.
        let other = ClusterState { fsid: "11111111-7d2f-4b5e-9d1c-2f4b8c6d0e11".into(), ..state.clone() };
        let theirs = [other.outside_files()[1].clone(), wal.join("osd.0.wal")];
        theirs.iter().for_each(|path| std::fs::write(path, "x").unwrap());
        claim_outside(&state).unwrap();
        let mine = &state.outside_files()[2];
        std::fs::write(mine, "x").unwrap();
        let error = claim_outside(&state).unwrap_err().to_string();
        assert!(error.contains(&format!("osd.0.{}.metadata exists already", state.fsid)), "{error}");
        clear_outside(&state).unwrap();
        assert!(!mine.exists() && theirs.iter().all(|path| path.exists()));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn all_or_nothing() {
        let dir = Scratch::new();
        let layout = Layout::new(&dir.path().join("cluster")).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        // `--conf` is the fifth argument; its directory is the cluster's.
        let good = dir.program("mkdir $(dirname $5)/$1.$3");
        let state = sample();
        create(&layout, &state, &good, &mut Report::Log).await.unwrap();
        assert_eq!(look(&layout).unwrap(), Found::Cluster(state.clone()));
        assert!(layout.dir().join("osd.1").is_dir() && layout.conf().is_file());
        let mode = std::fs::metadata(layout.keyring()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        clear(&layout, false).unwrap();
        assert_eq!(look(&layout).unwrap(), Found::Nothing);

        let bad =
            dir.program("mkdir $(dirname $5)/$1.$3; [ $1.$3 != osd.1 ] || { echo 'error: no room' >&2; exit 1; }");
        let error = create(&layout, &state, &bad, &mut Report::Log).await.unwrap_err();
        assert_eq!(error.to_string(), "osd.1 could not be created: no room");
        assert!(matches!(look(&layout).unwrap(), Found::Unfinished(_)));
        std::fs::write(layout.dir().join("notes"), "not ours").unwrap();
        clear(&layout, false).unwrap();
        assert!(layout.dir().join("notes").is_file(), "what is not ours stays");
        std::fs::remove_file(layout.dir().join("notes")).unwrap();
        clear(&layout, true).unwrap();
        assert!(!layout.dir().exists());
    }
}
