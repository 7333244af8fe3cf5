"""Names of types, which are unique within a crate."""

import re

from .rule import Rule, Violation

TYPE = re.compile(r"\b(?:(?:struct|enum|union|trait)\s+|type\s+)([A-Z]\w*)")
EDGE = re.compile(r"[{}]")


def types(file):
    """Names of types that stand in a module of the file, with their lines; not those in functions and impls."""
    code = file.rust.production
    depth, inside, last = 0, [], 0
    for found in sorted([*EDGE.finditer(code), *TYPE.finditer(code)], key=lambda found: found.start()):
        position = found.start()
        if found[0] == "{":
            head = code[last:position]
            depth += 1
            if not re.search(r"\bmod\s+\w+\s*$", head):
                inside.append(depth)
            last = position + 1
        elif found[0] == "}":
            if inside and inside[-1] == depth:
                inside.pop()
            depth -= 1
            last = position + 1
        elif not inside:
            yield found[1], file.rust.line_of(position)


def repeated(tree):
    crates = {}
    for file in tree.production:
        for name, line in types(file):
            crates.setdefault(file.crate, {}).setdefault(name, []).append((file.path, line))
    for crate, names in crates.items():
        for name, places in names.items():
            for path, line in places[1:]:
                first = ":".join(str(part) for part in places[0])
                yield Violation(crate, path, line, f"the type {name} has its name from {first}")


RULES = [Rule("type-names", repeated, "a name means one type within a crate: give one of them another name")]
