"""Commands about placement and their answers, one after the other, as lines that two clusters can be compared by.

Usage: map_commands.py FILE, with CEPH_CONF set, on a new cluster of three OSDs on host0 to host2, each of weight 1. A
line of FILE is a command as JSON. Pools stand in weight sets by their names.
"""

import errno
import json
import os
import sys
import time

import rados

# Commands that a Ceph's manager answers.
OF_MANAGER = ("balancer", "osd reweight-by-pg", "osd test-reweight-by-pg", "pg debug")


def normal(command, text, pools):
    """An answer without numbers of pools, and JSON without its spaces."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if command["prefix"] == "osd crush weight-set dump":
        value = {pools.get(index, index): sets for index, sets in value.items()}
    return json.dumps(value, sort_keys=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        commands = [json.loads(line) for line in file if line.startswith("{")]
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=20)

    def ask(command):
        of_manager = command["prefix"].startswith(OF_MANAGER)
        send = cluster.mgr_command if of_manager else cluster.mon_command
        return send(json.dumps(command), b"", timeout=30)

    code, _, status = ask({"prefix": "osd pool create", "pool": "rep3", "pg_num": 8})
    assert code == 0, status
    pools = {str(pool["poolnum"]): pool["poolname"] for pool in
             json.loads(ask({"prefix": "osd lspools", "format": "json"})[1])}
    for command in commands:
        code, output, status = ask(command)
        end = time.monotonic() + 30
        # Groups whose OSDs have new weights do not serve for a moment.
        while code == -errno.EAGAIN and time.monotonic() < end:
            time.sleep(0.5)
            code, output, status = ask(command)
        answer = {"code": code, "status": status, "output": normal(command, output.decode(), pools)}
        print(json.dumps({"command": command, **answer}))
    cluster.shutdown()


if __name__ == "__main__":
    main()
