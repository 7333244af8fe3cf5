//! `nacre up`: creates or starts a cluster and watches over it.

use crate::byte_size::ByteSize;
use crate::ceph_engine;
use crate::cli::{self, OsdSize};
use crate::conf_writer::{ceph_conf, random_bytes};
use crate::creation;
use crate::growth::{self, Wanted};
use crate::growth_lock::GrowthLock;
use crate::health::{Health, OsdStarts};
use crate::held::held;
use crate::layout::Layout;
use crate::new_keys;
use crate::preflight;
use crate::process::{LOOK_AGAIN, SupervisorLock, daemon_pid, supervisor_pid, wait_until_gone};
use crate::report::{Console, Event, Report};
use crate::s3_gateway::S3Gateway;
use crate::state_file::{ClusterState, Engine, Found, look, require, write_durably};
use crate::supervisor::{Ended, Plan, Supervisor};
use crate::worker_keeper::WorkerKeeper;
use anyhow::{Context, Result, bail};
use client::{Cluster, Config};
use std::io::BufRead;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// `--detach` gives up waiting after this.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);
/// Ceph's OSDs take seconds each to be made.
const CEPH_HEALTHY_WITHIN: Duration = Duration::from_secs(240);
/// How often health is asked for while waiting for it.
const POLL: Duration = Duration::from_millis(100);
/// OSDs are started once a monitor answers, but not later than this.
const OSDS_WITHIN: Duration = Duration::from_secs(20);
/// How long daemons may take to follow a supervisor that was killed.
const FOLLOW_WITHIN: Duration = Duration::from_secs(20);
/// A daemon that ends this often before the cluster is healthy will not get better.
const EARLY_ENDS_MAX: u32 = 3;
/// How long everything must serve under the same warnings before a start counts as done.
const SETTLED_FOR: Duration = Duration::from_secs(3);

const OSDS: u32 = 6;
/// The fewest that do without one. A real Ceph's are for comparison, and have one.
const MONS: u32 = 3;
const CEPH_MONS: u32 = 1;
/// The first monitor's. The kernel gives those from 32768 on to outgoing connections, unless told otherwise.
const PORT: u16 = 13_300;

/// Runs the command; returns the exit status.
pub fn run(options: &cli::Up, log: Option<&str>) -> Result<u8> {
    let layout = Layout::new(&options.dir.dir)?;
    if growth::is_asked_of_running(&layout, options)? {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut report = Report::Console(Console::new());
        runtime.block_on(growth::change_running(&layout, options, &mut report))?;
        return Ok(0);
    }
    if options.detach && !options.background {
        return detach(log);
    }
    if options.background {
        // Away from the terminal, whose end must not be ours.
        rustix::process::setsid().context("cannot start a session of its own")?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = if options.background { Report::Pipe } else { Report::Console(Console::new()) };
    match runtime.block_on(up(options, log, &mut report)) {
        Ok(()) => Ok(0),
        Err(error) => {
            let _ = report.send(Event::Failed(format!("{error:#}")));
            Ok(1)
        }
    }
}

/// Starts this program again in the background, and shows what it reports until the cluster is healthy.
fn detach(log: Option<&str>) -> Result<u8> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = std::process::Command::new(program);
    command.arg0("nacre").args(std::env::args_os().skip(1)).arg("--background");
    if let Some(filter) = log {
        command.env("NACRE_LOG", filter);
    }
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().context("cannot start the supervisor")?;
    let out = child.stdout.take().expect("asked for a pipe");
    let mut console = Console::new();
    for line in std::io::BufReader::new(out).lines() {
        let line = line.context("cannot hear the supervisor")?;
        let event: Event = serde_json::from_str(&line).with_context(|| format!("the supervisor said '{line}'"))?;
        console.show(&event);
        match event {
            Event::Ready(_) => return Ok(0),
            Event::Failed(_) => return Ok(1),
            Event::Step(_) | Event::Note(_) => {}
        }
    }
    let status = child.wait()?;
    bail!("the supervisor ended without a word ({status})")
}

