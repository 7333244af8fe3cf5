"""Prints the facts of a Ceph's options, as `crates/control/src/options/facts.tsv` has them.

Usage: option_facts.py, with CEPH_CONF set to that of a running Ceph with at least one OSD. Descriptions are left out.
"""

import json
import os

import rados


def ask(send, **command):
    """The answer to a command that must succeed, from JSON."""
    code, output, status = send(json.dumps(dict(command, format="json")), b"", timeout=30)
    assert code == 0, (command, code, status)
    return json.loads(output)


def text(value):
    """A value as it stands in the table."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def line(facts, listed):
    """One option as fields between tabs."""
    flags = ["live"] * facts["can_update_at_runtime"] + facts["flags"] + ["unlisted"] * (not listed)
    fields = [facts["name"], facts["type"], facts["level"], ",".join(flags)]
    fields += [text(facts[key]) for key in ("default", "daemon_default", "min", "max")]
    fields += [",".join(facts.get(key, [])) for key in ("enum_values", "services", "tags", "see_also")]
    assert not any("\t" in field or "\n" in field for field in fields), facts
    return "\t".join(fields).rstrip("\t")


def main():
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=20)
    names = ask(cluster.mon_command, prefix="config ls")
    of_daemon = ask(cluster.mgr_command, prefix="config show-with-defaults", who="osd.0")
    unlisted = sorted({option["name"] for option in of_daemon} - set(names))
    for name in names + unlisted:
        print(line(ask(cluster.mon_command, prefix="config help", key=name), name in names))
    cluster.shutdown()


if __name__ == "__main__":
    main()
