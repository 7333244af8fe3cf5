//! A daemon's admin socket, which `ceph daemon NAME COMMAND` asks.
//!
//! A client sends one command, a JSON object that ends with a zero byte or a newline. It gets four bytes, the length of
//! the answer with the highest byte first, and the answer; then the connection ends. Threads of their own speak to
//! clients, so that none of them delays the daemon.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use wire::messages::CommandReply;

/// Longest command.
const COMMAND_BYTES_MAX: usize = 64 << 10;
/// Most clients at a time; more are turned away.
const CLIENTS_MAX: usize = 16;
/// Most clients that wait until they are looked at.
const CLIENTS_WAIT_MAX: i32 = 128;
/// Time within which a client must have sent its command, and time within which it must take its answer.
const CLIENT_TIME: Duration = Duration::from_secs(10);
/// Time within which the daemon must answer.
const ANSWER_TIME: Duration = Duration::from_secs(300);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A command, and the way that its answer goes. The answer is sent once; nobody waits for the receiver.
pub type Question = (String, SyncSender<CommandReply>);

/// A listening admin socket. Its file is removed when this is dropped.
pub struct AdminSocket {
    path: PathBuf,
    /// Device and number of the file.
    id: (u64, u64),
    ended: Arc<AtomicBool>,
}

impl AdminSocket {
    /// Listens at `path`; only the daemon's user may connect. `ask` hands a question to the daemon, at once.
    ///
    /// Errors: another daemon listens there; the path holds something that is no socket; the path is too long for a
    /// socket; the folder cannot be written.
    pub fn open(path: &Path, ask: impl Fn(Question) + Send + Sync + 'static) -> io::Result<AdminSocket> {
        make_way(path)?;
        // The file gets its name once nobody else may connect. That replaces a socket that nobody listens at.
        let new = PathBuf::from([path.as_os_str(), OsStr::new(".new")].into_iter().collect::<OsString>());
        match std::fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let socket = bind_for_owner(&new)?;
        rustix::net::listen(&socket, CLIENTS_WAIT_MAX)?;
        let listener = UnixListener::from(socket);
        std::fs::rename(&new, path)?;
        let found = std::fs::symlink_metadata(path)?;
        let ended = Arc::new(AtomicBool::new(false));
        let socket = AdminSocket { path: path.to_owned(), id: (found.dev(), found.ino()), ended: ended.clone() };
        let accept = move || accept(&listener, &ended, Arc::new(ask));
        std::thread::Builder::new().name("admin-socket".to_owned()).spawn(accept)?;
        Ok(socket)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Another daemon may have taken the place.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            // This wakes the thread, which then ends.
            drop(UnixStream::connect(&self.path));
            if let Err(e) = std::fs::remove_file(&self.path) {
                tracing::warn!("cannot remove {}: {e}", self.path.display());
            }
        }
    }
}

/// Makes a socket at `path` that its owner alone may connect to. Nobody can until it listens.
fn bind_for_owner(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// Checks that a socket may be made at `path`, where there may be one that nobody listens at.
fn make_way(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another daemon listens there")),
            Err(_) => Ok(()),
        },
    }
}

