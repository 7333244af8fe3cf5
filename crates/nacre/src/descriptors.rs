//! How many files and sockets a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's own limit as far as the system allows. A daemon has a socket for every client and peer: in a
/// cluster of hundreds of OSDs more than the 1024 that shells and service managers give for the sake of old programs
/// that use `select`.
pub fn allow_as_many_as_possible() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?current, ?maximum, "open files allowed"),
        Err(error) => tracing::warn!(?current, ?maximum, %error, "cannot raise the limit on open files"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let before = getrlimit(Resource::Nofile);
        let low = Rlimit { current: Some(256), maximum: before.maximum };
        setrlimit(Resource::Nofile, low).unwrap();
        allow_as_many_as_possible();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: before.maximum, maximum: before.maximum });
    }
}
