//! Figures of a row: differences of two samples, per operation or per second.

use std::collections::BTreeMap;

use bench::report::{MACHINE_CPU, SERVER_CPU};

use super::Sample;
use super::connections::{Bytes, between};
use super::machine::{Drive, MachineCpu};
use super::process::Process;

/// Work that clients did between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub operations: u64,
    /// Bytes that clients wrote; absent if reads were among the operations, whose bytes are not counted separately.
    pub written_bytes: Option<u64>,
}

/// The figures by name; `None` where the machine cannot tell.
pub fn figures(before: &Sample, after: &Sample, work: Work) -> BTreeMap<String, Option<f64>> {
    let seconds = after.at.saturating_sub(before.at).as_secs_f64();
    let mut out = Figures { out: BTreeMap::new(), seconds, operations: work.operations };
    out.processes("server", server(before, after));
    out.processes("client", before.own.zip(after.own));
    out.memory(after);
    out.machine(before, after);
    out.drives(before, after, work.written_bytes);
    out.network(before, after);
    let hits = before.cache.zip(after.cache).map(|(before, after)| {
        (after.hit_bytes.saturating_sub(before.hit_bytes), after.miss_bytes.saturating_sub(before.miss_bytes))
    });
    out.set("cache_hit_bytes_per_s", hits.map(|(hit, _)| hit as f64 / seconds));
    let share = hits.filter(|(hit, miss)| hit + miss > 0).map(|(hit, miss)| hit as f64 / (hit + miss) as f64 * 100.0);
    out.set("cache_hit_percent", share);
    out.set("cache_bytes", after.cache.map(|counts| counts.cached_bytes as f64));
    let onodes = before.cache.zip(after.cache).map(|(before, after)| {
        (after.onode_hits.saturating_sub(before.onode_hits), after.onode_misses.saturating_sub(before.onode_misses))
    });
    let share = onodes.filter(|(hit, miss)| hit + miss > 0).map(|(hit, miss)| hit as f64 / (hit + miss) as f64 * 100.0);
    out.set("onode_cache_hit_percent", share);
    let energy = before.energy_uj.zip(after.energy_uj);
    // The counter wraps; a reading after a wrap cannot be used.
    let power = energy.and_then(|(before, after)| after.checked_sub(before)).map(|uj| uj as f64 / 1e6 / seconds);
    out.set("power_w", power);
    for (name, now) in &after.daemons {
        let cores = before.daemons.get(name).map(|then| (now.cpu_s() - then.cpu_s()) / seconds);
        out.set(&format!("{name}.cores"), cores);
        out.set(&format!("{name}.memory_bytes"), now.memory_bytes.map(|bytes| bytes as f64));
    }
    out.out
}

/// The sums over all daemons; `None` if there are none here, or one ended or was restarted.
fn server(before: &Sample, after: &Sample) -> Option<(Process, Process)> {
    let same = before.daemons.keys().eq(after.daemons.keys());
    // A restarted daemon usually has spent less CPU time than its predecessor: a count that shrank shows the restart.
    let grew =
        |(name, then): (&String, &Process)| after.daemons.get(name).is_some_and(|now| now.cpu_s() >= then.cpu_s());
    if before.daemons.is_empty() || !same || !before.daemons.iter().all(grew) {
        return None;
    }
    Some((sum(before.daemons.values()), sum(after.daemons.values())))
}

fn sum<'a>(processes: impl Iterator<Item = &'a Process>) -> Process {
    let zero = Process {
        memory_bytes: Some(0),
        memory_peak_bytes: Some(0),
        context_switches: Some(0),
        device_read_bytes: Some(0),
        device_written_bytes: Some(0),
        ..Process::default()
    };
    processes.fold(zero, |all, one| all.plus(*one))
}

struct Figures {
    out: BTreeMap<String, Option<f64>>,
    seconds: f64,
    operations: u64,
}

impl Figures {
    fn set(&mut self, name: &str, value: Option<f64>) {
        self.out.insert(name.to_owned(), value.filter(|value| value.is_finite()));
    }

    fn per_operation(&self, amount: f64) -> Option<f64> {
        (self.operations > 0).then(|| amount / self.operations as f64)
    }

