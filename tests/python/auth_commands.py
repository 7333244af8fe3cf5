"""Commands of `ceph auth` and their answers, one after the other, as lines that two clusters can be compared by.

Usage: auth_commands.py FILE, with CEPH_CONF set, on a new cluster that has a monitor and nothing else. A line of FILE
is a command as JSON, its input under "input". Keys that the cluster makes are printed as KEY1, KEY2 ... in the order
in which they are first seen.
"""

import json
import os
import re
import sys

import rados


def normal(text, given, seen):
    """A text without keys that differ from run to run."""

    def name(match):
        key = match[0]
        return key if key in given else seen.setdefault(key, f"KEY{len(seen) + 1}")

    return re.sub(r"AQ[A-Za-z0-9+/]{36}==", name, text)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if not line.startswith("#")]
    given = set(re.findall(r"AQ[A-Za-z0-9+/]{36}==", json.dumps(lines)))
    seen = {}
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=20)
    for line in lines:
        command = {name: value for name, value in line.items() if name != "input"}
        code, output, status = cluster.mon_command(json.dumps(command), line.get("input", "").encode(), timeout=30)
        answer = {"code": code, "status": normal(status, given, seen), "output": normal(output.decode(), given, seen)}
        print(json.dumps({"command": command, "input": line.get("input", ""), **answer}))
    cluster.shutdown()


if __name__ == "__main__":
    main()
