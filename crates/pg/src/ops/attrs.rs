//! Steps on an object's attributes.

use super::execute::{Execution, StepOutput, done, output, own};
use crate::group::object_info::{USER_ATTR_PREFIX, user_attr};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Attrs, Step};
use types::Errno;
use wire::Rope;
use wire::messages::{Comparison, Op, OpArgs, OpCode, XattrArgs};

/// Returns the number that a text begins with, as C's `strtoull` reads it: 0 if there is none, the largest if it is
/// larger, and with a minus what is missing to 2^64.
fn leading_number(text: &[u8]) -> u64 {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, text),
    };
    let mut digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    match number {
        Some(number) if is_negative => number.wrapping_neg(),
        number => number.unwrap_or(u64::MAX),
    }
}

/// Sizes of an object's attributes, as the steps so far have left them; as far as that had to be known.
#[derive(Debug, Default)]
pub(super) struct AttrSizes {
    /// Bytes of all attributes together, nothing subtracted that is replaced or removed: mostly that need not be known.
    at_most: Option<usize>,
    /// Clients' attributes by their stored names, and the sum.
    exact: Option<(BTreeMap<Vec<u8>, usize>, usize)>,
}

impl AttrSizes {
    /// Counts a step that is added.
    pub fn follow(&mut self, step: &Step) {
        if let (Some(at_most), Step::SetAttr { value, .. }) = (&mut self.at_most, step) {
            *at_most += value.len();
        }
        let Some((by_name, bytes)) = &mut self.exact else { return };
        let replaced = match step {
            Step::SetAttr { name, value, .. } if is_user_attr(name) => {
                *bytes += value.len();
                by_name.insert(name.clone(), value.len())
            }
            Step::RemoveAttr { name, .. } => by_name.remove(name),
            Step::Remove { .. } => {
                by_name.clear();
                Some(*bytes)
            }
            _ => None,
        };
        *bytes -= replaced.unwrap_or(0);
    }
}

fn is_user_attr(stored: &[u8]) -> bool {
    stored.first() == Some(&USER_ATTR_PREFIX)
}

/// Returns the client's name of a stored attribute; `None` if it is no client's.
fn user_name(stored: &[u8]) -> Option<Bytes> {
    match stored.split_first() {
        Some((&USER_ATTR_PREFIX, name)) => Some(own(name)),
        _ => None,
    }
}

impl Execution<'_> {
    pub(super) fn attr(&mut self, op: &Op) -> StepOutput {
        match op.code {
            OpCode::GETXATTR => {
                let (name, _) = op.xattr()?;
                let value = self.attr_before(&name)?.ok_or(Errno::ENODATA)?;
                self.answers.take(value.len() as u64)?;
                Ok((0, Rope::from(value)))
            }
            OpCode::GETXATTRS => {
                let before = self.attrs_before()?.into_iter().flat_map(Attrs::iter);
                let bytes = before.filter(|(name, _)| is_user_attr(name)).map(|(name, value)| name.len() + value.len());
                self.answers.take(bytes.sum::<usize>() as u64)?;
                let attrs = self.user_attrs_before()?;
                output(|w| w.put(&attrs))
            }
            OpCode::CMPXATTR => self.compare_attr(op),
            OpCode::SETXATTR => {
                let (name, value) = op.xattr()?;
                if name.len() > self.limits.attr_name_bytes {
                    return Err(Errno::ENAMETOOLONG.into());
                }
                if !self.attr_fits(&name, value.len()) {
                    return Err(Errno::EFBIG.into());
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

    /// Returns the attributes as they were before the operation: as in Ceph its own steps do not see what its steps do
    /// to them. An object that was removed and stays in name has none.
    ///
    /// Errors: ENOENT if there was nothing.
    fn attrs_before(&self) -> Result<Option<&Attrs>, Errno> {
        match &self.before {
            Some(stat) => Ok(Some(&stat.attrs)),
            None if self.was_whiteout() => Ok(None),
            None => Err(Errno::ENOENT),
        }
    }

    /// Returns a client's attribute before the operation. Errors: see [`Execution::attrs_before`].
    pub(super) fn attr_before(&self, name: &[u8]) -> Result<Option<Bytes>, Errno> {
        Ok(self.attrs_before()?.and_then(|attrs| attrs.get(&user_attr(name)).cloned()))
    }

    /// Returns all clients' attributes before the operation. Errors: see [`Execution::attrs_before`].
    pub(super) fn user_attrs_before(&self) -> Result<BTreeMap<Bytes, Bytes>, Errno> {
        let attrs = self.attrs_before()?.into_iter().flat_map(Attrs::iter);
        Ok(attrs.filter_map(|(name, value)| Some((user_name(name)?, value.clone()))).collect())
    }

    /// Returns true if the object's attributes stay within their limit with this one.
    fn attr_fits(&mut self, name: &[u8], value_bytes: usize) -> bool {
        let limit = self.limits.attrs_bytes;
        if self.attr_sizes.at_most.is_none() {
            let before = self.attrs_before().ok().flatten().into_iter().flat_map(Attrs::iter);
            let set =
                self.steps().iter().map(|step| if let Step::SetAttr { value, .. } = step { value.len() } else { 0 });
            self.attr_sizes.at_most = Some(before.map(|(_, value)| value.len()).sum::<usize>() + set.sum::<usize>());
        }
        if self.attr_sizes.at_most.is_some_and(|at_most| at_most + value_bytes <= limit) {
            return true;
        }
        if self.attr_sizes.exact.is_none() {
            let attrs = self.user_attrs();
            let by_name: BTreeMap<Vec<u8>, usize> =
                attrs.iter().map(|(name, value)| (user_attr(name), value.len())).collect();
            let bytes = by_name.values().sum();
            self.attr_sizes.exact = Some((by_name, bytes));
        }
        let (by_name, bytes) = self.attr_sizes.exact.as_ref().expect("just made");
        bytes - by_name.get(&user_attr(name)).copied().unwrap_or(0) + value_bytes <= limit
    }

    /// Returns all clients' attributes as the steps so far have left them.
    pub(super) fn user_attrs(&self) -> BTreeMap<Bytes, Bytes> {
        let mut attrs = self.user_attrs_before().unwrap_or_default();
        for step in self.steps() {
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
        let stored = self.attr_before(&name)?.unwrap_or_default();
        let comparison = Comparison::from_code(args.cmp_op.into()).ok_or(Errno::EINVAL)?;
        // The client's value stands on the left: "less" holds if it is less than what is stored.
        let order = match args.cmp_mode {
            XattrArgs::MODE_STRING => given.cmp(&stored),
            XattrArgs::MODE_U64 => {
                let given: [u8; 8] = given[..].try_into().map_err(|_| Errno::EINVAL)?;
                u64::from_le_bytes(given).cmp(&leading_number(&stored))
            }
            _ => return Err(Errno::EINVAL.into()),
        };
        if comparison.holds(order) { Ok((1, Rope::new())) } else { Err(Errno::ECANCELED.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        let cases =
            [("", 0), ("abc", 0), ("10", 10), (" \t12x3", 12), ("+7", 7), ("-1", u64::MAX), ("+-1", 0), ("0x1f", 0)];
        for (text, number) in cases {
            assert_eq!(leading_number(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(leading_number(b"18446744073709551615"), u64::MAX);
        assert_eq!(leading_number(b"18446744073709551617"), u64::MAX);
        assert_eq!(leading_number(b"\xff1"), 0);
    }
}
