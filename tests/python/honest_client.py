"""Writes small objects and reads them back, one operation at a time with a short pause between them, until its input
ends. Prints when each operation began, as seconds since 1970, and how many seconds it took.

    honest_client.py POOL
"""
import os, sys, threading, time
import rados

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

PAUSE = 0.003
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(sys.argv[1])
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()


def timed(call):
    began, clock = time.time(), time.monotonic()
    result = call()
    print(f"{began:.6f} {time.monotonic() - clock:.6f}", flush=True)
    time.sleep(PAUSE)
    return result


number = 0
while not ended.is_set():
    name, data = f"honest-{number % 64}", content(number, 4096)
    timed(lambda: io.write_full(name, data))
    read = timed(lambda: io.read(name, 8192))
    assert read == data, f"{name} has other bytes than were written"
    number += 1
cluster.shutdown()
# The thread that reads the input may be in the midst of it.
os._exit(0)
