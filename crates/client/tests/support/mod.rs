//! A real Ceph cluster on loopback, made of the system's own `ceph-mon` and `ceph-osd`, without authentication.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends with its processes and its directory.
pub struct RealCeph {
    dir: PathBuf,
    mon: Option<Child>,
    osds: Vec<Option<Child>>,
}

/// Whether the programs are there. Where `NACRE_REQUIRE_ORACLES=1` says they must be, their absence is a failure.
pub fn ceph_is_installed() -> bool {
    let have = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let all = ["ceph-mon", "ceph-osd", "monmaptool", "ceph"].into_iter().all(have);
    let required = std::env::var("NACRE_REQUIRE_ORACLES").is_ok_and(|v| v == "1");
    assert!(all || !required, "NACRE_REQUIRE_ORACLES=1, but ceph-mon, ceph-osd, monmaptool or ceph is missing");
    all
}

fn quiet(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn free_port() -> u16 {
    // Below the range from which the kernel takes ports for outgoing connections.
    let start = 21_000 + (std::process::id() % 900) as u16 * 10;
    (start..start + 2000)
        .step_by(10)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of 200 ports is free")
}

impl RealCeph {
    /// Starts a monitor and `osds` OSDs; each OSD is a failure domain.
    pub fn start(osds: usize) -> RealCeph {
        let dir = std::env::temp_dir().join(format!("nacre-client-live-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("mon")).unwrap();
        let (at, port, fsid) = (dir.display(), free_port(), "11111111-2222-4333-8444-555555555555");
        let conf = format!(
            "[global]\nfsid = {fsid}\nmon host = [v2:127.0.0.1:{port}/0]\nauth cluster required = none\n\
             auth service required = none\nauth client required = none\nrun dir = {at}\nlog file = {at}/$name.log\n\
             admin socket = {at}/$name.asok\npid file =\ncrash dir = {at}/crash\nmon data = {at}/mon\nosd data = {at}/osd.$id\n\
             public network = 127.0.0.0/8\nosd crush chooseleaf type = 0\nosd pool default pg autoscale mode = off\n\
             mon allow pool delete = true\nosd objectstore = bluestore\nbluestore block size = 2147483648\n\
             bluestore block create = true\nosd memory target = 939524096\nosd class update on start = false\n\
             osd crush update on start = false\nms bind port min = {}\nms bind port max = {}\n",
            port + 1,
            port + 500
        );
        fs::write(dir.join("ceph.conf"), conf).unwrap();
        let mut ceph = RealCeph { dir: dir.clone(), mon: None, osds: Vec::new() };
        let monmap = dir.join("monmap");
        let addr = format!("[v2:127.0.0.1:{port}]");
        quiet(Command::new("monmaptool").args(["--create", "--fsid", fsid, "--addv", "a", &addr]).arg(&monmap));
        quiet(ceph.tool("ceph-mon").args(["--mkfs", "-i", "a", "--monmap"]).arg(&monmap));
        ceph.mon = Some(ceph.daemon("ceph-mon", "a"));
        for id in 0..osds {
            let id = id.to_string();
            let uuid = format!("00000000-0000-4000-8000-{id:0>12}");
            fs::create_dir_all(dir.join(format!("osd.{id}"))).unwrap();
            quiet(ceph.tool("ceph").args(["osd", "new", &uuid, &id]));
            quiet(ceph.tool("ceph-osd").args(["-i", &id, "--mkfs", "--osd-uuid", &uuid, "--no-mon-config"]));
            quiet(ceph.tool("ceph").args(["osd", "crush", "add", &format!("osd.{id}"), "1", "root=default"]));
            ceph.osds.push(None);
            ceph.start_osd(id.parse().unwrap());
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let up = format!("{osds} up");
        while !ceph.output(&["osd", "stat"]).contains(&up) {
            assert!(Instant::now() < deadline, "OSDs do not come up: {}", ceph.output(&["osd", "stat"]));
            std::thread::sleep(Duration::from_millis(200));
        }
        ceph
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    pub fn start_osd(&mut self, id: usize) {
        self.osds[id] = Some(self.daemon("ceph-osd", &id.to_string()));
    }

    /// Kills an OSD without warning.
    pub fn kill_osd(&mut self, id: usize) {
        if let Some(mut child) = self.osds[id].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What `ceph ARGS` prints.
    pub fn output(&self, args: &[&str]) -> String {
        let output = self.tool("ceph").args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.conf()).env_remove("CEPH_ARGS").stderr(Stdio::piped()).stdout(Stdio::piped());
        if program == "ceph" {
            command.args(["--connect-timeout", "30"]);
        }
        command
    }

    fn daemon(&self, program: &str, id: &str) -> Child {
        let mut command = self.tool(program);
        command.args(["-f", "-i", id]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|e| panic!("{program}: {e}"))
    }
}

impl Drop for RealCeph {
    fn drop(&mut self) {
        for mut child in self.osds.drain(..).flatten().chain(self.mon.take()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
