//! A monitor in this process, asked by Ceph's own clients.

use auth::keyring::{Entry, Keyring, parse_entity};
use auth::{ClientPolicy, Key, KeyKind, ServerPolicies, ServerPolicy};
use mon::bootstrap::first_entities;
use mon::daemon::{MonOptions, mkfs, mkfs_to_join, run};
use mon::state::AuthEntry;
use mon::{BootstrapSpec, MonError};
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use types::Fsid;
use wire::EntityAddrVec;

const FSID: Fsid = Fsid([0x42; 16]);

/// Longest wait for anything. A busy machine needs some seconds to start a client.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns an address whose port no other test has, below those that the kernel gives to outgoing connections: one of
/// these may get any port that was free before.
fn own_addr() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    /// Locked for tests of other processes, as long as this one lives.
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    for _ in 0..1000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(31_000 + (std::process::id() * 7 + step) % 1_700).unwrap();
        // Another user's file is a port that another user has.
        let path = std::env::temp_dir().join(format!("nacre-test-port-{port}"));
        let Ok(lock) = File::create(path) else { continue };
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        if lock.try_lock().is_ok() && TcpListener::bind(addr).is_ok() {
            HELD.lock().unwrap().push(lock);
            return addr;
        }
    }
    panic!("no port is free");
}

/// A folder that goes away with the value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running monitor and a configuration file for clients.
struct Cluster {
    folder: Scratch,
    addr: SocketAddr,
    running: Option<Running>,
    /// True if parties prove who they are.
    has_keys: bool,
}

struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), MonError>>,
}

impl Running {
    fn start(options: MonOptions) -> Running {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(options, async {
                let _ = stopped.await;
            }))
        });
        Running { stop, thread }
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.thread.join().expect("the monitor's thread ends well").expect("and without an error");
    }
}

fn asks_for_proofs() -> (ServerPolicies, ClientPolicy) {
    (ServerPolicy::cephx().into(), ClientPolicy::cephx())
}