fn accept(listener: &UnixListener, ended: &AtomicBool, ask: Arc<impl Fn(Question) + Send + Sync + 'static>) {
    let clients = Arc::new(AtomicUsize::new(0));
    while !ended.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        if clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (ask, counted) = (ask.clone(), clients.clone());
        let serve = move || {
            if let Err(e) = serve(stream, &*ask) {
                tracing::debug!("a client of the admin socket: {e}");
            }
            counted.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("admin-client".to_owned()).spawn(serve).is_err() {
            clients.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Serves one client.
fn serve(mut stream: UnixStream, ask: &impl Fn(Question)) -> io::Result<()> {
    let line = read_command(&mut stream)?;
    let (answers, answer) = sync_channel(1);
    ask((line, answers));
    let payload = match answer.recv_timeout(ANSWER_TIME) {
        Ok(reply) => payload(&reply),
        Err(_) => b"ERROR: (110) Connection timed out\nthe daemon did not answer\n".to_vec(),
    };
    stream.set_write_timeout(Some(CLIENT_TIME))?;
    let deadline = Instant::now() + CLIENT_TIME;
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let length = [24, 16, 8, 0].map(|shift| (length >> shift & 0xff) as u8);
    for part in [&length[..], &payload[..]].into_iter().flat_map(|bytes| bytes.chunks(64 << 10)) {
        stream.write_all(part)?;
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn read_command(stream: &mut UnixStream) -> io::Result<String> {
    let deadline = Instant::now() + CLIENT_TIME;
    let mut line = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buf)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = buf[..count].iter().position(|byte| matches!(byte, 0 | b'\n')) {
            line.extend_from_slice(&buf[..end]);
            // Bytes that are no text make no command, which the answer says.
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        line.extend_from_slice(&buf[..count]);
        if line.len() > COMMAND_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the command is too long"));
        }
    }
}

/// Returns the bytes of an answer: its output, or the error in Ceph's words.
fn payload(reply: &CommandReply) -> Vec<u8> {
    if reply.result >= 0 {
        return reply.output.to_vec();
    }
    let errno = reply.result.saturating_neg();
    let text = io::Error::from_raw_os_error(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut payload = format!("ERROR: ({errno}) {text}\n{}\n", reply.status).into_bytes();
    payload.extend(reply.output.to_vec());
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Rope;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("nacre-asok-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    /// Answers with the command itself; `bad` is refused, and `never` not answered.
    fn echo((line, answers): Question) {
        let (result, status) = if line == "bad" { (-22, "no such thing".to_owned()) } else { (0, String::new()) };
        match line.as_str() {
            "never" => std::mem::forget(answers),
            _ => drop(answers.try_send(CommandReply { result, status, output: Rope::from(line.into_bytes()) })),
        }
    }

    fn ask(path: &Path, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    #[test]
    fn questions_are_framed_as_cephs() {
        let folder = Folder::new("framed");
        let path = folder.0.join("x.asok");
        let socket = AdminSocket::open(&path, echo).unwrap();
        assert_eq!(ask(&path, b"hello\0"), b"\0\0\0\x05hello");
        assert_eq!(ask(&path, b"hello\nmore"), b"\0\0\0\x05hello");
        assert_eq!(ask(&path, b"bad\0"), b"\0\0\0\x2eERROR: (22) Invalid argument\nno such thing\nbad");
        let long = vec![b'x'; COMMAND_BYTES_MAX + 5000];
        let mut stream = UnixStream::connect(&path).unwrap();
        // The socket may be closed before all is written.
        drop(stream.write_all(&long));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert_eq!(answer, b"", "too long");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn nobody_connects_before_the_socket_is_its_owners_alone() {
        let folder = Folder::new("early");
        let path = folder.0.join("x.asok");
        let socket = bind_for_owner(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        drop(socket);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let folder = Folder::new("stale");
        let path = folder.0.join("x.asok");
        drop(UnixListener::bind(&path).unwrap());
        let first = AdminSocket::open(&path, echo).unwrap();
        assert_eq!(AdminSocket::open(&path, echo).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(ask(&path, b"still\0"), b"\0\0\0\x05still");
        // A daemon that was taken for dead leaves its successor's socket alone.
        std::fs::remove_file(&path).unwrap();
        let second = AdminSocket::open(&path, echo).unwrap();
        drop(first);
        assert_eq!(ask(&path, b"second\0"), b"\0\0\0\x06second");
        drop(second);
        std::fs::write(&path, "a file").unwrap();
        assert_eq!(AdminSocket::open(&path, echo).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
        assert!(AdminSocket::open(&folder.0.join("x".repeat(200)), echo).is_err(), "too long for a socket");
    }

    #[test]
    fn clients_that_are_slow_or_many_hold_up_nobody_else() {
        let folder = Folder::new("slow");
        let path = folder.0.join("x.asok");
        let _socket = AdminSocket::open(&path, echo).unwrap();
        let mut slow: Vec<UnixStream> = (1..CLIENTS_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        slow.iter_mut().for_each(|stream| stream.write_all(b"half").unwrap());
        assert_eq!(ask(&path, b"quick\0"), b"\0\0\0\x05quick");
        // The others are turned away, without an answer, once all places are taken. The place of one that was answered
        // is free a moment later, so whoever is to take it may come too soon.
        let mut waiting = Vec::new();
        let turned_away = (0..200).any(|_| {
            let mut waits = UnixStream::connect(&path).unwrap();
            drop(waits.write_all(b"never\0"));
            waiting.push(waits);
            let mut stream = UnixStream::connect(&path).unwrap();
            drop(stream.write_all(b"one more\0"));
            let mut answer = Vec::new();
            drop(stream.read_to_end(&mut answer));
            answer.is_empty()
        });
        assert!(turned_away);
        drop(slow);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let mut stream = UnixStream::connect(&path).unwrap();
            drop(stream.write_all(b"again\0"));
            let mut answer = Vec::new();
            drop(stream.read_to_end(&mut answer));
            if answer == b"\0\0\0\x05again" {
                break;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
        }
    }
}
