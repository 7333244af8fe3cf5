"""All rules over all tracked files, against the baseline."""

import io
import unittest
from collections import Counter
from pathlib import Path

from . import baseline, casts, flow, lines, modules, names, own_tests, packages, sizes
from .exceptions import Exceptions
from .tree import Tree

RULES = [*lines.RULES, *sizes.RULES, *flow.RULES, *casts.RULES, *modules.RULES, *names.RULES, *packages.RULES]


def step(one, lower=False):
    """The step `tidy` of a run: sets what it came to. `lower`: writes the baseline anew instead of comparing."""
    why = wrong_with_rules()
    if not why:
        why = lower_counts() if lower else compare()
    one.passed, one.why = not why, why


def wrong_with_rules():
    """Runs the rules' own tests. Gives what they say if one fails."""
    said = io.StringIO()
    result = unittest.TextTestRunner(said).run(unittest.defaultTestLoader.loadTestsFromModule(own_tests))
    if result.testsRun == 0:
        return ["the rules have no tests"]
    return [] if result.wasSuccessful() else ["the rules fail their own tests:", *said.getvalue().splitlines()]


def look(tree, exceptions):
    """Violations by rule."""
    return {rule.name: [one for one in rule.look(tree) if not exceptions.excuse(rule.name, one)] for rule in RULES}


def compare():
    """Compares today's violations with the baseline, prints the figures, and gives what is wrong."""
    tree, exceptions, allowed = Tree.tracked(), Exceptions.read(), baseline.read()
    found = look(tree, exceptions)
    why = [f"{entry} excuses nothing: take it out" for entry in exceptions.unused()]
    print(f"{len(tree.files)} files\n{'rule':<16} {'violations':>10} {'allowed':>8}")
    for rule in RULES:
        counts, limits = Counter(one.where for one in found[rule.name]), allowed.get(rule.name, {})
        print(f"{rule.name:<16} {counts.total():>10} {sum(limits.values()):>8}")
        for place, count in sorted(baseline.grown(counts, limits).items()):
            why.append(f"{rule.name}: {place} has {count}, {limits.get(place, 0)} are allowed. Do: {rule.cure}")
            why += [f"  {one}" for one in found[rule.name] if one.where == place]
        for place, count in sorted(baseline.fallen(counts, limits).items()):
            why.append(
                f"{rule.name}: {place} has {counts[place]} where {count} were allowed: "
                "`tests/run --tidy --lower` lowers the count in tests/tidy.toml"
            )
    for rule in allowed.keys() - {rule.name for rule in RULES}:
        why.append(f"tests/tidy.toml has the table '{rule}', and no rule is called so")
    return why


def lower_counts():
    """Writes the baseline anew. Gives what has grown, which stays as it was there."""
    found, allowed = look(Tree.tracked(), Exceptions.read()), baseline.read()
    counts, why = {}, []
    for rule in RULES:
        today = Counter(one.where for one in found[rule.name])
        counts[rule.name], refused = baseline.lowered(today, allowed.get(rule.name))
        for place, count in sorted(refused.items()):
            why.append(f"{rule.name}: {place} has {count} and may not grow. Do: {rule.cure}")
            why += [f"  {one}" for one in found[rule.name] if one.where == place]
    baseline.write(counts)
    print("\n".join(f"{name:<16} {sum(places.values()):>6}" for name, places in counts.items()))
    return why


def show(words):
    """Prints violations, allowed or not: those of rules that the words name, in files and folders that they name."""
    rules = [word for word in words if word in {rule.name for rule in RULES}]
    paths = [Path(word) for word in words if word not in rules]
    for name, violations in look(Tree.tracked(), Exceptions.read()).items():
        for one in violations if not rules or name in rules else []:
            if not paths or any(path in (Path(one.path), *Path(one.path).parents) for path in paths):
                print(f"{name}: {one}")
