//! Store steps as one OSD sends them to another. Object data travels in the message's payload, so that it is never
//! copied; everything else in the front.

use bytes::Bytes;
use store::Step;
use types::ObjectId;
use wire::basic::object_or;
use wire::{DecodeError, Reader, Rope, Writer};

const TOUCH: u8 = 1;
const WRITE: u8 = 2;
const ZERO: u8 = 3;
const TRUNCATE: u8 = 4;
const REMOVE: u8 = 5;
const SET_ATTR: u8 = 6;
const REMOVE_ATTR: u8 = 7;
const OMAP_SET: u8 = 8;
const OMAP_REMOVE: u8 = 9;
const OMAP_REMOVE_RANGE: u8 = 10;
const OMAP_CLEAR: u8 = 11;
const OMAP_SET_HEADER: u8 = 12;
const CLONE: u8 = 13;
const CLONE_RANGE: u8 = 14;
const XOR: u8 = 15;

/// Writes `steps` but for the data of writes, which is their [`payload`]. Steps on the group's own table are not sent:
/// each member keeps its own. Panics if there is one.
pub fn encode_steps(steps: &[Step], w: &mut Writer) {
    w.count(steps.len());
    for step in steps {
        encode_step(step, w);
    }
}

/// Returns the data of all writes, one behind the other.
pub fn payload(steps: &[Step]) -> Rope {
    let mut payload = Rope::new();
    for step in steps {
        if let Step::Write { data, .. } | Step::Xor { data, .. } = step {
            payload.append(data.clone());
        }
    }
    payload
}

fn encode_step(step: &Step, w: &mut Writer) {
    let mut head = |code: u8, object: &ObjectId| {
        w.u8(code);
        w.put(object);
    };
    match step {
        Step::Touch { object } => head(TOUCH, object),
        Step::Write { object, offset, data } | Step::Xor { object, offset, data } => {
            head(if matches!(step, Step::Xor { .. }) { XOR } else { WRITE }, object);
            w.u64(*offset);
            w.count(data.len());
        }
        Step::Zero { object, offset, len } => {
            head(ZERO, object);
            w.u64(*offset);
            w.u64(*len);
        }
        Step::Truncate { object, size } => {
            head(TRUNCATE, object);
            w.u64(*size);
        }
        Step::Remove { object } => head(REMOVE, object),
        Step::SetAttr { object, name, value } => {
            head(SET_ATTR, object);
            w.blob(name);
            w.blob(value);
        }
        Step::RemoveAttr { object, name } => {
            head(REMOVE_ATTR, object);
            w.blob(name);
        }
        Step::OmapSet { object, entries } => {
            head(OMAP_SET, object);
            w.put(entries);
        }
        Step::OmapRemove { object, keys } => {
            head(OMAP_REMOVE, object);
            w.put(keys);
        }
        Step::OmapRemoveRange { object, begin, end } => {
            head(OMAP_REMOVE_RANGE, object);
            w.put(begin);
            w.put(end);
        }
        Step::OmapClear { object } => head(OMAP_CLEAR, object),
        Step::OmapSetHeader { object, header } => {
            head(OMAP_SET_HEADER, object);
            w.put(header);
        }
        Step::Clone { from, to } => {
            head(CLONE, from);
            w.put(to);
        }
        Step::CloneRange { source, target, source_offset, length, target_offset } => {
            head(CLONE_RANGE, source);
            w.put(target);
            w.u64(*source_offset);
            w.u64(*length);
            w.u64(*target_offset);
        }
        Step::PgSet { .. } | Step::PgRemove { .. } | Step::PgRemoveRange { .. } | Step::PgDestroy { .. } => {
            panic!("steps on a group's own table are not sent: {step:?}")
        }
    }
}

/// Reads what [`encode_steps`] wrote. Steps that name the object `known` share its name.
///
/// Errors: malformed steps, or a payload that is shorter or longer than the steps say.
pub fn decode_steps(r: &mut Reader<'_>, payload: &Rope, known: &ObjectId) -> Result<Vec<Step>, DecodeError> {
    let count = r.count("steps", 1 + 6)?;
    let mut steps = Vec::with_capacity(count.min(256));
    let mut taken = 0;
    for _ in 0..count {
        steps.push(decode_step(r, payload, &mut taken, known)?);
    }
    match payload.len() - taken {
        0 => Ok(steps),
        left => Err(DecodeError::Value { what: "payload bytes that belong to no step", value: left as u64 }),
    }
}

/// Keys and values are kept for long; they must not pin the frame they came in.
fn own(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    Ok(Bytes::copy_from_slice(r.blob()?))
}

