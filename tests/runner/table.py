"""The generated part of `docs/testing.md`: which test is where, and what it cost when it was last measured."""

from . import page


def write(plan, tests, seconds, machine):
    """Puts the costs (`seconds`: by name of test) into the page."""
    lines = [f"Measured on {machine}.", "", *areas(plan, tests, seconds), "", *clusters(plan, tests, seconds), ""]
    page.put("costs, by tests/run --write-costs", "\n".join([*lines, *programs(plan, tests, seconds)]))


def areas(plan, tests, seconds):
    yield "| area | `T=` | tests of crates | s | whole clusters in `make test` | s | only in `make test-all` | s |"
    yield "|---|---|---|---|---|---|---|---|"
    for area in plan.areas:
        theirs = [test for test in tests if area.name in plan.areas_of(test)]
        groups = [
            [test for test in theirs if not test.is_whole_cluster and plan.is_in_quick_tier(test)],
            [test for test in theirs if test.is_whole_cluster and plan.is_in_quick_tier(test)],
            [test for test in theirs if not plan.is_in_quick_tier(test)],
        ]
        cells = [f"{len(group)} | {total(group, seconds):.0f}" for group in groups]
        yield f"| {area.says} | `{area.name}` | {' | '.join(cells)} |"


def clusters(plan, tests, seconds):
    yield "| whole-cluster test | in | runs | s |"
    yield "|---|---|---|---|"
    theirs = [test for test in tests if test.is_whole_cluster]
    for test in sorted(theirs, key=lambda test: -seconds.get(test.name, 0)):
        yield row(plan, test, seconds, "alone" if plan.runs_alone(test) else "beside another")


def programs(plan, tests, seconds):
    yield "| tests of a crate | in | count | s |"
    yield "|---|---|---|---|"
    by_program = {}
    for test in tests:
        if not test.is_whole_cluster:
            by_program.setdefault((test.program.label, tier(plan, test)), []).append(test)
    for (label, where), group in sorted(by_program.items(), key=lambda item: -total(item[1], seconds)):
        yield f"| `{label}` | {where} | {len(group)} | {total(group, seconds):.1f} |"


def row(plan, test, seconds, runs):
    cost = f"{seconds[test.name]:.0f}" if test.name in seconds else "not measured"
    return f"| `{test.name.partition('::')[2]}` | {tier(plan, test)} | {runs} | {cost} |"


def tier(plan, test):
    return "`make test`" if plan.is_in_quick_tier(test) else "`make test-all`"


def total(tests, seconds):
    return sum(seconds.get(test.name, 0) for test in tests)
