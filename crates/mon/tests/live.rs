//! A monitor in this process, asked by Ceph's own clients.

use mon::daemon::{MonOptions, mkfs, run};
use mon::{BootstrapSpec, MonError};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use types::Fsid;
use wire::EntityAddrVec;

const FSID: Fsid = Fsid([0x42; 16]);

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
}

struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), MonError>>,
}

impl Cluster {
    fn new(name: &str) -> Cluster {
        let folder = std::env::temp_dir().join(format!("nacre-mon-live-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
             auth_client_required = none\nclient_mount_timeout = 10\nrados_mon_op_timeout = 10\n"
        );
        std::fs::write(folder.join("ceph.conf"), conf).unwrap();
        let mut cluster = Cluster { folder: Scratch(folder), addr, running: None };
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
        };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(options, async {
                let _ = stopped.await;
            }))
        });
        self.running = Some(Running { stop, thread });
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(self.addr).is_err() {
            assert!(Instant::now() < deadline, "the monitor does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        let Some(Running { stop, thread }) = self.running.take() else { return };
        let _ = stop.send(());
        thread.join().expect("the monitor's thread ends well").expect("and without an error");
    }

    fn conf(&self) -> PathBuf {
        self.folder.0.join("ceph.conf")
    }

    fn run(&self, words: &[&str]) -> Output {
        let conf = self.conf();
        let mut command = Command::new("timeout");
        command.arg("20").arg(words[0]).arg("-c").arg(conf).args(&words[1..]);
        command.output().unwrap()
    }

    /// Returns the standard output of a program for Ceph's Python bindings, in which `c` is the connected cluster.
    fn python(&self, program: &str) -> String {
        let conf = self.conf();
        let program = format!(
            "import rados\nc = rados.Rados(conffile='{}')\nc.connect()\n{program}\nc.shutdown()",
            conf.display()
        );
        let output = Command::new("timeout").args(["20", "/usr/bin/python3", "-c", &program]).output().unwrap();
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
    let mut watch = Command::new("timeout");
    watch.arg("5").args(["ceph", "-c"]).arg(&conf).arg("-w").stdout(std::process::Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(4);
    while Instant::now() < deadline {
        cluster.check(&["ceph", "log", "hello from here"]);
        std::thread::sleep(Duration::from_millis(500));
    }
    let mut shown = String::new();
    std::io::Read::read_to_string(watch.stdout.as_mut().unwrap(), &mut shown).unwrap();
    let _ = watch.wait();
    assert!(shown.contains("hello from here"), "{shown}");
    assert!(cluster.check(&["ceph", "log", "last", "5", "info", "cluster"]).contains("hello from here"));
}

#[test]
fn strangers_are_turned_away_and_hurt_nobody() {
    use std::io::{Read, Write};
    let cluster = Cluster::new("strangers");
    let mut garbage = TcpStream::connect(cluster.addr).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    garbage.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
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
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong = runtime.block_on(run(options, std::future::ready(()))).unwrap_err();
    assert!(wrong.to_string().contains("not called 'b'"), "{wrong}");
}
