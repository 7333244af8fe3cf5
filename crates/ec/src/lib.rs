//! Erasure coding: k data shards and m parity shards, of which any k give the others.
//!
//! Systematic Reed-Solomon over GF(2^8): data shards hold an object's bytes unchanged. The parity bytes are those of
//! Ceph's `jerasure` and `isa` plugins for equal profiles. No I/O, no threads, no clock.
//!
//! * [`Profile`]: a Ceph erasure code profile, checked; start here. It gives a [`Code`] and a [`StripeLayout`].
//! * [`StripeLayout`]: places of an object's bytes on the data shards. [`Overwrite`]: the parts of one overwrite.
//! * [`Code`]: parity of data ([`Code::encode`]), parity after a change ([`Code::update`], [`Code::delta`],
//!   [`Code::add_delta`]), and recovery of lost shards ([`Code::decoder`]).
//! * [`Technique`]: the families of codes and their matrices.
//! * [`Kernel`]: implementations by the processor's instructions.
//! * [`parity_crc`]: checksums of parity without reading it, where that is possible.
//!
//! ```
//! let profile = ec::Profile::from_words(["k=4", "m=2", "plugin=isa"])?;
//! let code = profile.code();
//! let data: [&[u8]; 4] = [b"some", b"data", b"in 4", b"rows"];
//! let (mut p, mut q) = ([0; 4], [0; 4]);
//! code.encode(&data, &mut [&mut p, &mut q])?;
//!
//! // Shards 1 and 2 are lost.
//! let decoder = code.decoder([1, 2].into_iter().collect(), [0, 3, 4, 5].into_iter().collect())?;
//! let (mut one, mut two) = ([0; 4], [0; 4]);
//! decoder.decode(&[data[0], data[3], &p, &q], &mut [&mut one, &mut two])?;
//! assert_eq!((&one, &two), (b"data", b"in 4"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffers;
mod code;
mod decoder;
mod field;
mod kernel;
mod matrix;
mod overwrite;
pub mod parity_crc;
mod profile;
mod shard_set;
mod stripe;
mod technique;
mod transform;

pub use buffers::BufferError;
pub use code::Code;
pub use decoder::{DecodeError, Decoder};
pub use kernel::Kernel;
pub use overwrite::Overwrite;
pub use profile::{Profile, ProfileError, STRIPE_UNIT_DEFAULT_BYTES};
pub use shard_set::{SHARDS_MAX, ShardSet};
pub use stripe::{OBJECT_BYTES_MAX, Piece, StripeLayout};
pub use technique::{ShardCountError, Technique};
