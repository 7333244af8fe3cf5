"""A client's journal: what it means to do, before it does it, and what came of it.

Each line is written by one call to the kernel before the operation is sent, so it outlives the death of the client and
of the cluster. A journal is a series of files; each begins with a checkpoint of all that the client knows.
"""

import json
import os
import threading
import time

KEPT = 6


class Journal:
    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        numbers = self.numbers()
        self.number = numbers[-1] if numbers else 0
        self.file = self.open()

    def numbers(self):
        return sorted(int(path.suffix[1:]) for path in self.folder.glob("journal.*") if path.suffix != ".new")

    def path(self, number):
        return self.folder / f"journal.{number:06}"

    def open(self):
        return os.open(self.path(self.number), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, record):
        line = json.dumps({**record, "at": round(time.time(), 3)}, separators=(",", ":")).encode() + b"\n"
        with self.lock:
            assert os.write(self.file, line) == len(line), "the journal's disk is full"

    def read(self):
        """All records since the last checkpoint, that first. A line that the client died in is none."""
        out = []
        for line in self.path(self.number).read_bytes().split(b"\n")[:-1]:
            out.append(json.loads(line))
        return out

    def checkpoint(self, record):
        """Begins a new file with what is known; nobody writes meanwhile."""
        new = self.folder / "journal.new"
        new.write_text(json.dumps(record, separators=(",", ":")) + "\n")
        os.rename(new, self.path(self.number + 1))
        os.close(self.file)
        self.number += 1
        self.file = self.open()
        for old in self.numbers()[:-KEPT]:
            self.path(old).unlink()