    fn processes(&mut self, who: &str, counts: Option<(Process, Process)>) {
        let us = |amount: Option<f64>| amount.and_then(|seconds| self.per_operation(seconds * 1e6));
        let cpu = us(counts.map(|(a, b)| b.cpu_s() - a.cpu_s()));
        let user = us(counts.map(|(a, b)| b.user_s - a.user_s));
        let system = us(counts.map(|(a, b)| b.system_s - a.system_s));
        let switches = counts.and_then(|(a, b)| b.context_switches?.checked_sub(a.context_switches?));
        let switches = switches.and_then(|count| self.per_operation(count as f64));
        let name = |what: &str| format!("{who}_{what}");
        let total = if who == "server" { SERVER_CPU.to_owned() } else { name("cpu_us_per_operation") };
        self.set(&total, cpu);
        self.set(&name("cpu_user_us_per_operation"), user);
        self.set(&name("cpu_system_us_per_operation"), system);
        self.set(&name("cores"), counts.map(|(a, b)| (b.cpu_s() - a.cpu_s()) / self.seconds));
        self.set(&name("context_switches_per_operation"), switches);
        if who == "server" {
            let rate = |count: fn(&Process) -> Option<u64>| {
                let (a, b) = counts?;
                Some(count(&b)?.checked_sub(count(&a)?)? as f64 / self.seconds)
            };
            let (read, written) = (rate(|p| p.device_read_bytes), rate(|p| p.device_written_bytes));
            self.set("server_device_read_bytes_per_s", read);
            self.set("server_device_written_bytes_per_s", written);
        }
    }

    fn memory(&mut self, after: &Sample) {
        let all = (!after.daemons.is_empty()).then(|| sum(after.daemons.values()));
        let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
        self.set("server_memory_bytes", bytes(all.and_then(|all| all.memory_bytes)));
        self.set("server_memory_peak_bytes", bytes(all.and_then(|all| all.memory_peak_bytes)));
    }

    fn machine(&mut self, before: &Sample, after: &Sample) {
        let cpu = before.cpu.zip(after.cpu);
        let busy = cpu.map(|(a, b)| b.busy_s() - a.busy_s());
        self.set(MACHINE_CPU, busy.and_then(|seconds| self.per_operation(seconds * 1e6)));
        let seconds = self.seconds;
        let cores = |part: fn(&MachineCpu) -> f64| cpu.map(|(a, b)| (part(&b) - part(&a)) / seconds);
        let figures = [
            ("machine_user_cores", cores(|c| c.user_s)),
            ("machine_system_cores", cores(|c| c.system_s)),
            ("machine_softirq_cores", cores(|c| c.softirq_s)),
            ("machine_iowait_cores", cores(|c| c.iowait_s)),
            ("machine_steal_cores", cores(|c| c.steal_s)),
        ];
        figures.into_iter().for_each(|(name, value)| self.set(name, value));
    }

    fn drives(&mut self, before: &Sample, after: &Sample, written: Option<u64>) {
        let mut sum: Option<Drive> = None;
        let same = !after.drives.is_empty() && before.drives.keys().eq(after.drives.keys());
        for (then, now) in before.drives.values().zip(after.drives.values()).filter(|_| same) {
            let all = sum.get_or_insert(Drive { flushes: Some(0), ..Drive::default() });
            all.reads += now.reads.saturating_sub(then.reads);
            all.read_bytes += now.read_bytes.saturating_sub(then.read_bytes);
            all.read_s += now.read_s - then.read_s;
            all.writes += now.writes.saturating_sub(then.writes);
            all.written_bytes += now.written_bytes.saturating_sub(then.written_bytes);
            all.write_s += now.write_s - then.write_s;
            all.in_flight_s += now.in_flight_s - then.in_flight_s;
            let flushes = now.flushes.zip(then.flushes).map(|(now, then)| now.saturating_sub(then));
            all.flushes = all.flushes.zip(flushes).map(|(all, one)| all + one);
        }
        let seconds = self.seconds;
        let rate = |count: fn(&Drive) -> u64| sum.map(|all| count(&all) as f64 / seconds);
        let ratio = |of: f64, by: u64| (by > 0).then(|| of / by as f64);
        let figures = [
            ("drive_read_bytes_per_s", rate(|d| d.read_bytes)),
            ("drive_written_bytes_per_s", rate(|d| d.written_bytes)),
            ("drive_reads_per_s", rate(|d| d.reads)),
            ("drive_writes_per_s", rate(|d| d.writes)),
            ("drive_flushes_per_s", sum.and_then(|d| d.flushes).map(|count| count as f64 / seconds)),
            ("drive_read_request_bytes", sum.and_then(|d| ratio(d.read_bytes as f64, d.reads))),
            ("drive_write_request_bytes", sum.and_then(|d| ratio(d.written_bytes as f64, d.writes))),
            ("drive_read_us", sum.and_then(|d| ratio(d.read_s * 1e6, d.reads))),
            ("drive_write_us", sum.and_then(|d| ratio(d.write_s * 1e6, d.writes))),
            ("drive_queue", sum.map(|d| d.in_flight_s / seconds)),
            ("write_amplification", sum.zip(written).and_then(|(d, bytes)| ratio(d.written_bytes as f64, bytes))),
        ];
        figures.into_iter().for_each(|(name, value)| self.set(name, value));
    }

