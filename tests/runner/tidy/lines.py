"""Columns of lines, and words that open comments."""

import ast
import io
import re
import tokenize

from .rule import Rule, in_file

COLUMNS = 120
OPENERS = ("What", "Whether", "Who", "Whom", "Those", "So", "The same")
OPENING = re.compile(rf"(?:{'|'.join(OPENERS)})\b")


def long_lines(tree):
    for file in tree.files:
        widths = {"rust": rust_widths, "python": python_widths, "markdown": markdown_widths}[file.kind](file)
        for number, width in enumerate(widths, 1):
            if width > COLUMNS:
                yield in_file(file, number, f"{width} columns")


def rust_widths(file):
    """Columns of lines; what literals hold does not count, nor do tables in comments."""
    widths = [len(line) for line in file.lines]
    for kind, start, end in file.rust.literals:
        take_off(widths, file.rust, start, end)
    for comment in file.rust.comments:
        for number, line in enumerate(comment.lines, comment.line):
            if is_excused(line) and number <= len(widths):
                widths[number - 1] = 0
    return widths


def take_off(widths, rust, start, end):
    for number in range(rust.line_of(start), rust.line_of(end) + 1):
        if number <= len(widths):
            first, after = rust.starts[number - 1], rust.starts[number] - 1
            widths[number - 1] -= max(0, min(end, after) - max(start, first))


def is_excused(line):
    """Tables cannot be broken into lines, nor can addresses."""
    return line.lstrip().startswith("|") or bool(re.search(r"\S{90}", line))


def python_widths(file):
    """Columns of lines; what literals hold does not count, except in docstrings."""
    widths = [len(line) for line in file.lines]
    docs = {number for first, last, _ in docstrings(file.text) for number in range(first, last + 1)}
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and token.start[0] not in docs:
            for number in range(token.start[0], token.end[0] + 1):
                first = token.start[1] if number == token.start[0] else 0
                after = token.end[1] if number == token.end[0] else len(file.lines[number - 1])
                widths[number - 1] -= after - first
    return widths


def docstrings(text):
    """First line, last line and text of each docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield first.lineno, first.end_lineno, value.value


def markdown_widths(file):
    """Columns of prose; tables and blocks of code do not count."""
    fence = None
    for line in file.lines:
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = mark[1] if fence is None else None
        yield 0 if fence or mark or is_excused(line) else len(line)


def openers(tree):
    for file in tree.files:
        if file.kind == "rust":
            comments = [(comment.line, " ".join(comment.lines)) for comment in file.rust.comments]
        elif file.kind == "python":
            comments = python_comments(file)
        else:
            continue
        for line, text in comments:
            if found := OPENING.match(text.lstrip()):
                yield in_file(file, line, f"the comment opens with '{found[0]}'")


def python_comments(file):
    """First line and text of docstrings and of blocks of `#` lines."""
    found = [(first, text) for first, _, text in docstrings(file.text)]
    last = (0, False)
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type == tokenize.COMMENT:
            is_alone = not token.line[: token.start[1]].strip()
            if not (is_alone and last == (token.start[0] - 1, True)):
                found.append((token.start[0], token.string.lstrip("#! ")))
            last = (token.start[0], is_alone)
    return found


RULES = [
    Rule("columns", long_lines, f"end code, comments and prose by column {COLUMNS}"),
    Rule("openers", openers, "put the subject first: name the thing, then say what it does"),
]
