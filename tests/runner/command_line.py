"""The command line of `tests/run`."""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import changes, mutants, summary, table
from .execution import Runner
from .plan import Plan, PlanError
from .programs import ROOT, WHOLE_BUILD, BuildFailed, build, tests_of
from .steps import Steps
from .tidy import check as tidy

DESCRIPTION = """Checks and tests this repository. Without flags: all that 'make test' promises. Every test runs in a
process of its own; whole clusters run three at a time, or alone where they measure time."""

# For how long simulated clusters run under fresh seeds.
FRESH_SEEDS_S = 120
FRESH_SEEDS_WHOLE_S = 600
# The simulator has its latest kinds of runs from numbers on that lie below this.
ALL_KINDS_FROM = 30_000_000_000
# One commit has so many seeds, more than it ever runs.
SEEDS_OF_A_COMMIT = 10_000
# Whole clusters that run beside each other: two leave processors idle while both wait for something.
CLUSTERS_AT_A_TIME = 3
# Numbers of commits, of which a tree's name gives one: seldom do two commits have the same seeds.
COMMITS = 200_000_000


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run", description=DESCRIPTION)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--only", metavar="WORD", help="an area of the plan, or tests whose names hold the word")
    what.add_argument("--changed", action="store_true", help="tidy, format, clippy and unit tests of changed crates")
    what.add_argument("--mutants", metavar="NAME", nargs="+", help="which tests catch deliberate bugs ('all': each)")
    what.add_argument("--write-costs", action="store_true", help="puts what tests last took into docs/testing.md")
    what.add_argument("--tidy", action="store_true", help="the tidy step alone")
    what.add_argument(
        "--untidy", metavar="WORD", nargs="+", help="shows all that a rule finds, or all that is found in a file or folder"
    )
    what.add_argument("--list", action="store_true", help="names the tests and their areas, and runs nothing")
    parser.add_argument("--whole", action="store_true", help="everything there is, with more seeds ('make test-all')")
    parser.add_argument("--fresh-seeds-s", type=int, metavar="S", help="seconds of simulated fresh seeds")
    parser.add_argument("--lower", action="store_true", help="with --tidy: writes tests/tidy.toml anew")
    options = parser.parse_args(arguments)
    if options.lower and not options.tidy:
        parser.error("--lower goes with --tidy")
    return options


