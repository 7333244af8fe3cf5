//! A daemon's side towards its operators: options with their sources, forms of commands, and how answers are printed.
//!
//! * [`options`]: the options that there are, and which of them have an effect.
//! * [`Settings`]: the options of one daemon, by source.
//! * [`Table`]: the commands that a daemon knows; `signature.rs`, `arguments.rs`: from a command's form to checked
//!   arguments.
//! * [`everywhere`]: commands that every daemon answers alike.
//! * [`logs`]: levels of the log, by options.
//! * [`counters`]: running counts. [`mempools`]: memory by pools.
//! * [`Format`], [`xml`]: printing of answers. [`pg_stats`]: statistics of a placement group in them.
//! * [`version`]: names of this software.
//! * [`AdminSocket`]: where a daemon takes commands from programs on its own machine.

pub mod arguments;
pub mod counters;
pub mod everywhere;
mod format;
pub mod logs;
pub mod mempools;
pub mod options;
pub mod pg_stats;
mod settings;
pub mod signature;
mod socket;
mod table;
pub mod version;
pub mod xml;

pub use format::Format;
pub use settings::{REPORT_BYTES_MAX, SetError, Settings};
pub use socket::{AdminSocket, Question};
pub use table::{Form, Refusal, Table, Told};
