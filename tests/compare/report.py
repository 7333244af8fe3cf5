"""The comparison as a table for people."""
from statistics import median


def spread(values, digits):
    """Median, and from where to where if there were several."""
    middle = f"{median(values):.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def digits_for(value):
    return 0 if value >= 100 else 1 if value >= 10 else 2


def throughput_of(row):
    """In what a row is told: small operations in operations per second, large ones in MB/s."""
    return ("iops", "IOPS") if row["size_bytes"] < 65536 else ("mb_s", "MB/s")


def ratios(row, key):
    """Nacre's figure over Ceph's, a ratio for each round in which both ended."""
    pairs = zip(row["nacre"], row["ceph"])
    return [n[key] / c[key] for n, c in pairs if "failed" not in n and "failed" not in c and c.get(key)]


def cell(runs, key):
    values = [run[key] for run in runs if "failed" not in run]
    return spread(values, digits_for(median(values))) if values else "failed"


def plain(runs, key):
    values = [run[key] for run in runs if "failed" not in run]
    return f"{median(values):.{digits_for(median(values))}f}" if values else "failed"


def table(result):
    lines = [
        "| row | unit | Ceph | Nacre | Nacre / Ceph | latency, ms: Ceph, Nacre | server CPU us/op: Ceph, Nacre "
        "| machine CPU us/op: Ceph, Nacre | OSDs' peak memory, MiB: Ceph, Nacre |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        key, unit = throughput_of(row)
        factors = ratios(row, key)
        ratio = f"**{spread(factors, 2)}**" if factors else "-"
        pair = lambda name: f"{plain(row['ceph'], name)}, {plain(row['nacre'], name)}"
        lines.append(f"| {row['name']} | {unit} | {cell(row['ceph'], key)} | {cell(row['nacre'], key)} | {ratio} "
                     f"| {pair('lat_ms')} | {pair('server_cpu_us_per_op')} | {pair('machine_cpu_us_per_op')} "
                     f"| {pair('osd_rss_mib')} |")
    return lines


def markdown(result):
    m = result["machine"]
    lines = [
        f"Measured {result['started']} with `{result['command']}`.",
        "",
        f"{m['cpus']} cores ({m['cpu']}), {m['memory_gib']:.0f} GiB of memory, Linux {m['kernel']}, "
        f"data on {m['filesystem']}. {result['versions']['nacre']}; {result['versions']['ceph']}.",
        f"{result['osds']} OSDs each, {result['rounds']} rounds of {result['seconds']} s per row, "
        f"{result['threads']} operations in flight.",
        "",
        *table(result),
        "",
    ]
    idle = result.get("idle")
    if idle:
        lines += [f"Idle for {idle['seconds']} s, all server processes together: Ceph {idle['ceph_percent']:.1f} % of a core, "
                  f"Nacre {idle['nacre_percent']:.2f} %. The whole machine used {idle['machine_percent']:.0f} % of a core then"
                  + (f"; everything measured ran at nice {result['priority']}." if result["priority"] else "."), ""]
    slower = [row["name"] for row in result["rows"] if median(ratios(row, throughput_of(row)[0]) or [1]) < 1]
    if slower:
        lines += ["Slower than Ceph: " + ", ".join(slower) + ".", ""]
    failed = [f"* {row['name']}, {system}: {run['failed']}" for row in result["rows"] for system in ("ceph", "nacre")
              for run in row[system] if "failed" in run]
    if failed:
        lines += ["Failed:", "", *failed, ""]
    return "\n".join(lines)
