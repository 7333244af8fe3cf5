//! The loss of OSDs and the rebuild that follows: stops, erases, starts, and waits.

use std::collections::BTreeMap;
use std::time::Duration;

use bench::plan::Stop;
use bench::rebuild::{Rebuild, RebuildPoint};
use client::Cluster;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::facts::{Lost, Status, boots, came_back, used_on};
use super::{Halt, Hands, POLL, Test, operations, worst};
use crate::environment;
use crate::iteration::{Iteration, IterationEnd, Measured, Meter};
use crate::meter::ClusterMeter;
use crate::observer::Event;
use crate::pools;
use crate::rows::rows;
use crate::telemetry::figures::Work;

/// Time within which the monitors tell of a stop, and OSDs that come back are up.
const TOLD_WITHIN: Duration = Duration::from_secs(180);
/// The most points of a course that are kept. If there are more, every other point is dropped.
const COURSE_MAX: usize = 600;

/// The state of the OSDs that are to be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Away {
    /// The OSDs run as before.
    Untouched,
    Stopped,
    /// The OSDs' stores are being erased.
    Erasing,
    /// The OSDs' stores are new and empty.
    Empty,
    /// The OSDs were started with new stores.
    Started,
}

/// The clock of a rebuild.
struct Watched {
    down: Duration,
    rebuild: Duration,
    course: Vec<RebuildPoint>,
    end: Result<(), Halt>,
}

/// A meter that tells when a load's counted part begins.
struct Gate {
    meter: ClusterMeter,
    began: Option<watch::Sender<bool>>,
}

impl Meter for Gate {
    async fn prepared(&mut self) {
        self.meter.prepared().await;
    }

    async fn boundary(&mut self, round: u32) {
        self.meter.boundary(round).await;
        if let Some(began) = self.began.take() {
            began.send_replace(true);
        }
    }

    async fn settle(&mut self) {
        self.meter.settle().await;
    }

    fn glance(&mut self) {
        self.meter.glance();
    }
}

