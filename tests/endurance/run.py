#!/usr/bin/python3
"""An endurance test: clients with journals on a cluster whose daemons, network and disks suffer.

    tests/endurance/run.py --hours 1            a new seed
    tests/endurance/run.py --seed 7 --rounds 1  operations and misfortunes of a seed; when they meet is left to chance
    tests/endurance/run.py --engine ceph --no-faults --minutes 5   the checker itself, checked by a real Ceph

docs/testing.md describes it.
"""

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from endurance.conductor import Conductor  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=0, help="ends after so many")
    parser.add_argument("--round-seconds", type=float, default=150, help="how long misfortunes last in a round")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--nacre", default=str(ROOT / "target" / "debug" / "nacre"), help="the binary")
    parser.add_argument("--engine", choices=["nacre", "ceph"], default="nacre")
    parser.add_argument("--no-faults", action="store_true")

    parser.add_argument(
        "--only", default="", help="misfortunes that come, separated by commas, by their names in the summary"
    )
    parser.add_argument("--osds", type=int, default=6)
    parser.add_argument("--code", choices=["2+1", "4+2", "none"], default=None, help="of the erasure-coded pool")
    parser.add_argument("--clients", type=int, default=2, help="clients of each pool")
    parser.add_argument(
        "--pause-ms", type=float, default=40, help="of a thread of a client between its operations, on average"
    )
    parser.add_argument(
        "--dir", default=None, help="a new folder for everything; removed at the end unless something is wrong"
    )
    parser.add_argument("--keep", action="store_true")
    parser.add_argument(
        "--tamper", action="store_true", help="changes an object behind its client's back, which must be found"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def into_namespaces():
    """Runs this program anew in a network and with process ids of its own.

    So nothing outside is touched, and nothing is left when it ends. Where that is not allowed, misfortunes of the
    network are left out.
    """
    words = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        words.insert(1, "--map-root-user")
    if shutil.which("unshare") and os.spawnvp(os.P_WAIT, "unshare", [*words, "true"]) == 0:
        os.execvp("unshare", [*words, sys.executable, __file__, *sys.argv[1:], "--inside"])


def main():
    options = arguments()
    if not options.inside:
        into_namespaces()
    else:
        os.system("ip link set lo up")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("interrupted"))
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    conductor = Conductor(options, seed)
    try:
        ok = conductor.run()
    finally:
        conductor.close()
    os._exit(0 if ok else 1)


if __name__ == "__main__":
    main()
