"""Samples of the whole machine by `perf record`, as shares of layers for each group of processes."""
import collections
import os
import re
import subprocess

import layers
from clusters import Failure

SAMPLES_PER_S = 1999
# `COMM PID`, then lines of `ADDRESS SYMBOL (PLACE)`.
HEADER = re.compile(r"^\S.*?\s(\d+)\s*$")
FRAME = re.compile(r"^\s+[0-9a-f]+ (.*) \(([^()]*|.*)\)$")


def record(path, seconds):
    """Starts to sample all processors for so long; returns the child. Its output is the file `path`."""
    command = ["perf", "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", str(SAMPLES_PER_S), "-o", path,
               "--", "sleep", str(seconds)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def samples(path):
    """Yields the process id and the chain of (symbol, place), innermost first, of each sample."""
    command = ["perf", "script", "-i", path, "-F", "comm,pid,ip,sym,dso", "--ns"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             text=True, errors="replace")
    pid, chain = None, []
    with child.stdout as lines:
        for line in lines:
            frame = FRAME.match(line)
            if frame:
                chain.append((frame.group(1), frame.group(2)))
                continue
            if pid is not None and chain:
                yield pid, chain
            header = HEADER.match(line.rstrip())
            pid, chain = (int(header.group(1)) if header else None), []
    if pid is not None and chain:
        yield pid, chain
    if child.wait() != 0:
        raise Failure(f"perf script cannot read {path}: exit status {child.returncode}")


def is_kernel(place):
    return "kernel" in place or place.startswith("[") and place != "[unknown]" and "vdso" not in place


def shares(path, groups, crates):
    """Counts samples by group and layer, and by group and innermost symbol.

    `groups`: name of a group by process id; processes without one count as `other`. Idle processors (process 0) count
    as nothing.
    """
    by_layer, by_symbol = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for pid, chain in samples(path):
        if pid == 0:
            continue
        group = groups.get(pid, "other")
        symbol, place = chain[0]
        if is_kernel(place):
            layer = layers.of_kernel([name for name, where in chain if is_kernel(where)])
        elif "nacre" in os.path.basename(place):
            layer = layers.of_program(symbol, crates)
        else:
            layer = layers.of_program(symbol, ())
            if layer in (layers.LIBRARIES, layers.UNKNOWN):
                layer = os.path.basename(place)
        by_layer[group][layer] += 1
        by_symbol[group][symbol] += 1
    return by_layer, by_symbol
