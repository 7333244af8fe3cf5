"""Writes and reads one object again and again, over one connection. Ends after so many seconds, or with the first
failure; then tells why, how many rounds it did, and the longest time that one took before, in seconds."""

import os
import sys
import time

import rados

name, pool, keyring, seconds = sys.argv[1:5]
conf = {"keyring": keyring, "rados_osd_op_timeout": "10"}
cluster = rados.Rados(conffile=os.environ["CEPH_CONF"], name=name, conf=conf)
cluster.connect(timeout=20)
io = cluster.open_ioctx(pool)
io.write_full(name, b"0")
print("began", flush=True)
end, why, count, longest = time.monotonic() + float(seconds), "over", 0, 0.0
while time.monotonic() < end:
    content, begin = str(count).encode(), time.monotonic()
    try:
        io.write_full(name, content)
        if io.read(name) != content:
            why = "wrong"
            break
    except rados.Error as error:
        why = type(error).__name__
        break
    longest, count = max(longest, time.monotonic() - begin), count + 1
    time.sleep(0.1)
print(why, count, f"{longest:.3f}", flush=True)
# A client that was refused does not close its connections in order.
os._exit(0)
