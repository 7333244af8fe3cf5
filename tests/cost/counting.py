"""Counts of events that processes cause: system calls, switches, wake-ups, requests to drives, allocations.

`perf stat` counts tracepoints in the context of the processes and of all threads that they have or start, workers of
their rings included. An event that this kernel or machine does not have is told, and absent from the result.
"""
import os
import re
import select
import signal
import subprocess

from clusters import Failure, run

# Time that perf is given to open or close its counters.
PATIENCE_S = 60
# Time that perf is given to read the symbols of a large binary.
PROBE_S = 180
# Codes of operations of io_uring (linux/io_uring.h).
RING_OPERATIONS = {"writev": 2, "fsync": 3, "poll": 6, "sendmsg": 9, "send": 26, "recv": 27, "recvmsg": 10, "read": 22,
                   "write": 23, "readv": 1}
CALLS = ("io_uring_enter", "read", "write", "futex", "epoll_wait", "sendmsg", "recvmsg", "sendto", "recvfrom",
         "pwritev", "pwrite64", "pread64", "io_submit", "io_getevents", "fdatasync", "fsync", "madvise", "clock_gettime",
         "poll")
# Entry points of the allocator that make an object, as the binary has them.
ALLOCATION = re.compile(r"^mi_(?:malloc|zalloc|calloc|realloc)(?:_aligned)?$")


class Event:
    """One counter: its name in tables, and how `perf stat` is told of it."""

    def __init__(self, name, spec, condition=None):
        self.name, self.spec, self.condition = name, spec, condition

    def words(self):
        return ["-e", self.spec, *(["--filter", self.condition] if self.condition else [])]


def events():
    """All events that are asked for, whether this kernel has them or not."""
    found = [
        Event("switches", "context-switches"),
        Event("migrations", "cpu-migrations"),
        Event("page faults", "page-faults"),
        Event("wake-ups caused", "sched:sched_waking"),
        Event("system calls", "raw_syscalls:sys_enter"),
        Event("handed to workers of the ring", "io_uring:io_uring_queue_async_work"),
        Event("waits for readiness", "io_uring:io_uring_poll_arm"),
        Event("drive reads", "block:block_bio_queue", 'rwbs ~ "R*"'),
        Event("drive writes", "block:block_bio_queue", 'rwbs ~ "W*"'),
        Event("drive writes through", "block:block_bio_queue", 'rwbs ~ "*FU*"'),
        Event("drive flushes", "block:block_bio_queue", 'rwbs ~ "F*"'),
    ]
    found += [Event(f"call {name}", f"syscalls:sys_enter_{name}") for name in CALLS]
    found += [Event(f"ring {name}", "io_uring:io_uring_submit_req", f"opcode == {code}")
              for name, code in RING_OPERATIONS.items()]
    return found


def usable(wanted):
    """Splits events into those that can be counted here, and sentences about the others."""
    counted, missing = [], []
    for event in wanted:
        tried = subprocess.run(["perf", "stat", "-x", ";", *event.words(), "true"], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, errors="replace", timeout=60)
        if tried.returncode == 0 and "<not" not in tried.stderr:
            counted.append(event)
        else:
            missing.append(f"{event.name} ({event.spec})")
    return counted, missing


class Counters:
    """Counters of some processes, from `begin` to `end`.

    To open and close a counter for each event and thread takes long; they count only between the two calls.
    """

    def __init__(self, counted, pids):
        self.counted = counted
        to_child, self.control = os.pipe()
        self.answers, from_child = os.pipe()
        words = [word for event in counted for word in event.words()]
        self.child = subprocess.Popen(["perf", "stat", "-x", ";", "--delay=-1", f"--control=fd:{to_child},{from_child}",
                                       *words, "-p", ",".join(map(str, pids))], pass_fds=(to_child, from_child),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      text=True)
        os.close(to_child)
        os.close(from_child)

    def command(self, word):
        """Has perf do something, and waits until it has."""
        os.write(self.control, f"{word}\n".encode())
        ready, _, _ = select.select([self.answers], [], [], PATIENCE_S)
        if not ready or not os.read(self.answers, 16).startswith(b"ack"):
            raise Failure(f"perf stat does not {word} its counters")

    def begin(self):
        self.command("enable")

    def end(self):
        self.command("disable")

    def read(self):
        """Ends perf and returns the counts by name."""
        self.child.send_signal(signal.SIGINT)
        _, said = self.child.communicate(timeout=PATIENCE_S)
        os.close(self.control)
        os.close(self.answers)
        lines = [line.split(";") for line in said.splitlines() if line.count(";") >= 3]
        if len(lines) != len(self.counted):
            raise Failure(f"perf stat printed {len(lines)} counters of {len(self.counted)}: {said.strip()[-400:]}")
        counts = {}
        for event, fields in zip(self.counted, lines):
            if fields[0].strip().isdigit():
                counts[event.name] = int(fields[0])
        return counts


class Probes:
    """Probes at the allocator's entry points in a binary; only where the kernel has them (uprobes)."""

    GROUP = "nacre_cost"

    def __init__(self, binary):
        self.events, self.why_not = [], None
        symbols = run(["nm", "--defined-only", binary], limit_s=120, check=False)
        names = sorted({line.split()[-1] for line in symbols.splitlines() if ALLOCATION.match(line.split()[-1])})
        if not names:
            self.why_not = f"{binary} has no symbols of the allocator"
            return
        self.remove()
        try:
            adds = [f"--add={self.GROUP}:{name}={name}" for name in names]
            run(["perf", "probe", "-q", "-x", binary, *adds], limit_s=PROBE_S)
            self.events = [Event(name, f"{self.GROUP}:{name}") for name in names]
        except Failure as e:
            self.why_not = str(e)
            self.remove()

    def remove(self):
        run(["perf", "probe", "-q", "--del", f"{self.GROUP}:*"], check=False)