impl Cluster {
    fn new(name: &str) -> Cluster {
        let folder = std::env::temp_dir().join(format!("nacre-mon-live-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let addr = own_addr();
        let spec = BootstrapSpec {
            fsid: FSID,
            monitors: vec![("a".to_owned(), EntityAddrVec::msgr2(addr, 0))],
            auth: Default::default(),
            config: Vec::new(),
            now: std::time::SystemTime::now().into(),
        };
        mkfs(&folder, &spec).unwrap();
        let conf = format!(
            "[global]\nmon_host = [v2:{addr}/0]\nauth_cluster_required = none\nauth_service_required = none\n\
             auth_client_required = none\nclient_mount_timeout = 60\nrados_mon_op_timeout = 60\n"
        );
        std::fs::write(folder.join("ceph.conf"), conf).unwrap();
        let mut cluster = Cluster { folder: Scratch(folder), addr, running: None, has_keys: false };
        cluster.start();
        cluster
    }

    /// A cluster in which parties prove who they are. Its keyring has all entities of a new cluster and `entities`:
    /// names with capabilities for monitors.
    fn with_keys(name: &str, entities: &[(&str, &str)]) -> Cluster {
        let folder = std::env::temp_dir().join(format!("nacre-mon-live-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let addr = own_addr();
        let now = std::time::SystemTime::now().into();
        let mut seed = 0u8;
        let mut drawn = |out: &mut [u8]| {
            out.fill_with(|| {
                seed = seed.wrapping_mul(29).wrapping_add(71);
                seed
            });
        };
        let mut auth = first_entities(None, now, &mut drawn).unwrap();
        for (entity, caps) in entities {
            let caps = [("mon".to_owned(), (*caps).to_owned())].into();
            let key = Key::generate(KeyKind::Aes, now, &mut drawn);
            auth.insert((*entity).to_owned(), AuthEntry { key, pending_key: None, caps });
        }
        let keyring: String = auth.iter().map(|(name, entry)| Entry::from(entry.clone()).to_text(name)).collect();
        let spec = BootstrapSpec {
            fsid: FSID,
            monitors: vec![("a".to_owned(), EntityAddrVec::msgr2(addr, 0))],
            auth,
            config: Vec::new(),
            now,
        };
        mkfs(&folder, &spec).unwrap();
        std::fs::write(folder.join("all.keyring"), keyring).unwrap();
        let conf = format!(
            "[global]\nmon_host = [v2:{addr}/0]\nauth_supported = cephx\nkeyring = {}\nclient_mount_timeout = 60\n\
             rados_mon_op_timeout = 60\n",
            folder.join("all.keyring").display()
        );
        std::fs::write(folder.join("ceph.conf"), conf).unwrap();
        let mut cluster = Cluster { folder: Scratch(folder), addr, running: None, has_keys: true };
        cluster.start();
        cluster
    }

    fn start(&mut self) {
        let options = MonOptions {
            settings: mon::monitor::own_commands::new_settings("a"),
            admin_socket: None,
            set_log_filter: None,
            name: "a".to_owned(),
            data: self.folder.0.clone(),
            bind: Vec::new(),
            peers: Vec::new(),
            metadata: [("hostname".to_owned(), "here".to_owned())].into(),
            insecure: false,
            auth: self.has_keys.then(asks_for_proofs),
        };
        self.running = Some(Running::start(options.clone()));
        let deadline = Instant::now() + LIMIT;
        while TcpStream::connect(self.addr).is_err() {
            assert!(Instant::now() < deadline, "the monitor does not listen");
            // A program that another test is just starting holds a copy of the store's lock for a moment.
            if self.running.as_ref().is_some_and(|running| running.thread.is_finished()) {
                self.running = Some(Running::start(options.clone()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }

    fn conf(&self) -> PathBuf {
        self.folder.0.join("ceph.conf")
    }

    fn run(&self, words: &[&str]) -> Output {
        let conf = self.conf();
        let mut command = Command::new("timeout");
        command.arg("120").arg(words[0]).arg("-c").arg(conf).args(&words[1..]);
        command.output().unwrap()
    }

    /// Returns the standard output of a program for Ceph's Python bindings, in which `c` is the connected cluster.
    fn python(&self, program: &str) -> String {
        let conf = self.conf();
        let program = format!(
            "import rados\nc = rados.Rados(conffile='{}')\nc.connect()\n{program}\nc.shutdown()",
            conf.display()
        );
        let output = Command::new("timeout").args(["120", "/usr/bin/python3", "-c", &program]).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the standard output of a command that succeeds.
    fn check(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{words:?}: {} {out} {err}", output.status);
        out.into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns true if Ceph's clients are there. Where they must be, their absence fails.
fn clients_are_installed() -> bool {
    let programs = ["/usr/bin/ceph", "/usr/bin/rados", "/usr/lib/python3/dist-packages/ceph_argparse.py"];
    let found = programs.iter().all(|path| Path::new(path).exists());
    if !found {
        assert!(std::env::var_os("NACRE_REQUIRE_ORACLES").is_none(), "Ceph's clients are not installed");
        eprintln!("SKIPPED: Ceph's clients are not installed");
    }
    found
}

#[test]
fn rados_sees_pools_and_they_outlive_a_restart() {
    if !clients_are_installed() {
        return;
    }
    let mut cluster = Cluster::new("rados");
    assert_eq!(cluster.check(&["rados", "lspools"]), "");
    let made = cluster.python(
        "c.create_pool('first'); c.create_pool('second')\n\
         try: c.create_pool('first')\n\
         except rados.ObjectExists: print('exists')\n\
         print(c.get_fsid(), c.list_pools(), c.pool_lookup('second'))",
    );
    assert_eq!(made, format!("exists\n{FSID} ['first', 'second'] 2\n"));
    assert_eq!(cluster.check(&["rados", "lspools"]), "first\nsecond\n");
    cluster.stop();
    cluster.start();
    assert_eq!(cluster.check(&["rados", "lspools"]), "first\nsecond\n");
    cluster.python("c.delete_pool('first')");
    assert_eq!(cluster.check(&["rados", "lspools"]), "second\n");
    let df = cluster.check(&["rados", "df"]);
    assert!(df.contains("second") && df.contains("total_objects    0"), "{df}");
}

#[test]
fn ceph_asks_and_changes() {
    if !clients_are_installed() {
        return;
    }
    let mut cluster = Cluster::new("ceph");
    assert_eq!(cluster.check(&["ceph", "fsid"]).trim(), FSID.to_string());
    let stat = cluster.check(&["ceph", "mon", "stat"]);
    assert!(stat.contains("1 mons at"), "{stat}");
    let status = cluster.check(&["ceph", "-s"]);
    assert!(status.contains(&FSID.to_string()), "{status}");
    assert!(!cluster.run(&["ceph", "no", "such", "command"]).status.success());
    cluster.check(&["ceph", "osd", "pool", "create", "p", "8"]);
    cluster.check(&["ceph", "osd", "set", "noout"]);
    cluster.check(&["ceph", "config", "set", "mon", "mon_warn_on_too_few_osds", "false"]);
    cluster.stop();
    cluster.start();
    assert_eq!(cluster.check(&["ceph", "osd", "lspools"]), "1 p\n");
    assert!(cluster.check(&["ceph", "health"]).contains("noout flag(s) set"));
    cluster.check(&["ceph", "osd", "unset", "noout"]);
    assert_eq!(cluster.check(&["ceph", "health"]), "HEALTH_OK\n");
    assert!(cluster.check(&["ceph", "tell", "mon.a", "version"]).contains("version"));
}

#[test]
fn ceph_watches_the_log() {
    if !clients_are_installed() {
        return;
    }
    let cluster = Cluster::new("watch");
    let conf = cluster.conf();
    let mut watch = Command::new("ceph");
    watch.arg("-c").arg(&conf).arg("-w").stdout(std::process::Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let shown = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || shown.map_while(Result::ok).try_for_each(|line| told.send(line)));
    let deadline = Instant::now() + LIMIT;
    let mut lines = Vec::new();
    while !lines.iter().any(|line: &String| line.contains("hello from here")) {
        assert!(Instant::now() < deadline, "{lines:?}");
        cluster.check(&["ceph", "log", "hello from here"]);
        std::thread::sleep(Duration::from_millis(500));
        lines.extend(heard.try_iter());
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(cluster.check(&["ceph", "log", "last", "5", "info", "cluster"]).contains("hello from here"));
}

#[test]
fn strangers_are_turned_away_and_hurt_nobody() {
    use std::io::{Read, Write};
    let cluster = Cluster::new("strangers");
    let mut garbage = TcpStream::connect(cluster.addr).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    garbage.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answer = Vec::new();
    let closed = garbage.read_to_end(&mut answer);
    assert!(closed.is_ok(), "the connection is closed: {closed:?}");
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(cluster.addr).unwrap()).collect();
    if clients_are_installed() {
        assert_eq!(cluster.check(&["rados", "lspools"]), "");
    }
    drop(silent);
}

#[test]
fn a_store_is_made_once_and_belongs_to_one_name() {
    let mut cluster = Cluster::new("mkfs");
    let spec = BootstrapSpec {
        fsid: FSID,
        monitors: vec![("a".to_owned(), EntityAddrVec::msgr2(cluster.addr, 0))],
        auth: Default::default(),
        config: Vec::new(),
        now: std::time::SystemTime::now().into(),
    };
    let again = mkfs(&cluster.folder.0, &spec).unwrap_err();
    assert!(again.to_string().contains("already holds"), "{again}");
    cluster.stop();
    let options = MonOptions {
        settings: mon::monitor::own_commands::new_settings("a"),
        admin_socket: None,
        set_log_filter: None,
        name: "b".to_owned(),
        data: cluster.folder.0.clone(),
        bind: Vec::new(),
        peers: Vec::new(),
        metadata: Default::default(),
        auth: None,
        insecure: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong = runtime.block_on(run(options.clone(), std::future::ready(()))).unwrap_err();
    assert!(wrong.to_string().contains("not called 'b'"), "{wrong}");
    // One that asks nobody for proofs is for this machine alone, unless that is wanted.
    let open = MonOptions { name: "a".to_owned(), bind: vec!["192.0.2.1:3300".parse().unwrap()], ..options };
    let refused = runtime.block_on(run(open.clone(), std::future::ready(()))).unwrap_err();
    assert!(refused.to_string().contains("192.0.2.1:3300") && refused.to_string().contains("--insecure"), "{refused}");
    let wanted = runtime.block_on(run(MonOptions { insecure: true, ..open }, std::future::ready(()))).unwrap_err();
    assert!(wanted.to_string().contains("cannot listen on 192.0.2.1"), "{wanted}");
}

#[test]
fn whoever_has_a_key_may_do_what_it_is_for() {
    if !clients_are_installed() {
        return;
    }
    let mut cluster = Cluster::with_keys("keys", &[("client.reader", "allow r")]);
    let keyring = std::fs::metadata(cluster.folder.0.join("keyring")).unwrap();
    assert_eq!(keyring.permissions().mode() & 0o777, 0o600);
    let store = std::fs::metadata(cluster.folder.0.join("store.redb")).unwrap();
    assert_eq!(store.permissions().mode() & 0o777, 0o600, "it has everybody's keys");
    assert!(cluster.check(&["ceph", "-s"]).contains(&FSID.to_string()));
    cluster.check(&["ceph", "osd", "pool", "create", "p", "8"]);
    assert_eq!(cluster.check(&["rados", "-n", "client.reader", "lspools"]), "p\n");
    let refused = |words: &[&str], code: i32, why: &str| {
        let output = cluster.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{words:?}: {} {said}", output.status);
    };
    let reader = ["ceph", "-n", "client.reader"];
    assert!(cluster.check(&[&reader[..], &["osd", "dump"]].concat()).contains("'p'"));
    refused(&[&reader[..], &["osd", "set", "noout"]].concat(), 13, "access denied");
    refused(&[&reader[..], &["auth", "get", "client.admin"]].concat(), 13, "access denied");
    // A key that belongs to somebody else.
    let text = std::fs::read_to_string(cluster.folder.0.join("all.keyring")).unwrap();
    let ring = Keyring::parse(Path::new("all.keyring"), text.as_bytes()).unwrap();
    let of_reader = ring.find(&parse_entity("client.reader").unwrap()).unwrap();
    let wrong = cluster.folder.0.join("wrong.keyring");
    std::fs::write(&wrong, of_reader.to_text("client.admin")).unwrap();
    let wrong = wrong.display().to_string();
    refused(&["ceph", "-k", &wrong, "-s"], 13, "permission denied");
    refused(&["ceph", "--auth-supported", "none", "-s"], 13, "permission denied");
    assert!(!cluster.run(&["ceph", "-n", "client.nobody", "-k", &wrong, "-s"]).status.success());
    for mode in ["secure", "crc"] {
        assert!(cluster.check(&["ceph", "--ms-mon-client-mode", mode, "fsid"]).contains(&FSID.to_string()));
    }
    // Ids, keys and rights are those from before.
    cluster.stop();
    cluster.start();
    assert_eq!(cluster.check(&["rados", "-n", "client.reader", "lspools"]), "p\n");
    cluster.check(&["ceph", "auth", "rm", "client.reader"]);
    assert!(!cluster.run(&["rados", "-n", "client.reader", "lspools"]).status.success());
}

#[test]
fn monitors_know_each_other_by_the_key_that_they_share() {
    if !clients_are_installed() {
        return;
    }
    let cluster = Cluster::with_keys("monitors", &[]);
    let text = std::fs::read(cluster.folder.0.join("keyring")).unwrap();
    let ring = Keyring::parse(Path::new("keyring"), &text).unwrap();
    let shared = ring.find(&parse_entity("mon.").unwrap()).unwrap().key.clone();
    let other = Key::new(KeyKind::Aes, shared.created(), &[7; 16]).unwrap();
    let join = |name: &str, key: &Key| {
        let data = cluster.folder.0.join(name);
        mkfs_to_join(&data, FSID, name, Some(key)).unwrap();
        let addr = own_addr();
        Running::start(MonOptions {
            settings: mon::monitor::own_commands::new_settings(name),
            admin_socket: None,
            set_log_filter: None,
            name: name.to_owned(),
            data,
            bind: vec![addr],
            peers: vec![EntityAddrVec::msgr2(cluster.addr, 0)],
            metadata: Default::default(),
            insecure: false,
            auth: Some(asks_for_proofs()),
        })
    };
    let stranger = join("c", &other);
    let friend = join("b", &shared);
    let deadline = Instant::now() + LIMIT;
    while !cluster.check(&["ceph", "mon", "stat"]).contains("2 mons at") {
        assert!(Instant::now() < deadline, "{}", cluster.check(&["ceph", "mon", "stat"]));
        std::thread::sleep(Duration::from_millis(200));
    }
    // Whichever monitor a command comes to, both know the same rights.
    for _ in 0..4 {
        cluster.check(&["ceph", "osd", "set", "noout"]);
    }
    assert!(cluster.check(&["ceph", "mon", "stat"]).contains("2 mons at"));
    stranger.stop();
    friend.stop();
}
