"""Starting and stopping the two clusters that are compared: Nacre from its binary, Ceph from Debian's packages.

Both listen on loopback without authentication; both keep their data in sparse files below one folder, every OSD its own
CRUSH host. Every process that is started here is known by its id and is ended by it.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid

START_S = 120
STOP_S = 30


class Failure(Exception):
    """The cause of a failure, for the person who runs this."""


def run(command, env=None, limit_s=60, check=True):
    """Runs a command to its end and returns what it printed. Raises `Failure` if it fails or takes too long."""
    line = " ".join(map(str, command))
    try:
        done = subprocess.run([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=limit_s)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Failure(f"{line}: still running after {limit_s} s") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-600:]
        raise Failure(f"{line}: exit status {done.returncode}: {said}")
    return done.stdout


def wait_for(what, condition, limit_s):
    """Waits until `condition` returns true; a `Failure` of the condition's own counts as not yet."""
    end = time.monotonic() + limit_s
    last = ""
    while time.monotonic() < end:
        try:
            if condition():
                return
        except Failure as e:
            last = f" ({e})"
        time.sleep(0.3)
    raise Failure(f"{what}: not so after {limit_s} s{last}")


def stop_processes(pids, limit_s=STOP_S):
    """Asks processes to end, and kills those that do not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        end = time.monotonic() + limit_s
        while time.monotonic() < end and any(is_alive(pid) for pid in pids):
            time.sleep(0.1)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Cluster:
    """The part that both have in common: clients find them by a configuration file."""

    name = ""

    def __init__(self, folder, osds, osd_bytes, port):
        self.folder, self.osds, self.osd_bytes, self.port = folder, osds, osd_bytes, port
        self.env = dict(os.environ, CEPH_CONF=f"{folder}/ceph.conf")
        self.env.pop("CEPH_ARGS", None)

    def ceph(self, *words, limit_s=60):
        return run(["ceph", *words], self.env, limit_s)

    def ceph_json(self, *words):
        return json.loads(self.ceph(*words, "--format", "json"))

    def make_pool(self, name, size, pg_num):
        self.ceph("osd", "pool", "create", name, str(pg_num), str(pg_num), "replicated")
        self.ceph("osd", "pool", "set", name, "size", str(size))
        self.ceph("osd", "pool", "set", name, "min_size", str(size - 1))
        self.ceph("osd", "pool", "application", "enable", name, "compare")

    def make_coded_pool(self, name, k, m, pg_num):
        """Makes an erasure-coded pool that takes overwrites, with at most one shard on each OSD."""
        self.ceph("osd", "erasure-code-profile", "set", name, f"k={k}", f"m={m}", "crush-failure-domain=osd")
        self.ceph("osd", "pool", "create", name, str(pg_num), str(pg_num), "erasure", name)
        self.ceph("osd", "pool", "set", name, "allow_ec_overwrites", "true")
        self.ceph("osd", "pool", "application", "enable", name, "compare")

    def wait_until_clean(self, limit_s=START_S):
        def clean():
            pgmap = self.ceph_json("status")["pgmap"]
            states = {s["state_name"]: s["count"] for s in pgmap.get("pgs_by_state", [])}
            # Shards may be in another order than the map's.
            clean = states.get("active+clean", 0) + states.get("active+clean+remapped", 0)
            return 0 < clean == pgmap["num_pgs"]
        wait_for(f"{self.name}: every placement group active+clean", clean, limit_s)


class Nacre(Cluster):
    name = "nacre"

    def __init__(self, binary, *place):
        super().__init__(*place)
        self.binary = binary

    def version(self):
        return run([self.binary, "--version"]).strip()

    def start(self):
        run([self.binary, "up", "--dir", self.folder, "--detach", "--no-restart", "--mons", 1, "--osds", self.osds,
             "--osd-size", self.osd_bytes, "--port", self.port], limit_s=START_S)

    def pids(self):
        """Process ids by daemon: the monitor, the OSDs, and the supervisor that 'nacre up' leaves."""
        found = {}
        folder = f"{self.folder}/run"
        for entry in os.listdir(folder) if os.path.isdir(folder) else ():
            if entry.endswith(".pid"):
                with open(f"{folder}/{entry}") as f:
                    found[entry.removesuffix(".pid")] = int(f.read().split()[0])
        return found

    def stop(self):
        pids = [pid for pid in self.pids().values() if self.is_own(pid)]
        if os.path.exists(f"{self.folder}/ceph.conf"):
            run([self.binary, "down", "--dir", self.folder], limit_s=STOP_S * 2, check=False)
        stop_processes([pid for pid in pids if self.is_own(pid)])

    def is_own(self, pid):
        """Tells if the process still is the one that was started: ids are used again."""
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                return self.folder in f.read()
        except OSError:
            return False


CEPH_CONF = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port},v1:127.0.0.1:{port_v1}]
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
ms bind ipv4 = true
ms bind port min = {port_min}
ms bind port max = {port_max}
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid.asok
log file = {folder}/log/$name.log
crash dir = {folder}/crash
mon data = {folder}/mon.$id
mgr data = {folder}/mgr.$id
osd data = {folder}/osd.$id
mon data avail warn = 5
mon allow pool delete = true
mon allow pool size one = true
mon max pg per osd = 1000
osd class update on start = false
osd crush update on start = false
osd pool default pg autoscale mode = off
osd objectstore = bluestore
osd memory target = {memory_target}
bluestore block create = true
bluestore block size = {osd_bytes}
"""
# As Ceph's own documents advise for small machines; its default of 4 GiB for each of six would not fit most of them.
CEPH_MEMORY_TARGET_BYTES = 1 << 30


