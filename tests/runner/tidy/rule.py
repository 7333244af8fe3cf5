"""A rule and what breaks it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """`where`: the file or crate whose count it adds to. `line`: in the file `path`, 0 for the whole file."""

    where: str
    path: str
    line: int
    says: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.says}" if self.line else f"{self.path}: {self.says}"


@dataclass(frozen=True)
class Rule:
    """`look(tree)` gives violations. `cure`: the sentence that tells what to do about one."""

    name: str
    look: object
    cure: str


def in_file(file, line, says):
    return Violation(file.path, file.path, line, says)
