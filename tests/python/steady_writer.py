"""Writes, and reads back, one object after the other until its standard input ends; then tells how many, and the
longest time that one took, in seconds. Every failure ends it. It has one connection all the time, and objects of its
own."""

import os
import sys
import threading
import time

import rados

conf, pool = sys.argv[1:3]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as io:
    count, longest = 0, 0.0
    print("began", flush=True)
    while not ended.is_set():
        name, content, begin = f"steady-{os.getpid()}-{count % 50}", f"content {count} ".encode() * 500, time.monotonic()
        io.write_full(name, content)
        if io.read(name, len(content) + 1) != content:
            sys.exit(f"{name} is not what was written")
        longest = max(longest, time.monotonic() - begin)
        count += 1
print(count, f"{longest:.2f}")
