"""`exceptions.toml`: violations that are meant, each with its reason."""

import tomllib
from pathlib import Path

PATH = Path(__file__).with_name("exceptions.toml")


class Exceptions:
    """`entries`: rule, path, a part of what the rule says, and the reason."""

    def __init__(self, entries):
        for entry in entries:
            if entry.keys() != {"rule", "path", "says", "reason"} or not entry["reason"]:
                raise SystemExit(f"{PATH}: {entry} needs a rule, a path, a part of what the rule says, and a reason")
        self.entries, self.used = entries, set()

    @staticmethod
    def read():
        return Exceptions(tomllib.loads(PATH.read_text()).get("exception", []))

    def excuse(self, rule, violation):
        for number, entry in enumerate(self.entries):
            if (entry["rule"], entry["path"]) == (rule, violation.path) and entry["says"] in violation.says:
                self.used.add(number)
                return True
        return False

    def unused(self):
        for number, entry in enumerate(self.entries):
            if number not in self.used:
                yield f"the exception of {entry['rule']} for '{entry['says']}' in {entry['path']}"
