"""The course of an endurance test: rounds of operations and misfortunes, and what must hold at the end of each."""

import json
import shutil
import tempfile
import threading
import time
from pathlib import Path

import rados

from . import logs
from .cluster import MEMORY_MAX, MEMORY_NOTED, Cluster, Trouble
from .faults import Faults
from .objects import Violation
from .processes import ClientProcess, Stopped

PROGRESS_S = 30
# How long an operation may wait once nothing is wrong any more.
ANSWER_S = 180


class Conductor:
    def __init__(self, options, seed):
        self.options, self.seed = options, seed
        self.folder = Path(options.dir).resolve() if options.dir else Path(tempfile.mkdtemp(prefix="nacre-endurance-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "journals").mkdir(exist_ok=True)
        self.found, self.lock = [], threading.Lock()
        self.stopped = threading.Event()
        self.began = time.monotonic()
        self.rounds = self.checked = 0
        self.phase = "begins"
        self.clients, self.faults, self.cluster = {}, None, None
        self.told = (self.folder / "faults.log").open("a", buffering=1)
        self.peaks = {}

    def say(self, words):
        print(f"{time.monotonic() - self.began:7.0f} s  {words}", flush=True)

    def tell(self, words):
        self.told.write(f"{time.strftime('%H:%M:%S')} {time.monotonic() - self.began:.1f} {words}\n")

    def failed(self, facts):
        with self.lock:
            self.found.append(facts)
        self.tell(f"found: {facts.get('violation')}")
        self.stopped.set()

    def ended(self, name, code):
        """A daemon has ended without having been told to."""
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        self.failed(
            {
                "violation": f"{name} has ended by itself, {how}",
                "log": str(self.folder / "cluster" / "log" / f"{name}.log"),
            }
        )

    def check(self):
        if self.stopped.is_set():
            raise Stopped

    # Beginning.

    def set_up(self):
        options = self.options
        self.say(f"seed {self.seed}, folder {self.folder}")
        code = options.code or ("2+1" if self.seed % 2 == 0 else "4+2")
        self.cluster = Cluster(
            self.folder / "cluster", options.nacre, options.engine, options.osds, "4GiB", {}, self.ended
        )
        self.cluster.create()
        for pool in ("objects", "images"):
            self.cluster.command_until_done(
                prefix="osd pool create", pool=pool, pg_num=8, pgp_num=8, pool_type="replicated"
            )
            self.cluster.command_until_done(prefix="osd pool set", pool=pool, var="size", val="3")
        self.stripes = {"objects": None, "images": None}
        if code != "none":
            k, m = code.split("+")
            profile = [
                f"k={k}",
                f"m={m}",
                "crush-failure-domain=osd" if options.engine == "ceph" else "crush-failure-domain=host",
            ]
            self.cluster.command_until_done(prefix="osd erasure-code-profile set", name="profile", profile=profile)
            self.cluster.command_until_done(
                prefix="osd pool create",
                pool="coded",
                pg_num=8,
                pgp_num=8,
                pool_type="erasure",
                erasure_code_profile="profile",
            )
            self.stripes["coded"] = int(k) * 4096
        for pool in self.stripes:
            app = "rbd" if pool == "images" else "rados"
            self.cluster.command_until_done(prefix="osd pool application enable", pool=pool, app=app)
        self.cluster.wait_until_clean()
        if not options.no_faults:
            self.faults = Faults(
                self.cluster, self.clients, self.seed, self.tell, [kind for kind in options.only.split(",") if kind]
            )
            missing = [kind for kind, works in self.faults.can.items() if not works]
            self.say(
                f"pools of three copies and of {code}; "
                + (f"not possible on this machine: {', '.join(missing)}" if missing else "all misfortunes work here")
            )
        self.start_clients()

    def start_clients(self):
        common = {"seed": self.seed, "pause_s": self.options.pause_ms / 1000, "writers": 2}
        number = 0
        for pool, stripe in self.stripes.items():
            for _ in range(1 if pool == "images" else self.options.clients):
                number += 1
                name = f"client{number}"
                module = "endurance.images" if pool == "images" else "endurance.client"
                settings = {
                    **common,
                    "client": number,
                    "pool": pool,
                    "stripe": stripe,
                    "coded": stripe is not None,
                    "folder": str(self.folder / "journals" / name),
                }
                self.clients[name] = ClientProcess(
                    name, module, settings, self.folder / "journals", self.failed, self.stopped
                )
        for client in self.clients.values():
            client.start()
        for client in self.clients.values():
            client.wait_until_ready(120)

    # Rounds.

    def run(self):
        """Gives whether everything held."""
        options = self.options
        seconds = options.hours * 3600 + options.minutes * 60
        threading.Thread(target=self.report, daemon=True).start()
        threading.Thread(target=self.watch_memory, daemon=True).start()
        try:
            self.set_up()
            while True:
                self.round()
                if options.rounds and self.rounds >= options.rounds:
                    break
                if not options.rounds and time.monotonic() - self.began > seconds:
                    break
        except Stopped:
            pass
        except (Trouble, Violation, rados.Error) as error:
            self.failed({**getattr(error, "facts", {"violation": str(error)}), "phase": self.phase})
        self.phase = "ends"
        self.stopped.set()
        if self.found:
            self.keep()
            return False
        self.say(f"all held: {self.summary()}")
        return True

    def round(self):
        number = self.rounds + 1
        self.phase = f"round {number}: misfortunes" if self.faults else f"round {number}: operations"
        for client in self.clients.values():
            client.go(number)
        if self.faults:
            self.faults.begin()
        self.stopped.wait(self.options.round_seconds)
        self.check()
        self.phase = f"round {number}: misfortunes end"
        if self.faults:
            self.faults.end()
        self.check()
        self.phase = f"round {number}: operations end"
        for client in self.clients.values():
            client.wait_until_ready(ANSWER_S)
        for client in self.clients.values():
            client.ask("pause", ANSWER_S)
        self.check()
        self.phase = f"round {number}: waits for clean groups"
        self.cluster.wait_until_clean()
        self.check()
        if self.options.tamper:
            self.tamper()
        self.phase = f"round {number}: reads everything"
        self.verify(number)
        self.check()
        if self.options.engine == "nacre":
            # A Ceph takes many minutes for it, and is here for its answers to clients.
            self.phase = f"round {number}: deep scrub"
            self.cluster.deep_scrub_all()
        self.cluster.wait_until_clean()
        self.check_daemons()
        for client in self.clients.values():
            client.ask("checkpoint", ANSWER_S)
        self.check()
        self.remove_logs(number)
        self.rounds = number

    def tamper(self):
        """Changes one byte of one object that a client has."""
        with self.cluster.admin.open_ioctx("objects") as io:
            names = (f"c1-w{writer}-small{number}" for number in range(16) for writer in range(2))
            for name in names:
                try:
                    first = io.read(name, 1)
                except rados.ObjectNotFound:
                    continue
                if first:
                    io.write(name, bytes([first[0] ^ 1]), 0)
                    return

    def verify(self, number):
        """Every client reads all that it has, at the same time; then logs are compared with all clients' journals."""
        for client in self.clients.values():
            client.send("verify")
        told = {}
        end = time.monotonic() + 600
        for client in self.clients.values():
            answer = None
            while answer is None:
                self.check()
                try:
                    answer = client.answers.get(timeout=0.5)
                except Exception:
                    if time.monotonic() > end:
                        raise Trouble(f"client {client.name} does not read everything within 600 s") from None
            self.checked += answer["verified"]
            for log, entries in answer["logs"].items():
                told.setdefault((client.settings["pool"], log), {})[client.settings["client"]] = entries
        for (pool, log), entries in sorted(told.items()):
            with self.cluster.admin.open_ioctx(pool) as io:
                self.checked += logs.check(io, pool, log, entries, self.stripes[pool] or logs.RECORD_BYTES)

    def remove_logs(self, number):
        for pool in self.stripes:
            if pool != "images":
                with self.cluster.admin.open_ioctx(pool) as io:
                    for log in range(logs.LOGS):
                        try:
                            io.remove_object(logs.name(number, log))
                        except rados.ObjectNotFound:
                            pass

    def check_daemons(self):
        complaints = self.cluster.complaints()
        if complaints:
            raise Violation("daemons have panicked", lines=complaints[:20])
        for name, peak in self.cluster.memory().items():
            self.peaks[name] = max(peak, self.peaks.get(name, 0))
            if peak > MEMORY_MAX[name.split(".")[0]]:
                raise Violation(
                    f"{name} has had {peak >> 20} MiB of memory", most_mib=MEMORY_MAX[name.split(".")[0]] >> 20
                )

    # Reporting.

    def summary(self):
        count = lambda name: sum(client.count(name) for client in self.clients.values())
        faults = self.faults.counts if self.faults else {}
        return (
            f"{self.rounds} rounds, {count('operations')} operations, {sum(faults.values())} misfortunes"
            + (f" ({', '.join(f'{kind} {number}' for kind, number in sorted(faults.items()))})" if faults else "")
            + f", {self.checked} objects and records compared at ends of rounds; most memory of an OSD "
            f"{max([peak for name, peak in self.peaks.items() if name.startswith('osd')], default=0) >> 20} MiB"
        )

    def report(self):
        while not self.stopped.wait(PROGRESS_S):
            count = sum(client.count("operations") for client in self.clients.values())
            faults = sum(self.faults.counts.values()) if self.faults else 0
            oldest = max(
                (
                    (client.status.get("oldest_s", 0), client.name, client.status.get("oldest", ""))
                    for client in self.clients.values()
                ),
                default=(0, "", ""),
            )
            waits = f"; {oldest[1]} waits {oldest[0]:.0f} s for {oldest[2]}" if oldest[0] > 10 else ""
            self.say(f"{self.phase}; {count} operations, {faults} misfortunes, {self.rounds} rounds{waits}")

    def watch_memory(self):
        """Notes when a daemon has more memory than it may, so that the journals tell why."""
        while not self.stopped.wait(1):
            if self.cluster and self.cluster.admin:
                for name, now in self.cluster.memory("VmRSS").items():
                    if now > MEMORY_NOTED[name.split(".")[0]]:
                        self.tell(f"{name} has {now >> 20} MiB of memory")

    def keep(self):
        """Says what was found, and keeps everything that tells of it."""
        failure = self.folder / "failure"
        failure.mkdir(exist_ok=True)
        (failure / "found.json").write_text(
            json.dumps({"seed": self.seed, "found": self.found, "summary": self.summary()}, indent=1)
        )
        for facts in self.found[:5]:
            self.say("VIOLATION: " + json.dumps(facts)[:4000])
        if self.cluster and self.cluster.admin:
            self.cluster.record(failure)
        self.say(f"{self.summary()}")
        self.say(
            f"seed {self.seed}; everything is kept in {self.folder} (failure/, journals/, faults.log, cluster/log/)"
        )

    def close(self):
        for client in self.clients.values():
            client.end()
        if self.cluster:
            self.cluster.close()
        if self.faults:
            self.faults.close()
        if not self.found and not self.options.keep and not self.options.dir:
            shutil.rmtree(self.folder, ignore_errors=True)