async fn up(options: &cli::Up, log: Option<&str>, report: &mut Report) -> Result<()> {
    let started = Instant::now();
    let layout = Layout::new(&options.dir.dir)?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut stop = Stop::listen()?;
    let mut grown = signal(SignalKind::from_raw(LOOK_AGAIN.as_raw())).context("cannot handle signals")?;
    let (found, _lock, dir_is_new) = claim(&layout, options)?;
    let log_file = layout.log("nacre-up");
    // New monitors join before anything counts as started.
    let is_new = match &found {
        Found::Cluster(state) => Wanted::of(options, state).mons > state.mons,
        Found::Nothing | Found::Unfinished(_) => true,
    };
    let state = match found {
        Found::Cluster(state) => {
            let grows = |state: &ClusterState| {
                let wanted = Wanted::of(options, state);
                (wanted.osds > state.osds || wanted.mons > state.mons).then_some(wanted)
            };
            match grows(&state) {
                None => state,
                Some(_) => {
                    let lock = GrowthLock::take(&layout)?;
                    let state = require(&layout)?;
                    agrees(&state, options)?;
                    match grows(&state) {
                        Some(wanted) => growth::add(&layout, &lock, &state, wanted, &program, report).await?,
                        None => state,
                    }
                }
            }
        }
        found @ (Found::Nothing | Found::Unfinished(_)) => {
            let state = plan_new(options, &layout)?;
            if let Found::Unfinished(old) = found {
                creation::clear_outside(&old).context("removing what an earlier attempt left")?;
            }
            creation::clear(&layout, false)?;
            creation::claim_outside(&state)?;
            let size = ByteSize(state.osd_size_bytes);
            let what = format!("creating a cluster of {} OSDs of {size} in {}", state.osds, layout.dir().display());
            let created = async {
                report.send(Event::Note(what))?;
                creation::create(&layout, &state, &program, report).await
            };
            let result = tokio::select! {
                result = created => result,
                () = stop.asked() => Err(anyhow::anyhow!("interrupted; nothing was created")),
            };
            if let Err(error) = result {
                creation::clear_outside(&state).context("cleaning up")?;
                creation::clear(&layout, dir_is_new).context("cleaning up")?;
                return Err(error);
            }
            state
        }
    };
    crate::logging::start(log, "info", Some(&log_file))?;
    write_durably(&layout.conf(), ceph_conf(&layout, &state).as_bytes(), 0o644)?;
    let own_program = program.clone();
    let mut extra_args: Vec<String> = log.map(|filter| vec!["--log".into(), filter.into()]).unwrap_or_default();
    // The user has agreed to a cluster without proofs beyond loopback. The daemons, which check that themselves, are
    // told so.
    if !state.cephx && !state.bind.is_loopback() {
        extra_args.push("--insecure".to_owned());
    }
    let plan = Plan {
        layout: layout.clone(),
        engine: state.engine,
        program,
        daemons: state.daemons(),
        restart: !options.no_restart,
        extra_args,
    };
    tracing::info!(dir = %layout.dir().display(), "starting {} daemons", plan.daemons.len());
    let mut supervisor = Supervisor::start(plan);
    let healthy_within = healthy_within(&state);
    let deadline = options.background.then(|| started + healthy_within);
    let waited = tokio::select! {
        waited = wait_healthy(&layout, (&state, is_new), &mut supervisor, deadline, report) => waited,
        () = stop.asked() => Ok(Waited::Interrupted),
    };
    let mut s3 = None;
    // A real Ceph's manager does that work itself.
    let worker = match (&waited, state.engine) {
        (Ok(Waited::Healthy(_) | Waited::TooLong(_)), Engine::Nacre) => {
            Some(WorkerKeeper::start(&layout, &own_program, log).await)
        }
        _ => None,
    };
    match waited {
        Ok(Waited::Healthy(health)) => {
            let after = started.elapsed().as_secs_f64();
            let warnings: String = health.problems.iter().map(|problem| format!("warning: {problem}\n")).collect();
            let steps = first_steps(&layout, &state, options);
            s3 = match options.s3_port.map(|port| SocketAddr::new(state.bind, port)) {
                Some(address) => match S3Gateway::start(&layout, &own_program, address).await {
                    Ok(gateway) => Some(gateway),
                    Err(error) => {
                        supervisor.stop(stop.asked()).await;
                        return Err(error);
                    }
                },
                None => None,
            };
            let s3 = s3.as_ref().map(|gateway| format!("\n\n{}", gateway.says)).unwrap_or_default();
            let event = Event::Ready(format!("{} after {after:.1} s\n{warnings}\n{steps}{s3}", health.status));
            // Whoever listened may have gone at the last moment: the cluster runs, as was asked for.
            let _ = report.send(event);
        }
        Ok(Waited::TooLong(reason)) => {
            let limit = healthy_within.as_secs();
            let dir = layout.dir().display();
            let _ = report.send(Event::Failed(format!(
                "not healthy after {limit} s: {reason}\nthe cluster goes on trying; see 'nacre status --dir {dir}', stop it with 'nacre down --dir {dir}'"
            )));
        }
        Ok(Waited::Interrupted) => {
            let _ = report.send(Event::Note("stopping".into()));
            supervisor.stop(stop.asked()).await;
            bail!("interrupted before the cluster was healthy");
        }
        Err(error) => {
            supervisor.stop(stop.asked()).await;
            return Err(error);
        }
    }
    if options.background {
        *report = Report::Log;
    }
    loop {
        tokio::select! {
            ended = supervisor.next_ended() => match ended {
                Some(ended) => drop(report.send(Event::Note(describe(&ended)))),
                None => bail!("all daemons have ended; see {}", layout.log_dir().display()),
            },
            _ = grown.recv() => match require(&layout) {
                Ok(state) => {
                    let held = held(&layout);
                    let daemons: Vec<_> = state.daemons().into_iter().filter(|name| !held.contains(name)).collect();
                    let kept = if held.is_empty() { String::new() } else { format!(", without {}", held.join(", ")) };
                    tracing::info!("{} monitors and {} OSDs from now on{kept}", state.mons, state.osds);
                    supervisor.follow(&daemons);
                }
                Err(error) => tracing::error!("cannot read which daemons were added: {error:#}"),
            },
            () = stop.asked() => break,
        }
    }
    if let Some(worker) = worker {
        worker.stop().await;
    }
    if let Some(gateway) = s3 {
        gateway.stop().await;
    }
    let _ = report.send(Event::Note("stopping: OSDs first, then monitors (once more to kill)".into()));
    supervisor.stop(stop.asked()).await;
    let _ = report.send(Event::Note("stopped; the data stays, 'nacre up' starts it again".into()));
    Ok(())
}

