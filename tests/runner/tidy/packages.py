"""Licences, sources and versions of the packages that this is built of, by `deny.toml`."""

import json
import re
import subprocess
import tomllib

from ..programs import ROOT
from .rule import Rule, Violation

DENY = "deny.toml"
LOCK = "Cargo.lock"
# Ends the name of the usual registry in Cargo.lock.
REGISTRY = "/rust-lang/crates.io-index"


def packages(tree):
    """`tree` is not asked: cargo tells the packages that it builds, without building any."""
    policy = tomllib.loads((ROOT / DENY).read_text())
    found = {}
    for target in policy["graph"]["targets"]:
        command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            yield broken(f"`{' '.join(command)}` fails: {done.stderr.strip()}")
            return
        metadata = json.loads(done.stdout)
        used = {node["id"] for node in metadata["resolve"]["nodes"]}
        found.update({package["id"]: package for package in metadata["packages"] if package["id"] in used})
    yield from wrong(list(found.values()), policy, str(ROOT))


def wrong(packages, policy, root):
    """`packages`: as `cargo metadata` gives them. `root`: the folder that own packages lie in."""
    allowed, versions = set(policy["licenses"]["allow"]), {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if not is_allowed(package["license"] or "", allowed):
            yield broken(f"{name} has the licence '{package['license']}', which {DENY} does not allow")
        if package["source"] is None:
            if not package["manifest_path"].startswith(f"{root}/"):
                yield broken(f"{name} is taken from {package['manifest_path']}, which is not in this repository")
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and dependency["source"] is not None:
                    yield broken(f"{name} takes any version of {dependency['name']}")
        elif not (package["source"].startswith("registry+") and package["source"].endswith(REGISTRY)):
            yield broken(f"{name} comes from {package['source']}, which is not the usual registry")
        versions.setdefault(package["name"], []).append(package["version"])
    skipped = [re.split("[@:]", skip["crate"]) for skip in policy["bans"].get("skip", [])]
    for name, theirs in versions.items():
        left = [one for one in theirs if not any(skip[0] == name and is_of(one, skip[1:]) for skip in skipped)]
        if len(left) > 1:
            yield broken(f"{name} has the versions {' and '.join(sorted(left))}")


def is_of(version, wanted):
    """Tells if a version is the wanted one or begins with it: `2.0.1` is of `2`; every version is of none."""
    return not wanted or version == wanted[0] or version.startswith(f"{wanted[0]}.")


def is_allowed(expression, allowed):
    """Tells if an SPDX expression can be met by allowed licences alone. `A/B` is an old way to write `A OR B`."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    try:
        return Licence(words, allowed).whole()
    except IndexError:
        # The expression ends too early.
        return False


class Licence:
    """The words of an SPDX expression that are still to be read. AND binds closer than OR, WITH closer than both."""

    def __init__(self, words, allowed):
        self.words, self.allowed = words, allowed

    def whole(self):
        return self.alternatives() and not self.words

    def alternatives(self):
        met = self.together()
        while self.passes("OR"):
            met = self.together() or met
        return met

    def together(self):
        met = self.one()
        while self.passes("AND"):
            met = self.one() and met
        return met

    def one(self):
        word = self.words.pop(0)
        if word == "(":
            met = self.alternatives()
            return self.words.pop(0) == ")" and met
        return (f"{word} WITH {self.words.pop(0)}" if self.passes("WITH") else word) in self.allowed

    def passes(self, word):
        is_next = self.words[:1] == [word]
        if is_next:
            self.words.pop(0)
        return is_next


def broken(says):
    return Violation(LOCK, LOCK, 0, says)


RULES = [
    Rule(
        "packages",
        packages,
        f"take a package or version that {DENY} allows, or argue there for allowing this one",
    ),
]
