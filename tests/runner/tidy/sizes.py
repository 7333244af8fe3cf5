"""Lengths of files and functions."""

import ast

from .rule import Rule, in_file

FILE_LINES = 800
FUNCTION_LINES = 100


def files(tree):
    for file in tree.files:
        if len(file.lines) > FILE_LINES:
            yield in_file(file, 0, f"{len(file.lines)} lines")


def functions(tree):
    for file in tree.files:
        if file.kind == "rust":
            found = file.rust.functions
        elif file.kind == "python":
            nodes = ast.walk(ast.parse(file.text))
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            found = [(node.name, node.lineno, node.end_lineno) for node in nodes if isinstance(node, kinds)]
        else:
            continue
        for name, first, last in found:
            if last - first + 1 > FUNCTION_LINES:
                yield in_file(file, first, f"{name} has {last - first + 1} lines")


RULES = [
    Rule("file-lines", files, f"a file has at most {FILE_LINES} lines: move its second noun to a file of its own"),
    Rule("function-lines", functions, f"a function has at most {FUNCTION_LINES} lines: name its parts and call them"),
]
