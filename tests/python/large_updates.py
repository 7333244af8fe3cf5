"""Updates of tens of MiB of omap, headers and attributes, while another pool is written to in small pieces.

Usage: large_updates.py write|check POOL OTHER. "write" prints a line for each acknowledged update, "check" compares
every value with what was written.
"""

import rados
import sys
import threading

MIB = 1 << 20


def value(number, length):
    return bytes([number % 251]) * length


# One value as large as a message between OSDs was once allowed to be and more; many; as much as Ceph takes at once.
UPDATES = {
    "one value": {"k": value(7, 33 * MIB)},
    "many values": {"k%02d" % n: value(n, MIB) for n in range(40)},
    "as much as there may be": {"k%02d" % n: value(n, MIB) for n in range(89)},
    "small ones": {"key %06d" % n: value(n, 200) for n in range(20000)},
}


def main():
    what, pool, other = sys.argv[1:4]
    cluster = rados.Rados(conffile="", conf={"rados_osd_op_timeout": "600"})
    cluster.connect()
    large, small = cluster.open_ioctx(pool), cluster.open_ioctx(other)
    {"write": write, "check": check}[what](large, small)
    cluster.shutdown()


def write(large, small):
    over, written = threading.Event(), []

    def write_small():
        while not over.is_set():
            number = len(written)
            small.write_full("object %d" % (number % 300), b"%08d" % number * 512)
            written.append(number)

    writer = threading.Thread(target=write_small)
    writer.start()
    try:
        for name, values in UPDATES.items():
            with rados.WriteOpCtx() as op:
                large.set_omap(op, tuple(values.keys()), tuple(values.values()))
                large.operate_write_op(op, name)
            print("%s: acknowledged" % name, flush=True)
        before = len(written)
        while len(written) < before + 50 and writer.is_alive():
            over.wait(0.1)
    finally:
        over.set()
        writer.join()
    print("%d small writes" % len(written))


def check(large, small):
    wrong = 0
    for name, values in UPDATES.items():
        keys, got = list(values), {}
        step = max(1, len(keys) // 40)
        for at in range(0, len(keys), step):
            with rados.ReadOpCtx() as op:
                found, _ = large.get_omap_vals_by_keys(op, tuple(keys[at : at + step]))
                large.operate_read_op(op, name)
                got.update(found)
        same = got == values
        wrong += not same
        print("%s: %s" % (name, "as written" if same else "WRONG"))
    print("%d wrong" % wrong)


main()
