"""Commands of `ceph config` and their answers, one after the other, as lines that two clusters can be compared by.

Usage: config_commands.py FILE, with CEPH_CONF set. Left out are times, ids, and sentences that describe options. The
options that were set before are put aside, and are there again at the end.
"""

import json
import os
import re
import shlex
import sys
import tempfile

import rados

# Sentences of refusals that are Nacre's own. The number is compared.
OWN_SENTENCES = ("parse error", "must specify a valid historical version", "version ", "unrecognized key 'osd-max",
                 "unrecognized key 'nothing'", "there is no option", "bad or missing field")


def read(path):
    """Yields a command as a dict, its input, and its line."""
    with open(path, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            if not line or line.startswith("#"):
                continue
            text, _, given = line.partition(" <<< ")
            words, arguments = [], {}
            for word in shlex.split(text):
                name, equals, value = word.partition("=")
                if equals:
                    arguments[name] = argument(name, value)
                else:
                    words.append(word)
            arguments["prefix"] = " ".join(words)
            yield arguments, given.encode().decode("unicode_escape").encode(), line


def argument(name, value):
    """The value of an argument from its text."""
    if name == "force":
        return value == "1"
    return int(value[1:]) if re.fullmatch(r"#-?\d+", value) else value


def normal(command, text):
    """An answer without what differs from cluster to cluster."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+0000", "TIME", text)
    if command["prefix"] == "config help":
        if command.get("format") == "json":
            facts = json.loads(text) if text else {}
            facts.update({key: "" for key in ("desc", "long_desc") if key in facts})
            return json.dumps(facts)
        head, blank, _ = text.partition("\n\n")
        text = re.sub(r"^(\S+ - ).*", r"\1", head + ("\n" if blank else ""))
    if command["prefix"].startswith("config log"):
        # The number of a version depends on what was set before.
        text = re.sub(r"--- \d+ ---", "--- N ---", text)
        text = re.sub(r"reset to \d+", "reset to N", text)
        text = re.sub(r'"version":\d+', '"version":N', text)
    return text


def ask(cluster, **command):
    """The answer to a command that must succeed, from JSON."""
    code, output, status = cluster.mon_command(json.dumps(dict(command, format="json")), b"", timeout=30)
    assert code == 0, (command, code, status)
    return json.loads(output) if output else None


def version(cluster):
    """The newest version of the options."""
    return ask(cluster, prefix="config log", num=1)[0]["version"]


def main():
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=20)
    before = version(cluster)
    for option in ask(cluster, prefix="config dump"):
        mask = f"/{option['mask']}" if option["mask"] else ""
        ask(cluster, prefix="config rm", who=option["section"] + mask, name=option["name"])
    first = version(cluster)
    for command, given, line in read(sys.argv[1]):
        if command["prefix"] == "config reset" and command["num"] not in (-1, 9999):
            # Version 1 of the list is the one without options.
            command["num"] += first - 1
        send = cluster.mgr_command if command["prefix"].startswith("config show") else cluster.mon_command
        code, output, status = send(json.dumps(command), given, timeout=30)
        if code and status.startswith(OWN_SENTENCES) or command["prefix"] == "config help":
            status = ""
        print(f"> {line}")
        print(f"{code} {status!r}")
        for out in normal(command, output.decode()).splitlines():
            print(f"  {out}")
    ask(cluster, prefix="config reset", num=before)
    cluster.shutdown()


if __name__ == "__main__":
    # The client opens the log file that the cluster tells it, where it runs.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
