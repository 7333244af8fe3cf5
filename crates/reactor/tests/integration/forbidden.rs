//! Where io_uring is forbidden, as in many containers, the loop runs on epoll.
//!
//! The filter is permanent, and holds for the thread that sets it and for its children.

use reactor::{BackendKind, Config, ConnId, Event, Handler, Io, LoopIo, Reactor};
use std::time::Duration;

/// Makes `io_uring_setup` fail with `errno` for this thread and its children.
#[allow(unsafe_code)]
fn forbid_io_uring(errno: i32) {
    use libc::{
        BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, sock_filter,
    };
    let step = |code, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the system call is the first field of a filter's data.
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        step(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | errno as u32),
        step(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain system calls; the program outlives the call that copies it.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

struct OneTimer;

impl Handler<LoopIo> for OneTimer {
    fn received(&mut self, _io: &mut LoopIo, _conn: ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        assert!(matches!(event, Event::Timer { token: 1 }), "unexpected {event:?}");
        io.stop();
    }
}

#[test]
fn the_loop_falls_back_to_epoll() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let run = move || {
            forbid_io_uring(errno);
            let refused = Reactor::new(Config { backend: BackendKind::Uring, ..Config::default() });
            assert_eq!(refused.err().and_then(|error| error.raw_os_error()), Some(errno));
            let mut reactor = Reactor::new(Config::default()).expect("a reactor");
            assert_eq!(reactor.backend(), BackendKind::Epoll);
            reactor.io().set_timer(Duration::from_millis(1), 1);
            reactor.run(&mut OneTimer).expect("the loop runs");
        };
        std::thread::spawn(run).join().expect("no panic");
    }
}
