//! The program `nacre`: starts clusters, is their daemons, and uses them.
//!
//! * [`cli`] — start here: the command line, each flag declared once.
//! * [`up`], [`down`], [`status`]: a cluster on this machine, in one directory ([`layout`], [`state_file`]).
//!   [`ceph_engine`] is what differs where the daemons are a real Ceph's. [`preflight`] checks before anything is made,
//!   [`creation`] makes it, [`growth`] adds OSDs, [`supervisor`] keeps it running, but for daemons that are [`held`].
//! * [`object_commands`], [`pool_commands`]: a client with nothing but this binary.
//! * [`auth_commands`]: clients and their keys; [`going_over`]: a cluster without authentication gets it.
//! * [`config_commands`]: what options of Ceph mean here.
//! * [`store_commands`]: an OSD's store while the OSD does not run.
//! * [`mod@bench`]: measures clusters.
//! * [`why`]: where the time of operations goes.
//! * [`cluster_report`]: a cluster that runs.
//! * [`doctor_command`]: this machine, as a storage cluster sees it. [`disk_commands`]: its drives.
//! * [`plan_command`]: sizes of a cluster that is not there yet. [`pages`]: where pages go.
//! * [`daemon`]: `nacre mon` and `nacre osd`, the daemons themselves; [`privileges`]. [`worker`]: `nacre worker`, which
//!   works on images, and which [`worker_keeper`] keeps running.

mod auth_commands;
mod bench;
mod byte_size;
mod ceph_engine;
mod cli;
mod cluster_report;
mod conf_writer;
mod config_commands;
mod connection;
mod creation;
mod daemon;
mod descriptors;
mod disk_commands;
mod doctor_command;
mod down;
mod going_over;
mod growth;
mod growth_lock;
mod health;
mod held;
mod layout;
mod logging;
mod machine;
mod making;
mod new_keys;
mod object_commands;
mod osd_daemon;
mod osd_stores;
mod pages;
mod plan_command;
mod pool_commands;
mod preflight;
mod privileges;
mod process;
mod progress;
mod report;
mod s3_check;
mod s3_commands;
mod s3_gateway;
mod s3_keys;
mod s3_limits;
mod s3_policies;
mod s3_session;
#[cfg(test)]
mod scratch;
mod state_file;
mod status;
mod store_commands;
mod supervisor;
mod up;
mod why;
mod worker;
mod worker_keeper;

use clap::Parser;
use cli::{Cli, Command};
use rustix::event::{PollFd, PollFlags, poll};
use std::process::ExitCode;

/// A seventh of an OSD's time on small writes went into the C library's allocator. Without huge pages, which would
/// double the memory of an idle daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Ends a command silently when the reader of its output has gone (`nacre ls POOL | head`): printing panics then.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_stdout_unread() {
            // The status of a program that SIGPIPE ended.
            std::process::exit(128 + 13);
        }
        usual(panic);
    }));
}

/// Tells whether standard output is a pipe or socket without a reader.
fn is_stdout_unread() -> bool {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = rustix::event::Timespec::default();
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(PollFlags::ERR)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let is_daemon = matches!(
        cli.command,
        Command::Up(_) | Command::Mon(_) | Command::Osd(_) | Command::Worker(_) | Command::S3(cli::S3::Serve(_))
    );
    if !is_daemon {
        end_with_the_reader();
    }
    let log = cli.log.or_else(|| std::env::var("NACRE_LOG").ok().filter(|filter| !filter.is_empty()));
    match run(cli.command, log.as_deref()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; returns the exit status.
fn run(command: Command, log: Option<&str>) -> anyhow::Result<u8> {
    // `up` logs to a file of the cluster, once it has one; daemons say what they do; the rest only what goes wrong.
    let level = match command {
        Command::Up(_) => None,
        Command::Mon(_) | Command::Osd(_) | Command::Worker(_) | Command::S3(cli::S3::Serve(_)) => Some("info"),
        _ => Some("error"),
    };
    if let Some(level) = level {
        logging::start(log, level, None)?;
    }
    let done = match command {
        Command::Up(options) => return up::run(&options, log),
        Command::Status(options) => return status::run(&options),
        Command::Bench(command) => return bench::run(command),
        Command::Doctor(options) => return doctor_command::run(&options),
        Command::Store(command) => return Ok(store_commands::run(&command)),
        #[cfg(feature = "sim")]
        Command::Sim(options) => {
            return sim::cli::run(&options).map(|good| u8::from(!good)).map_err(anyhow::Error::msg);
        }
        Command::Osd(options) => return daemon::osd(&options),
        Command::Disk(command) => disk_commands::run(&command),
        Command::Down(options) => down::run(&options),
        Command::Put(options) => object_commands::put(options),
        Command::Get(options) => object_commands::get(options),
        Command::Ls(options) => object_commands::ls(options),
        Command::Rm(options) => object_commands::rm(options),
        Command::Stat(options) => object_commands::stat(options),
        Command::Pool(cli::Pool::Create(options)) => pool_commands::create(options),
        Command::Pool(cli::Pool::Ls(options)) => pool_commands::ls(options),
        Command::Pool(cli::Pool::Rm(options)) => pool_commands::rm(options),
        Command::Auth(cli::Auth::Enable(options)) => return going_over::enable(&options),
        Command::Auth(cli::Auth::Add(options)) => auth_commands::add(&options),
        Command::Auth(cli::Auth::Ls(target)) => auth_commands::ls(&target),
        Command::Auth(cli::Auth::Show(options)) => auth_commands::show(&options),
        Command::Auth(cli::Auth::Rm(options)) => auth_commands::rm(&options),
        Command::Auth(cli::Auth::Caps(options)) => auth_commands::caps_are(&options),
        Command::Auth(cli::Auth::Rotate(options)) => auth_commands::rotate(&options),
        Command::S3(command) => s3_commands::run(command),
        Command::Config(cli::Config::Why(options)) => config_commands::why(&options),
        Command::Report(options) => cluster_report::run(&options),
        Command::Why(options) => why::run(&options),
        Command::Plan(options) => plan_command::run(&options),
        Command::Mon(options) => daemon::mon(&options),
        Command::Worker(options) => worker::run(&options),
    };
    done.map(|()| 0)
}
