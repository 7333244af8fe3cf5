//! Object classes: methods that clients call on an object. A method runs on the OSD of the object as one step of an
//! operation, and atomically with the operation's other steps.
//!
//! A method is a function of an [`Object`] and its input. Its reads see the object as it was before the operation; its
//! writes become part of the operation. A read that has to wait ends the method with [`Stop::Pending`], and the method
//! is run again from its beginning. Nothing is changed before the whole operation has succeeded, so methods are written
//! as if everything were in memory.
//!
//! Inputs, outputs, error numbers and stored values are Ceph's (16.2), checked against calls of a real Ceph's classes.
//! Calls of an unknown class or method are answered with "operation not supported".

mod cas;
mod cmpomap;
mod hello;
mod lock;
mod log;
mod method;
mod numops;
mod object;
mod queue;
mod rbd;
mod refcount;
#[cfg(test)]
mod test_object;
mod time_key;
mod timeindex;
mod two_phase_queue;
mod user;
mod version;

pub use method::{Called, Method};
pub use object::{Caller, Object, Output, Stat, Stop};

use types::Errno;

/// All classes, by name.
const CLASSES: [(&str, &[Method]); 13] = [
    ("2pc_queue", two_phase_queue::METHODS),
    ("cas", cas::METHODS),
    ("cmpomap", cmpomap::METHODS),
    ("hello", hello::METHODS),
    ("lock", lock::METHODS),
    ("log", log::METHODS),
    ("numops", numops::METHODS),
    ("queue", queue::METHODS),
    ("rbd", rbd::METHODS),
    ("refcount", refcount::METHODS),
    ("timeindex", timeindex::METHODS),
    ("user", user::METHODS),
    ("version", version::METHODS),
];

/// Classes of Ceph that Nacre lacks.
const ELSEWHERE: [&str; 7] = ["cephfs", "fifo", "journal", "lua", "otp", "rgw", "rgw_gc"];

/// The method `method` of `class`.
///
/// Errors: EOPNOTSUPP if there is none, EPERM if neither Nacre nor Ceph has the class.
pub fn find(class: &[u8], method: &[u8]) -> Result<&'static Method, Errno> {
    let Some((_, methods)) = CLASSES.iter().find(|(name, _)| name.as_bytes() == class) else {
        let is_known = ELSEWHERE.iter().any(|name| name.as_bytes() == class);
        return Err(if is_known { Errno::EOPNOTSUPP } else { Errno::EPERM });
    };
    methods.iter().find(|m| m.name.as_bytes() == method).ok_or(Errno::EOPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::TestObject;
    use proptest::prelude::*;

    #[test]
    fn names_are_unique() {
        for (class, methods) in CLASSES {
            let mut names: Vec<&str> = methods.iter().map(|m| m.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{class}");
        }
        assert_eq!(find(b"lock", b"nothing").err(), Some(Errno::EOPNOTSUPP));
        assert_eq!(find(b"rgw", b"anything").err(), Some(Errno::EOPNOTSUPP));
        assert_eq!(find(b"nothing", b"at_all").err(), Some(Errno::EPERM));
    }

    proptest! {
        /// Any input on any stored object is answered without a panic.
        #[test]
        fn any_input_is_answered(input: Vec<u8>, stored: Vec<u8>, exists: bool) {
            for (class, methods) in CLASSES {
                for method in methods {
                    let mut object = TestObject { exists, data: stored.clone(), ..TestObject::default() };
                    let snapshot = "snapshot_0000000000000001";
                    let values = ["size", "features", "order", "snap_seq", "parent", snapshot, "name_", "id_"];
                    object.omap.extend(values.map(|key| (bytes::Bytes::from(key), stored.clone().into())));
                    object.omap_header = stored.clone().into();
                    object.call(class, method.name, &input);
                }
            }
        }
    }
}
