"""The generated part of `docs/testing.md`: which test is where, and what it cost when it was last measured."""

from . import page

QUICK, WHOLE = "quick", "whole"


def write(plan, tests, costs, machine):
    """Puts the costs into the page. `costs[tier][name]`: seconds of a test, as a run of that tier measured it."""
    tables = [areas(plan, tests, costs), clusters(plan, tests, costs), programs(plan, tests, costs)]
    lines = [f"Measured on {machine}."] + [line for table in tables for line in ["", *table]]
    page.put("costs, by tests/run --write-costs", "\n".join(lines))


def areas(plan, tests, costs):
    yield "| area | `T=` | tests of crates | s | whole clusters in `make test` | s | only in `make test-all` | s |"
    yield "|---|---|---|---|---|---|---|---|"
    for area in plan.areas:
        theirs = [test for test in tests if area.name in plan.areas_of(test)]
        quick = [test for test in theirs if plan.is_in_quick_tier(test)]
        groups = [
            ([test for test in quick if not test.is_whole_cluster], QUICK),
            ([test for test in quick if test.is_whole_cluster], QUICK),
            ([test for test in theirs if not plan.is_in_quick_tier(test)], WHOLE),
        ]
        cells = [f"{len(group)} | {total(group, costs[tier]):.0f}" for group, tier in groups]
        yield f"| {area.says} | `{area.name}` | {' | '.join(cells)} |"


def clusters(plan, tests, costs):
    yield "| whole-cluster test | runs | s in `make test` | s in `make test-all` |"
    yield "|---|---|---|---|"
    for test in sorted(tests, key=lambda test: -max(costs[tier].get(test.name, 0) for tier in (QUICK, WHOLE))):
        if test.is_whole_cluster:
            runs = "alone" if plan.runs_alone(test) else "beside another"
            quick = cost(test, costs[QUICK]) if plan.is_in_quick_tier(test) else ""
            yield f"| `{test.name.partition('::')[2]}` | {runs} | {quick} | {cost(test, costs[WHOLE])} |"


def programs(plan, tests, costs):
    yield "| tests of a crate | count | s in `make test` |"
    yield "|---|---|---|"
    by_program = {}
    for test in tests:
        if not test.is_whole_cluster and plan.is_in_quick_tier(test):
            by_program.setdefault(test.program.label, []).append(test)
    for label, group in sorted(by_program.items(), key=lambda item: -total(item[1], costs[QUICK])):
        yield f"| `{label}` | {len(group)} | {total(group, costs[QUICK]):.1f} |"


def cost(test, seconds):
    return f"{seconds[test.name]:.0f}" if test.name in seconds else "not measured"


def total(tests, seconds):
    return sum(seconds.get(test.name, 0) for test in tests)
