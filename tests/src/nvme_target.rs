//! An NVMe controller that manages namespaces, which hosts reach over TCP. QEMU's own controllers attach, detach and
//! format namespaces, and make none.
//!
//! It follows the NVM Express Base Specification 1.4 and the NVMe/TCP transport, as far as Linux and nvme-cli ask.
//! Fields of structures are named by their offsets, as the specification has them.

use crate::nvme_drive::{Answer, INVALID_FIELD, INVALID_OPCODE, NvmeDrive};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Types of PDUs.
const INITIALIZE: u8 = 0x00;
const INITIALIZED: u8 = 0x01;
const COMMAND: u8 = 0x04;
const RESPONSE: u8 = 0x05;
const DATA_TO_CONTROLLER: u8 = 0x06;
const DATA_TO_HOST: u8 = 0x07;
const READY_TO_TRANSFER: u8 = 0x09;
/// Length of a header before its data.
const DATA_HEADER: u8 = 24;
/// The flag of the last data of a command.
const LAST: u8 = 0x04;
/// Opcode of commands that only fabrics have.
const FABRICS: u8 = 0x7f;
const ASYNCHRONOUS_EVENT: u8 = 0x0c;
/// Most bytes of a PDU that is taken.
const PDU_MAX: usize = 1 << 20;

/// The controller; it serves until the test ends.
pub struct NvmeTarget {
    pub port: u16,
    drive: Arc<Mutex<NvmeDrive>>,
}

impl NvmeTarget {
    /// The name under which it is connected to.
    pub const NAME: &'static str = "nqn.2026-11.org.nacre:drive";

    /// A drive of so many bytes, all of it in one namespace of blocks of 4 KiB, on a free port of loopback.
    pub fn start(bytes: u64) -> NvmeTarget {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let drive = Arc::new(Mutex::new(NvmeDrive::new(bytes, NvmeTarget::NAME)));
        let served = Arc::clone(&drive);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let drive = Arc::clone(&served);
                // A host that is gone ends its connection.
                std::thread::spawn(move || {
                    drop(Connection { stream, drive, control: 0, queue: 0, waiting: VecDeque::new() }.serve())
                });
            }
        });
        NvmeTarget { port, drive }
    }

    /// Namespaces as they are now: number, blocks, attached or not.
    pub fn namespaces(&self) -> Vec<(u32, u64, bool)> {
        self.drive.lock().expect("no thread has failed").namespaces()
    }

    /// Numbers of the namespaces that were erased by a secure format, in their order.
    pub fn erased(&self) -> Vec<u32> {
        self.drive.lock().expect("no thread has failed").erased.clone()
    }
}

/// One queue of commands.
struct Connection {
    stream: TcpStream,
    drive: Arc<Mutex<NvmeDrive>>,
    /// The register CC, which this connection's host has set.
    control: u32,
    queue: u16,
    /// Commands that came while the data of another one was waited for.
    waiting: VecDeque<Pdu>,
}

/// A header and what follows it.
struct Pdu {
    kind: u8,
    header: Vec<u8>,
    data: Vec<u8>,
}

