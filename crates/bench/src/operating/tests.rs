use super::*;
use crate::random::Random;

/// A curve by load in operations in flight: throughput is given, latency follows from Little's law.
fn curve(loads: &[f64], throughput: impl Fn(f64) -> f64) -> Vec<LoadPoint> {
    loads
        .iter()
        .map(|load| {
            let throughput = throughput(*load);
            let mean_us = load / throughput * 1e6;
            LoadPoint { throughput, mean_us, p99_us: Some(mean_us * 3.0), cpu_percent: Some(throughput / 1000.0) }
        })
        .collect()
}

/// Loads from 1 to 512, each `step` times the one before.
fn loads(step: f64) -> Vec<f64> {
    std::iter::successors(Some(1.0), |load| Some(load * step)).take_while(|load| *load <= 512.5).collect()
}

fn close(got: f64, want: f64, what: &str) {
    assert!((got / want - 1.0).abs() < 0.1, "{what}: {got} instead of {want}");
}

/// No limit of latency, so that only the knee counts.
const KNEE: OperatingRules = OperatingRules { mean_us_max: f64::INFINITY, latency_part_max: 0.8 };

#[test]
fn knees_of_curves_with_known_answers() {
    for step in [1.2, 1.5, 2.0] {
        let loads = loads(step);
        // All load becomes throughput up to 24 in flight, then all becomes latency.
        let sharp = operating_point(&curve(&loads, |n| 1000.0 * n.min(24.0)), &KNEE).unwrap();
        close(sharp.throughput, 24_000.0, "sharp");
        // Half of 100,000 is reached with 16 in flight. A fifth of more load becomes throughput at 4 * 16.
        let soft = operating_point(&curve(&loads, |n| 100_000.0 * n / (n + 16.0)), &KNEE).unwrap();
        close(soft.throughput, 80_000.0, "soft");
        close(soft.in_flight, 64.0, "soft");
        close(soft.mean_us, 800.0, "soft");
        // Throughput falls again beyond its peak: n / (1 + a (n - 1) + b n (n - 1)). The knee lies where the slope of
        // logarithms is 0.2, which this finds by trying.
        let falling = |n: f64| 1000.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.0002 * n * (n - 1.0));
        let slope = |n: f64| (falling(n * 1.001) / falling(n)).ln() / 1.001f64.ln();
        let knee = (1..5000).map(|n| f64::from(n) / 10.0).find(|n| slope(*n) < 0.2).unwrap();
        let found = operating_point(&curve(&loads, falling), &KNEE).unwrap();
        close(found.throughput, falling(knee), "falling");
        for point in [sharp, soft, found] {
            assert_eq!(point.bound, Bound::Knee);
        }
    }
    // Small steps find the place of a sharp knee, too, not only its height.
    let sharp = operating_point(&curve(&loads(1.15), |n| 1000.0 * n.min(24.0)), &KNEE).unwrap();
    close(sharp.in_flight, 24.0, "sharp");
    close(sharp.mean_us, 1000.0, "sharp");
}

#[test]
fn noise_moves_the_answer_little() {
    let mut random = Random::new(7, 1);
    for trial in 0..200 {
        let mut points = curve(&loads(1.5), |n| 100_000.0 * n / (n + 16.0));
        for point in &mut points {
            let noise = 0.97 + 0.06 * random.unit();
            (point.throughput, point.mean_us) = (point.throughput * noise, point.mean_us / noise);
        }
        let found = operating_point(&points, &KNEE).unwrap();
        assert!((found.throughput / 80_000.0 - 1.0).abs() < 0.1, "trial {trial}: {found:?}");
    }
}