fn healthy_within(state: &ClusterState) -> Duration {
    if state.engine.is_nacre() { HEALTHY_WITHIN } else { CEPH_HEALTHY_WITHIN }
}

/// Checks everything that can be checked without changing anything, then takes the directory.
/// Returns what it holds, the lock, and whether it was made just now.
fn claim(layout: &Layout, options: &cli::Up) -> Result<(Found, SupervisorLock, bool)> {
    let running = |pid: Option<rustix::process::Pid>| {
        let pid = pid.map(|pid| format!(" (process {})", pid.as_raw_nonzero())).unwrap_or_default();
        let dir = layout.dir().display();
        anyhow::anyhow!(
            "the cluster in {dir} runs already{pid}; see 'nacre status --dir {dir}', stop it with 'nacre down --dir {dir}'"
        )
    };
    let found = look(layout)?;
    if let Some(pid) = supervisor_pid(layout) {
        return Err(running(Some(pid)));
    }
    let ports = match &found {
        Found::Cluster(state) => {
            agrees(state, options)?;
            if options.mons.is_some_and(|mons| mons < state.mons) {
                bail!(
                    "the cluster in --dir has {} monitors, and they decide themselves that there are fewer: start it without \
                     --mons, and ask again",
                    state.mons
                );
            }
            // After a supervisor was killed its daemons take a moment to follow.
            let survivor = || state.daemons().into_iter().find(|daemon| daemon_pid(layout, daemon).is_some());
            if !wait_until_gone(FOLLOW_WITHIN, || survivor().is_some()) {
                let daemon = survivor().unwrap_or_default();
                let dir = layout.dir().display();
                bail!(
                    "{daemon} of this cluster still runs, without a supervisor; stop it with 'nacre down --dir {dir}'"
                );
            }
            (state.bind, state.port, state.mons)
        }
        Found::Nothing | Found::Unfinished(_) => {
            let state = plan_new(options, layout)?;
            (state.bind, state.port, state.mons)
        }
    };
    let (bind, port, mons) = ports;
    let ports = (0..mons).map(|index| port + index as u16).chain(options.s3_port);
    preflight::ports_are_free(bind, ports)?;
    let dir_is_new = !layout.dir().exists();
    std::fs::create_dir_all(layout.dir()).with_context(|| format!("cannot create {}", layout.dir().display()))?;
    let lock = SupervisorLock::take(layout)?.ok_or_else(|| running(supervisor_pid(layout)))?;
    // Another `up` may have been here between the first look and the lock.
    Ok((look(layout)?, lock, dir_is_new))
}

