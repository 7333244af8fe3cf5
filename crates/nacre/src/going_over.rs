//! `nacre auth enable`: a cluster of `nacre up` that was made without authentication gets it while clients work.
//!
//! 1. **Keys.** OSDs get keys, of which the monitors learn, and monitors the key that all of them share.
//! 2. **Both.** The state file says that authentication is offered, and `ceph.conf` names both methods. Monitors, then
//!    OSDs are started again, one at a time: whoever can prove who he is does so, and nobody has to.
//! 3. **Clients.** Whoever is connected and has proven nothing is named, and whoever was connected before and is not
//!    back. That is for people to mend: a key, `cephx` among the methods of `auth client required`, and another
//!    connection.
//! 4. **Required.** The state file says that there is authentication, and `ceph.conf` names `cephx` alone. All are
//!    started again as before.
//!
//! Each step finds out what is left of it, so what was cut off goes on where it was. No state of health keeps a step
//! from being taken: an OSD that was away before is not waited for.

use crate::cli::AuthEnable;
use crate::conf_writer::{ceph_conf, keyring_with};
use crate::growth_lock::GrowthLock;
use crate::health::Health;
use crate::layout::Layout;
use crate::new_keys;
use crate::process::{daemon_pid, signal, supervisor_pid};
use crate::report::{Console, Event, Report};
use crate::state_file::{ClusterState, Engine, mon_id, require, write_durably};
use crate::up::connect_briefly;
use anyhow::{Context, Result, bail};
use client::Cluster;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use types::Errno;

/// A daemon that was told to end has been started again by then, or nobody looks after it.
const AGAIN_WITHIN: Duration = Duration::from_secs(60);
/// Time for which the cluster is given to be as well as before a daemon was started again.
const WELL_WITHIN: Duration = Duration::from_secs(120);
/// Clients that lost their monitor are connected to another one by then: Ceph's look for one every 30 s at the least.
const CLIENTS_BACK_WITHIN: Duration = Duration::from_secs(35);
/// Clients that were connected before, and are not by then, are given up: they may have ended.
const CLIENTS_GONE_AFTER: Duration = Duration::from_secs(120);
/// Whoever is connected for less than this before the first monitor is started again is not waited for.
const CLIENTS_STAY_FOR: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(200);

/// The option that has monitors without authentication make secrets for those that are started again before them.
const FORERUNNER: &str = "auth_service_required";

