"""Writes objects with many in flight; prints "NUMBER SIZE" when one is acknowledged. Ends when it is killed.

    writer.py POOL FIRST_NUMBER [BYTES_MAX]
"""
import random, sys, threading
import rados

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

pool, number = sys.argv[1], int(sys.argv[2])
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
slots = threading.Semaphore(16)
lock = threading.Lock()
sizes = random.Random(number)
bytes_max = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 20


def acknowledged(n, size):
    def call(completion):
        if completion.get_return_value() == 0:
            with lock:
                print(f"{n} {size}\n", end="", flush=True)
        slots.release()
    return call


while True:
    slots.acquire()
    size = sizes.choice([size for size in [1, 4096, 5000, 65536, 262144, 1 << 20] if size <= bytes_max])
    io.aio_write_full(f"object-{number}", content(number, size), oncomplete=acknowledged(number, size))
    number += 1
