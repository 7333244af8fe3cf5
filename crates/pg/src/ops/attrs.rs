//! Steps on an object's attributes.

use super::execute::{Execution, StepOutput, Stop, done, output, own};
use crate::object_info::{USER_ATTR_PREFIX, user_attr};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use store::Step;
use types::Errno;
use wire::Rope;
use wire::messages::{Op, OpArgs, OpCode, XattrArgs};

/// How a stored value is compared with a client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    pub fn from_code(code: u32) -> Result<Comparison, Stop> {
        Ok(match code {
            1 => Comparison::Equal,
            2 => Comparison::NotEqual,
            3 => Comparison::Greater,
            4 => Comparison::GreaterOrEqual,
            5 => Comparison::Less,
            6 => Comparison::LessOrEqual,
            _ => return Err(Errno::EINVAL.into()),
        })
    }

    pub fn holds(self, left_to_right: Ordering) -> bool {
        match self {
            Comparison::Equal => left_to_right.is_eq(),
            Comparison::NotEqual => left_to_right.is_ne(),
            Comparison::Greater => left_to_right.is_gt(),
            Comparison::GreaterOrEqual => left_to_right.is_ge(),
            Comparison::Less => left_to_right.is_lt(),
            Comparison::LessOrEqual => left_to_right.is_le(),
        }
    }
}

impl Execution<'_> {
    pub(super) fn attr(&mut self, op: &Op) -> StepOutput {
        match op.code {
            OpCode::GETXATTR => {
                self.must_exist()?;
                let value = self.stored_attr(&op.xattr()?.0).ok_or(Errno::ENODATA)?;
                Ok((0, Rope::from(value)))
            }
            OpCode::GETXATTRS => {
                self.must_exist()?;
                let attrs = self.user_attrs();
                output(|w| w.put(&attrs))
            }
            OpCode::CMPXATTR => self.compare_attr(op),
            OpCode::SETXATTR => {
                let (name, value) = op.xattr()?;
                if name.len() > self.limits.attr_name_bytes {
                    return Err(Errno::ENAMETOOLONG.into());
                }
                self.ensure_exists();
                let object = self.object();
                self.push(Step::SetAttr { object, name: user_attr(&name), value: own(&value) });
                done()
            }
            OpCode::RMXATTR => {
                self.must_exist()?;
                let (name, _) = op.xattr()?;
                let object = self.object();
                self.push(Step::RemoveAttr { object, name: user_attr(&name) });
                done()
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// A client's attribute as the steps so far have left it.
    fn stored_attr(&self, name: &[u8]) -> Option<Bytes> {
        let stored_name = user_attr(name);
        for step in self.steps.iter().rev() {
            match step {
                Step::SetAttr { name, value, .. } if *name == stored_name => return Some(value.clone()),
                Step::RemoveAttr { name, .. } if *name == stored_name => return None,
                Step::Remove { .. } => return None,
                _ => {}
            }
        }
        self.before.as_ref()?.attrs.get(&stored_name).cloned()
    }

    pub(super) fn user_attrs(&self) -> BTreeMap<Bytes, Bytes> {
        let mut attrs: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        let user_name = |stored: &[u8]| match stored.split_first() {
            Some((&USER_ATTR_PREFIX, name)) => Some(own(name)),
            _ => None,
        };
        if let Some(stat) = &self.before {
            attrs.extend(stat.attrs.iter().filter_map(|(name, value)| Some((user_name(name)?, value.clone()))));
        }
        for step in &self.steps {
            match step {
                Step::SetAttr { name, value, .. } => {
                    attrs.extend(user_name(name).map(|name| (name, value.clone())));
                }
                Step::RemoveAttr { name, .. } => {
                    if let Some(name) = user_name(name) {
                        attrs.remove(&name);
                    }
                }
                Step::Remove { .. } => attrs.clear(),
                _ => {}
            }
        }
        attrs
    }

    fn compare_attr(&mut self, op: &Op) -> StepOutput {
        let OpArgs::Xattr(args) = op.args else { return Err(Errno::EINVAL.into()) };
        let (name, given) = op.xattr()?;
        self.must_exist()?;
        let stored = self.stored_attr(&name).unwrap_or_default();
        let comparison = Comparison::from_code(args.cmp_op.into())?;
        // The client's value stands on the left: "less" holds if it is less than what is stored.
        let order = match args.cmp_mode {
            XattrArgs::MODE_STRING => given.cmp(&stored),
            XattrArgs::MODE_U64 => {
                let given: [u8; 8] = given[..].try_into().map_err(|_| Errno::EINVAL)?;
                let text = std::str::from_utf8(&stored).map_err(|_| Errno::EINVAL)?;
                let stored: u64 = if text.is_empty() { 0 } else { text.trim().parse().map_err(|_| Errno::EINVAL)? };
                u64::from_le_bytes(given).cmp(&stored)
            }
            _ => return Err(Errno::EINVAL.into()),
        };
        if comparison.holds(order) { Ok((1, Rope::new())) } else { Err(Errno::ECANCELED.into()) }
    }
}