fn decode_step(r: &mut Reader<'_>, payload: &Rope, taken: &mut usize, known: &ObjectId) -> Result<Step, DecodeError> {
    let code = r.u8()?;
    let object = object_or(r, known)?;
    Ok(match code {
        TOUCH => Step::Touch { object },
        WRITE | XOR => {
            let (offset, len) = (r.u64()?, r.u32()? as usize);
            let left = payload.len() - *taken;
            if len > left {
                return Err(DecodeError::Short { needed: len, left });
            }
            let data = payload.slice(*taken, len);
            *taken += len;
            match code {
                WRITE => Step::Write { object, offset, data },
                _ => Step::Xor { object, offset, data },
            }
        }
        ZERO => Step::Zero { object, offset: r.u64()?, len: r.u64()? },
        TRUNCATE => Step::Truncate { object, size: r.u64()? },
        REMOVE => Step::Remove { object },
        SET_ATTR => Step::SetAttr { object, name: r.blob()?.to_vec(), value: own(r)? },
        REMOVE_ATTR => Step::RemoveAttr { object, name: r.blob()?.to_vec() },
        OMAP_SET => {
            let count = r.count("omap entries", 8)?;
            let entries = (0..count).map(|_| Ok((own(r)?, own(r)?))).collect::<Result<_, DecodeError>>()?;
            Step::OmapSet { object, entries }
        }
        OMAP_REMOVE => {
            let count = r.count("omap keys", 4)?;
            Step::OmapRemove { object, keys: (0..count).map(|_| own(r)).collect::<Result<_, _>>()? }
        }
        OMAP_REMOVE_RANGE => Step::OmapRemoveRange { object, begin: own(r)?, end: own(r)? },
        OMAP_CLEAR => Step::OmapClear { object },
        OMAP_SET_HEADER => Step::OmapSetHeader { object, header: own(r)? },
        CLONE => Step::Clone { from: object, to: r.get()? },
        CLONE_RANGE => Step::CloneRange {
            source: object,
            target: r.get()?,
            source_offset: r.u64()?,
            length: r.u64()?,
            target_offset: r.u64()?,
        },
        other => return Err(DecodeError::Value { what: "step code", value: other.into() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::PoolId;
    use wire::Target;

    fn object(name: &str) -> ObjectId {
        ObjectId::head(PoolId(2), 77, b"ns", name.as_bytes())
    }

    #[test]
    fn every_step_reads_back() {
        let key = || Bytes::from_static(b"key");
        let steps = vec![
            Step::Touch { object: object("a") },
            Step::Write { object: object("a"), offset: 5, data: Rope::from(vec![1, 2, 3]) },
            Step::Zero { object: object("a"), offset: 1, len: 2 },
            Step::Write { object: object("b"), offset: 0, data: Rope::from(vec![9; 5000]) },
            Step::Xor { object: object("b"), offset: 70, data: Rope::from(vec![8; 300]) },
            Step::Truncate { object: object("a"), size: 4 },
            Step::Remove { object: object("c") },
            Step::SetAttr { object: object("a"), name: b"n".to_vec(), value: key() },
            Step::RemoveAttr { object: object("a"), name: b"n".to_vec() },
            Step::OmapSet { object: object("a"), entries: vec![(key(), key())] },
            Step::OmapRemove { object: object("a"), keys: vec![key()] },
            Step::OmapRemoveRange { object: object("a"), begin: key(), end: Bytes::new() },
            Step::OmapClear { object: object("a") },
            Step::OmapSetHeader { object: object("a"), header: key() },
            Step::Clone { from: object("a"), to: object("d") },
            Step::CloneRange {
                source: object("a"),
                target: object("d"),
                source_offset: 4096,
                length: 100,
                target_offset: 8192,
            },
        ];
        let (mut w, payload) = (Writer::new(Target::default()), payload(&steps));
        encode_steps(&steps, &mut w);
        let front = w.into_vec();
        let known = object("a");
        let back = decode_steps(&mut Reader::new(&front), &payload, &known).unwrap();
        // Ropes compare by their pieces; flatten.
        let flat = |steps: &[Step]| format!("{steps:?}").replace("in 2", "in 1");
        assert_eq!(flat(&back), flat(&steps));
        assert!(decode_steps(&mut Reader::new(&front), &payload.slice(0, payload.len() - 1), &known).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(front: Vec<u8>, payload: Vec<u8>) {
            let _ = decode_steps(&mut Reader::new(&front), &Rope::from(payload), &object("a"));
        }
    }
}