/// Runs the command. Exit status 1: clients are left.
pub fn enable(options: &AuthEnable) -> Result<u8> {
    let layout = Layout::new(&options.dir.dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = Report::Console(Console::new());
    runtime.block_on(async {
        if options.status {
            return tell(&layout).await;
        }
        go_over(&layout, options.force, &mut report).await
    })
}

/// Checks that the cluster can go over.
fn check(layout: &Layout) -> Result<ClusterState> {
    let state = require(layout)?;
    if state.engine == Engine::Ceph {
        bail!("a cluster of Ceph's daemons does not go over; make a new one with authentication");
    }
    if supervisor_pid(layout).is_none() {
        bail!("the cluster does not run; 'nacre up --dir {}' starts it", layout.dir().display());
    }
    Ok(state)
}

/// Says how far a cluster is, and what is left.
async fn tell(layout: &Layout) -> Result<u8> {
    let state = check(layout)?;
    let left = not_restarted(layout, &state);
    match (state.cephx, state.offers_cephx) {
        (true, _) if left.is_empty() => println!("authentication is required of everybody"),
        (true, _) => println!("authentication is required; still to be started again: {}", left.join(", ")),
        (false, false) => println!("there is no authentication; 'nacre auth enable' begins"),
        (false, true) if !left.is_empty() => {
            println!("authentication is offered; still to be started again: {}", left.join(", "));
        }
        (false, true) => {
            let (unproven, _) = left_over(&clients(layout, &state)?, &[]);
            println!("authentication is offered, and {} connections prove nothing", unproven.len());
            unproven.iter().for_each(|peer| println!("  {peer}"));
        }
    }
    Ok(u8::from(!state.cephx || !left.is_empty()))
}

async fn go_over(layout: &Layout, force: bool, report: &mut Report) -> Result<u8> {
    let _lock = GrowthLock::take(layout)?;
    let mut state = check(layout)?;
    if !state.cephx && !state.offers_cephx {
        report.send(Event::Step("making keys".into()))?;
        give_keys(layout, &state).await?;
        state = ClusterState { offers_cephx: true, ..state };
        state.save(layout)?;
    }
    if !state.cephx {
        write_durably(&layout.conf(), ceph_conf(layout, &state).as_bytes(), 0o644)?;
        let before = clients_that_stay(layout, &state).await?;
        restart_all(layout, &state, "offers authentication", report).await?;
        let left = unproven_in_the_end(layout, &state, &before, report).await?;
        if !left.is_empty() && !force {
            let clients: String = left.iter().map(|peer| format!("\n  {peer}")).collect();
            report.send(Event::Note(format!(
                "every daemon offers authentication. These prove nothing, or are not back yet:{clients}\nGive each a key ('nacre auth add') \
                 and 'auth client required = cephx, none', and have it connect anew; then run 'nacre auth enable' once more. With --force \
                 they are cut off."
            )))?;
            return Ok(1);
        }
        state = ClusterState { cephx: true, offers_cephx: false, ..state };
        state.save(layout)?;
    }
    write_durably(&layout.conf(), ceph_conf(layout, &state).as_bytes(), 0o644)?;
    restart_all(layout, &state, "requires authentication", report).await?;
    let cluster = connect(layout).await?;
    command(&cluster, json!({"prefix": "config rm", "who": "global", "name": FORERUNNER}), String::new()).await?;
    report.send(Event::Ready("everybody proves who he is from now on".into()))?;
    Ok(0)
}

async fn command(cluster: &Cluster, command: Value, input: String) -> Result<String> {
    let reply = cluster.mon_command(&command.to_string(), input.into()).await?;
    match Errno::from_result(reply.result) {
        Some(errno) => bail!("{}: {} ({errno})", command["prefix"], reply.status.trim()),
        None => Ok(String::from_utf8_lossy(&reply.output).into_owned()),
    }
}

/// Connects, for as long as monitors may take that are started again.
async fn connect(layout: &Layout) -> Result<Cluster> {
    let end = Instant::now() + AGAIN_WITHIN;
    loop {
        match connect_briefly(layout).await {
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => tokio::time::sleep(POLL).await,
            Ok(cluster) => return Ok(cluster),
        }
    }
}

/// Makes the keys that daemons lack, and has the monitors know all of them.
async fn give_keys(layout: &Layout, state: &ClusterState) -> Result<()> {
    let cluster = connect(layout).await?;
    let admin = std::fs::read_to_string(layout.keyring()).context("cannot read the keyring of client.admin")?;
    let mut keys = admin;
    for osd in state.daemons().iter().filter(|daemon| daemon.starts_with("osd.")) {
        let path = layout.dir().join(osd).join("keyring");
        if !path.exists() {
            write_durably(&path, keyring_with(osd, new_keys::OF_OSD)?.as_bytes(), 0o600)?;
        }
        keys += &std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    command(&cluster, json!({"prefix": "auth import"}), keys).await?;
    let shared = command(&cluster, json!({"prefix": "auth get", "entity": "mon."}), String::new()).await?;
    for index in 0..state.mons {
        let path = layout.dir().join(format!("mon.{}", mon_id(index))).join("keyring");
        write_durably(&path, shared.as_bytes(), 0o600)?;
    }
    let forerunner = json!({"prefix": "config set", "who": "global", "name": FORERUNNER, "value": "cephx, none"});
    command(&cluster, forerunner, String::new()).await?;
    Ok(())
}

/// The daemons that run and were started before the state file came to say what it says.
fn not_restarted(layout: &Layout, state: &ClusterState) -> Vec<String> {
    let written = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let since = written(&layout.state_file());
    let is_older = |daemon: &String| daemon_pid(layout, daemon).is_some() && written(&layout.pid_file(daemon)) < since;
    state.daemons().into_iter().filter(is_older).collect()
}

/// Starts again, one by one, all daemons that do not go by the `ceph.conf` of this moment.
async fn restart_all(layout: &Layout, state: &ClusterState, what: &str, report: &mut Report) -> Result<()> {
    let left = not_restarted(layout, state);
    for (index, daemon) in left.iter().enumerate() {
        report.send(Event::Step(format!("{daemon} {what} ({} of {})", index + 1, left.len())))?;
        restart(layout, daemon).await.with_context(|| format!("{daemon} was to be started again"))?;
    }
    Ok(())
}

/// The state of a cluster as far as a restart changes it, and how many of its groups are not clean.
async fn state_of(layout: &Layout) -> Result<(Health, u64)> {
    let end = Instant::now() + AGAIN_WITHIN;
    let health = loop {
        let asked = async { Health::ask(&connect(layout).await?).await };
        match asked.await {
            Ok(health) => break health,
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    };
    let unclean = health.pgs.saturating_sub(health.clean_pgs());
    Ok((health, unclean))
}

/// Stops one daemon in an orderly way, and waits until its supervisor has started it again and the cluster is as
/// healthy as before. If the cluster takes longer than [`WELL_WITHIN`], a warning is logged, and the next daemon
/// follows.
async fn restart(layout: &Layout, daemon: &str) -> Result<()> {
    let (before, unclean) = state_of(layout).await?;
    let Some(pid) = daemon_pid(layout, daemon) else { return Ok(()) };
    signal(pid, Signal::TERM)?;
    let end = Instant::now() + AGAIN_WITHIN;
    while daemon_pid(layout, daemon).is_none_or(|now| now == pid) {
        if Instant::now() >= end {
            bail!(
                "it does not run again after {} s; if nobody looks after it ('nacre up --no-restart'), stop and start the cluster, and \
                 run this once more",
                AGAIN_WITHIN.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    let end = Instant::now() + WELL_WITHIN;
    while Instant::now() < end {
        tokio::time::sleep(POLL).await;
        let (now, unclean_now) = state_of(layout).await?;
        let are_there = now.osds_up >= before.osds_up && now.mons.len() >= before.mons.len();
        if are_there && unclean_now <= unclean {
            return Ok(());
        }
    }
    tracing::warn!("{daemon} is not what it was before after {} s", WELL_WITHIN.as_secs());
    Ok(())
}

/// A client or daemon that is connected to a monitor.
#[derive(Clone, Debug)]
struct Connected {
    /// Address of the client or daemon, with the random number that it drew when it started.
    addr: String,
    /// Name, number and address, as people are shown them.
    shown: String,
    is_proven: bool,
    /// False for daemons, which have other addresses each time that they start.
    is_client: bool,
}

/// Returns who proves nothing, and who of `before` is not connected, for people.
fn left_over(now: &[Connected], before: &[Connected]) -> (Vec<String>, Vec<String>) {
    let unproven = now.iter().filter(|client| !client.is_proven).map(|client| client.shown.clone());
    let is_back = |client: &&Connected| now.iter().any(|other| other.addr == client.addr);
    let absent = before.iter().filter(|client| !is_back(client));
    let absent = absent.map(|client| format!("{}, connected before and not back", client.shown));
    (unproven.collect(), absent.collect())
}

/// The clients that stay connected for a while, as commands do not.
async fn clients_that_stay(layout: &Layout, state: &ClusterState) -> Result<Vec<Connected>> {
    let first = clients(layout, state)?;
    tokio::time::sleep(CLIENTS_STAY_FOR).await;
    let mut stay = clients(layout, state)?;
    stay.retain(|client| client.is_client && first.iter().any(|other| other.addr == client.addr));
    Ok(stay)
}

/// Returns who proves nothing, or is not back, once clients had time to find monitors that were started again.
async fn unproven_in_the_end(
    layout: &Layout,
    state: &ClusterState,
    before: &[Connected],
    report: &mut Report,
) -> Result<Vec<String>> {
    report.send(Event::Step("waiting for clients to be connected again".into()))?;
    let started = |id: String| layout.pid_file(&format!("mon.{id}")).metadata().and_then(|file| file.modified()).ok();
    loop {
        let (unproven, absent) = left_over(&clients(layout, state)?, before);
        let ages = state.mon_ids().filter_map(started).filter_map(|start| start.elapsed().ok());
        let are_back_after = if absent.is_empty() { CLIENTS_BACK_WITHIN } else { CLIENTS_GONE_AFTER };
        // Whoever is back is enough to know that somebody is left.
        if !unproven.is_empty() || ages.min().is_none_or(|age| age > are_back_after) {
            return Ok([unproven, absent].concat());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Clients and daemons that are connected to monitors, without monitors.
fn clients(layout: &Layout, state: &ClusterState) -> Result<Vec<Connected>> {
    let mut found = Vec::new();
    for id in state.mon_ids() {
        let path = layout.run_dir().join(format!("ceph-mon.{id}.asok"));
        if daemon_pid(layout, &format!("mon.{id}")).is_none() {
            continue;
        }
        let sessions = ask(&path, r#"{"prefix": "sessions", "format": "json"}"#)
            .with_context(|| format!("cannot ask mon.{id} who is connected, at {}", path.display()))?;
        let sessions = sessions.as_array().into_iter().flatten();
        found.extend(sessions.filter(|session| session["con_type"] != "mon").map(|session| {
            let text = |key: &str| session[key].as_str().unwrap_or_default();
            let (at, nonce) = (&session["socket_addr"]["addr"], &session["socket_addr"]["nonce"]);
            let at = at.as_str().unwrap_or_default();
            Connected {
                addr: format!("{at}/{nonce}"),
                shown: format!("{} ({}) at {at}, by mon.{id}", text("entity_name"), text("name")),
                is_proven: session["global_id_status"] != "none",
                is_client: session["con_type"] == "client",
            }
        }));
    }
    Ok(found)
}

/// Asks a daemon by its admin socket.
fn ask(path: &Path, line: &str) -> Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(AGAIN_WITHIN))?;
    stream.write_all(line.as_bytes())?;
    stream.write_all(&[0])?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    // Four bytes of length come first.
    let text = answer.get(4..).unwrap_or_default();
    serde_json::from_slice(text).with_context(|| format!("it says '{}'", String::from_utf8_lossy(text).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::state_file::tests::sample;

    #[test]
    fn what_was_started_before_is_left_and_what_does_not_run_is_not() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        sample().save(&layout).unwrap();
        // No process of ours has these numbers.
        std::fs::write(layout.pid_file("osd.0"), "1\n").unwrap();
        assert_eq!(not_restarted(&layout, &sample()), [""; 0]);
    }

    #[test]
    fn clients_that_prove_nothing_or_are_not_back_are_left() {
        let client = |addr: &str, is_proven| Connected {
            addr: addr.into(),
            shown: format!("at {addr}"),
            is_proven,
            is_client: true,
        };
        let before = [client("a/1", false), client("b/2", false), client("c/3", false)];
        // The one that proves itself now has another number by the monitors, and its own address.
        let now = [client("a/1", true), client("b/2", false), client("d/4", false)];
        let (unproven, absent) = left_over(&now, &before);
        assert_eq!(unproven, ["at b/2", "at d/4"]);
        assert_eq!(absent, ["at c/3, connected before and not back"]);
        assert_eq!(left_over(&now[..1], &before[..1]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_cluster_that_does_not_run_or_is_a_cephs_does_not_go_over() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        assert!(check(&layout).unwrap_err().to_string().contains("no cluster in"));
        sample().save(&layout).unwrap();
        assert!(check(&layout).unwrap_err().to_string().contains("does not run"));
        let engine = Engine::Ceph;
        ClusterState { engine, version: engine.state_version(), ..sample() }.save(&layout).unwrap();
        assert!(check(&layout).unwrap_err().to_string().contains("Ceph's daemons"));
    }
}