impl Test<'_> {
    /// One loss and its rebuild. Afterwards the OSDs run, or an error says which do not.
    pub(super) async fn lose(&mut self, hands: &mut impl Hands, name: &str, with_load: bool) -> Result<(), Halt> {
        let mut away = Away::Untouched;
        let before = boots(&self.osds, &self.ask("osd dump").await?);
        let done = self.lose_and_rebuild(hands, name, with_load, &mut away).await;
        let back = self.bring_back(hands, away, &before).await;
        let flag = self.set_noout(false).await;
        worst([done, back, flag])
    }

    async fn lose_and_rebuild(
        &mut self,
        hands: &mut impl Hands,
        name: &str,
        with_load: bool,
        away: &mut Away,
    ) -> Result<(), Halt> {
        let df = self.ask("osd df").await?;
        let space = pools::space(&self.cluster).await.map_err(Halt::failed)?;
        let fill_percent = space.used as f64 / space.total.max(1) as f64 * 100.0;
        let osds = self.osds.clone();
        self.set_noout(true).await?;
        let words = osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ");
        self.step(&format!("{name}: stopping {words}"));
        *away = Away::Stopped;
        let stopped = Instant::now();
        hands.stop(&osds).await.map_err(Halt::Failed)?;
        self.until_told(osds.len()).await?;
        self.step(&format!("{name}: giving {words} empty stores"));
        *away = Away::Erasing;
        // Erased halfway it would be neither the old OSD nor a new one, so nothing interrupts this.
        hands.renew(&osds).await.map_err(Halt::Failed)?;
        *away = Away::Empty;
        let (watched, figures) = match with_load {
            true => self.under_load(hands, name, away, stopped).await?,
            false => self.alone(hands, name, away, stopped).await?,
        };
        let host = match &self.options.lost {
            Lost::Host(name) => Some(name.clone()),
            Lost::Osds(_) => None,
        };
        self.result.rebuilds.push(Rebuild {
            cluster: self.of_plan.name.clone(),
            name: name.to_owned(),
            lost_bytes: used_on(&osds, &df),
            osds,
            host,
            with_load,
            fill_percent,
            down_s: watched.down.as_secs_f64(),
            rebuild_s: watched.rebuild.as_secs_f64(),
            partial: watched.end.is_err(),
            course: watched.course,
            figures,
        });
        watched.end
    }

    /// Waits until the monitors and the groups' statistics show the loss.
    async fn until_told(&mut self, lost: usize) -> Result<(), Halt> {
        let end = Instant::now() + TOLD_WITHIN;
        loop {
            let status = self.status().await?;
            if status.shows_loss(lost) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(Halt::Failed(format!(
                    "{} s after the OSDs were stopped {} of {} are up, and groups are {}",
                    TOLD_WITHIN.as_secs(),
                    status.up,
                    status.osds,
                    status.states
                )));
            }
            self.pause().await?;
        }
    }

    pub(super) async fn pause(&mut self) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(POLL) => Ok(()),
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => Err(Halt::Interrupted),
        }
    }

    /// The rebuild without a load.
    async fn alone(
        &mut self,
        hands: &mut impl Hands,
        name: &str,
        away: &mut Away,
        stopped: Instant,
    ) -> Result<(Watched, BTreeMap<String, Option<f64>>), Halt> {
        let stop = Stop::DurationS(self.options.limit.as_secs_f64());
        let mut meter = self.meter(&stop, Duration::ZERO, false).await?;
        meter.prepared().await;
        meter.boundary(0).await;
        let clock = Instant::now();
        hands.start(&self.osds).await.map_err(Halt::Failed)?;
        *away = Away::Started;
        let what = format!("{} {name}", self.of_plan.name);
        let mut course = Course::default();
        let end = loop {
            let status = match self.status().await {
                Ok(status) => status,
                Err(halt) => break Err(halt),
            };
            self.observer.event(Event::Step(format!("{what}: {} copies are missing", status.degraded)));
            if course.is_done(&status, clock.elapsed()) {
                break Ok(());
            }
            if clock.elapsed() >= self.options.limit {
                break Err(too_long(self.options.limit, &status));
            }
            meter.glance();
            if let Err(halt) = self.pause().await {
                break Err(halt);
            }
        };
        let rebuild = clock.elapsed();
        meter.boundary(1).await;
        meter.settle().await;
        let figures = machine_only(meter.figures((0, 1), Work { operations: 0, written_bytes: None }));
        self.keep_record(name, meter.record());
        Ok((Watched { down: clock - stopped, rebuild, course: course.points, end }, figures))
    }

    /// The rebuild under a load, whose counted part is the rebuild.
    async fn under_load(
        &mut self,
        hands: &mut impl Hands,
        name: &str,
        away: &mut Away,
        stopped: Instant,
    ) -> Result<(Watched, BTreeMap<String, Option<f64>>), Halt> {
        let (workload, task) = self.load_of(name, true);
        let meter = self.meter(&workload.stop, workload.warm_up(), true).await?;
        let (began, mut begin) = watch::channel(false);
        let (end_load, mut load_ends) = watch::channel(false);
        let connect = self.connect();
        let iteration = Iteration {
            task,
            connect: &connect,
            stop: workload.stop,
            what: format!("{} {name}", self.of_plan.name),
            remove_objects: false,
            drain: self.drain(),
            processors: environment::processors(),
        };
        let observer = &mut *self.observer;
        let load = async {
            let mut gate = Gate { meter, began: Some(began) };
            let measured = iteration.run(&mut gate, observer, &mut load_ends).await;
            (measured, gate.meter)
        };
        let (cluster, osds, limit, mut interrupt) =
            (self.cluster.clone(), &self.osds, self.options.limit, self.interrupt.clone());
        let rebuild = async {
            let result = async {
                tokio::select! {
                    has_begun = begin.wait_for(|begun| *begun) => {
                        if has_begun.is_err() {
                            return Err(Halt::Failed("the load did not begin".into()));
                        }
                    }
                    Ok(_) = interrupt.wait_for(|asked| *asked) => return Err(Halt::Interrupted),
                }
                let clock = Instant::now();
                hands.start(osds).await.map_err(Halt::Failed)?;
                *away = Away::Started;
                let mut course = Course::default();
                let end = course.follow(&cluster, clock, limit, &mut interrupt).await;
                Ok(Watched { down: clock - stopped, rebuild: clock.elapsed(), course: course.points, end })
            };
            let watched = result.await;
            end_load.send_replace(true);
            watched
        };
        let ((mut measured, meter), watched) = tokio::join!(load, rebuild);
        let figures = meter.figures(measured.rounds, Work { operations: operations(&measured), written_bytes: None });
        let figures = machine_only(figures);
        self.keep_record(name, meter.record());
        let failed = settle_end(&mut measured, watched.as_ref().is_ok_and(|watched| watched.end.is_ok()));
        self.result.rows.extend(rows(&self.of_plan.name, &workload, 0, &measured, &figures));
        let mut watched = watched?;
        if let Some(reason) = failed {
            watched.end = watched.end.and(Err(Halt::Failed(format!("clients during the rebuild: {reason}"))));
        }
        Ok((watched, figures))
    }

    /// Brings the lost OSDs back from the state `away`, and waits until they are up. `before`: the answer of [`boots`]
    /// before the loss.
    async fn bring_back(&mut self, hands: &mut impl Hands, away: Away, before: &[Option<u64>]) -> Result<(), Halt> {
        match away {
            Away::Untouched => return Ok(()),
            Away::Started => return self.until_back(before, "the OSDs").await,
            Away::Stopped | Away::Erasing | Away::Empty => {}
        }
        self.step("bringing the OSDs back");
        let back = async {
            if away == Away::Erasing {
                hands.renew(&self.osds).await?;
            }
            hands.start(&self.osds).await
        };
        let names = self.osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ");
        back.await.map_err(|reason| {
            let store = match away {
                Away::Erasing => "their stores are erased in part or whole, and have to be made anew by hand",
                Away::Empty => "their stores are new and empty, and only have to be started",
                Away::Untouched | Away::Stopped | Away::Started => {
                    "their stores are as they were, and only have to be started"
                }
            };
            Halt::Failed(format!("{names} could not be brought back ({store}): {reason}"))
        })?;
        self.until_back(before, &names).await
    }

    async fn until_back(&mut self, before: &[Option<u64>], names: &str) -> Result<(), Halt> {
        let end = Instant::now() + TOLD_WITHIN;
        while !came_back(before, &boots(&self.osds, &self.ask("osd dump").await?)) {
            if Instant::now() >= end {
                let seconds = TOLD_WITHIN.as_secs();
                return Err(Halt::Failed(format!("{names} were started, and are not all up after {seconds} s")));
            }
            // An interrupt is no reason to leave them down.
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Sets or unsets `noout`, unless it was set before the test.
    async fn set_noout(&mut self, set: bool) -> Result<(), Halt> {
        if self.had_noout {
            return Ok(());
        }
        let prefix = if set { "osd set" } else { "osd unset" };
        let command = pools::command(&self.cluster, json!({"prefix": prefix, "key": "noout"})).await;
        command.map(|_| ()).map_err(Halt::failed)
    }
}

fn too_long(limit: Duration, status: &Status) -> Halt {
    Halt::Failed(format!(
        "not every copy was restored within {} s: {} copies are missing, groups are {}",
        limit.as_secs(),
        status.degraded,
        status.states
    ))
}

/// Figures of the machine. Those of daemons and clients lack the OSDs that were started meanwhile.
fn machine_only(figures: BTreeMap<String, Option<f64>>) -> BTreeMap<String, Option<f64>> {
    let is_kept = |name: &str| {
        ["machine_", "drive_", "storage_network_", "client_network_", "interface.", "power_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    figures.into_iter().filter(|(name, _)| is_kept(name)).collect()
}

/// A load that was ended because the rebuild was over is complete. Returns why it failed, if it did.
fn settle_end(measured: &mut Measured, rebuilt: bool) -> Option<String> {
    match &measured.end {
        IterationEnd::Failed(reason) => Some(reason.clone()),
        IterationEnd::Interrupted if rebuilt => {
            measured.end = IterationEnd::Complete;
            None
        }
        IterationEnd::Interrupted | IterationEnd::Complete => None,
    }
}

/// Missing copies over time.
#[derive(Default)]
struct Course {
    points: Vec<RebuildPoint>,
    was_whole: bool,
}

impl Course {
    /// Notes a status. True once the cluster is whole: twice in a row, as a first such status may be older than the
    /// OSDs' return.
    fn is_done(&mut self, status: &Status, at: Duration) -> bool {
        self.points.push(status.point(at.as_secs_f64()));
        if self.points.len() > COURSE_MAX {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        let is_done = self.was_whole && status.is_whole();
        self.was_whole = status.is_whole();
        is_done
    }

    /// Notes statuses until the cluster is whole.
    async fn follow(
        &mut self,
        cluster: &Cluster,
        clock: Instant,
        limit: Duration,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Result<(), Halt> {
        loop {
            let status = pools::json_command(cluster, json!({"prefix": "status"})).await.map_err(Halt::failed)?;
            let status = Status::of(&status);
            if self.is_done(&status, clock.elapsed()) {
                return Ok(());
            }
            if clock.elapsed() >= limit {
                return Err(too_long(limit, &status));
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                Ok(_) = interrupt.wait_for(|asked| *asked) => return Err(Halt::Interrupted),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(degraded: u64) -> Status {
        Status {
            clean: degraded == 0,
            states: String::new(),
            osds: 3,
            up: 3,
            joined: 3,
            degraded,
            misplaced: 0,
            recovered_bytes_per_s: 0,
        }
    }

    #[test]
    fn a_rebuild_ends_with_the_second_whole_status_in_a_row() {
        let mut course = Course::default();
        let at = Duration::from_secs;
        for (second, degraded, done) in [(0, 0, false), (1, 9, false), (2, 0, false), (3, 4, false), (4, 0, false)] {
            assert_eq!(course.is_done(&status(degraded), at(second)), done, "{second}");
        }
        assert!(course.is_done(&status(0), at(5)));
        assert_eq!(course.points.iter().map(|point| point.degraded).collect::<Vec<_>>(), [0, 9, 0, 4, 0, 0]);
    }

    #[test]
    fn long_courses_keep_their_shape() {
        let mut course = Course::default();
        for second in 0..10_000 {
            course.is_done(&status(20_000 - second), Duration::from_secs(second));
        }
        assert!(course.points.len() <= COURSE_MAX, "{}", course.points.len());
        assert_eq!((course.points[0].at_s, course.points.last().unwrap().at_s), (0.0, 9999.0));
        assert!(course.points.is_sorted_by(|a, b| a.at_s < b.at_s));
    }

    #[test]
    fn a_load_that_the_rebuild_ended_is_complete() {
        let mut measured = Measured::failed("no".into());
        assert_eq!(settle_end(&mut measured, true), Some("no".into()));
        measured.end = IterationEnd::Interrupted;
        assert_eq!((settle_end(&mut measured, false), &measured.end), (None, &IterationEnd::Interrupted));
        assert_eq!((settle_end(&mut measured, true), &measured.end), (None, &IterationEnd::Complete));
    }

    #[test]
    fn figures_of_daemons_that_come_and_go_are_left_out() {
        let names =
            ["machine_user_cores", "server_cores", "client_cores", "client_network_out_bytes_per_s", "osd.1.cores"];
        let figures = names.map(|name| (name.to_owned(), Some(1.0))).into();
        let kept: Vec<String> = machine_only(figures).into_keys().collect();
        assert_eq!(kept, ["client_network_out_bytes_per_s", "machine_user_cores"]);
    }
}
