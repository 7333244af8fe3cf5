"""Which crates have changed."""

import subprocess

from .programs import ROOT


def crates():
    """Packages with files that differ from the last commit; where none do, those that the last commit changed."""
    files = names(["git", "diff", "--name-only", "HEAD"]) + names(["git", "ls-files", "--others", "--exclude-standard"])
    return packages(files) or packages(names(["git", "diff", "--name-only", "HEAD~1", "HEAD"]))


def packages(files):
    found = set()
    for file in files:
        parts = file.split("/")
        if parts[0] == "crates" and len(parts) > 2:
            found.add(parts[1])
        elif parts[0] == "tests" and file.endswith((".rs", ".toml")):
            found.add("cluster-tests")
    return sorted(found)


def names(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
