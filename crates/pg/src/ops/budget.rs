//! Bytes that an operation's steps write.

use store::Step;
use types::ObjectId;

/// Bytes that an operation's steps, and the names in them, may take beside the data that is written: so many that all
/// steps that a client can ask for may have the longest names. They travel in front of the data.
const NAMES_BYTES_MAX: usize = 16 << 20;
/// Bytes of [`NAMES_BYTES_MAX`] that a step takes without its names.
const STEP_BYTES: usize = 128;

/// Bytes that the steps of an operation write, all together, whoever has made them. They are one message to every
/// member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    written: usize,
    names: usize,
    is_overdrawn: bool,
}

impl Budget {
    /// Counts a step. Returns false if that is too much, which it then stays.
    pub fn take(&mut self, step: &Step, written_max: usize) -> bool {
        let (written, names) = (self.written + written_bytes(step), self.names + STEP_BYTES + names_bytes(step));
        if mutant::is(mutant::Mutant::EffectsUnbounded) {
            return true;
        }
        self.is_overdrawn |= written > written_max || names > NAMES_BYTES_MAX;
        if !self.is_overdrawn {
            (self.written, self.names) = (written, names);
        }
        !self.is_overdrawn
    }

    /// Returns this budget, overdrawn if the later one is.
    pub fn overdrawn_as(self, later: Budget) -> Budget {
        Budget { is_overdrawn: later.is_overdrawn, ..self }
    }

    pub fn is_overdrawn(&self) -> bool {
        self.is_overdrawn
    }

    /// Returns the memory that the steps take, in bytes.
    pub fn bytes(&self) -> usize {
        self.written + self.names
    }
}

fn written_bytes(step: &Step) -> usize {
    match step {
        Step::Write { data, .. } | Step::Xor { data, .. } => data.len(),
        Step::SetAttr { value, .. } => value.len(),
        Step::OmapSet { entries, .. } => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
        Step::OmapSetHeader { header, .. } => header.len(),
        Step::OmapRemove { keys, .. } => keys.iter().map(|key| key.len()).sum(),
        _ => 0,
    }
}

fn names_bytes(step: &Step) -> usize {
    let of = |object: &ObjectId| object.nspace.len() + object.key.len() + object.name.len();
    let rest = match step {
        Step::SetAttr { name, .. } | Step::RemoveAttr { name, .. } => name.len(),
        Step::OmapRemoveRange { begin, end, .. } => begin.len() + end.len(),
        Step::Clone { to, .. } => of(to),
        _ => 0,
    };
    step.object().map_or(0, of) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::STEPS_MAX;
    use types::PoolId;

    #[test]
    fn the_longest_names_fit_in_as_many_steps_as_there_may_be() {
        let key = vec![b'k'; 2048];
        let object = ObjectId { key: key.into(), ..ObjectId::head(PoolId(1), 7, &[b'n'; 256], &[b'o'; 2048]) };
        let mut budget = Budget::default();
        for _ in 0..STEPS_MAX {
            // Writing what was cut before takes three.
            assert!(budget.take(&Step::Truncate { object: object.clone(), size: 0 }, 0));
            assert!(budget.take(&Step::Touch { object: object.clone() }, 0));
            assert!(budget.take(&Step::Zero { object: object.clone(), offset: 0, len: 5 }, 0));
        }
        assert!(!budget.take(&Step::SetAttr { object, name: Vec::new(), value: "v".into() }, 0));
        assert!(budget.is_overdrawn());
    }
}
