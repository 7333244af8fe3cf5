"""Misfortunes of daemons, networks and disks, chosen by a seed. Each begins, lasts a while, and is taken back."""

import math
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import rados

from .cluster import Trouble

BLKIO = Path("/sys/fs/cgroup/blkio")
TABLE = "inet endurance"
AT_A_TIME = 3


def sh(*command):
    """Runs a command. Gives its success and its output; one that is not installed fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        return False, str(error)
    return done.returncode == 0, done.stdout + done.stderr


def spread(pick, low, high):
    """A number of which the logarithm is even between bounds."""
    return math.exp(pick.uniform(math.log(low), math.log(high)))


class Faults:
    """Runs misfortunes beside each other. `clients`: names to processes of clients. `told` hears of each, in words.

    `only`: names of those that come; all if there are none."""

    def __init__(self, cluster, clients, seed, told, only):
        self.cluster, self.clients, self.told, self.only = cluster, clients, told, only
        self.random = random.Random(f"{seed} faults")
        self.counts, self.lock = {}, threading.Lock()
        self.troubled = set()
        self.stop = threading.Event()
        self.threads = []
        self.failure = None
        self.can = self.look_around()
        self.wiping = None

    def look_around(self):
        """Which kinds work on this machine: in a network of its own, with the rights that it has."""
        can = {
            "network": Path("/proc/self/ns/net").exists()
            and sh("ss", "-K", "-tn", "dport", "=", ":1")[0]
            and self.is_alone()
        }
        can["loss"] = can["network"] and sh("nft", "add", "table", *TABLE.split())[0]
        if can["loss"]:
            sh("nft", "add", "chain", *TABLE.split(), "input", "{ type filter hook input priority 0; }")
        can["slow network"] = (
            can["network"]
            and sh("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1gbit", "burst", "1m", "latency", "1s")[0]
        )
        if can["slow network"]:
            sh("tc", "qdisc", "del", "dev", "lo", "root")
        can["slow disk"] = self.can_slow_disks()
        return can

    def is_alone(self):
        """Nobody else uses the loopback device: it is that of a namespace made for this run."""
        return sh("ip", "-o", "link")[1].count("\n") == 1

    def can_slow_disks(self):
        """Cgroups of version 1 slow down what a process reads from and writes to the disk directly."""
        found, said = sh("stat", "-c", "%Hd:%Ld", str(self.cluster.folder))
        self.group = BLKIO / f"endurance-{time.time_ns()}"
        try:
            self.group.mkdir()
            self.device = said.strip()
            for what in ("read_bps", "write_bps"):
                (self.group / f"blkio.throttle.{what}_device").write_text(f"{self.device} 100000000\n")
            return found
        except OSError:
            return False

    def close(self):
        """Removes what it has made outside its namespaces, once no daemon runs."""
        try:
            self.group.rmdir()
        except OSError:
            pass  # This machine has no such group.

    # Rounds.

    def begin(self):
        self.stop.clear()
        self.threads = [
            threading.Thread(target=self.loop, args=(self.random.randrange(1 << 60),), daemon=True)
            for _ in range(AT_A_TIME)
        ]
        for thread in self.threads:
            thread.start()

    def end(self):
        """Takes back what lasts, and waits until all of it is."""
        self.stop.set()
        for thread in self.threads:
            thread.join(300)
            if thread.is_alive():
                raise Trouble("a misfortune cannot be taken back within 300 s")
        if self.failure:
            raise self.failure
        self.all_is_well()

    def all_is_well(self):
        for daemon in self.cluster.daemons:
            self.cluster.hold(daemon, False)
            self.cluster.go_on(daemon)
        self.cluster.command_until_done(prefix="osd set-full-ratio", ratio=0.95)
        for osd in self.cluster.osds:
            self.cluster.command_until_done(prefix="osd in", ids=[osd.split(".")[1]])
            self.cluster.command_until_done(prefix="osd primary-affinity", id=int(osd.split(".")[1]), weight=1.0)
        for flag in ("pause", "noup", "norecover", "nobackfill"):
            self.cluster.command_until_done(prefix="osd unset", key=flag)

    def loop(self, seed):
        pick = random.Random(seed)
        kinds = self.kinds()
        while not self.stop.is_set():
            self.stop.wait(pick.expovariate(1 / 3))
            if self.stop.is_set():
                return
            kind = pick.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
            try:
                what = kinds[kind][1](pick)
            except rados.Error as error:
                what = f"gave up: {error}"  # Monitors are in trouble, too.
            except Trouble as trouble:
                self.failure = trouble
                return
            if what is not None:
                with self.lock:
                    self.counts[kind] = self.counts.get(kind, 0) + 1

    def kinds(self):
        """Weight and function of each kind that works here."""
        out = {
            "osd killed": (14, self.kill_osd),
            "osd stopped": (12, self.pause_osd),
            "osd in short stops": (4, self.stutter),
            "monitor killed": (5, self.kill_mon),
            "monitor stopped": (4, self.pause_mon),
            "client killed": (8, self.kill_client),
            "client stopped": (4, self.pause_client),
            "osd restarted in order": (3, self.restart_osd),
            "all killed": (1.5, self.kill_all),
            "disk wiped": (2.5, self.wipe),
            "pg_num changed": (1.5, self.change_pg_num),
            "osd out": (3, self.out),
            "scrub": (4, self.scrub),
            "full": (1.5, self.full),
            "paused": (1, self.pause),
            "repeered": (3, self.repeer),
            "affinity": (1.5, self.affinity),
        }
        if self.can["network"]:
            out |= {"connections reset": (14, self.reset)}
        if self.can["loss"]:
            out |= {"packets lost": (5, self.lose), "cut off": (5, self.cut)}
        if self.can["slow network"]:
            out |= {"slow network": (3, self.slow_network)}
        if self.can["slow disk"]:
            out |= {"slow disk": (5, self.slow_disk)}
        return {kind: entry for kind, entry in out.items() if not self.only or kind in self.only}

    def last(self, seconds):
        self.stop.wait(seconds)

    def take(self, pick, names):
        """One of these that is in no trouble yet."""
        with self.lock:
            free = sorted(set(names) - self.troubled)
            name = pick.choice(free) if free else None
            if name:
                self.troubled.add(name)
            return name

    def free(self, name):
        with self.lock:
            self.troubled.discard(name)

    def minority(self, pick):
        """A monitor, as long as the others are a majority."""
        with self.lock:
            having = [mon for mon in self.cluster.mons if mon in self.troubled]
        return self.take(pick, self.cluster.mons) if len(having) < len(self.cluster.mons) // 2 else None

    def on_daemon(self, pick, names, work):
        name = names(pick) if callable(names) else self.take(pick, names)
        if name is None:
            return None
        try:
            return work(name)
        finally:
            self.free(name)

    # Daemons.

    def ends(self, pick, names, after_s, how=signal.SIGKILL):
        def work(name):
            after = spread(pick, *after_s)
            self.told(f"{name} ends by signal {int(how)}, back after {after:.2f} s")
            self.cluster.end(name, after, how)
            self.last(after + 1)
            return name

        return self.on_daemon(pick, names, work)

    def kill_osd(self, pick):
        return self.ends(pick, self.cluster.osds, (0.05, 25))

    def kill_mon(self, pick):
        return self.ends(pick, self.minority, (0.05, 15))

    def restart_osd(self, pick):
        return self.ends(pick, self.cluster.osds, (0.05, 10), signal.SIGTERM)

    def stops(self, pick, names, seconds):
        def work(name):
            self.told(f"{name} stands still for {seconds:.3f} s")
            self.cluster.stop(name)
            self.last(seconds)
            self.cluster.go_on(name)
            return name

        return self.on_daemon(pick, names, work)

    def pause_osd(self, pick):
        return self.stops(pick, self.cluster.osds, spread(pick, 0.001, 40))

    def pause_mon(self, pick):
        return self.stops(pick, self.minority, spread(pick, 0.001, 40))

    def stutter(self, pick):
        """Short stops, one after the other, as of a disk or processor that is slow now and then."""

        def work(name):
            self.told(f"{name} stands still again and again")
            for _ in range(pick.randint(5, 60)):
                self.cluster.stop(name)
                self.last(spread(pick, 0.005, 0.5))
                self.cluster.go_on(name)
                self.last(spread(pick, 0.005, 0.3))
                if self.stop.is_set():
                    break
            return name

        return self.on_daemon(pick, self.cluster.osds, work)

    def kill_all(self, pick):
        """Every process of the cluster at once."""
        self.told("every daemon is killed")
        for name in pick.sample(list(self.cluster.daemons), len(self.cluster.daemons)):
            self.cluster.end(name, spread(pick, 0.05, 5))
        self.last(6)
        return "all"

    def wipe(self, pick):
        """The disk of an OSD is lost, where all copies are there: then the others have everything."""
        with self.lock:
            if self.wiping:
                return None
            self.wiping = True
        try:
            if not self.cluster.is_clean():
                return None

            def work(name):
                self.told(f"{name} loses its disk")
                self.cluster.make_store_anew(name)
                return name

            done = self.on_daemon(pick, self.cluster.osds, work)
            while (
                done and not self.stop.is_set() and not (self.cluster.is_up(int(done[4:])) and self.cluster.is_clean())
            ):
                self.last(1)
            return done
        finally:
            self.wiping = None

    # Clients.

    def kill_client(self, pick):
        name = self.take(pick, self.clients)
        if name is None:
            return None
        try:
            self.told(f"client {name} is killed")
            self.clients[name].kill(spread(pick, 0.05, 5))
            self.last(2)
            return name
        finally:
            self.free(name)

    def pause_client(self, pick):
        name = self.take(pick, self.clients)
        if name is None:
            return None
        try:
            seconds = spread(pick, 0.01, 40)
            self.told(f"client {name} stands still for {seconds:.3f} s")
            self.clients[name].signal(signal.SIGSTOP)
            self.last(seconds)
            self.clients[name].signal(signal.SIGCONT)
            return name
        finally:
            self.free(name)

    # Networks.

    def ports(self, name):
        """Ports that a daemon listens on."""
        _, said = sh("ss", "-Hltnp")
        return [
            line.split()[3].rsplit(":", 1)[1] for line in said.splitlines() if f"pid={self.cluster.pid(name)}," in line
        ]

    def reset(self, pick):
        """Connections of a daemon are reset: all of them, or some."""
        name = pick.choice(sorted(self.cluster.daemons))
        _, said = sh("ss", "-Htnp", "state", "established")
        lines = [line.split() for line in said.splitlines() if f"pid={self.cluster.pid(name)}," in line]
        some = lines if pick.random() < 0.4 else [line for line in lines if pick.random() < 0.3]
        for words in some:
            here, there = words[2], words[3]
            sh("ss", "-K", "-tn", "src", here, "dst", there)
        self.told(f"{len(some)} of {len(lines)} connections of {name} are reset")
        return name if some else None

    def filtered(self, pick, rule_of, seconds, words):
        """Packets to or from ports of a daemon meet a rule for a while."""
        name = pick.choice(sorted(self.cluster.daemons))
        ports = self.ports(name)
        if not ports:
            return None
        self.told(f"{name}: {words} for {seconds:.1f} s")
        handles = []
        for side in pick.choice([["dport"], ["sport"], ["dport", "sport"]]):
            rule = f"tcp {side} {{ {', '.join(ports)} }} {rule_of}"
            done, said = sh("nft", "-e", "-a", "add", "rule", *TABLE.split(), "input", rule)
            if done and "# handle " in said:
                handles.append(said.rsplit("# handle ", 1)[1].split()[0])
        self.last(seconds)
        for handle in handles:
            sh("nft", "delete", "rule", *TABLE.split(), "input", "handle", handle)
        return name if handles else None

    def lose(self, pick):
        percent = pick.choice([1, 5, 20, 50])
        return self.filtered(
            pick, f"numgen random mod 100 < {percent} drop", spread(pick, 0.5, 20), f"{percent} % of packets are lost"
        )

    def cut(self, pick):
        return self.filtered(pick, "drop", spread(pick, 0.2, 30), "packets one way or both are lost")

    def slow_network(self, pick):
        if self.take(pick, ["the network"]) is None:
            return None
        try:
            rate, latency = pick.choice([8, 20, 60, 200]), pick.choice([20, 200, 1000])
            self.told(f"the network carries {rate} Mbit/s, and queues for {latency} ms")
            done, _ = sh(
                "tc",
                "qdisc",
                "add",
                "dev",
                "lo",
                "root",
                "tbf",
                "rate",
                f"{rate}mbit",
                "burst",
                "128k",
                "latency",
                f"{latency}ms",
            )
            self.last(spread(pick, 1, 20))
            sh("tc", "qdisc", "del", "dev", "lo", "root")
            return "network" if done else None
        finally:
            self.free("the network")

    def slow_disk(self, pick):
        """The disk of one OSD, or of all."""
        if self.take(pick, ["the disks"]) is None:
            return None
        try:
            names = self.cluster.osds if pick.random() < 0.2 else [pick.choice(self.cluster.osds)]
            rate, seconds = int(spread(pick, 200_000, 8_000_000)), spread(pick, 1, 20)
            self.told(f"disks of {', '.join(names)} take {rate} bytes/s for {seconds:.1f} s")
            for what in ("read_bps", "write_bps"):
                (self.group / f"blkio.throttle.{what}_device").write_text(f"{self.device} {rate}\n")
            for name in names:
                self.move(name, self.group)
            self.last(seconds)
            for name in names:
                self.move(name, BLKIO)
            return names[0]
        finally:
            self.free("the disks")

    def move(self, name, group):
        try:
            (group / "cgroup.procs").write_text(f"{self.cluster.pid(name)}\n")
        except OSError:
            pass  # It has just died.

    # Operators' work.

    def change_pg_num(self, pick):
        pool = pick.choice(["objects", "coded", "images"])
        number = pick.choice([4, 8, 16, 24])
        self.told(f"pool {pool} is to have {number} groups")
        self.cluster.command(prefix="osd pool set", pool=pool, var="pg_num", val=str(number))
        return pool

    def out(self, pick):
        def work(name):
            seconds = spread(pick, 1, 40)
            self.told(f"{name} is out for {seconds:.1f} s")
            self.cluster.command(prefix="osd out", ids=[name[4:]])
            self.last(seconds)
            self.cluster.command_until_done(prefix="osd in", ids=[name[4:]])
            return name

        return self.on_daemon(pick, self.cluster.osds, work)

    def scrub(self, pick):
        _, groups = self.cluster.stamps()
        group, kind = pick.choice(sorted(group["pgid"] for group in groups)), pick.choice(
            ["scrub", "deep-scrub", "deep-scrub", "repair"]
        )
        self.told(f"{kind} of {group}")
        self.cluster.command(prefix=f"pg {kind}", pgid=group)
        return group

    def full(self, pick):
        if self.take(pick, ["full"]) is None:
            return None
        try:
            seconds = spread(pick, 1, 12)
            self.told(f"every OSD counts as full for {seconds:.1f} s")
            self.cluster.command(prefix="osd set-full-ratio", ratio=0.0001)
            self.last(seconds)
            self.cluster.command_until_done(prefix="osd set-full-ratio", ratio=0.95)
            return "full"
        finally:
            self.free("full")

    def pause(self, pick):
        flag, seconds = pick.choice(["pause", "noup", "norecover", "nobackfill"]), spread(pick, 1, 15)
        self.told(f"flag {flag} for {seconds:.1f} s")
        self.cluster.command(prefix="osd set", key=flag)
        self.last(seconds)
        self.cluster.command_until_done(prefix="osd unset", key=flag)
        return flag

    def repeer(self, pick):
        _, groups = self.cluster.stamps()
        group = pick.choice(sorted(group["pgid"] for group in groups))
        self.told(f"{group} peers anew")
        self.cluster.command(prefix="pg repeer", pgid=group)
        return group

    def affinity(self, pick):
        osd, weight = pick.choice(self.cluster.osds), pick.choice([0.0, 0.3, 1.0])
        self.told(f"{osd} is primary as far as {weight}")
        self.cluster.command(prefix="osd primary-affinity", id=int(osd[4:]), weight=weight)
        return osd
