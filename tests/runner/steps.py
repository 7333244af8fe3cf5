"""The steps of a run that are one command each, with their time and verdict."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from .programs import ROOT


@dataclass
class Step:
    """A step: its name, how long it took, and what it came to. `notes` stand behind it in the summary."""

    name: str
    seconds: float = 0.0
    passed: bool = True
    notes: str = ""
    why: list = field(default_factory=list)


class Steps:
    """Runs steps one after the other. `logs`: the folder for what they say."""

    def __init__(self, logs):
        self.logs = logs
        self.all = []

    def run(self, name, work, says=""):
        """Runs `work(step)`, which sets what the step came to."""
        print(f"\n== {name}: {says}", flush=True)
        print(f"{free(ROOT)} free in {ROOT}, {free(tempfile.gettempdir())} in {tempfile.gettempdir()}", flush=True)
        step, began = Step(name), time.monotonic()
        self.all.append(step)
        work(step)
        step.seconds = time.monotonic() - began
        return step

    def command(self, name, command, environment=None):
        """Runs a command, shows what it says, and keeps that."""

        def work(step):
            log = self.logs / f"{name}.log"
            variables = {**os.environ, **(environment or {})}
            with log.open("w") as kept:
                process = subprocess.Popen(
                    command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
                with process:
                    for line in process.stdout:
                        kept.write(line)
                        sys.stdout.write(line)
                        sys.stdout.flush()
            step.passed = process.returncode == 0
            if not step.passed:
                step.why = [line[:300] for line in log.read_text().splitlines()[-12:]]

        return self.run(name, work, " ".join(str(word) for word in command))


def free(folder):
    """The space that is free on the file system of a folder, in words."""
    return f"{shutil.disk_usage(folder).free / (1 << 30):.1f} GiB"
