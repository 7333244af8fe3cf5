"""Clients as processes: started, commanded, killed and started again."""

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from .cluster import Trouble


class Stopped(Exception):
    """Something was found elsewhere."""


class ClientProcess:
    """One client, through all its incarnations.

    `module`: what it runs. `settings`: what it is given, and its incarnation besides. `failed` hears of a violation;
    `stopped` is set once anybody has found one.
    """

    def __init__(self, name, module, settings, folder, failed, stopped):
        self.name, self.module, self.settings, self.failed = name, module, settings, failed
        self.stopped = stopped
        self.log = folder / f"{name}.log"
        self.incarnation = 0
        self.process = None
        self.status, self.sums = {}, {"operations": 0, "reads": 0, "appends": 0}
        self.lock = threading.Lock()
        self.answers = queue.Queue()
        self.expected_end = False
        self.going = None
        self.ready = False

    def start(self):
        self.incarnation += 1
        settings = json.dumps({**self.settings, "incarnation": self.incarnation})
        command = [sys.executable, "-m", self.module, settings]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).resolve().parents[1],
            )
        self.expected_end, self.ready = False, False
        threading.Thread(target=self.listen, args=(self.process,), daemon=True).start()

    def listen(self, process):
        for line in process.stdout:
            facts = json.loads(line)
            if "violation" in facts:
                self.failed({**facts, "client_process": self.name})
            elif "status" in facts:
                self.status = facts["status"]
            elif "ready" in facts:
                self.ready = True
                if self.going is not None:
                    self.send(f"go {self.going}", process)
            elif "going" not in facts:
                self.answers.put(facts)
        process.wait()
        if process is self.process and not self.expected_end:
            self.failed(
                {
                    "violation": "a client has ended",
                    "client_process": self.name,
                    "code": process.returncode,
                    "log": str(self.log),
                }
            )

    def send(self, line, process=None):
        process = process or self.process
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # It has just been killed; the next one is told when it is ready.

    def go(self, number):
        self.going = number
        if self.ready:
            self.send(f"go {number}")

    def ask(self, line, limit_s):
        """Sends a command and gives its answer."""
        self.going = None
        self.send(line)
        end = time.monotonic() + limit_s
        while True:
            try:
                return self.answers.get(timeout=0.5)
            except queue.Empty:
                if self.stopped.is_set():
                    raise Stopped from None
                if time.monotonic() > end:
                    raise Trouble(
                        f"client {self.name} does not answer '{line}' within {limit_s} s: {self.status}"
                    ) from None

    def wait_until_ready(self, limit_s):
        end = time.monotonic() + limit_s
        while not self.ready:
            if self.stopped.is_set():
                raise Stopped
            if time.monotonic() > end:
                raise Trouble(f"client {self.name} is not ready within {limit_s} s")
            time.sleep(0.1)

    def kill(self, again_in_s):
        with self.lock:
            self.expected_end = True
            for name in self.sums:
                self.sums[name] += self.status.get(name, 0)
            self.status = {}
            self.process.kill()
            self.process.wait()
            time.sleep(again_in_s)
            self.start()

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self):
        self.expected_end = True
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def count(self, name):
        return self.sums[name] + self.status.get(name, 0)
