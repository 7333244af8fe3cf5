"""Circles of modules: those that import each other, in one or several steps."""

import re

from .rule import Rule, Violation

# Crates with fewer modules are read as a whole.
MODULES_MIN = 7
USE = re.compile(r"\buse\s+([^;]+);")
WORD = re.compile(r"::|[{},*]|\w+")


def imports(code):
    """Places of `use` items and the paths that they name, each a list of names."""
    for found in USE.finditer(code):
        for path in branches(WORD.findall(found[1])):
            yield found.start(1), path


def branches(words):
    """The paths of a tree of imports: `a::{b, c as d}` has `a::b` and `a::c`."""
    found, prefixes, path, is_leaf = [], [[]], [], False
    words = iter([*words, ","])
    for word in words:
        if word == "{":
            prefixes.append(list(path))
        elif word in ("}", ","):
            if is_leaf:
                found.append(path)
            if word == "}":
                prefixes.pop()
            path, is_leaf = list(prefixes[-1]), False
        elif word == "as":
            next(words)
        elif word == "*" or (word == "self" and path):
            is_leaf = True
        elif word != "::":
            path, is_leaf = [*path, word], True
    return found


class Crate:
    """The modules of a library or program that have files of their own. A module is a tuple of names, the root ()."""

    def __init__(self, files):
        self.modules = {module_of(file.path): file for file in files}

    def place(self, module, path):
        """The module that a path leads to from a module, as far as files tell; none outside the crate."""
        at, rest = list(module), list(path)
        if rest[0] == "crate":
            at, rest = [], rest[1:]
        elif rest[0] == "self":
            rest = rest[1:]
        elif rest[0] != "super" and (*at, rest[0]) not in self.modules:
            return None
        while rest and rest[0] == "super":
            if not at:
                return None
            at, rest = at[:-1], rest[1:]
        while rest and (*at, rest[0]) in self.modules:
            at, rest = [*at, rest[0]], rest[1:]
        return tuple(at)

    def arrows(self):
        """For each module the modules that it imports from, with the line.

        A module around another is its face: there are no arrows between the two, whoever imports from whom.
        """
        found = {module: {} for module in self.modules}
        for module, file in self.modules.items():
            for at, path in imports(file.rust.production):
                to = self.place(module, path)
                if to in self.modules and to[: len(module)] != module and module[: len(to)] != to:
                    found[module].setdefault(to, file.rust.line_of(at))
        return found


def module_of(path):
    parts = path.split("/src/", 1)[1].removesuffix(".rs").split("/")
    if parts[-1] == "mod" or parts in (["lib"], ["main"]):
        parts = parts[:-1]
    return tuple(parts)


def circles(arrows):
    """Groups of more than one module of which each leads to each: strongly connected components, by Tarjan's way."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in arrows:
        if root in index:
            continue
        work = [(root, iter(arrows[root]))]
        while work:
            node, further = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for to in further:
                if to not in index:
                    work.append((to, iter(arrows[to])))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        on_stack.discard(members[-1])
                    if len(members) > 1:
                        found.append(sorted(members))
    return sorted(found, key=len, reverse=True)


def modules_in_circles(tree):
    crates = {}
    for file in tree.production:
        if "/src/" in file.path and "/bin/" not in file.path:
            crates.setdefault(file.crate, []).append(file)
    for name, files in crates.items():
        crate = Crate(files)
        if len(crate.modules) < MODULES_MIN:
            continue
        arrows = crate.arrows()
        for circle in circles(arrows):
            for module in circle:
                file = crate.modules[module]
                others = {to: line for to, line in arrows[module].items() if to in circle}
                to, line = min(others.items(), key=lambda pair: pair[1])
                says = f"{called(module)} is in a circle of {len(circle)} modules; it imports {called(to)}"
                more = [called(other) for other in others if other != to]
                yield Violation(name, file.path, line, says + (f" (also {', '.join(more)})" if more else ""))


def called(module):
    return "::".join(module) or "the root"


RULES = [
    Rule(
        "module-circles",
        modules_in_circles,
        "cut an arrow: move what both need to a module below both, or pass it in",
    ),
]
