"""Writes COUNT objects of 4 MiB (`write`), or asks for all of them at once (`read`), and stands still from the first
answer on until it is sent SIGCONT. It then takes the others, compares each with what was written, and prints how many
were right.

    standing_reader.py write|read POOL COUNT
"""
import os, signal, sys, threading
import rados

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

SIZE = 4 << 20
verb, pool, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
if verb == "write":
    for number in range(count):
        io.write_full(f"large-{number}", content(number, SIZE))
    print(f"{count} objects written")
else:
    came, answered = {}, threading.Semaphore(0)

    def taken(number):
        def call(_, data):
            came[number] = data
            answered.release()
        return call

    for number in range(count):
        io.aio_read(f"large-{number}", SIZE, 0, taken(number))
    # Once one answer is here, all requests have been sent.
    assert answered.acquire(timeout=240), "no read was answered"
    answered.release()
    before = len(came)
    print(f"asked; {before} came before", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    for _ in range(count):
        assert answered.acquire(timeout=240), f"{len(came)} of {count} reads were answered"
    right = sum(came[number] == content(number, SIZE) for number in range(count))
    print(f"{right} of {count} reads are right", file=sys.stderr, flush=True)
# Not left to the end of the interpreter: threads of librados that still run may crash it then.
cluster.shutdown()
