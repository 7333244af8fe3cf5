//! Method `none`: it believes whatever name it is told, signs with zeros, and knows the crc mode alone.

use super::auth::{AuthAnswer, AuthStep, Identity, Keys, method, mode};
use super::messenger::Messenger;
use super::reason::Cause;
use super::rights::Rights;
use crate::basic::AuthName;
use crate::{DecodeError, Encode, Reader, Target, Writer};
use bytes::Bytes;
use std::time::Duration;
use types::{EntityType, Errno};

/// First byte of the payload: to whom it is addressed.
mod audience {
    /// A daemon, which believes what a monitor has vouched for.
    pub const AUTHORIZER: u8 = 1;
    /// A monitor, which gives out ids.
    pub const MON: u8 = 10;
}

const METHODS: [u32; 1] = [method::NONE];
const MODES: [u32; 1] = [mode::CRC];

/// Payload of a request.
struct Request {
    audience: u8,
    name: AuthName,
    /// 0 asks for a new id.
    global_id: u64,
}

impl Request {
    fn write(&self) -> Bytes {
        let mut w = Writer::new(Target::PACIFIC);
        w.u8(self.audience);
        self.name.encode(&mut w);
        w.u64(self.global_id);
        w.into_vec().into()
    }

    fn read(payload: &[u8]) -> Result<Request, DecodeError> {
        let mut r = Reader::new(payload);
        let audience = r.u8()?;
        if ![audience::MON, audience::AUTHORIZER].contains(&audience) {
            return Err(DecodeError::Value { what: "authentication mode", value: audience.into() });
        }
        Ok(Request { audience, name: r.get()?, global_id: r.u64()? })
    }
}

fn fail(cause: impl Into<Cause>) -> AuthAnswer {
    AuthAnswer::Fail { cause: cause.into(), again: false }
}

impl Messenger {
    /// Answers all steps that wait by method `none`: with our name from [`super::Config::auth_name`], and believing the
    /// peers'.
    pub fn answer_unproven(&mut self, now: Duration) {
        while let Some((conn, step)) = self.poll_auth() {
            let answer = self.unproven(step);
            self.answer(conn, answer, now);
        }
    }

    fn unproven(&self, step: AuthStep) -> AuthAnswer {
        match step {
            AuthStep::Begin { to } => {
                let to_monitor = to == EntityType::MON && self.me.kind != EntityType::MON;
                let audience = if to_monitor { audience::MON } else { audience::AUTHORIZER };
                let request = Request { audience, name: self.config.auth_name.clone(), global_id: self.global_id };
                AuthAnswer::Request { method: method::NONE, modes: MODES.to_vec(), payload: request.write() }
            }
            AuthStep::Challenge(_) => {
                fail(DecodeError::Value { what: "further round of authentication 'none'", value: 2 })
            }
            AuthStep::BadMethod { method, result, methods, modes } => {
                fail(Cause::MethodRefused { method, result, methods, modes })
            }
            AuthStep::Done { mode, .. } if !MODES.contains(&mode) => fail(Cause::Mode(mode)),
            AuthStep::Done { global_id, .. } => AuthAnswer::Connected { global_id, keys: Keys::default() },
            AuthStep::Request { method, modes, payload, .. } => {
                if method != method::NONE || !modes.iter().any(|mode| MODES.contains(mode)) {
                    let (methods, modes) = (METHODS.to_vec(), MODES.to_vec());
                    return AuthAnswer::Refused { errno: Errno::EOPNOTSUPP, methods, modes };
                }
                match Request::read(&payload) {
                    Ok(request) => self.believed(request),
                    Err(error) => fail(error),
                }
            }
            AuthStep::More(_) => unreachable!("method 'none' asks for nothing more"),
        }
    }

    fn believed(&self, request: Request) -> AuthAnswer {
        let Request { audience, name, global_id } = request;
        if audience == audience::MON && !self.config.assigns_global_ids {
            return fail(Cause::TakenForMonitor(name));
        }
        let identity = Identity { name, is_proven: false, global_id, rights: Rights::Everything };
        let wants_id = audience == audience::MON && global_id == 0;
        AuthAnswer::Accepted { identity, wants_id, payload: Bytes::new(), keys: Keys::default() }
    }
}