class Run:
    """One call of the runner: its folder for logs, its steps and results."""

    def __init__(self, options):
        self.options = options
        self.began = time.monotonic()
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.logs = target.resolve() / "test-logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        if not (options.list or options.write_costs or options.tidy):
            for old in self.logs.glob("*.log"):
                old.unlink()
        self.steps = Steps(self.logs)
        self.plan = Plan.read()
        # The real Ceph that whole-cluster tests share: the first that wants it starts it.
        self.ceph = Path(tempfile.gettempdir()) / f"nacre-test-ceph-{os.getpid()}"
        self.environment = {
            "NACRE_SUITE": table.WHOLE if options.whole else table.QUICK,
            "NACRE_TEST_CEPH": str(self.ceph),
            "NACRE_FUZZ_SEED": os.environ.get("NACRE_FUZZ_SEED") or self.fuzz_seed(),
            # Property tests draw their cases from it: what passes once on a commit passes again.
            "PROPTEST_RNG_SEED": os.environ.get("PROPTEST_RNG_SEED") or self.fuzz_seed(),
        }
        self.runner = Runner(self.logs, self.environment, self.plan.uses_ceph, self.tell)
        self.programs, self.binary, self.tests = [], None, []

    def tell(self, result):
        """Names what is a cluster's test, takes long, or failed; of the rest a line now and then."""
        if not result.passed or result.test.is_whole_cluster or result.seconds > 5 or self.options.only:
            verdict = "ok    " if result.passed else "FAILED"
            print(f"{verdict} {result.seconds:6.1f} s  {result.test.name}", flush=True)
        elif len(self.runner.results) % 200 == 0:
            print(f"{len(self.runner.results)} tests have run", flush=True)
        if not result.passed:
            print("\n".join(f"    {line}" for line in result.why()), flush=True)

    def tidy(self):
        says = "the rules of tests/runner/tidy; tests/tidy.toml has what is still allowed"
        self.steps.run("tidy", lambda step: tidy.step(step, self.options.lower), says)

    def deny(self):
        """`cargo deny` over deny.toml, where it is installed; the tidy step has checked most of it already."""
        if shutil.which("cargo-deny"):
            self.steps.command("deny", ["cargo", "deny", "--locked", "check", "licenses", "bans", "sources"])

    def checks(self):
        self.steps.command("format", ["cargo", "fmt", "--all", "--check"])
        self.steps.command("clippy", ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
        if self.options.whole:
            # The program as packages bring it, without its simulator.
            bare = ["cargo", "clippy", "--package", "nacre", "--bin", "nacre", "--no-default-features"]
            self.steps.command("packaged", [*bare, "--", "-D", "warnings"])
        self.steps.command("docs", ["make", "--no-print-directory", "doc"])

    def build(self, command=WHOLE_BUILD):
        """Gives whether there is anything to run."""

        def work(step):
            try:
                self.programs, self.binary = build(command)
            except BuildFailed:
                step.passed, step.why = False, ["the compiler says why above"]
                return
            self.tests = tests_of(self.programs)
            step.notes = f"{len(self.programs)} test programs, {len(self.tests)} tests"
            if self.binary is not None:
                self.environment["NACRE_BIN"] = str(self.binary)

        return self.steps.run("build", work, " ".join(command)).passed

    def check_plan(self):
        def work(step):
            try:
                self.plan.check(self.tests)
            except PlanError as error:
                step.passed, step.why = False, str(error).splitlines()

        self.steps.run("plan", work, "tests/plan.toml fits the tests")

    def tests_step(self, name, says, groups):
        """`groups`: tests and how many of them run at a time, one group after the other."""

        def work(step):
            before = len(self.runner.results)
            for tests, at_a_time in groups:
                self.runner.run(tests, at_a_time)
            results = self.runner.results[before:]
            step.notes, step.passed = summary.outcome(results), all(result.passed for result in results)

        if any(tests for tests, _ in groups):
            self.steps.run(name, work, says)

    def crates(self, tests):
        chosen = [test for test in tests if not test.is_whole_cluster]
        # Long tests begin first, so that no processor waits for the last one.
        chosen.sort(key=self.plan.turn)
        self.tests_step("tests", f"{len(chosen)} tests of crates", [(chosen, os.cpu_count())])

    def clusters(self, tests):
        chosen = [test for test in tests if test.is_whole_cluster]
        chosen.sort(key=self.plan.turn)
        alone = [test for test in chosen if self.plan.runs_alone(test)]
        beside = [test for test in chosen if not self.plan.runs_alone(test)]
        says = f"{len(beside)} whole clusters {CLUSTERS_AT_A_TIME} at a time, {len(alone)} alone"
        self.tests_step("clusters", says, [(beside, CLUSTERS_AT_A_TIME), (alone, 1)])

    def fuzz_seed(self):
        """Seed of the fuzzer of ports and of property tests: each commit has its own, so that two runs do the same."""
        return str(first_fresh_seed(tree_of_commit(), time.time()))

    def fresh_seeds(self, seconds):
        """Simulated clusters under seeds that other commits do not run; one that fails prints the command for it."""
        first = first_fresh_seed(tree_of_commit(), time.time())
        command = [self.binary, "sim", "--seeds", f"{first}..{first + SEEDS_OF_A_COMMIT}", "--within", str(seconds)]
        self.steps.command("seeds", command)

    def stop_ceph(self):
        if self.ceph.exists():
            subprocess.run([self.binary, "down", "--dir", self.ceph], check=False)
            shutil.rmtree(self.ceph, ignore_errors=True)
        self.ceph.with_suffix(".lock").unlink(missing_ok=True)

    def costs(self, tier):
        """Seconds by name of test, when each last ran in that tier."""
        file = self.logs / f"costs-{tier}.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def keep_costs(self):
        tier = table.WHOLE if self.options.whole else table.QUICK
        costs = self.costs(tier)
        costs.update({result.test.name: round(result.seconds, 2) for result in self.runner.results})
        (self.logs / f"costs-{tier}.json").write_text(json.dumps(costs, indent=1))

    def close(self):
        seconds = time.monotonic() - self.began
        self.keep_costs()
        again = "make test-all" if self.options.whole else "make test"
        passed = summary.show(self.steps.all, self.runner.results, self.logs, seconds, again)
        return 0 if passed else 1


def tree_of_commit():
    """The name of the checked out commit's tree. None: files were changed since, or git does not know them."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    head, changed = git("rev-parse", "HEAD^{tree}"), git("status", "--porcelain", "--untracked-files=no")
    is_clean = head.returncode == 0 and changed.returncode == 0 and not changed.stdout
    return head.stdout.strip() if is_clean else None


def first_fresh_seed(tree, now_s):
    """Each commit has seeds of its own: what passes once passes again. A changed tree takes those of the time."""
    number = int(tree[:12], 16) % COMMITS if tree else COMMITS + int(now_s) % COMMITS
    return ALL_KINDS_FROM + number * SEEDS_OF_A_COMMIT


def everything(run):
    run.tidy()
    run.deny()
    run.checks()
    if run.build():
        run.check_plan()
        whole = run.options.whole
        tests = [test for test in run.tests if whole or run.plan.is_in_quick_tier(test)]
        tests = [test for test in tests if not test.is_ignored]
        run.crates(tests)
        fresh = FRESH_SEEDS_WHOLE_S if whole else FRESH_SEEDS_S
        run.fresh_seeds(run.options.fresh_seeds_s or fresh)
        run.clusters(tests)


def only(run):
    if run.build():
        tests = run.plan.chosen(run.tests, run.options.only, run.options.whole)
        tests = [test for test in tests if not test.is_ignored or test.name == run.options.only]
        if not tests:
            sys.exit(f"no area is called '{run.options.only}' and no test has a name like it; `tests/run --list`")
        run.crates(tests)
        run.clusters(tests)


def changed(run):
    run.tidy()
    crates = changes.crates()
    if not crates:
        print("no crate has changed since the last commit but one")
        return
    packages = [word for crate in crates for word in ("-p", crate)]
    run.steps.command("format", ["cargo", "fmt", "--all", "--check"])
    run.steps.command("clippy", ["cargo", "clippy", *packages, "--all-targets", "--", "-D", "warnings"])
    if run.build(["cargo", "build", "--tests", *packages]):
        tests = [test for test in run.tests if run.plan.is_in_quick_tier(test) and not test.is_ignored]
        run.crates(tests)


def list_tests(run):
    if run.build():
        for test in run.tests:
            where = "" if run.plan.is_in_quick_tier(test) else "  (make test-all)"
            print(f"{test.name}  [{', '.join(run.plan.areas_of(test))}]{where}")
        run.plan.check(run.tests)


def write_costs(run):
    if run.build():
        machine = f"{os.cpu_count()} processors ({platform.machine()}), {time.strftime('%Y-%m-%d')}"
        costs = {tier: run.costs(tier) for tier in (table.QUICK, table.WHOLE)}
        table.write(run.plan, run.tests, costs, machine)


def main(arguments):
    options = parse(arguments)
    if options.mutants:
        return 0 if mutants.hunt(options.mutants) else 1
    if options.untidy:
        tidy.show(options.untidy)
        return 0
    run = Run(options)

    def interrupted(*_):
        run.runner.interrupt()
        run.stop_ceph()
        sys.exit("interrupted")

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    if options.list or options.write_costs:
        try:
            (list_tests if options.list else write_costs)(run)
        except PlanError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    work = only if options.only else changed if options.changed else Run.tidy if options.tidy else everything
    work(run)
    run.stop_ceph()
    return run.close()