    fn network(&mut self, before: &Sample, after: &Sample) {
        let traffic = before.traffic.as_ref().zip(after.traffic.as_ref());
        let client = traffic.map(|(a, b)| between(&a.client, &b.client));
        let storage = traffic.map(|(a, b)| between(&a.storage, &b.storage));
        let own_time = after.traffic_at.zip(before.traffic_at).map(|(after, before)| after.saturating_sub(before));
        let seconds = own_time.map_or(self.seconds, |time| time.as_secs_f64());
        let rate = |bytes: Option<Bytes>, part: fn(&Bytes) -> u64| bytes.map(|b| part(&b) as f64 / seconds);
        let figures = [
            ("client_network_in_bytes_per_s", rate(client, |b| b.received)),
            ("client_network_out_bytes_per_s", rate(client, |b| b.sent)),
            ("storage_network_in_bytes_per_s", rate(storage, |b| b.received)),
            ("storage_network_out_bytes_per_s", rate(storage, |b| b.sent)),
        ];
        figures.into_iter().for_each(|(name, value)| self.set(name, value));
        let seconds = self.seconds;
        // Interfaces that never carried anything are left out.
        for (name, now) in after.interfaces.iter().filter(|(_, now)| now.in_bytes + now.out_bytes > 0) {
            if let Some(then) = before.interfaces.get(name) {
                let (received, sent) =
                    (now.in_bytes.checked_sub(then.in_bytes), now.out_bytes.checked_sub(then.out_bytes));
                self.set(&format!("interface.{name}.in_bytes_per_s"), received.map(|b| b as f64 / seconds));
                self.set(&format!("interface.{name}.out_bytes_per_s"), sent.map(|b| b as f64 / seconds));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn process(cpu: f64, switches: u64) -> Process {
        Process {
            user_s: cpu,
            system_s: cpu / 2.0,
            memory_bytes: Some(100),
            memory_peak_bytes: Some(150),
            context_switches: Some(switches),
            device_read_bytes: Some(0),
            device_written_bytes: None,
        }
    }

    fn samples() -> (Sample, Sample) {
        let drive = |n: u64| Drive { writes: n, written_bytes: n * 4096, write_s: n as f64 * 1e-3, ..Drive::default() };
        let sample = |at: u64, cpu: f64, n: u64| Sample {
            at: Duration::from_secs(at),
            daemons: ["osd.0", "osd.1"].map(|name| (name.to_owned(), process(cpu, n))).into(),
            own: Some(process(cpu * 2.0, n)),
            cpu: Some(MachineCpu { user_s: cpu * 10.0, ..Default::default() }),
            drives: [("vda".to_owned(), drive(n))].into(),
            ..Sample::default()
        };
        (sample(10, 1.0, 100), sample(20, 3.0, 1100))
    }

    const WORK: Work = Work { operations: 1000, written_bytes: Some(2_048_000) };

    #[test]
    fn known_figures() {
        let (before, after) = samples();
        let got = figures(&before, &after, WORK);
        let check = |name: &str, want: f64| {
            let value = got[name].unwrap_or(f64::NAN);
            assert!((value - want).abs() < 1e-6 * want.max(1.0), "{name}: {value} instead of {want}");
        };
        check(SERVER_CPU, 6000.0);
        check("server_cpu_system_us_per_operation", 2000.0);
        check("server_cores", 0.6);
        check("osd.0.cores", 0.3);
        check("client_cpu_us_per_operation", 6000.0);
        check("server_context_switches_per_operation", 2.0);
        check("server_memory_peak_bytes", 300.0);
        check(MACHINE_CPU, 20_000.0);
        check("drive_writes_per_s", 100.0);
        check("drive_write_request_bytes", 4096.0);
        check("drive_write_us", 1000.0);
        check("write_amplification", 2.0);
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let (before, after) = samples();
        let got = figures(&before, &after, WORK);
        for name in [
            "power_w",
            "client_network_in_bytes_per_s",
            "cache_hit_percent",
            "drive_flushes_per_s",
            "server_device_written_bytes_per_s",
            "drive_read_us",
        ] {
            assert_eq!(got[name], None, "{name}");
        }
        let mut died = after.clone();
        died.daemons.remove("osd.1");
        let mut anew = after.clone();
        anew.daemons.insert("osd.1".into(), process(0.1, 1));
        for wrong in [died, anew, Sample { daemons: BTreeMap::new(), ..after.clone() }] {
            assert_eq!(figures(&before, &wrong, WORK)[SERVER_CPU], None);
        }
        let idle = figures(&before, &after, Work { operations: 0, written_bytes: Some(0) });
        assert_eq!((idle[SERVER_CPU], idle["write_amplification"]), (None, None));
        assert_eq!(figures(&before, &before, WORK)["server_cores"], None, "no time has passed");
    }
}
