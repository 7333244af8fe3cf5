//! CPU time of a client library per operation, beside that of another library for the same operations.
//!
//! Different programs take turns on one cluster. Each is a load generator on top of a client library, and the kernel
//! counts the CPU time of both together. The generator's own part is measured without a cluster and subtracted. If it
//! cannot be measured, it counts as the library's, and the table says so.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::compare::{Better, CompareError, Comparison, compare};
use crate::interval::MedianInterval;

/// Value of the field `format`.
pub const COST_FORMAT: &str = "nacre-bench-client-cost";
/// Version that this release writes.
pub const COST_VERSION: u32 = 2;

/// A load generator with its client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// This load generator on our own client.
    Nacre,
    /// `fio --ioengine=rados` on librados.
    Fio,
    /// `rados bench` on librados.
    RadosBench,
}

/// Kind of operations and their spread over objects. The number of OSDs that the operations in flight are spread over
/// determines how many answers a client finds at a time and how many messages leave together, so programs are compared
/// at one access only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads at random offsets of some objects.
    RandomRead,
    /// Writes at random offsets of some objects.
    RandomWrite,
    /// Writes in sequence into one object at a time: all operations in flight go to one OSD.
    OneObjectWrite,
    /// Each write makes an object of its own.
    NewObjectWrite,
}

/// Operations and CPU time of a run until some point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub operations: u64,
    /// User and system time of all threads.
    pub cpu_s: f64,
    pub elapsed_s: f64,
}

/// One run of one program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostRow {
    pub program: Program,
    pub access: Access,
    /// Number of the iteration, from 0.
    pub iteration: u32,
    pub operations_per_s: f64,
    /// CPU time of load generator and library.
    pub cpu_us_per_operation: f64,
}

/// The result of a comparison of client libraries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCost {
    /// [`COST_FORMAT`].
    pub format: String,
    /// [`COST_VERSION`].
    pub version: u32,
    pub environment: BTreeMap<String, String>,
    pub io_bytes: u64,
    pub queue_depth: u32,
    pub confidence: f64,
    /// CPU time of the load generators alone, in microseconds per operation, where it is known.
    pub generators: Vec<Generator>,
    /// Rows in the order in which they were measured.
    pub rows: Vec<CostRow>,
}

/// A load generator without a client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    pub program: Program,
    pub access: Access,
    pub cpu_us_per_operation: f64,
}

impl Spent {
    /// The difference between `before` and `self`: CPU microseconds per operation, and operations per second. For two
    /// runs of different length it leaves out the start and end that both have. `None` if `self` is not beyond
    /// `before`.
    pub fn since(self, before: Spent) -> Option<(f64, f64)> {
        let operations = self.operations.checked_sub(before.operations).filter(|more| *more > 0)? as f64;
        let (cpu_s, elapsed_s) = (self.cpu_s - before.cpu_s, self.elapsed_s - before.elapsed_s);
        (cpu_s > 0.0 && elapsed_s > 0.0).then_some((cpu_s * 1e6 / operations, operations / elapsed_s))
    }
}

impl Program {
    pub const ALL: [Program; 3] = [Program::Nacre, Program::Fio, Program::RadosBench];

    pub fn name(self) -> &'static str {
        match self {
            Program::Nacre => "nacre bench",
            Program::Fio => "fio, rados engine",
            Program::RadosBench => "rados bench",
        }
    }

    /// True if the program supports this access.
    pub fn does(self, access: Access) -> bool {
        match self {
            Program::Nacre => true,
            Program::Fio => matches!(access, Access::RandomRead | Access::RandomWrite),
            // `rados bench` writes in sequence only.
            Program::RadosBench => access != Access::RandomWrite,
        }
    }
}

impl Access {
    pub const ALL: [Access; 4] =
        [Access::RandomRead, Access::RandomWrite, Access::OneObjectWrite, Access::NewObjectWrite];

    pub fn name(self) -> &'static str {
        match self {
            Access::RandomRead => "read",
            Access::RandomWrite => "write",
            Access::OneObjectWrite => "write, one object",
            Access::NewObjectWrite => "write, new objects",
        }
    }

    pub fn is_write(self) -> bool {
        self != Access::RandomRead
    }
}

impl ClientCost {
    fn generator(&self, program: Program, access: Access) -> Option<f64> {
        let found = self.generators.iter().find(|g| g.program == program && g.access == access);
        found.map(|generator| generator.cpu_us_per_operation)
    }

    /// The rows of one program, in the order of iterations.
    fn of(&self, program: Program, access: Access) -> impl Iterator<Item = &CostRow> {
        self.rows.iter().filter(move |row| row.program == program && row.access == access)
    }

    /// CPU microseconds of the library per operation, by iteration; including the generator, if its part is unknown.
    fn library(&self, program: Program, access: Access) -> Vec<f64> {
        let generator = self.generator(program, access).unwrap_or(0.0);
        self.of(program, access).map(|row| row.cpu_us_per_operation - generator).collect()
    }

    /// Our client's CPU time per operation divided by that of the library under `other`, iteration by iteration.
    ///
    /// Errors: [`CompareError`] if one of them lacks an iteration, or took less than its generator.
    pub fn ratio(&self, access: Access, other: Program) -> Result<Comparison, CompareError> {
        let (ours, theirs) = (self.library(Program::Nacre, access), self.library(other, access));
        compare(&ours, &theirs, Better::Lower, self.confidence)
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("only strings are keys")
    }

