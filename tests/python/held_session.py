"""Connects to the monitor that ceph.conf names, says "connected", and gives one command when a line comes: prints how
many seconds its answer took.

    held_session.py
"""
import json, sys, time
import rados

cluster = rados.Rados(conffile="")
cluster.connect()
print("connected", flush=True)
sys.stdin.readline()
began = time.monotonic()
result, output, status = cluster.mon_command(json.dumps({"prefix": "osd dump", "format": "json"}), b"")
assert result == 0, status
json.loads(output)
print(time.monotonic() - began, flush=True)
# Not left to the end of the interpreter: threads of librados that still run may crash it then.
cluster.shutdown()
