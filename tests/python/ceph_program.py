"""Runs Debian's `ceph` as it is, many times, with its modules loaded once.

A start of Python with these modules takes more of a processor than most commands do. A connection to the socket is one
command, which a process of its own carries out, forked from this one.

Usage: ceph_program.py SOCKET. It ends when its standard input does.

A request is one line of JSON: `{"args": [...], "conf": FILE, "stdout": FILE, "stderr": FILE}`. The answer is two lines:
`pid N` when the command has begun, and `status N` at its end, which is negative if a signal ended it.
"""

import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback

PROGRAM = shutil.which("ceph")


def load():
    """The program's code. Its modules are loaded, and nothing is done, since it is not the main module yet."""
    with open(PROGRAM, encoding="utf-8") as source:
        code = compile(source.read(), PROGRAM, "exec")
    exec(code, {"__name__": "loaded", "__file__": PROGRAM})
    return code


def carry_out(code, request):
    """Is the program, as if it had been started so; never returns."""
    for path, fd in [(request["stdout"], 1), (request["stderr"], 2)]:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, fd)
        os.close(opened)
    os.environ["CEPH_CONF"] = request["conf"]
    sys.argv = [PROGRAM, *request["args"]]
    try:
        exec(code, {"__name__": "__main__", "__file__": PROGRAM, "__builtins__": __builtins__})
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


def serve(code, connection):
    """Answers one connection; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = json.loads(connection.makefile("rb").readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        carry_out(code, request)
    connection.sendall(b"pid %d\n" % pid)
    _, status = os.waitpid(pid, 0)
    connection.sendall(b"status %d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def main():
    path = sys.argv[1]
    code = load()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    # Whoever finds the name finds somebody who listens.
    os.rename(path + ".new", path)
    # Children that have ended leave nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    end, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    while True:
        ready, _, _ = select.select([listener, end], [], [])
        if end in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve(code, connection)
        connection.close()


if __name__ == "__main__":
    main()