    /// A table of medians, and one of ratios.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| writeln!(out, "{text}").expect("writing to a string");
        let (kib, depth) = (self.io_bytes >> 10, self.queue_depth);
        line(format!("Operations of {kib} KiB, {depth} in flight. CPU time in microseconds per operation.\n"));
        line(
            "| operation | program | operations/s | CPU of the program | its load generator alone | the client |"
                .into(),
        );
        line("|---|---|---|---|---|---|".into());
        for access in Access::ALL {
            for program in Program::ALL {
                let rows: Vec<&CostRow> = self.of(program, access).collect();
                let rate = median(rows.iter().map(|row| row.operations_per_s), self.confidence);
                let total = median(rows.iter().map(|row| row.cpu_us_per_operation), self.confidence);
                let (Some(rate), Some(total)) = (rate, total) else { continue };
                let (generator, library) = match self.generator(program, access) {
                    Some(generator) => (format!("{generator:.2}"), format!("**{:.2}**", total.median - generator)),
                    None => ("not known".into(), format!("at most {:.2}", total.median)),
                };
                line(format!(
                    "| {} | {} | {:.0} | {:.2} ({:.2} to {:.2}) | {generator} | {library} |",
                    access.name(),
                    program.name(),
                    rate.median,
                    total.median,
                    total.low,
                    total.high
                ));
            }
        }
        line("\n| operation | our client / librados under | ratio | interval | confidence | at most half |".into());
        line("|---|---|---|---|---|---|".into());
        for access in Access::ALL {
            for other in [Program::Fio, Program::RadosBench].into_iter().filter(|other| other.does(access)) {
                let cells = match self.ratio(access, other) {
                    Ok(Comparison { ratio, .. }) => {
                        let verdict = if ratio.high <= 0.5 {
                            "yes"
                        } else if ratio.low > 0.5 {
                            "no"
                        } else {
                            "not shown"
                        };
                        format!(
                            "{:.3} | {:.3} to {:.3} | {:.1} % | {verdict}",
                            ratio.median,
                            ratio.low,
                            ratio.high,
                            ratio.confidence * 100.0
                        )
                    }
                    Err(CompareError::Empty) => continue,
                    Err(error) => format!("{error} | | |"),
                };
                line(format!("| {} | {} | {cells} |", access.name(), other.name()));
            }
        }
        out
    }
}

fn median(values: impl Iterator<Item = f64>, confidence: f64) -> Option<MedianInterval> {
    MedianInterval::of(&values.collect::<Vec<_>>(), confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(ours: &[f64], fio: &[f64], rados: &[f64]) -> ClientCost {
        let mut rows = Vec::new();
        for (program, values) in [(Program::Nacre, ours), (Program::Fio, fio), (Program::RadosBench, rados)] {
            for (iteration, value) in (0..).zip(values) {
                rows.push(CostRow {
                    program,
                    access: Access::RandomRead,
                    iteration,
                    operations_per_s: 1000.0,
                    cpu_us_per_operation: *value,
                });
            }
        }
        let generator =
            |program, cpu_us_per_operation| Generator { program, access: Access::RandomRead, cpu_us_per_operation };
        ClientCost {
            format: COST_FORMAT.into(),
            version: COST_VERSION,
            environment: BTreeMap::new(),
            io_bytes: 4096,
            queue_depth: 32,
            confidence: 0.9,
            generators: vec![generator(Program::Nacre, 2.0), generator(Program::Fio, 1.0)],
            rows,
        }
    }

    #[test]
    fn what_start_and_end_take_cancels() {
        let at = |operations, cpu_s, elapsed_s| Spent { operations, cpu_s, elapsed_s };
        let (us, rate) = at(5000, 1.5, 6.0).since(at(1000, 0.7, 2.0)).unwrap();
        assert!((us - 200.0).abs() < 1e-9 && (rate - 1000.0).abs() < 1e-9, "{us} {rate}");
        for (long, short) in
            [((10, 1.0, 2.0), (10, 0.5, 1.0)), ((9, 1.0, 2.0), (10, 0.5, 1.0)), ((20, 0.5, 2.0), (10, 0.5, 1.0))]
        {
            assert_eq!(at(long.0, long.1, long.2).since(at(short.0, short.1, short.2)), None);
        }
    }

    #[test]
    fn generators_are_subtracted_where_known() {
        let cost = cost(&[10.0, 12.0, 11.0, 9.0, 10.0], &[22.0; 5], &[16.0; 5]);
        let ratio = |other| cost.ratio(Access::RandomRead, other).unwrap().ratio;
        assert!((ratio(Program::Fio).median - 8.0 / 21.0).abs() < 1e-9);
        assert!((ratio(Program::RadosBench).median - 8.0 / 16.0).abs() < 1e-9);
        let text = cost.to_markdown();
        for part in [
            "| read | nacre bench | 1000 | 10.00 (9.00 to 12.00) | 2.00 | **8.00** |",
            "| read | rados bench | 1000 | 16.00 (16.00 to 16.00) | not known | at most 16.00 |",
            "| read | fio, rados engine | 0.381 | 0.333 to 0.476 | 93.8 % | yes |",
            "| read | rados bench | 0.500 | 0.438 to 0.625 | 93.8 % | not shown |",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("| write |"), "what was not measured is not there: {text}");
    }

    #[test]
    fn what_cannot_be_compared_says_so() {
        let missing = cost(&[10.0, 11.0], &[20.0], &[]);
        assert!(
            missing.to_markdown().contains("2 iterations of the first stand against 1"),
            "{}",
            missing.to_markdown()
        );
        let too_little = cost(&[1.5], &[20.0], &[]);
        assert!(matches!(too_little.ratio(Access::RandomRead, Program::Fio), Err(CompareError::NotPositive { .. })));
    }
}
