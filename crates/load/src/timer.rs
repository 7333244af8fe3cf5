//! Waking at a time with a precision of some tens of microseconds. Tokio's own timers round up to the next millisecond,
//! which would add to every latency of an open loop.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel, bound to the runtime that it was made on.
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    pub fn new() -> std::io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // The function is deprecated because some types change or close their descriptor while it is registered. An
        // `OwnedFd` that no other code can reach does neither.
        #[allow(deprecated)]
        let fd = AsyncFd::new(fd)?;
        Ok(Timer { fd })
    }

    /// Waits for `duration`.
    pub async fn sleep(&mut self, duration: Duration) -> std::io::Result<()> {
        // A duration of zero would disarm the timer.
        let duration = duration.max(Duration::from_nanos(1));
        let spec = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let once = Itimerspec { it_interval: spec(0, 0), it_value: spec(seconds, duration.subsec_nanos().into()) };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.fd.readable().await?;
            let mut fired = [0; 8];
            match rustix::io::read(self.fd.get_ref(), &mut fired) {
                Ok(_) => return Ok(()),
                // The timer was armed anew, so the earlier readiness does not count.
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test(flavor = "current_thread")]
    async fn never_early_and_usable_again_after_a_wait_that_was_given_up() {
        let mut timer = Timer::new().unwrap();
        for wait in [0, 300, 1500] {
            let wait = Duration::from_micros(wait);
            let started = Instant::now();
            timer.sleep(wait).await.unwrap();
            assert!(started.elapsed() >= wait);
            let given_up = tokio::time::timeout(Duration::from_millis(1), timer.sleep(Duration::from_secs(60))).await;
            assert!(given_up.is_err());
        }
    }
}
