"""Commands of `ceph` and their answers, one after the other, in a form that two clusters can be compared by.

Usage: command_list.py FILE, with CEPH_CONF set: prints answers as lines.
       command_list.py --compare OURS CEPHS ALLOWED: prints differences that ALLOWED does not name, and names there that
       nothing differs by.

A command is sent as `ceph` sends it: by what the cluster says of its commands, to whom that says, in one session for
all. Of text, lines are kept without numbers, times, ids and names of machines. Of JSON, its shape is: keys, and the
type of each value. Elements of a list, and of a map whose keys are numbers, count as one, as do those of a map of many
alike; a key that not all of them have ends with `?`.
"""

import contextlib
import errno
import functools
import io
import json
import os
import re
import shlex
import socket
import sys
import tempfile
import time

import ceph_argparse
import rados

LIMIT = 120
# Keys of maps that name things of one cluster.
NAMES = [
    (r"ceph version .*", "VERSION"),
    (r"[\d.]+:\d+/\d+", "ADDRESS"),
    (r"\d+|\d+\.[0-9a-f]+|[0-9a-f-]{36}", "N"),
    (r"osd\.\d+", "osd.N"),
    (re.escape(socket.gethostname()), "HOST"),
]
TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?"
# Parts of texts that differ from cluster to cluster, in the order in which they are replaced.
PARTS = [
    (re.escape(socket.gethostname()), "HOST"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (TIME, "TIME"),
    (r"(?<![\w.])\d+\.[0-9a-f]{1,3}(?![\w.])", "N"),
    (r"\b([ep])\d+\b", r"\1N"),
    (r"[A-Za-z0-9+/]{38}==", "KEY"),
    (r"0x[0-9a-f]+", "HEX"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r"/\S*/(log|run|mon|osd|nacre)\S*", "PATH"),
    (r"-?\b\d+(\.\d+)?(e[+-]\d+)? ?([KMGTPE]i?B?|[kMGT])(?=\b|/)", "N B"),
    (r"(?<![A-Za-z])-?\d+(\.\d+)?(e[+-]\d+)?", "N"),
    # A Ceph's log has a mark in the place of the number where the client has none yet.
    (r"(?<=\.)(\d+|\?(?=\)))", "N"),
    (r"(N[smhdw])+\b", "AGO"),
    (r"-{3,}|={3,}", "--"),
    (r"[ \t]+", " "),
]


def normal(text):
    """The lines of a text without what differs from cluster to cluster, each once."""
    for pattern, name in PARTS:
        text = re.sub(pattern, name, text)
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def key_of(key):
    """A key of a map; those that name a thing of this cluster are alike."""
    for pattern, name in NAMES:
        if re.fullmatch(pattern, key):
            return name
    return key


def shape(value):
    """The shape of a value: a map of shapes, a list of at most one shape, or the name of a type."""
    if isinstance(value, dict):
        found = {}
        for key, inner in value.items():
            key = key_of(key)
            found[key] = merged(found[key], shape(inner)) if key in found else shape(inner)
        inner = list(found.values())
        if len(inner) > 4 and isinstance(inner[0], dict) and all(other == inner[0] for other in inner):
            return {"*": inner[0]}
        return dict(sorted(found.items()))
    if isinstance(value, list):
        found = [shape(inner) for inner in value]
        while len(found) > 1:
            found[:2] = [merged(found[0], found[1])]
        return found
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "time" if re.fullmatch(TIME, value) else "string"
    return "null"


def merged(left, right):
    """One shape for two values of a list."""
    if left == right:
        return left
    if isinstance(left, list) and isinstance(right, list):
        return [merged(left[0], right[0])] if left and right else left or right
    if isinstance(left, dict) and isinstance(right, dict):
        left = {key: left[key] for key in left}
        names = {key.rstrip("?") for key in [*left, *right]}
        found = {}
        for name in sorted(names):
            both = [side.get(name, side.get(name + "?")) for side in (left, right)]
            everywhere = name in left and name in right
            inner = merged(*both) if None not in both else both[0] if both[1] is None else both[1]
            found[name if everywhere else name + "?"] = inner
        return found
    kinds = {kind for side in (left, right) for kind in (side.split("|") if isinstance(side, str) else ["map or list"])}
    return "|".join(sorted(kinds))


def described(out):
    """The lines that tell of an output."""
    try:
        text = out.decode()
    except UnicodeDecodeError:
        return ["bytes"]
    try:
        value = json.loads(text)
    except ValueError:
        return normal(text)
    return [json.dumps(shape(value), separators=(",", ":"))]


class Asker:
    """Sends commands as `ceph` does."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.tables = {}

    def forget(self):
        """Has the cluster say again which commands there are."""
        self.tables.clear()
        self.read.cache_clear()

    def table(self, target):
        """The commands that a daemon knows, by what it says, as a map by their first words."""
        kind = target[0] if target[0] != "mon" else target
        if kind not in self.tables:
            code, out, status = self.send(target, {"prefix": "get_command_descriptions"})
            if code:
                return code, status
            table = ceph_argparse.parse_json_funcsigs(out.decode(), "cli")
            self.tables[kind] = by_word = {}
            for key, entry in table.items():
                by_word.setdefault(prefix_of(entry).split()[0], {})[key] = entry
        return self.tables[kind]

    def send(self, target, arguments):
        """The code, output and status of a command that is checked."""
        try:
            code, out, status = ceph_argparse.json_command(
                self.cluster, target=target, argdict=arguments, timeout=LIMIT)
        except RuntimeError as e:
            return -errno.EIO, b"", str(e).rpartition("exception ")[2]
        return code, out or b"", status if isinstance(status, str) else status.decode()

    def ask(self, words, form=None):
        """The code, output and status of a command."""
        target, arguments = self.read(tuple(words))
        if isinstance(arguments, str):
            return target, b"", arguments
        return self.send(target, arguments | ({"format": form} if form else {}))

    @functools.cache
    def read(self, words):
        """To whom a command goes, and its arguments; or a code and a status."""
        words = list(words)
        target = ceph_argparse.find_cmd_target(words)
        table = self.table(target)
        if isinstance(table, tuple):
            return table
        with contextlib.redirect_stderr(io.StringIO()):
            words = words[2:] if words[0] == "tell" else words
            # Descriptions that begin by other words are left out, as looking through all takes most of the time.
            near = table.get(words[0], {})
            arguments = ceph_argparse.validate_command(near, words)
        if not arguments:
            return -errno.EINVAL, "no valid command found"
        # The command's own description says who answers it.
        own = [entry for entry in near.values() if prefix_of(entry) == arguments["prefix"]]
        if target == ("mon", "") and any(entry.get("flags", 0) & ceph_argparse.Flag.MGR for entry in own):
            target = ("mon-mgr", "")
        return target, arguments


def prefix_of(entry):
    """The words by which a command begins, by its description."""
    return " ".join(part.instance.prefix for part in entry["sig"] if part.t == ceph_argparse.CephPrefix)


# Modules of a Ceph's manager whose commands are known some seconds after it has started.
LATE = ["balancer status", "crash ls", "device ls", "insights", "orch status", "osd pool autoscale-status", "osd status",
        "progress", "rbd trash purge schedule list", "telemetry status"]
SETTINGS = [
    # A Ceph's monitors wait a second for further changes otherwise.
    "tell mon.a injectargs --paxos_propose_interval=0.01",
    "balancer off",
    "device monitoring off",
    "osd set-require-min-compat-client mimic",
    "osd crush set-device-class ssd osd.0 osd.1 osd.2",
    "osd blocklist clear",
    "config set global osd_pool_default_pg_autoscale_mode off",
    "config set global mon_reweight_min_bytes_per_osd 1",
    "config set global mon_reweight_min_pgs_per_osd 1",
    "config set osd osd_max_backfills 2",
    "osd pool create listed 8 8 replicated",
    "osd pool application enable listed rados",
    "osd pool mksnap listed snap1",
]


def prepare(asker):
    """Makes a pool with objects and waits until the cluster is quiet; gives the names that the list uses."""
    ask = lambda line: asker.ask(line.split(), "json")
    read = lambda line: json.loads(ask(line)[1] or "null")
    by = time.monotonic() + 240
    while any(ask(words)[2] == "no valid command found" for words in LATE):
        assert time.monotonic() < by, "the manager's modules do not come"
        time.sleep(1)
        asker.forget()
    for line in SETTINGS:
        code, _, status = asker.ask(line.split())
        assert code == 0, (line, code, status)
    asker.cluster.wait_for_latest_osdmap()
    with asker.cluster.open_ioctx("listed") as pool:
        for number in range(32):
            pool.write_full(f"object{number}", b"some bytes" * 400)
    wait_until_quiet(asker)
    number = asker.cluster.pool_lookup("listed")
    weight = next(node["crush_weight"] for node in read("osd tree")["nodes"] if node["name"] == "osd.0")
    groups = read("pg dump pgs_brief")["pg_stats"]
    # Which OSDs lead no group depends on the order in which they have started.
    leader = next(group["acting_primary"] for group in groups if group["pgid"] == f"{number}.0")
    return {"{pg}": f"{number}.0", "{pool}": str(number), "{weight}": str(weight), "{leader}": str(leader)}


def wait_until_quiet(asker):
    """Waits until nothing is going on that answers could tell of."""
    read = lambda line: json.loads(asker.ask(line.split(), "json")[1] or "null")
    # Writes are seen as going on for a while, and not at once.
    by, quiet = time.monotonic() + 240, 0
    while quiet < 4:
        quiet = quiet + 1 if is_quiet(read) else 0
        assert time.monotonic() < by, read("status")
        # A Ceph's manager makes it once, for records of devices.
        asker.ask("osd pool rm device_health_metrics device_health_metrics --yes-i-really-really-mean-it".split())
        time.sleep(1)


def is_quiet(read):
    """Tells if all groups are clean, all objects are counted, and nothing is going on."""
    groups = (read("pg dump pgs_brief") or {}).get("pg_stats", [])
    status, pools = read("status"), read("df")["pools"]
    busy = {"read_op_per_sec", "write_op_per_sec", "recovering_objects_per_sec"} & status["pgmap"].keys()
    return (not busy and not status["progress_events"] and len(groups) == 8
            and all(group["state"] == "active+clean" for group in groups)
            and [(pool["name"], pool["stats"]["objects"]) for pool in pools] == [("listed", 32)])


def main(path):
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=20)
    asker = Asker(cluster)
    names = prepare(asker)
    for line in open(path, encoding="utf-8").read().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line == "? quiet":
            wait_until_quiet(asker)
            continue
        text = line
        for name, value in names.items():
            text = text.replace(name, value)
        # Changes are made once, and what only looks is asked for in both forms.
        once = text.startswith("! ")
        words = shlex.split(text.removeprefix("! "))
        print(f"> {line}", flush=True)
        answers = {form or "plain": asker.ask(words, form) for form in ((None,) if once else (None, "json"))}
        shown = {form: described(out) for form, (_, out, _) in answers.items()}
        for form, (code, _, status) in answers.items():
            print(f"{form} {code} {' / '.join(normal(status))}".rstrip())
            # Some commands know one form only.
            alike = form == "plain" and shown[form] == shown.get("json") and shown[form][:1] > ["["]
            for out_line in ["as JSON"] if alike else shown[form]:
                print(f"  {out_line}")
    cluster.shutdown()


def blocks(path):
    """The answers of a file: of each command and form, its code and status and its lines."""
    found, times, command = {}, {}, None
    for line in open(path, encoding="utf-8").read().split("\n"):
        if line.startswith("> "):
            command = line[2:]
            number = times[command] = times.get(command, 0) + 1
            command = command if number == 1 else f"{command} ({number})"
        elif line.startswith("  "):
            found[form][1].append(line[2:])
        elif line:
            kind, _, told = line.partition(" ")
            form = (command, kind)
            found[form] = (told, [])
    return found


# A list that is empty until OSDs have asked each other for a minute.
LATER = "network_ping_times"


def differences(ours, cephs, path=""):
    """Yields where two shapes differ, as `.key[].key: ours / ceph's`."""
    if isinstance(ours, dict) and isinstance(cephs, dict):
        for key in sorted(set(ours) | set(cephs)):
            if key == LATER and ours.get(key) == []:
                continue
            if key not in ours:
                yield f"{path}.{key}: absent / {brief(cephs[key])}"
            elif key not in cephs:
                yield f"{path}.{key}: {brief(ours[key])} / absent"
            else:
                yield from differences(ours[key], cephs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(cephs, list):
        if ours and cephs:
            yield from differences(ours[0], cephs[0], f"{path}[]")
        elif ours != cephs:
            yield f"{path}: {brief(ours)} / {brief(cephs)}"
    elif ours != cephs:
        yield f"{path}: {brief(ours)} / {brief(cephs)}"


def brief(value):
    """A shape in a few letters."""
    if isinstance(value, str):
        return value
    return ("{}" if isinstance(value, dict) else "[]") if not value else ("{..}" if isinstance(value, dict) else "[..]")


def compare(ours, cephs):
    """Yields (command, form, difference) of two files of answers."""
    ours, cephs = blocks(ours), blocks(cephs)
    for command, form in cephs:
        (told, lines), (cephs_told, cephs_lines) = ours.get((command, form), ("", [])), cephs[command, form]
        if told != cephs_told:
            yield command, form, f"says {told} / {cephs_told}"
        try:
            left, right = json.loads("\n".join(lines)), json.loads("\n".join(cephs_lines))
            yield from ((command, form, place) for place in differences(left, right))
        except ValueError:
            for line in lines:
                if line not in cephs_lines:
                    yield command, form, f"+ {line}"
            for line in cephs_lines:
                if line not in lines:
                    yield command, form, f"- {line}"


def judge(ours, cephs, allowed):
    """Prints differences that are not allowed, and what is allowed to no purpose."""
    rules = json.load(open(allowed, encoding="utf-8"))
    used = set()
    for command, form, place in compare(ours, cephs):
        for number, rule in enumerate(rules):
            if re.fullmatch(rule["command"], command) and re.fullmatch(rule["difference"], place):
                used.add(number)
                break
        else:
            print(f"{command} ({form}): {place}")
    for number, rule in enumerate(rules):
        if number not in used:
            print(f"nothing differs by {json.dumps(rule)}")


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        judge(*sys.argv[2:])
    else:
        path = os.path.abspath(sys.argv[1])
        # The client opens the log file that the cluster tells it, where it runs.
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            main(path)
