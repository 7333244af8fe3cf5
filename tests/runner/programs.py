"""The test programs that cargo built, and the tests in them."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# One set of features for everything that is compiled to run: every package of the workspace, with its tests.
WHOLE_BUILD = ["cargo", "build", "--workspace", "--bins", "--tests"]

# Names whole-cluster tests, which need the binary, daemons and clients.
CLUSTERS = "clusters"


@dataclass(frozen=True)
class Program:
    """A test program. `label` opens the names of its tests: `pg`, `wire::integration`, `clusters`."""

    label: str
    package: str
    path: Path
    folder: Path

    def environment(self):
        """Variables that cargo gives to a test, as far as tests look at them."""
        return {"CARGO_MANIFEST_DIR": str(self.folder), "CARGO_PKG_NAME": self.package}


@dataclass(frozen=True)
class Test:
    """One test. `name` is unique: the program's label and the path within it. `is_ignored`: marked so in the code."""

    name: str
    path: str
    program: Program
    is_ignored: bool

    @property
    def is_whole_cluster(self):
        return self.program.label == CLUSTERS


class BuildFailed(Exception):
    """The compiler has said why."""


def build(command):
    """Runs a build. Gives its test programs, and the path of the binary `nacre` where it was among what was built."""
    programs, binary = [], None
    command = [*command, "--message-format=json-render-diagnostics"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as cargo:
        for line in cargo.stdout:
            message = json.loads(line)
            if message["reason"] != "compiler-artifact" or not message.get("executable"):
                continue
            path, target = Path(message["executable"]), message["target"]
            folder = Path(message["manifest_path"]).parent
            if message["profile"]["test"]:
                package = package_name(message["package_id"])
                programs.append(Program(label(package, target), package, path, folder))
            elif target["name"] == "nacre" and target["kind"] == ["bin"]:
                binary = path
    if cargo.returncode != 0:
        raise BuildFailed
    return sorted(programs, key=lambda program: program.label), binary


def package_name(package_id):
    """`path+file:///x/crates/pg#0.1.0` and `path+file:///x/tests#cluster-tests@0.1.0` name `pg` and `cluster-tests`."""
    source, _, rest = package_id.partition("#")
    return rest.split("@")[0] if "@" in rest else source.rsplit("/", 1)[-1]


def label(package, target):
    if target["kind"] != ["test"]:
        return package
    return CLUSTERS if target["name"] == CLUSTERS else f"{package}::{target['name']}"


def tests_of(programs):
    """All tests of these programs, in the order in which the programs list them."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [test for tests in pool.map(tests_in, programs) for test in tests]


def tests_in(program):
    ignored = set(listed(program, ["--ignored"]))
    return [Test(f"{program.label}::{path}", path, program, path in ignored) for path in listed(program, [])]


def listed(program, more):
    command = [program.path, "--list", "--format", "terse", *more]
    out = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in out.splitlines() if line.endswith(": test")]
