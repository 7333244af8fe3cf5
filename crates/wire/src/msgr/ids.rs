//! Numbers of connections and sessions.

/// One transport connection. Those that are dialled have odd numbers, given by the messenger; the driver gives
/// accepted ones even numbers. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// One session with a peer; a lossless one outlives its connections. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);
