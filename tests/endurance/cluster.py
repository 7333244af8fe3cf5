"""The cluster under test: its daemons, started and watched by the checker itself, and what it says of itself."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import rados

MONS = ("mon.a", "mon.b", "mon.c")
# Memory of a daemon that is noted, and that which fails a run. `nacre up` gives an OSD 112 MiB, which it keeps to in
# the test `memory`; the primary of an update of 90 MiB in an erasure-coded pool has that and its parity beside it, some
# 180 MiB in all, and there may be a second one for a moment.
MEMORY_NOTED = {"osd": 136 << 20, "mon": 256 << 20}
MEMORY_MAX = {"osd": 288 << 20, "mon": 512 << 20}
# Exit codes of daemons that did what they were told.
IN_ORDER = {0}
CLEAN = {"active+clean", "active+clean+scrubbing", "active+clean+scrubbing+deep", "active+clean+wait"}
# Shards may be in another order than the map's.
CLEAN |= {state.replace("clean", "clean+remapped") for state in CLEAN}


class Trouble(Exception):
    """The cluster does not do what it must."""


class Daemon:
    def __init__(self, name):
        self.name = name
        self.process = None
        self.starts_at = None
        # The signal that it was told to end by.
        self.ends_by = None
        self.is_stopped = False
        self.is_held = False


class Cluster:
    """`nacre`: the binary. `engine`: `nacre` or `ceph`; the daemons of a Ceph are looked after by `nacre up`."""

    def __init__(self, folder, nacre, engine, osds, osd_size, environment, ended):
        self.folder, self.nacre, self.engine, self.osd_size = folder, nacre, engine, osd_size
        self.environment = {**os.environ, **environment}
        self.ended = ended
        self.osds = [f"osd.{number}" for number in range(osds)]
        self.mons = list(MONS) if engine == "nacre" else ["mon.a"]
        self.daemons = {name: Daemon(name) for name in [*self.mons, *self.osds]}
        self.lock = threading.RLock()
        self.closing = False
        self.admin = None
        self.conf = folder / "ceph.conf"
        os.environ["CEPH_CONF"] = str(self.conf)

    def create(self):
        """Makes the cluster, and starts its daemons."""
        args = ["up", "--detach", "--dir", str(self.folder), "--osds", str(len(self.osds)), "--osd-size", self.osd_size]
        args += ["--engine", "ceph"] if self.engine == "ceph" else ["--no-restart", "--mons", str(len(self.mons))]
        self.tool(args, 300)
        if self.engine == "nacre":
            self.tool(["down", "--dir", str(self.folder)], 90)
            for daemon in self.daemons.values():
                self.start(daemon)
            threading.Thread(target=self.watch, daemon=True).start()
        self.admin = rados.Rados(conffile=str(self.conf))
        self.admin.connect()

    def tool(self, args, limit_s):
        done = subprocess.run(
            [self.nacre, *args], capture_output=True, text=True, timeout=limit_s, env=self.environment
        )
        if done.returncode != 0:
            raise Trouble(f"nacre {' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def log(self, daemon):
        return self.folder / "log" / f"{daemon.name}.log"

    def start(self, daemon):
        kind, number = daemon.name.split(".")
        log = self.log(daemon).open("ab")
        command = [self.nacre, kind, "--id", number, "--conf", str(self.conf)]
        with self.lock:
            daemon.starts_at, daemon.is_stopped, daemon.ends_by = None, False, None
            daemon.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
            )
        log.close()
        (self.folder / "run" / f"{daemon.name}.pid").write_text(f"{daemon.process.pid}\n")

    def watch(self):
        """Starts daemons when it is time, and tells of those that ended by themselves."""
        while not self.closing:
            for daemon in self.daemons.values():
                with self.lock:
                    if self.closing:
                        return
                    ended = daemon.process is not None and daemon.process.poll() is not None
                    by_itself = daemon.starts_at is None and not daemon.is_held
                    in_order = daemon.ends_by == signal.SIGTERM and daemon.process.returncode == 0
                    if ended and (by_itself or daemon.ends_by == signal.SIGTERM) and not in_order:
                        if not self.waits_for_its_disk(daemon):
                            self.ended(daemon.name, daemon.process.returncode)
                        daemon.starts_at = daemon.starts_at or time.monotonic() + 1
                    if ended:
                        daemon.ends_by = None
                    due = daemon.starts_at is not None and time.monotonic() >= daemon.starts_at and not daemon.is_held
                    if due and daemon.process.poll() is not None:
                        self.start(daemon)
            time.sleep(0.03)

    def waits_for_its_disk(self, daemon):
        """The daemon did not start: the kernel still has the store open for writes of the killed process before it."""
        lines = self.log(daemon).read_text(errors="replace").splitlines()
        return daemon.process.returncode == 1 and bool(lines) and "cannot start" in lines[-1] and "in use" in lines[-1]

    def end(self, name, after_s, how=signal.SIGKILL):
        """Ends a daemon; it is started again after so many seconds."""
        daemon = self.daemons[name]
        with self.lock:
            if daemon.process.poll() is None:
                daemon.starts_at = time.monotonic() + after_s
                daemon.ends_by = how
                if daemon.is_stopped and how != signal.SIGKILL:
                    daemon.process.send_signal(signal.SIGCONT)
                daemon.process.send_signal(how)

    def hold(self, name, is_held):
        """A daemon that is held is not started again."""
        with self.lock:
            self.daemons[name].is_held = is_held

    def stop(self, name):
        daemon = self.daemons[name]
        with self.lock:
            if daemon.process.poll() is None:
                daemon.process.send_signal(signal.SIGSTOP)
                daemon.is_stopped = True

    def go_on(self, name):
        daemon = self.daemons[name]
        with self.lock:
            if daemon.process.poll() is None:
                daemon.process.send_signal(signal.SIGCONT)
            daemon.is_stopped = False

    def pid(self, name):
        return self.daemons[name].process.pid

    def runs(self, name):
        return self.daemons[name].process.poll() is None

    def make_store_anew(self, name):
        """An OSD whose disk is lost: it dies, is forgotten, and an empty one takes its place."""
        number = name.split(".")[1]
        self.hold(name, True)
        self.end(name, 0)
        self.daemons[name].process.wait()
        limit = time.monotonic() + 120
        while self.is_up(int(number)):
            if time.monotonic() > limit:
                raise Trouble(f"{name} was killed and is still up")
            time.sleep(0.5)
        self.command_until_done(prefix="osd purge", id=int(number), yes_i_really_mean_it=True)
        subprocess.run(["rm", "-r", str(self.folder / name)], check=True)
        self.tool(["osd", "--id", number, "--conf", str(self.conf), "--mkfs", "--size", self.osd_size], 60)
        keyring = (self.folder / name / "keyring").read_bytes()
        self.command_until_done(data=keyring, prefix="auth import")
        self.hold(name, False)

    def close(self):
        """Ends every daemon."""
        self.closing = True
        if self.engine == "ceph":
            subprocess.run([self.nacre, "down", "--dir", str(self.folder)], capture_output=True, timeout=120)
            return
        with self.lock:
            for daemon in self.daemons.values():
                if daemon.process is not None and daemon.process.poll() is None:
                    daemon.process.kill()
                    daemon.process.wait()

    # Answers of the monitors.

    def command(self, timeout_s=20, data=b"", **words):
        """A command for the monitors. Gives what it printed; raises a rados.Error where it fails or takes too long."""
        code, out, words = self.admin.mon_command(json.dumps(words), data, timeout=timeout_s)
        if code != 0:
            raise rados.OSError(f"{words}: {code}", errno=-code)
        return out

    def json(self, **words):
        return json.loads(self.command(format="json", **words))

    def command_until_done(self, limit_s=120, **words):
        """Runs a command, and again while no monitor answers."""
        end = time.monotonic() + limit_s
        while True:
            try:
                return self.command(**words)
            except rados.Error as error:
                if time.monotonic() > end:
                    raise Trouble(f"{words} does not work: {error}") from error
                time.sleep(0.5)

    def json_until_done(self, **words):
        return json.loads(self.command_until_done(format="json", **words))

    def is_up(self, number):
        dump = self.json_until_done(prefix="osd dump")
        return any(osd["osd"] == number and osd["up"] == 1 for osd in dump["osds"])

    def groups(self):
        return self.json_until_done(prefix="status")["pgmap"]

    def is_clean(self):
        found = self.groups()
        # A Ceph takes minutes to trim snapshots.
        is_clean = lambda state: state in CLEAN or (self.engine == "ceph" and state.startswith("active+clean"))
        clean = sum(entry["count"] for entry in found.get("pgs_by_state", []) if is_clean(entry["state_name"]))
        return found["num_pgs"] == clean

    def wait_until_clean(self, still_s=150, most_s=900):
        """Waits until every group is clean. Fails once nothing has changed for `still_s`, or after `most_s`."""
        begun = since = time.monotonic()
        before = None
        while not self.is_clean():
            found = self.groups()
            now = [
                found.get(count)
                for count in ("num_pgs", "pgs_by_state", "degraded_objects", "misplaced_objects", "unfound_objects")
            ]
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() - since > still_s or time.monotonic() - begun > most_s:
                raise Trouble(f"not clean, and nothing has changed for {time.monotonic() - since:.0f} s: {found}")
            time.sleep(0.5)

    def stamps(self):
        dump = self.json_until_done(prefix="pg dump", dumpcontents=["pgs"])
        groups = dump["pg_stats"] if isinstance(dump, dict) else dump
        return {group["pgid"]: group["last_deep_scrub_stamp"] for group in groups}, groups

    def deep_scrub_all(self, limit_s=300):
        """Compares all copies of everything, and fails if any differ."""
        before, _ = self.stamps()
        end, again = time.monotonic() + limit_s, 0
        while True:
            if time.monotonic() >= again:
                self.command_until_done(prefix="osd deep-scrub", who="all")
                again = time.monotonic() + 60
            now, groups = self.stamps()
            waiting = [group for group, stamp in now.items() if stamp == before.get(group)]
            if not waiting:
                break
            if time.monotonic() > end:
                raise Trouble(f"groups are not scrubbed within {limit_s} s: {waiting}")
            time.sleep(0.5)
        bad = [f"{group['pgid']} {group['state']}" for group in groups if "inconsistent" in group["state"]]
        errors = {group["pgid"]: group["stat_sum"].get("num_scrub_errors", 0) for group in groups}
        if bad or any(errors.values()):
            raise Trouble(f"copies differ: {bad} {({group: count for group, count in errors.items() if count})}")

    def complaints(self):
        """Errors in the cluster's log, and lines of panics in the logs of daemons."""
        out = []
        for path in sorted((self.folder / "log").glob("*.log")):
            with path.open(errors="replace") as lines:
                out += [f"{path.stem}: {line.strip()[:300]}" for line in lines if "panicked at" in line]
        return out

    def memory(self, field="VmHWM"):
        """The most memory that each daemon has had since its start, in bytes, without the pages of the program.

        `field`: `VmRSS` for what it has now.
        """
        out = {}
        for name, daemon in self.daemons.items():
            if self.engine != "nacre" or daemon.process is None or daemon.process.poll() is not None:
                continue
            try:
                text = Path(f"/proc/{daemon.process.pid}/status").read_text()
            except OSError:
                continue
            number = lambda field: int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1]) << 10
            try:
                out[name] = number(field) - number("RssFile")
            except TypeError:
                continue  # It has just ended.
        return out

    def record(self, folder):
        """Asks the cluster how it is, and writes each answer to a file."""
        folder.mkdir(exist_ok=True)
        lines = ["-s", "health detail", "osd tree", "osd dump", "pg dump", "quorum_status", "log last 2000"]
        lines += [
            f"tell {osd} {what}"
            for osd in self.osds
            for what in ("dump_ops_in_flight", "dump_historic_slow_ops", "status")
        ]
        for line in lines:
            name = line.lstrip("-").replace(" ", "-")
            with (folder / name).open("wb") as out:
                subprocess.run(
                    ["timeout", "-k", "1", "10", "ceph", *line.split()], stdout=out, stderr=subprocess.STDOUT
                )
