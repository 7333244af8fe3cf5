"""`tests/tidy.toml`: how many violations of each rule a file or crate still has. Counts may only fall."""

import tomllib

from ..programs import ROOT

PATH = ROOT / "tests" / "tidy.toml"
HEAD = """# How many violations of each rule of tests/runner/tidy a file or a crate still has; docs/testing.md has the rules.
# Counts only fall. `tests/run --tidy --lower` writes this file anew after some are gone, or after a file is moved.
"""


def read():
    return tomllib.loads(PATH.read_text()) if PATH.exists() else {}


def write(counts):
    """`counts[rule][place]`; a rule without violations keeps its empty table, so that it stays at none."""
    parts = [HEAD]
    for rule, places in counts.items():
        lines = [f'"{place}" = {count}\n' for place, count in sorted(places.items()) if count]
        parts.append(f"\n[{rule}]\n" + "".join(lines))
    PATH.write_text("".join(parts))


def grown(today, allowed):
    """Places with more violations than are allowed."""
    return {place: count for place, count in today.items() if count > allowed.get(place, 0)}


def fallen(today, allowed):
    """Places with fewer violations than are allowed: their counts are to be lowered."""
    return {place: count for place, count in allowed.items() if today.get(place, 0) < count}


def lowered(today, allowed):
    """The counts of a rule after lowering, and places whose counts may not grow.

    A place's count may grow by as much as others of its crate fall: a file was moved or divided. `allowed`: none for a
    rule that the baseline does not know yet, which takes today's counts.
    """
    if allowed is None:
        return dict(today), {}
    room = {}
    for place in {*today, *allowed}:
        crate = crate_of(place)
        room[crate] = room.get(crate, 0) + allowed.get(place, 0) - today.get(place, 0)
    kept, refused = {}, {}
    for place, count in today.items():
        if count > allowed.get(place, 0) and room[crate_of(place)] < 0:
            refused[place] = count
            kept[place] = allowed.get(place, 0)
        else:
            kept[place] = count
    return kept, refused


def crate_of(place):
    parts = place.split("/")
    return "/".join(parts[: 2 if parts[0] == "crates" else 1])