#[test]
fn latency_is_limited() {
    // 50 ms are reached at 100,000 n / (n + 16) = n / 0.05, so with 4984 in flight: far beyond the knee.
    let rules = OperatingRules { mean_us_max: 500.0, ..OperatingRules::default() };
    let points = curve(&loads(2.0), |n| 100_000.0 * n / (n + 16.0));
    let found = operating_point(&points, &rules).unwrap();
    // (n + 16) / 100,000 = 0.0005 s.
    close(found.in_flight, 34.0, "limited");
    close(found.mean_us, 500.0, "limited");
    assert_eq!((found.bound, points[found.nearest].mean_us.round()), (Bound::Limit, 480.0));
    let strict = OperatingRules { mean_us_max: 100.0, ..rules };
    assert_eq!(operating_point(&points, &strict), None, "the lightest load takes 170 us");
    assert_eq!(operating_point(&[], &rules), None);
    let short = operating_point(&points[..3], &OperatingRules::default()).unwrap();
    assert_eq!((short.bound, short.nearest), (Bound::EndOfSweep, 2));
    let one = operating_point(&points[..1], &OperatingRules::default()).unwrap();
    assert_eq!((one.bound, one.nearest), (Bound::EndOfSweep, 0));
}

/// Published curves of the block and object reference architecture for the drive 7300.
#[test]
fn points_of_published_curves() {
    let points = |rows: &[(f64, f64)]| -> Vec<LoadPoint> {
        let point = |(throughput, ms): &(f64, f64)| LoadPoint {
            throughput: *throughput,
            mean_us: ms * 1000.0,
            p99_us: None,
            cpu_percent: None,
        };
        rows.iter().map(point).collect()
    };
    // 4 MiB writes in GiB/s by instances 2, 4, 6, 8, 10, 20: the last has 57.59 ms, beyond 50 ms.
    let writes = [(9.48, 13.44), (13.71, 18.75), (16.00, 23.96), (17.05, 29.76), (18.20, 34.74), (21.80, 57.59)];
    let found = operating_point(&points(&writes), &OperatingRules::default()).unwrap();
    assert_eq!((found.bound, found.nearest), (Bound::Limit, 4));
    // 4 KiB reads by queue depth 1, 4, 8, 16, 32: the last doubles latency for 2 % more.
    let reads = [(357_398.0, 0.36), (1_454_804.0, 0.35), (2_299_279.0, 0.45), (2_915_255.0, 0.71), (2_970_481.0, 1.42)];
    let found = operating_point(&points(&reads), &OperatingRules::default()).unwrap();
    assert_eq!((found.bound, found.nearest), (Bound::Knee, 3));
}

#[test]
fn most_load_within_a_limit() {
    let points = curve(&loads(2.0), |n| 100_000.0 * n / (n + 16.0));
    // p99 is three times (n + 16) / 100,000 s.
    let found = most_load_within(&points, |point| point.p99_us, 2400.0).unwrap();
    close(found.in_flight, 64.0, "p99");
    assert_eq!(found.bound, Bound::Limit);
    assert_eq!(points[found.nearest].mean_us.round(), 800.0);
    // CPU is 80 % at 80,000 per second.
    let found = most_load_within(&points, |point| point.cpu_percent, 80.0).unwrap();
    close(found.throughput, 80_000.0, "cpu");
    let all = most_load_within(&points, |point| point.cpu_percent, 100.0).unwrap();
    assert_eq!((all.bound, all.nearest), (Bound::EndOfSweep, 9));
    assert_eq!(most_load_within(&points, |point| point.p99_us, 100.0), None);
    assert_eq!(most_load_within(&points, |_| None, 100.0), None);
}

#[test]
fn the_high_water_mark_ends_a_sweep() {
    // 50, 75, 87.5 % and so on of 100,000: behind the fourth point a step adds less than 5 %.
    let points = curve(&loads(2.0), |n| 100_000.0 * (1.0 - 0.5f64.powf(n.log2() + 1.0)));
    let found = high_water(&points, 5.0).unwrap();
    assert_eq!((found.nearest, found.bound), (3, Bound::Knee));
    close(found.throughput, 93_750.0, "high-water mark");
    assert_eq!(high_water(&points[..3], 5.0).unwrap().bound, Bound::EndOfSweep);
    assert_eq!(high_water(&[], 5.0), None);
}
