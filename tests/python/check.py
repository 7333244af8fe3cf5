"""Reads every object of a list and compares it with what was written.

    check.py POOL FILE      FILE holds lines "NUMBER SIZE"
"""
import sys
import rados

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

pool, path = sys.argv[1:]
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
count = 0
for line in open(path):
    number, size = map(int, line.split())
    name = f"object-{number}"
    try:
        have = io.read(name, size + 1)
    except rados.ObjectNotFound:
        sys.exit(f"{name} of {size} bytes was acknowledged and is lost")
    want = content(number, size)
    if have != want:
        at = next((i for i, (a, b) in enumerate(zip(have, want)) if a != b), min(len(have), len(want)))
        sys.exit(f"{name} of {size} bytes was acknowledged and is wrong from byte {at} ({len(have)} bytes are there)")
    count += 1
print(f"{count} objects are whole")
# Not left to the end of the interpreter: threads of librados that still run may crash it then.
io.close()
cluster.shutdown()
