"""Which tests catch each deliberate bug (crate `mutant`): `tests/run --mutants`.

Everything is built once more, into a folder of its own, with deliberate bugs that `NACRE_MUTANT` switches on. For each
the tests that may meet it run until one fails: first the one that caught it the last time, then those of its crates,
then simulated clusters under as many seeds as the usual run has time for on two processors, then the kept seeds. A run
that was stopped goes on where it was, if the crates are the same.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import page
from .programs import ROOT, WHOLE_BUILD, build

# Test programs that may meet a mutant, by what it breaks.
PROGRAMS = {"Store": ["store"], "Monitor": ["mon"], "Quorum": ["raft", "mon"]}
OTHERS = ["pg", "mon"]
KEPT_SEEDS = "sim::integration"
# Longest processor time of one test program, and longest time. A mutant may make a test go on, or wait, for ever.
LIMIT_CPU_S = 600
LIMIT_S = 3600
# Seeds of the swarm, of all its kinds, which nobody chose.
FIRST_SEED = 19_000_000_000
SEEDS = 120


def known():
    """Names of the mutants and what each breaks, from the crate's table."""
    source = (ROOT / "crates" / "mutant" / "src" / "lib.rs").read_text()
    return re.findall(r'^    [A-Z]\w+ "([a-z0-9-]+)" ([A-Z]\w+) "', source, re.MULTILINE)


def hunt(words):
    """Tries the mutants called so, or all; prints a line for each, and puts the table of all into the page."""
    mutants = [(name, part) for name, part in known() if words == ["all"] or name in words]
    if not mutants:
        sys.exit(f"no mutant is called {' '.join(words)}; crates/mutant/src/lib.rs has their names")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutants"
    command = [*WHOLE_BUILD, "--features", "sim/mutants,mutant/on", "--target-dir", str(target)]
    programs, binary = build(command)
    programs = {program.label: program for program in programs}
    journal = Journal(target / "caught.json")
    last = caught_last()
    rows = []
    for number, (name, part) in enumerate(mutants, 1):
        began = time.monotonic()
        if name not in journal.caught:
            journal.note(name, by_whom(name, part, programs, binary, last.get(name, "")))
        caught = journal.caught[name]
        rows.append(f"| `{name}` | {part.lower()} | {caught or 'missed'} |")
        print(f"{number} of {len(mutants)}, {time.monotonic() - began:.0f} s: {rows[-1]}", flush=True)
    missed = sum(row.endswith("| missed |") for row in rows)
    print(f"{len(rows) - missed} of {len(rows)} are caught")
    if words == ["all"]:
        write(rows, missed)
    return missed == 0


class Journal:
    """The first test or seed that catches each mutant of these crates, as far as they were tried."""

    def __init__(self, path):
        self.path = path
        found = subprocess.run(["git", "rev-parse", "HEAD:crates"], cwd=ROOT, capture_output=True, text=True, check=True)
        self.crates = found.stdout.strip()
        self.caught = {}
        if path.exists():
            kept = json.loads(path.read_text())
            self.caught = kept["caught"] if kept["crates"] == self.crates else {}

    def note(self, name, caught):
        self.caught[name] = caught
        self.path.write_text(json.dumps({"crates": self.crates, "caught": self.caught}, indent=1))


def caught_last():
    """Test or seed, in words, by mutant, as the page tells."""
    return dict(re.findall(r"^\| `([a-z0-9-]+)` \| \w+ \| (.+) \|$", page.PAGE.read_text(), re.MULTILINE))


def by_whom(name, part, programs, binary, last):
    """The first that catches a mutant, in words; what caught it last is tried before all others."""
    environment = {**os.environ, "NACRE_MUTANT": name}
    labels = [label for label in programs if last.startswith(f"`{label}::")]
    for label in labels:
        test = last.removeprefix(f"`{label}::").removesuffix("`")
        if failing_test(programs[label], environment, [test, "--exact"]):
            return last
    seed = re.fullmatch(r"fresh seeds \(the (\d+)th\)", last)
    if seed and failing_seed(binary, environment, FIRST_SEED + int(seed[1]), 1):
        return last
    for label in PROGRAMS.get(part, OTHERS):
        failed = failing_test(programs[label], environment)
        if failed:
            return f"`{label}::{failed}`"
    failed = failing_seed(binary, environment, FIRST_SEED, SEEDS)
    if failed:
        return failed
    failed = failing_test(programs[KEPT_SEEDS], environment)
    return f"`{KEPT_SEEDS}::{failed}`" if failed else None


def failing_test(program, environment, words=()):
    try:
        done = subprocess.run(
            [program.path, *words],
            cwd=program.folder,
            env={**environment, **program.environment()},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S)),
        )
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    if done.returncode == 0:
        return None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "a test that does not end"
    found = re.search(r"^test (\S+) \.\.\. FAILED", done.stdout, re.MULTILINE)
    return found[1] if found else f"a test that ends its process ({done.returncode})"


def failing_seed(binary, environment, first, count):
    """The first that fails of so many seeds."""
    command = [binary, "sim", "--seeds", f"{first}..{first + count}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    found = re.search(r"^seed (\d+) fails", done.stdout + done.stderr, re.MULTILINE)
    if done.returncode == 0:
        return None
    return f"fresh seeds (the {int(found[1]) - FIRST_SEED}th)" if found else "fresh seeds"


def write(rows, missed):
    count = f"{len(rows) - missed} of {len(rows)} are caught. The first of what catches each:"
    table = [count, "", "| deliberate bug | part | caught by |", "|---|---|---|", *rows]
    page.put("deliberate bugs, by tests/run --mutants all", "\n".join(table))
