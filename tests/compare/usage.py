"""Expenses of processes and the machine: CPU time and resident memory, as the kernel counts them."""
import os
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ProcessDied(Exception):
    pass


def cpu_s(pids):
    """CPU seconds of the given processes (by name), all their threads included, ended ones too."""
    ticks = 0
    for name, pid in pids.items():
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            raise ProcessDied(f"{name} (process {pid}) died") from None
        ticks += int(fields[11]) + int(fields[12])  # utime, stime
    return ticks / TICKS_PER_S


def device_mib(pids):
    """MiB that the processes have read from and written to devices; nothing where the kernel does not tell."""
    read = written = 0
    for pid in pids.values():
        try:
            with open(f"/proc/{pid}/io") as f:
                fields = dict(line.split(": ") for line in f.read().splitlines())
        except OSError:
            continue
        read += int(fields["read_bytes"])
        written += int(fields["write_bytes"])
    return read / (1 << 20), written / (1 << 20)


def machine_cpu_s():
    """CPU seconds of the whole machine: clients, servers and the kernel's own threads; all but idle and waiting."""
    with open("/proc/stat") as f:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def forget_peak_rss(pids):
    """Makes the kernel count peaks of resident memory from now on. Where it may not, peaks are those since the
    start."""
    for pid in pids.values():
        try:
            with open(f"/proc/{pid}/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass


def peak_rss_mib(pids):
    """Sum of the processes' peaks, in MiB: a bound on what they held at any one time."""
    kib = 0
    for name, pid in pids.items():
        try:
            with open(f"/proc/{pid}/status") as f:
                kib += next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))
        except (FileNotFoundError, StopIteration):
            raise ProcessDied(f"{name} (process {pid}) died") from None
    return kib / 1024


def osds_of(pids):
    return {name: pid for name, pid in pids.items() if name.startswith("osd.")}


class Meter:
    """Expenses of a cluster's processes and the machine between `__init__` and `read`."""

    def __init__(self, pids):
        self.pids = pids
        forget_peak_rss(pids)
        self.servers, self.osds, self.machine = cpu_s(pids), cpu_s(osds_of(pids)), machine_cpu_s()
        self.device_read, self.device_written = device_mib(pids)
        self.started = time.monotonic()

    def read(self):
        device_read, device_written = device_mib(self.pids)
        return {
            "wall_s": time.monotonic() - self.started,
            "server_cpu_s": cpu_s(self.pids) - self.servers,
            "osd_cpu_s": cpu_s(osds_of(self.pids)) - self.osds,
            "machine_cpu_s": machine_cpu_s() - self.machine,
            "device_read_mib": device_read - self.device_read,
            "device_written_mib": device_written - self.device_written,
            "server_rss_mib": peak_rss_mib(self.pids),
            "osd_rss_mib": peak_rss_mib(osds_of(self.pids)),
        }


def settle(pids, limit_s, below=0.05):
    """Waits until the processes together use less than `below` of a core. Returns whether they did within `limit_s`."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before, started = cpu_s(pids), time.monotonic()
        time.sleep(0.5)
        if (cpu_s(pids) - before) / (time.monotonic() - started) < below:
            return True
    return False
