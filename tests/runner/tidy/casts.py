"""Casts that may cut off bits, in files that make or read bytes."""

import re

from .rule import Rule, in_file

# A file with one of these encodes or decodes.
FORMAT = re.compile(
    r"\b(?:to|from)_le_bytes\b|\bimpl(?:<[^>]*>)?\s+(?:\w+::)*(?:Encode|Decode)\b|\bfn\s+(?:encode|decode)\w*\b"
)
CAST = re.compile(r"\s+as\s+(u8|u16|u32|usize)\b")
# Operands that fit whatever they hold: constants, variants, counts of bits, values that are masked or limited to one.
BOUNDED = re.compile(
    r"""(?:(?<![\w.])\d\w*
    |(?<![\w.])'?(?:\w+::)*[A-Z][A-Z0-9_]*
    |(?<![\w.])(?:\w+::)*[A-Z]\w*::[A-Z]\w*
    |(?:&|%)\s*\(?(?:\d\w*|(?:\w+::)*[A-Z][A-Z0-9_]*)\)
    |\.min\((?:[\d_]+|(?:\w+::)*[A-Z][A-Z0-9_]*)(?:\s+as\s+\w+)?\)
    |\.(?:count_ones|leading_zeros|trailing_zeros|ilog2)\(\)
    |')$""",
    re.VERBOSE,
)
# Widths that a place in memory can hold: `usize` has 64 bits wherever this runs.
NARROW = re.compile(r"u(?:8|16|32)\(\)\?$|\b(?:u8|u16|u32)::from_le_bytes\([^;]*\)$|\bu(?:8|16|32)_at\([^;]*\)$")
ARGUED = re.compile(r"\bfits\b")


def casts(tree):
    for file in tree.production:
        rust = file.rust
        if not FORMAT.search(rust.production):
            continue
        for found in CAST.finditer(rust.production):
            value = operand(rust.production[max(0, found.start() - 400) : found.start()])
            if BOUNDED.search(value) or (found[1] == "usize" and NARROW.search(value)):
                continue
            line = rust.line_of(found.end())
            if not any(ARGUED.search(text) for text in comments_at(rust, line)):
                value = re.sub(r"\s+", " ", value)[-60:]
                yield in_file(file, line, f"`{value} as {found[1]}` may cut off bits")


def comments_at(rust, line):
    """Texts of the comments that end above a line or stand in it."""
    return [" ".join(one.lines) for one in rust.comments if one.line + len(one.lines) - 1 in (line - 1, line)]


def operand(before):
    """The expression that ends a piece of code: names, calls and indices that hang together."""
    at = len(before)
    while at > 0:
        last = before[at - 1]
        if last in ")]":
            depth = 0
            while at > 0:
                at -= 1
                depth += (before[at] in ")]") - (before[at] in "([")
                if depth == 0:
                    break
        elif last.isalnum() or last in "_.:?'":
            at -= 1
        elif last.isspace() and before[at:].startswith("."):
            at -= 1
        else:
            break
    return before[at:].strip()


RULES = [
    Rule(
        "format-casts",
        casts,
        "use `try_from` with an error, `From`, or a limit; or say in a comment beside it why it fits",
    ),
]