/// The cluster that the flags ask for.
fn plan_new(options: &cli::Up, layout: &Layout) -> Result<ClusterState> {
    let engine = options.engine.unwrap_or_default();
    let mons = options.mons.unwrap_or(if engine.is_nacre() { MONS } else { CEPH_MONS });
    let (osds, port) = (options.osds.unwrap_or(OSDS), options.port.unwrap_or(PORT));
    preflight::port_range(port, mons)?;
    if options.insecure && !options.no_auth {
        bail!("--insecure is for a cluster without authentication; leave it out, or add --no-auth if that is wanted");
    }
    let bind = preflight::bind_address(options.bind, options.insecure, !options.no_auth)?;
    let wanted = match options.osd_size {
        Some(OsdSize::Bytes(size)) => Some(size),
        Some(OsdSize::Auto) | None => None,
    };
    let size = preflight::osd_size(wanted, osds, preflight::free_space(layout.dir())?)?;
    // Daemons are started with the cluster's directory as theirs or not: paths must not depend on it.
    let absolute = |dir: &Option<PathBuf>| dir.as_ref().map(std::path::absolute).transpose();
    if engine == Engine::Ceph {
        ceph_engine::require_programs()?;
        if options.wal_dir.is_some() || options.metadata_dir.is_some() {
            bail!("--wal-dir and --metadata-dir are for Nacre's OSDs; with --engine ceph leave them out");
        }
        if options.shards.is_some() {
            bail!("--shards is for Nacre's OSDs; with --engine ceph leave it out");
        }
    }
    Ok(ClusterState {
        version: engine.state_version(),
        engine,
        cephx: !options.no_auth,
        offers_cephx: false,
        secure: options.secure,
        fsid: types::Fsid::from_random(random_bytes()?).to_string(),
        complete: true,
        osds,
        osd_size_bytes: size.0,
        osd_shards: options.shards.unwrap_or(1),
        wal_dir: absolute(&options.wal_dir).context("--wal-dir")?,
        metadata_dir: absolute(&options.metadata_dir).context("--metadata-dir")?,
        mons,
        port,
        bind,
        created_by: format!("nacre {}", env!("CARGO_PKG_VERSION")),
    })
}

/// Refuses flags that contradict the cluster that is there.
pub fn agrees(state: &ClusterState, options: &cli::Up) -> Result<()> {
    let differs = |flag: &str, has: String| {
        anyhow::anyhow!(
            "the cluster in --dir has {has}, which 'up' does not change; leave {flag} out to start it as it is, or use another --dir for a new one"
        )
    };
    if options.engine.is_some_and(|engine| engine != state.engine) {
        let has = if state.engine.is_nacre() { "Nacre's daemons" } else { "Ceph's daemons" };
        return Err(differs("--engine", has.into()));
    }
    if state.engine == Engine::Ceph {
        ceph_engine::require_programs()?;
    }
    if options.cephx && !state.cephx {
        bail!(
            "the cluster in --dir has no authentication; start it without --cephx, then 'nacre auth enable --dir {}' gives it some",
            options.dir.dir.display()
        );
    }
    if options.no_auth && state.cephx {
        return Err(differs("--no-auth", "authentication".into()));
    }
    if options.secure && !state.secure {
        return Err(differs("--secure", "connections that are not encrypted".into()));
    }
    if options.osds.is_some_and(|n| n < state.osds) {
        let has =
            format!("{} OSDs, and loses none by a smaller number ('ceph osd out' and 'ceph osd purge' do)", state.osds);
        return Err(differs("--osds", has));
    }
    if let Some(mons) = options.mons.filter(|n| *n != state.mons) {
        if state.engine == Engine::Ceph {
            return Err(differs("--mons", format!("{} monitors", state.mons)));
        }
        preflight::port_range(state.port, mons)?;
    }
    if options.port.is_some_and(|n| n != state.port) {
        return Err(differs("--port", format!("its monitor on port {}", state.port)));
    }
    if options.bind.is_some_and(|n: IpAddr| n != state.bind) {
        return Err(differs("--bind", format!("the address {}", state.bind)));
    }
    if let Some(OsdSize::Bytes(size)) = options.osd_size
        && size.0 / preflight::OSD_BYTES_UNIT * preflight::OSD_BYTES_UNIT != state.osd_size_bytes
    {
        return Err(differs("--osd-size", format!("OSDs of {}", ByteSize(state.osd_size_bytes))));
    }
    if options.shards.is_some_and(|n| n != state.osd_shards) {
        return Err(differs("--shards", format!("{} for each OSD", state.osd_shards)));
    }
    let moved = |asked: &Option<PathBuf>, has: &Option<PathBuf>| {
        asked.as_ref().is_some_and(|dir| std::path::absolute(dir).ok().as_ref() != has.as_ref())
    };
    for (flag, asked, has) in [
        ("--wal-dir", &options.wal_dir, &state.wal_dir),
        ("--metadata-dir", &options.metadata_dir, &state.metadata_dir),
    ] {
        if moved(asked, has) {
            let has = has.as_ref().map_or("its own file for everything".into(), |dir| dir.display().to_string());
            return Err(differs(flag, format!("OSDs with {has}")));
        }
    }
    if !state.bind.is_loopback() && !options.insecure && !state.cephx {
        bail!(
            "the cluster in --dir listens on {}, open to whoever reaches it; add --insecure to start it so",
            state.bind
        );
    }
    Ok(())
}

