//! Who somebody is, and what he may do.

mod accepted;
pub mod caps;
pub mod cephx;
pub mod clock;
mod crypto;
mod entropy;
pub mod key;
pub mod keyring;
pub mod policy;
mod refusal;
pub mod secure;
pub mod signature;
#[cfg(test)]
mod testing;

pub use accepted::{Accepted, Granted, Step};
pub use entropy::Entropy;
pub use key::{Key, KeyKind};
pub use policy::{ClientPolicy, Method, Mode, NoneFrom, ServerPolicy};
pub use refusal::Refusal;
