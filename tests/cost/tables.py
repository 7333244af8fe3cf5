"""Figures of a row as Markdown."""

# Counts smaller than this, per operation, are noise of daemons that also do other things.
LEAST = 0.005
# Characters of a symbol that are shown.
SYMBOL_CHARS = 90


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(head, lines):
    rule = "|".join("---" for _ in head)
    return "\n".join(["| " + " | ".join(head) + " |", f"|{rule}|", *("| " + " | ".join(line) + " |" for line in lines)])


def of_row(result):
    """All figures of one row."""
    figures = ("operations per s", "CPU us/op of OSDs", "CPU us/op of daemons", "CPU us/op of the client",
               "CPU us/op of the machine", "loopback bytes/op")
    parts = [f"## {result['row']}", table(("figure", "value"), [(name, number(result[name])) for name in figures])]
    by_daemon = ", ".join(f"{name} {number(value)}" for name, value in sorted(result["CPU us/op by daemon"].items()))
    parts.append(f"CPU us per operation: {by_daemon}.")
    counts = dict(result["counts"])
    turns = result["loop"].get("turns")
    if turns:
        counts["turns of OSDs' loops"] = turns
        counts["operations per turn"] = 1 / turns
    counts.update({f"loop: {name}": value for name, value in result["loop"].items() if name != "turns"})
    if "allocations" in result:
        counts["allocations"] = result["allocations"]
    parts.append(table(("per operation, all OSDs", "count"),
                       [(name, number(value)) for name, value in counts.items() if value >= LEAST]))
    if "layers" in result:
        of_osds = result["layers"]["us/op of OSDs"]
        whole = sum(of_osds.values())
        parts.append(table(("layer of the OSDs", "us/op", "share"),
                           [(name, number(value), f"{100 * value / whole:.1f} %") for name, value in of_osds.items()]))
        symbols = list(result["layers"]["symbols us/op"].items())[:25]
        lines = [(f"`{name[:SYMBOL_CHARS]}`", number(value)) for name, value in symbols]
        parts.append(table(("innermost symbol", "us/op"), lines))
    return "\n\n".join(parts) + "\n"