enum Waited {
    Healthy(Health),
    TooLong(String),
    Interrupted,
}

/// Starts the OSDs once a monitor answers, and waits for HEALTH_OK with all of them up. Where everything serves and
/// only warnings are left, for [`SETTLED_FOR`], that is enough: nobody knows when they will go.
///
/// After a crash the monitors' map still shows OSDs up that have not started yet. So only OSDs count whose start is
/// newer than the map at which they were started.
///
/// Errors: a daemon that keeps ending; nobody listens any more.
async fn wait_healthy(
    layout: &Layout,
    (state, is_new): (&ClusterState, bool),
    supervisor: &mut Supervisor,
    deadline: Option<Instant>,
    report: &mut Report,
) -> Result<Waited> {
    let started = Instant::now();
    let mut cluster: Option<Cluster> = None;
    let mut before: Option<u64> = None;
    // OSDs that count; those that were purged do not.
    let mut osds = state.osds;
    let mut settled: Option<Instant> = None;
    let mut last = "no monitor has answered yet".to_owned();
    let mut early_ends = std::collections::BTreeMap::<String, u32>::new();
    loop {
        report.send(Event::Step(format!("starting: {last}")))?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            supervisor.start_osds();
            return Ok(Waited::TooLong(last));
        }
        // Ceph's OSDs are of no use before the monitors know of them.
        if started.elapsed() >= OSDS_WITHIN && state.engine.is_nacre() {
            supervisor.start_osds();
        }
        let asked = async {
            let connected = match cluster.take() {
                Some(cluster) => cluster,
                None => connect_briefly(layout).await?,
            };
            let health = Health::ask(&connected).await?;
            let starts = OsdStarts::ask(&connected).await?;
            if state.engine == Engine::Ceph && before.is_none() {
                ceph_engine::register_osds(&connected, layout, state).await?;
            }
            new_keys::import(&connected, layout).await?;
            let purged = if before.is_none() { new_keys::purged(&connected, state).await? } else { Vec::new() };
            anyhow::Ok((connected, health, starts, purged))
        };
        tokio::select! {
            answer = asked => match answer {
                Ok((connected, mut health, starts, purged)) => {
                    cluster = Some(connected);
                    let before = *before.get_or_insert(starts.epoch);
                    for osd in &purged {
                        let folder = layout.dir().join(osd);
                        let what = format!("{osd} was purged and is not started; {} may go", folder.display());
                        report.send(Event::Note(what))?;
                        osds -= 1;
                    }
                    supervisor.leave_out(&purged);
                    supervisor.start_osds();
                    health.osds_up = starts.newer_than(before);
                    let only_warns = health.only_warns_with(osds);
                    settled = only_warns.then(|| settled.unwrap_or_else(Instant::now));
                    // Later some may have been removed.
                    let mons_joined = !is_new || health.mons.len() as u64 >= state.mons.into();
                    let has_settled = settled.is_some_and(|since| since.elapsed() >= SETTLED_FOR);
                    if !mons_joined {
                        last = format!("{} of {} monitors decide", health.mons.len(), state.mons);
                    } else if health.is_ok_with(osds) || has_settled {
                        return Ok(Waited::Healthy(health));
                    } else {
                        last = health.progress(osds);
                    }
                }
                Err(error) => tracing::info!("while waiting for health: {error:#}"),
            },
            ended = supervisor.next_ended() => {
                let Some(ended) = ended else { bail!("all daemons have ended; see {}", layout.log_dir().display()) };
                let count = early_ends.entry(ended.daemon.clone()).or_default();
                *count += 1;
                // The others can do without one; it may have been removed.
                let is_needed = state.mons == 1 || !ended.daemon.starts_with("mon.");
                if is_needed && *count >= EARLY_ENDS_MAX || ended.again_in.is_none() {
                    let log = layout.log(&ended.daemon);
                    let said = last_words(&log).map(|line| format!(": {line}")).unwrap_or_default();
                    bail!("{} {}{said}\nsee {}", ended.daemon, ended.how, log.display());
                }
                report.send(Event::Note(describe(&ended)))?;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

pub async fn connect_briefly(layout: &Layout) -> Result<Cluster> {
    let mut config = Config::from_conf(layout.conf())?;
    config.connect_timeout = Duration::from_secs(2);
    config.mon_op_timeout = Some(Duration::from_secs(2));
    Ok(Cluster::connect(config).await?)
}

/// The end of a daemon by its log.
fn last_words(log: &std::path::Path) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    creation::last_words(&text[text.len().saturating_sub(16 << 10)..])
}

fn describe(ended: &Ended) -> String {
    let next = match ended.again_in {
        Some(wait) => format!("starting it again in {:.1} s", wait.as_secs_f64()),
        None => "not starting it again".into(),
    };
    format!("{} {}; {next}", ended.daemon, ended.how)
}

fn first_steps(layout: &Layout, state: &ClusterState, options: &cli::Up) -> String {
    let conf = shell_word(layout.conf());
    let nacre = program_word();
    let dir = if options.dir.dir == std::path::Path::new(cli::DEFAULT_DIR) {
        String::new()
    } else {
        format!(" --dir {}", shell_word(layout.dir().to_owned()))
    };
    let end = if options.background {
        format!("To stop it (the data stays):\n  {nacre} down{dir}")
    } else {
        "Ctrl-C stops it; the data stays.".to_owned()
    };
    format!(
        "{} OSDs, {} {}:{}\n\n\
         Try:\n  {nacre} pool create photos{dir}\n  {nacre} put photos hello /etc/hostname{dir}\n  {nacre} get photos hello -{dir}\n  {nacre} status{dir}\n\n\
         With Ceph's own tools:\n  ceph -c {conf} -s\n  rados -c {conf} -p photos ls\n  rados -c {conf} -p photos bench 10 write\n\n{end}",
        state.osds,
        if state.mons == 1 { "monitor at".to_owned() } else { format!("{} monitors from", state.mons) },
        state.bind,
        state.port
    )
}

/// How this program is called from the working directory: by its name if that finds it, else by its path.
fn program_word() -> String {
    let Ok(program) = std::env::current_exe() else { return "nacre".into() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("nacre")).find(|candidate| candidate.is_file());
    if found.and_then(|found| found.canonicalize().ok()).is_some_and(|found| found == program) {
        return "nacre".into();
    }
    let here = std::env::current_dir().unwrap_or_default();
    match program.strip_prefix(&here) {
        Ok(relative) if relative.components().count() > 1 => shell_word(relative.to_owned()),
        _ => shell_word(program),
    }
}

/// `path` as a shell takes it for one word.
fn shell_word(path: PathBuf) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The signals that end `up`.
struct Stop {
    signals: Vec<tokio::signal::unix::Signal>,
}

impl Stop {
    fn listen() -> Result<Stop> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals = kinds.into_iter().map(signal).collect::<std::io::Result<_>>().context("cannot handle signals")?;
        Ok(Stop { signals })
    }

    async fn asked(&mut self) {
        std::future::poll_fn(|context| {
            let any = self.signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::scratch::Scratch;
    use clap::Parser;

    fn options(dir: &Scratch, args: &[&str]) -> cli::Up {
        let dir = dir.path().join("c");
        let all = [&["nacre", "up", "--dir", dir.to_str().unwrap()], args].concat();
        match Cli::try_parse_from(all).unwrap().command {
            Command::Up(up) => up,
            other => panic!("{other:?}"),
        }
    }

    fn free_port() -> u16 {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().port().clamp(1024, 64_000)
    }

    #[test]
    fn a_refused_start_leaves_nothing() {
        let dir = Scratch::new();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        if port > 64_000 {
            return;
        }
        let port = port.to_string();
        for (args, part) in [
            (&["--port", port.as_str()][..], "in use"),
            (&["--osd-size", "900TiB"], "too little disk"),
            (&["--bind", "10.255.255.254", "--no-auth"], "--insecure"),
            (&["--bind", "10.255.255.254", "--insecure"], "--no-auth"),
            (&["--mons", "27"], "does not do"),
            (&["--port", "80"], "does not do"),
        ] {
            let options = options(&dir, args);
            let layout = Layout::new(&options.dir.dir).unwrap();
            let error = claim(&layout, &options).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!layout.dir().exists(), "{args:?} left something");
        }
    }

    #[test]
    fn an_existing_cluster_is_started_as_it_is_or_not_at_all() {
        let dir = Scratch::new();
        let port = free_port();
        let state = ClusterState { port, mons: 2, cephx: true, ..crate::state_file::tests::sample() };
        let plain = options(&dir, &[]);
        let layout = Layout::new(&plain.dir.dir).unwrap();
        std::fs::create_dir_all(layout.dir()).unwrap();
        state.save(&layout).unwrap();
        for (args, part) in [
            (&["--engine", "ceph"][..], "has Nacre's daemons"),
            (&["--osds", "1"], "has 2 OSDs"),
            (&["--mons", "1"], "has 2 monitors"),
            (&["--port", "41000"], "on port"),
            (&["--osd-size", "2GiB"], "OSDs of 1 GiB"),
            (&["--bind", "127.0.0.9"], "the address 127.0.0.1"),
            (&["--no-auth"], "has authentication"),
        ] {
            let error = claim(&layout, &options(&dir, args)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("--dir"), "{error}");
        }
        let same = options(&dir, &["--osds", "2", "--osd-size", "1GiB"]);
        let (found, lock, new) = claim(&layout, &same).unwrap();
        assert_eq!((found, new), (Found::Cluster(state.clone()), false));
        let error = claim(&layout, &plain).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("runs already (process"), "{error}");
        drop(lock);
        // One from before authentication goes on without.
        let before = ClusterState { cephx: false, ..state };
        before.save(&layout).unwrap();
        let (found, lock, _) = claim(&layout, &plain).unwrap();
        assert_eq!(found, Found::Cluster(before));
        drop(lock);
        let error = claim(&layout, &options(&dir, &["--cephx"])).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("has no authentication"), "{error}");
    }

    #[test]
    fn a_new_cluster_has_authentication_unless_told_otherwise() {
        let dir = Scratch::new();
        let layout = Layout::new(&dir.path().join("c")).unwrap();
        let plan = |args: &[&str]| {
            let planned = plan_new(&options(&dir, &[&["--osd-size", "1GiB", "--osds", "1"], args].concat()), &layout);
            planned.map(|state| (state.cephx, state.secure))
        };
        assert_eq!(plan(&[]).unwrap(), (true, false));
        assert_eq!(plan(&["--cephx"]).unwrap(), (true, false));
        assert_eq!(plan(&["--secure"]).unwrap(), (true, true));
        assert_eq!(plan(&["--no-auth"]).unwrap(), (false, false));
        assert_eq!(plan(&["--bind", "10.255.255.254"]).unwrap(), (true, false));
        assert_eq!(plan(&["--bind", "10.255.255.254", "--no-auth", "--insecure"]).unwrap(), (false, false));
        assert!(plan(&["--bind", "10.255.255.254", "--no-auth"]).is_err());
    }

    #[test]
    fn words_for_the_shell() {
        assert_eq!(shell_word("/a/b-c.d".into()), "/a/b-c.d");
        assert_eq!(shell_word("/it's mine".into()), r"'/it'\''s mine'");
    }
}
