"""Runs tests, each in a process of its own, some at a time."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Seconds after which a test counts as stuck. The dearest take a tenth of that on two processors.
LIMIT_S = 1200


# Tests that may run beside those that are meant to, while processors are idle.
MORE_AT_A_TIME = 3
# Share of the processors' time that is to be idle before one of them begins, and the seconds in which it is measured.
IDLE_SHARE = 0.35
IDLE_S = 2


class Idleness:
    """Lets one waiter at a time go on when the machine has been idle."""

    def __init__(self):
        self.turn = threading.Lock()

    def begins(self, is_over):
        """Waits until the machine has been idle for a while, and gives True; or until `is_over()`, and gives False."""
        with self.turn:
            while not is_over():
                before = processor_times()
                time.sleep(IDLE_S)
                now = processor_times()
                idle, total = (after - earlier for earlier, after in zip(before, now))
                if total > 0 and idle / total >= IDLE_SHARE:
                    return not is_over()
            return False


def processor_times():
    """Ticks that the processors were idle while nobody waited for a drive, and all ticks, since the machine's start.

    Processors that work for programs which give way to the tests (`nice`) count as idle."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    _, nice, _, idle, *_ = ticks
    return idle + (nice if os.nice(0) <= 0 else 0), sum(ticks)


@dataclass(frozen=True)
class Result:
    """How a test ended. `seconds`: wall-clock time. `log`: the file with what it said."""

    test: object
    passed: bool
    seconds: float
    log: Path
    is_stuck: bool

    def passed_over(self):
        """Lines in which it says that it could not test something."""
        return [line.strip() for line in self.lines() if "SKIPPED" in line]

    def why(self):
        """The last that a failed test said, shortened."""
        if self.is_stuck:
            return [f"it still ran after {LIMIT_S} s"]
        lines = self.lines()
        panics = [number for number, line in enumerate(lines) if "panicked at" in line]
        # A test that is to meet panics, or has threads, says more than one; the last one ended it.
        # A property test tells there the smallest input that fails, an element a line.
        chosen = lines[panics[-1] : panics[-1] + 40] if panics else lines[-8:]
        kept = [line for line in lines if "folder is kept" in line]
        return [line[:300] for line in [*chosen, *(line for line in kept if line not in chosen)]]

    def lines(self):
        return self.log.read_text(errors="replace").splitlines()


class Runner:
    """Runs tests and keeps their results. `told` is called with each result, by one thread at a time. `uses_ceph`
    tells whether a test takes the real Ceph that tests share, which has one user at a time."""

    def __init__(self, logs, environment, uses_ceph, told):
        self.logs, self.environment, self.uses_ceph, self.told = logs, environment, uses_ceph, told
        # Tests that run, and take it or wait for it.
        self.ceph_users = 0
        self.results = []
        self.lock = threading.Lock()
        self.running = {}
        self.is_interrupted = False

    def run(self, tests, at_a_time):
        """Runs them to the end of the last, so many at a time, in this order but for those that must wait for the Ceph
        that they share. Where these leave the processors idle, as tests that wait for something do, more begin."""
        queue = list(tests)
        further = MORE_AT_A_TIME if at_a_time > 1 else 0
        idle = Idleness()
        asked = [None] * min(at_a_time, len(queue)) + [idle] * further
        workers = [threading.Thread(target=self.work, args=(queue, idle)) for idle in asked]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def work(self, queue, idle):
        while not self.is_interrupted:
            if idle is not None and not idle.begins(lambda: not queue or self.is_interrupted):
                return
            test = self.next(queue, may_wait=idle is None)
            if test is None:
                return
            result = self.one(test)
            with self.lock:
                self.ceph_users -= self.uses_ceph(test)
                self.results.append(result)
                self.told(result)

    def next(self, queue, may_wait):
        """Takes the first test that can run. If all that are left wait for the Ceph, the first of them, or none."""
        with self.lock:
            ready = (at for at, test in enumerate(queue) if not (self.ceph_users and self.uses_ceph(test)))
            at = next(ready, 0 if may_wait else None)
            test = queue.pop(at) if queue and at is not None else None
            self.ceph_users += test is not None and self.uses_ceph(test)
            return test

    def one(self, test):
        log = self.logs / f"{re.sub(r'[^A-Za-z0-9_.]+', '-', test.name)}.log"
        command = [test.program.path, "--exact", test.path, "--include-ignored", "--nocapture", "--test-threads", "1"]
        environment = {**os.environ, **self.environment, **test.program.environment()}
        began = time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=test.program.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running[process.pid] = process
            is_stuck = False
            try:
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                is_stuck, code = True, None
                kill_group(process)
            del self.running[process.pid]
        if code != 0:
            stop_clusters_of(process.pid)
        return Result(test, code == 0, time.monotonic() - began, log, is_stuck)

    def interrupt(self):
        """Ends what runs, and begins nothing more."""
        self.is_interrupted = True
        for process in list(self.running.values()):
            kill_group(process)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def stop_clusters_of(pid):
    """Kills the daemons of clusters that a test left, by the files in which these tell their process ids."""
    for folder in Path(tempfile.gettempdir()).glob(f"nacre-test-*-{pid}"):
        # The supervisor first, as it starts again what dies.
        for file in sorted(folder.rglob("*.pid"), key=lambda file: len(file.parts)):
            try:
                word = file.read_text().split()[0]
                os.kill(int(word), signal.SIGKILL)
            except (OSError, ValueError, IndexError):
                continue
