//! Messages on a connection: a length of 4 bytes, little-endian, and so many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest message after the greetings: the histograms of one group over time.
pub const MESSAGE_BYTES_MAX: u32 = 32 << 20;
/// Longest message of a greeting, when the other side is still unknown.
pub const GREETING_BYTES_MAX: u32 = 64 << 10;

/// The reason why no message came.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the connection was closed")]
    Closed,
    #[error("the connection failed: {0}")]
    Io(std::io::Error),
    #[error("a message of {length} bytes, where at most {max} are allowed; does the other side speak this protocol?")]
    TooLong { length: u32, max: u32 },
    #[error("a message that is none: {0}")]
    Malformed(String),
}

/// Reads one message's bytes. Its buffer grows with the bytes that arrive, not with the announced length.
pub async fn read(from: &mut (impl AsyncRead + Unpin), max: u32) -> Result<Vec<u8>, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await.map_err(failed)?;
    let length = u32::from_le_bytes(length);
    if length > max {
        return Err(FrameError::TooLong { length, max });
    }
    let mut bytes = Vec::new();
    from.take(length.into()).read_to_end(&mut bytes).await.map_err(failed)?;
    if bytes.len() < length as usize { Err(FrameError::Closed) } else { Ok(bytes) }
}

fn failed(error: std::io::Error) -> FrameError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => FrameError::Closed,
        _ => FrameError::Io(error),
    }
}

/// Decodes a message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(bytes).map_err(|e| FrameError::Malformed(e.to_string()))
}

/// Encodes a message, with its length in front.
///
/// Errors: the message is longer than the other side would read.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message).map_err(|e| FrameError::Malformed(e.to_string()))?;
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    if length > MESSAGE_BYTES_MAX {
        return Err(FrameError::TooLong { length, max: MESSAGE_BYTES_MAX });
    }
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Sends one message.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> Result<(), FrameError> {
    to.write_all(&encode(message)?).await.map_err(failed)
}
