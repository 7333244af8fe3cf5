//! Messages on a connection: a length of 4 bytes, little-endian, and so many bytes of JSON. On an encrypted connection
//! they are a record of AES-128-GCM, with its code behind it.

use auth::secure::{Opener, Sealer, TAG_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest message after the greetings: the histograms of one group over time.
pub const MESSAGE_BYTES_MAX: u32 = 32 << 20;
/// Longest message of a greeting, when the other side is still unknown.
pub const GREETING_BYTES_MAX: u32 = 64 << 10;

/// Bytes of the code behind a message on an encrypted connection.
const CODE_BYTES: u32 = 16;
const _: () = assert!(TAG_BYTES == 16);

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
    #[error("a message that does not open: it was changed on its way, or is not the next one")]
    NotOpened,
    #[error("the connection is worn: all its nonces are used")]
    Worn,
}

/// The reading direction of a connection, which is encrypted from some message on.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    opener: Option<Opener>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(from: R) -> Reader<R> {
        Reader { from, opener: None }
    }

    /// The next message and all behind it are encrypted.
    pub fn open_with(&mut self, opener: Opener) {
        self.opener = Some(opener);
    }

    /// Reads one message's bytes, `max` at most.
    pub async fn read(&mut self, max: u32) -> Result<Vec<u8>, FrameError> {
        let Some(opener) = &mut self.opener else { return read(&mut self.from, max).await };
        let mut record = read(&mut self.from, max + CODE_BYTES).await?;
        let bytes = opener.open(&mut record).map_err(|_| FrameError::NotOpened)?.len();
        record.truncate(bytes);
        Ok(record)
    }
}

/// The writing direction of a connection, which is encrypted from some message on.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    sealer: Option<Sealer>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub fn new(to: W) -> Writer<W> {
        Writer { to, sealer: None }
    }

    /// Encrypts the next message and all behind it.
    pub fn seal_with(&mut self, sealer: Sealer) {
        self.sealer = Some(sealer);
    }

    /// Sends one message.
    pub async fn write(&mut self, message: &impl Serialize) -> Result<(), FrameError> {
        let mut bytes = encode(message)?;
        if let Some(sealer) = &mut self.sealer {
            let tag = sealer.seal(&mut bytes[4..]).map_err(|_| FrameError::Worn)?;
            bytes.extend(tag);
            put_length(&mut bytes, MESSAGE_BYTES_MAX + CODE_BYTES)?;
        }
        self.to.write_all(&bytes).await.map_err(failed)
    }
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
    put_length(&mut bytes, MESSAGE_BYTES_MAX)?;
    Ok(bytes)
}

/// Puts the length of what follows into the first four bytes.
fn put_length(bytes: &mut [u8], max: u32) -> Result<(), FrameError> {
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    if length > max {
        return Err(FrameError::TooLong { length, max });
    }
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Sends one message.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> Result<(), FrameError> {
    to.write_all(&encode(message)?).await.map_err(failed)
}