impl Connection {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let pdu = match self.waiting.pop_front() {
                Some(pdu) => pdu,
                None => self.read()?,
            };
            match pdu.kind {
                INITIALIZE => {
                    // No padding, no digests, 128 KiB in one PDU.
                    let mut answer = vec![0; 120];
                    answer[4..8].copy_from_slice(&(128u32 << 10).to_le_bytes());
                    self.write(INITIALIZED, 0, &answer, &[])?;
                }
                COMMAND => self.command(pdu)?,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn read(&mut self) -> io::Result<Pdu> {
        let mut common = [0; 8];
        self.stream.read_exact(&mut common)?;
        let (header_bytes, data_at) = (usize::from(common[2]), usize::from(common[3]));
        let bytes = u32::from_le_bytes(common[4..8].try_into().expect("four bytes")) as usize;
        if bytes > PDU_MAX || header_bytes < 8 || bytes < header_bytes.max(data_at) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut rest = vec![0; bytes - 8];
        self.stream.read_exact(&mut rest)?;
        let data = if data_at > 0 { rest[data_at - 8..].to_vec() } else { Vec::new() };
        rest.truncate(header_bytes - 8);
        Ok(Pdu { kind: common[0], header: rest, data })
    }

    /// Sends a header, without its first eight bytes, and data.
    fn write(&mut self, kind: u8, flags: u8, header: &[u8], data: &[u8]) -> io::Result<()> {
        let header_bytes = u8::try_from(8 + header.len()).expect("headers are short");
        let data_at = if data.is_empty() { 0 } else { header_bytes };
        let bytes = u32::try_from(8 + header.len() + data.len()).expect("a PDU is short");
        let mut pdu = vec![kind, flags, header_bytes, data_at];
        pdu.extend(bytes.to_le_bytes());
        pdu.extend(header);
        pdu.extend(data);
        self.stream.write_all(&pdu)
    }

    fn command(&mut self, pdu: Pdu) -> io::Result<()> {
        let command: [u8; 64] = pdu.header.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let (opcode, id) = (command[0], [command[2], command[3]]);
        let data = self.data_of(&command, pdu.data)?;
        let is_admin = self.queue == 0;
        let answer = match opcode {
            FABRICS => self.fabrics(&command, &data),
            // Answered when something happens, which it never tells by itself.
            ASYNCHRONOUS_EVENT if is_admin => return Ok(()),
            _ if is_admin => self.drive.lock().expect("no thread has failed").admin(&command, &data),
            _ => self.drive.lock().expect("no thread has failed").transfer(&command, &data),
        };
        if !answer.data.is_empty() {
            let mut header = [0; DATA_HEADER as usize - 8];
            header[..2].copy_from_slice(&id);
            header[8..12].copy_from_slice(&u32::try_from(answer.data.len()).expect("short").to_le_bytes());
            self.write(DATA_TO_HOST, LAST, &header, &answer.data)?;
        }
        let mut completion = [0; 16];
        completion[..8].copy_from_slice(&answer.result.to_le_bytes());
        completion[12..14].copy_from_slice(&id);
        // The lowest bit of the status is the phase, which fabrics do not have.
        completion[14..].copy_from_slice(&(answer.status << 1).to_le_bytes());
        self.write(RESPONSE, 0, &completion, &[])
    }

    /// Data that the host sends with a command: in its capsule, or once it is asked for it.
    fn data_of(&mut self, command: &[u8; 64], in_capsule: Vec<u8>) -> io::Result<Vec<u8>> {
        let bytes = u32::from_le_bytes(command[32..36].try_into().expect("four bytes")) as usize;
        // Both lowest bits of an opcode, or of a fabrics command's type, tell the direction.
        let direction = if command[0] == FABRICS { command[4] } else { command[0] } & 3;
        let is_in_capsule = command[39] == 0x01;
        if direction != 1 || bytes == 0 || is_in_capsule || bytes > PDU_MAX {
            return Ok(in_capsule);
        }
        let mut request = [0; DATA_HEADER as usize - 8];
        request[..2].copy_from_slice(&command[2..4]);
        request[8..12].copy_from_slice(&command[32..36]);
        self.write(READY_TO_TRANSFER, 0, &request, &[])?;
        let mut data = Vec::new();
        while data.len() < bytes {
            let pdu = self.read()?;
            match pdu.kind {
                // One command at a time is asked for data, so it is that one's.
                DATA_TO_CONTROLLER if !pdu.data.is_empty() => data.extend(pdu.data),
                COMMAND => self.waiting.push_back(pdu),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(data)
    }

    /// Commands by which a host reaches the controller and its registers.
    fn fabrics(&mut self, command: &[u8; 64], data: &[u8]) -> Answer {
        const CAPABILITIES: u32 = 0x00;
        const VERSION: u32 = 0x08;
        const CONFIGURATION: u32 = 0x14;
        const STATUS: u32 = 0x1c;
        let register = u32::from_le_bytes(command[44..48].try_into().expect("four bytes"));
        match command[4] {
            // Connect: the queue's number; the answer is that of the controller.
            0x01 if data.len() >= 1024 => {
                self.queue = u16::from_le_bytes([command[42], command[43]]);
                Answer::of(u64::from(NvmeDrive::CONTROLLER))
            }
            0x00 if register == CONFIGURATION => {
                self.control = u32::from_le_bytes(command[48..52].try_into().expect("four bytes"));
                Answer::of(0)
            }
            0x04 => match register {
                // 128 entries, contiguous, 15 s to be ready, the NVM command set.
                CAPABILITIES => Answer::of(127 | 1 << 16 | 30 << 24 | 1 << 37),
                VERSION => Answer::of(0x0001_0400),
                CONFIGURATION => Answer::of(self.control.into()),
                // Ready if enabled; shut down once that was asked for.
                STATUS => {
                    Answer::of(u64::from(self.control & 1) | if self.control >> 14 & 3 != 0 { 2 << 2 } else { 0 })
                }
                _ => Answer::refused(INVALID_FIELD),
            },
            0x00 | 0x01 => Answer::refused(INVALID_FIELD),
            _ => Answer::refused(INVALID_OPCODE),
        }
    }
}
