//! Checks of the buffers that a caller gives.

use thiserror::Error;

/// Buffers of the wrong number or of different lengths. No buffer has been written to.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BufferError {
    #[error("{given} {what} buffers where there are {expected}")]
    Count { what: &'static str, given: usize, expected: usize },
    #[error("{what} buffer {index} has {given} bytes where the first buffer has {expected}")]
    Length { what: &'static str, index: usize, given: usize, expected: usize },
    #[error("there is no {what} shard {shard}")]
    NoSuchShard { what: &'static str, shard: usize },
}

/// Checks numbers of buffers, and that all are as long as the first.
pub(crate) struct Check {
    bytes: Option<usize>,
}

impl Check {
    pub(crate) fn new() -> Check {
        Check { bytes: None }
    }

    pub(crate) fn count(self, what: &'static str, given: usize, expected: usize) -> Result<Check, BufferError> {
        if given != expected {
            return Err(BufferError::Count { what, given, expected });
        }
        Ok(self)
    }

    pub(crate) fn lengths(
        mut self,
        what: &'static str,
        lengths: impl IntoIterator<Item = usize>,
    ) -> Result<Check, BufferError> {
        for (index, given) in lengths.into_iter().enumerate() {
            let expected = *self.bytes.get_or_insert(given);
            if given != expected {
                return Err(BufferError::Length { what, index, given, expected });
            }
        }
        Ok(self)
    }
}
