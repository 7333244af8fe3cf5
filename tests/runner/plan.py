"""`tests/plan.toml`: which area a test belongs to, and how and when it runs."""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "plan.toml"


class PlanError(Exception):
    """The plan and the tests disagree."""


@dataclass(frozen=True)
class Area:
    name: str
    says: str
    patterns: tuple


def matches(test, patterns):
    return any(fnmatchcase(test.name, pattern) for pattern in patterns)


class Plan:
    """The contents of the plan. Patterns are shell patterns over names of tests."""

    def __init__(self, text):
        document = tomllib.loads(text)
        self.areas = [Area(name, area["says"], tuple(area["tests"])) for name, area in document["areas"].items()]
        self.alone, self.long, self.whole = document["alone"], document["long"], document["whole"]
        self.ceph = document["ceph"]

    @staticmethod
    def read():
        return Plan(PATH.read_text())

    def is_in_quick_tier(self, test):
        """Tells if `make test` runs it."""
        return not matches(test, self.whole)

    def runs_alone(self, test):
        """Tells if it measures time, so that nothing may run beside it."""
        return matches(test, self.alone)

    def uses_ceph(self, test):
        """Tells if it takes the real Ceph that tests share."""
        return matches(test, self.ceph)

    def turn(self, test):
        """Its place in the order in which tests of a step begin; tests that take long have the first ones."""
        return next((at for at, pattern in enumerate(self.long) if fnmatchcase(test.name, pattern)), len(self.long))

    def areas_of(self, test):
        return [area.name for area in self.areas if matches(test, area.patterns)]

    def chosen(self, tests, word, is_whole):
        """The tests of the area called `word`, of the quick tier unless `is_whole`; or else those whose names hold the
        word."""
        if any(area.name == word for area in self.areas):
            theirs = [test for test in tests if word in self.areas_of(test)]
            return [test for test in theirs if is_whole or self.is_in_quick_tier(test)]
        return [test for test in tests if word in test.name]

    def check(self, tests):
        """Every pattern names a test, every test has an area, every area has a whole cluster in the quick tier."""
        wrong = []
        names = [test.name for test in tests]
        patterns = [pattern for area in self.areas for pattern in area.patterns]
        patterns += [*self.alone, *self.long, *self.ceph, *self.whole]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                wrong.append(f"no test has a name like '{pattern}'")
        for test in tests:
            if not self.areas_of(test):
                wrong.append(f"{test.name} belongs to no area")
        for area in self.areas:
            theirs = [test for test in tests if area.name in self.areas_of(test) and test.is_whole_cluster]
            if theirs and not any(self.is_in_quick_tier(test) for test in theirs):
                wrong.append(f"area '{area.name}' has no whole-cluster test in 'make test'")
        if wrong:
            raise PlanError("\n".join([f"{PATH} does not fit the tests:", *wrong]))