class Ceph(Cluster):
    name = "ceph"
    PROGRAMS = ("ceph", "rados", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-authtool", "monmaptool")

    def __init__(self, *place):
        super().__init__(*place)
        self.children = {}

    @classmethod
    def missing_programs(cls):
        return [program for program in cls.PROGRAMS if shutil.which(program) is None]

    def version(self):
        return run(["ceph-osd", "--version"]).strip()

    def start(self):
        for part in ("", "run", "log", "crash", "mgr.x"):
            os.makedirs(os.path.join(self.folder, part), exist_ok=True)
        fsid = str(uuid.uuid4())
        with open(f"{self.folder}/ceph.conf", "w") as f:
            f.write(CEPH_CONF.format(fsid=fsid, folder=self.folder, port=self.port, port_v1=self.port + 1,
                                     port_min=self.port + 10, port_max=self.port + 900, osd_bytes=self.osd_bytes,
                                     memory_target=CEPH_MEMORY_TARGET_BYTES))
        keyring, monmap = f"{self.folder}/keyring", f"{self.folder}/monmap"
        run(["ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"])
        run(["ceph-authtool", keyring, "--gen-key", "-n", "client.admin",
             *(word for part in ("mon", "osd", "mgr") for word in ("--cap", part, "allow *"))])
        run(["monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a",
             f"[v2:127.0.0.1:{self.port},v1:127.0.0.1:{self.port + 1}]", monmap])
        run(["ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring], self.env)
        self.spawn("mon.a", "ceph-mon", "-i", "a")
        wait_for("ceph: the monitor answers", lambda: self.ceph("status", limit_s=10), START_S)
        self.spawn("mgr.x", "ceph-mgr", "-i", "x")
        for n in range(self.osds):
            os.makedirs(f"{self.folder}/osd.{n}", exist_ok=True)
            osd_uuid = str(uuid.uuid4())
            self.ceph("osd", "new", osd_uuid, str(n))
            run(["ceph-osd", "-i", n, "--mkfs", "--osd-uuid", osd_uuid, "--no-mon-config"], self.env, START_S)
            self.ceph("osd", "crush", "add", f"osd.{n}", "1.0", f"host=host{n}", "root=default")
            self.spawn(f"osd.{n}", "ceph-osd", "-i", str(n))
        wait_for(f"ceph: {self.osds} OSDs up", lambda: self.ceph_json("osd", "stat")["num_up_osds"] == self.osds, START_S)

    def spawn(self, name, *command):
        with open(f"{self.folder}/log/{name}.out", "w") as out:
            self.children[name] = subprocess.Popen([*command, "-f"], env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                                   stderr=out, start_new_session=True)

    def pids(self):
        return {name: child.pid for name, child in self.children.items() if child.poll() is None}

    def stop(self):
        # OSDs first: they tell the monitor that they go.
        osds = [child.pid for name, child in self.children.items() if name.startswith("osd.") and child.poll() is None]
        stop_processes(osds)
        stop_processes([child.pid for child in self.children.values() if child.poll() is None])
        for child in self.children.values():
            child.wait()


def check_port(port):
    """Clusters take their ports from here up; a monitor's must be free."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError as e:
            raise Failure(f"port {port} on 127.0.0.1 cannot be had ({e.strerror}); choose another with --port") from None
