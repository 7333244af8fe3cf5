//! An honest client beside hostile visitors, and how long its operations take.

use cluster_tests::{TestCluster, python, wait_until};
use std::fmt;
use std::fs::File;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most by which hostile visitors may lengthen the 99th percentile of an honest client's times.
const RATIO_MAX: f64 = 2.0;
/// Times below this are those of schedulers: on a machine with two processors and a dozen busy processes, one that
/// becomes ready waits for so long.
const FLOOR: f64 = 0.005;

/// A client that writes small objects and reads them back, one operation after the other.
pub struct Honest {
    child: Child,
    times: std::path::PathBuf,
    /// When visitors came, and when they did not: begin and end in seconds since 1970.
    windows: [Vec<(f64, f64)>; 2],
}

/// Times of an honest client's operations, in seconds: in quiet times, and with visitors.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    operations: [usize; 2],
    median: [f64; 2],
    p99: [f64; 2],
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |which: usize| {
            let [median, p99] = [self.median, self.p99].map(|times| times[which] * 1e3);
            format!("{} operations, median {median:.1} ms, 99 % within {p99:.1} ms", self.operations[which])
        };
        write!(f, "in quiet times {}; with visitors {}", of(0), of(1))
    }
}

impl Times {
    /// True if the 99th percentile is more than the worst of a few.
    pub fn are_many(&self) -> bool {
        self.operations.iter().all(|operations| *operations >= 200)
    }

    /// True if honest clients are served about as well as without visitors.
    pub fn are_good(&self) -> bool {
        self.p99[1] <= RATIO_MAX * self.p99[0].max(FLOOR)
    }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

impl Honest {
    pub fn begin(cluster: &TestCluster, pool: &str) -> Honest {
        let times = cluster.scratch("honest");
        let script = format!("{}/python/honest_client.py", env!("CARGO_MANIFEST_DIR"));
        let mut command = cluster.command(python(), &[&script, pool]);
        command.stdin(Stdio::piped()).stdout(File::create(&times).expect("a file"));
        let child = command.spawn().expect("it starts");
        let has_begun = || std::fs::metadata(&times).is_ok_and(|file| file.len() > 0);
        wait_until("the honest client works", Duration::from_secs(120), has_begun);
        Honest { child, times, windows: [Vec::new(), Vec::new()] }
    }

    /// Notes the time that `work` takes as one with or without visitors.
    pub fn during<T>(&mut self, has_visitors: bool, work: impl FnOnce() -> T) -> T {
        let begin = seconds_now();
        let done = work();
        self.windows[usize::from(has_visitors)].push((begin, seconds_now()));
        done
    }

    /// Nobody visits for so long.
    pub fn quiet(&mut self, time: Duration) {
        self.during(false, || std::thread::sleep(time));
    }

    /// Times of operations that began and ended in one window.
    pub fn times(&mut self) -> Times {
        assert!(self.child.try_wait().expect("a child").is_none(), "the honest client has ended");
        let text = std::fs::read_to_string(&self.times).expect("its times");
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let operations: Vec<(f64, f64)> = whole.lines().map(operation).collect();
        let [quiet, visited] = [0, 1].map(|which| {
            let windows = &self.windows[which];
            let is_within =
                |(at, took): &(f64, f64)| windows.iter().any(|(begin, end)| at >= begin && at + took <= *end);
            let mut times: Vec<f64> = operations.iter().filter(|it| is_within(it)).map(|(_, took)| *took).collect();
            times.sort_by(f64::total_cmp);
            assert!(!times.is_empty(), "no operations within {windows:?}: {text}");
            times
        });
        let of = |share: f64| [&quiet, &visited].map(|times| times[((times.len() - 1) as f64 * share) as usize]);
        Times { operations: [quiet.len(), visited.len()], median: of(0.5), p99: of(0.99) }
    }

    /// Ends the client, which has found all bytes as it wrote them.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let mut status = None;
        wait_until("the honest client ends", Duration::from_secs(120), || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "the honest client has failed");
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn operation(line: &str) -> (f64, f64) {
    let (at, took) = line.split_once(' ').unwrap_or_else(|| panic!("no times: {line}"));
    (at.parse().expect("seconds"), took.parse().expect("seconds"))
}

#[test]
fn visitors_that_double_the_times_are_noticed() {
    let times = |before, during| Times { operations: [500, 500], median: [0.001; 2], p99: [before, during] };
    assert!(times(0.02, 0.039).are_good() && !times(0.02, 0.041).are_good());
    assert!(times(0.001, 0.009).are_good() && !times(0.001, 0.011).are_good());
}
