"""The tracked files, and which of them belong to production code."""

import re
import subprocess
from functools import cached_property
from pathlib import PurePosixPath

from ..programs import ROOT
from .rust import Rust

SUFFIXES = {".rs": "rust", ".py": "python", ".md": "markdown"}
# Folders and files of a crate that hold tests, or programs that nobody is given.
ASIDE = ("tests", "benches", "examples")


class File:
    """A tracked file. `path`: from the root of the repository."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.split("\n")[: -1 if text.endswith("\n") else None]

    @property
    def kind(self):
        return SUFFIXES.get(PurePosixPath(self.path).suffix, "python")

    @cached_property
    def rust(self):
        return Rust(self.text)

    @property
    def crate(self):
        parts = self.path.split("/")
        return f"crates/{parts[1]}" if parts[0] == "crates" else parts[0]


class Tree:
    """`files`: all that the rules look at."""

    def __init__(self, files):
        self.files = files
        self.by_path = {file.path: file for file in files}

    @staticmethod
    def tracked():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        files = []
        for path in listed.split("\0")[:-1]:
            suffix = PurePosixPath(path).suffix
            if suffix in SUFFIXES or (suffix == "" and is_python(path)):
                # A file that was removed is listed until that is committed.
                if (ROOT / path).is_file():
                    files.append(File(path, (ROOT / path).read_text()))
        return Tree(files)

    @cached_property
    def rust_files(self):
        return [file for file in self.files if file.kind == "rust"]

    @cached_property
    def only_tests(self):
        """Paths of Rust files that only tests compile, or that are no part of a library or program."""
        aside = set()
        for file in self.rust_files:
            parts = file.path.split("/")
            is_aside = any(part in ASIDE for part in parts[2:-1]) or parts[-1] in ("tests.rs", "build.rs")
            if parts[0] != "crates" or is_aside:
                aside.add(file.path)
        for file in self.rust_files:
            for name, path, is_test in file.rust.module_files:
                if is_test:
                    aside.update(self.module(file.path, name, path))
        return aside

    def module(self, parent, name, path):
        """Paths of a module's file and of those below it."""
        folder = PurePosixPath(parent).parent
        if PurePosixPath(parent).name not in ("lib.rs", "main.rs", "mod.rs"):
            folder = folder / PurePosixPath(parent).stem
        if path:
            return {str(PurePosixPath(parent).parent / path)}
        own, below = f"{folder}/{name}.rs", f"{folder}/{name}/"
        return {file.path for file in self.rust_files if file.path == own or file.path.startswith(below)}

    @cached_property
    def production(self):
        """Rust files of libraries and programs. Each may hold parts for tests."""
        return [file for file in self.rust_files if file.path not in self.only_tests]


def is_python(path):
    """Tells a script in Python that has no suffix by its first line."""
    file = ROOT / path
    return file.is_file() and re.match(rb"#!.*python", file.read_bytes()[:80]) is not None
