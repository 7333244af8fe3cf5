//! Methods of a class, and their calls.

use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::Errno;
use wire::Reader;

/// Code of a method.
pub(crate) type Run = fn(&mut dyn Object, &mut Reader<'_>) -> Result<Output, Stop>;

/// A method that clients can call.
#[derive(Debug)]
pub struct Method {
    pub name: &'static str,
    /// The method may read the object.
    pub reads: bool,
    /// The method may change the object: its caller must ask for a write.
    pub writes: bool,
    run: Run,
}

/// The end of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Called {
    /// The method has ended, with the value and the output that the client gets. A negative value is an error: nothing
    /// is changed then, but there may be output.
    Ended { value: i32, output: Bytes },
    /// A read has to wait. The method is called again after it.
    Pending,
}

impl Method {
    /// A method that reads the object.
    pub(crate) const fn read(name: &'static str, run: Run) -> Method {
        Method { name, reads: true, writes: false, run }
    }

    /// A method that changes the object without reading it.
    pub(crate) const fn blind_write(name: &'static str, run: Run) -> Method {
        Method { name, reads: false, writes: true, run }
    }

    /// A method that reads the object and changes it.
    pub(crate) const fn update(name: &'static str, run: Run) -> Method {
        Method { name, reads: true, writes: true, run }
    }

    /// Runs the method. A method that reads or writes without being declared to do so gives EIO.
    pub fn call(&self, object: &mut dyn Object, input: &[u8]) -> Called {
        let mut watched = Watched { object, reads: false, writes: false };
        let result = (self.run)(&mut watched, &mut Reader::new(input));
        let undeclared = (watched.reads && !self.reads) || (watched.writes && !self.writes);
        match result {
            Err(Stop::Pending) => Called::Pending,
            _ if undeclared => Called::Ended { value: Errno::EIO.as_result(), output: Bytes::new() },
            Ok(Output { value, data }) => Called::Ended { value, output: data },
            Err(Stop::Failed { errno, output }) => Called::Ended { value: errno.as_result(), output },
        }
    }
}

/// Notes if a method reads or writes an object.
struct Watched<'a> {
    object: &'a mut dyn Object,
    reads: bool,
    writes: bool,
}

macro_rules! watched {
    ($($field:ident: {$(fn $name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*})*) => {
        impl Object for Watched<'_> {
            fn caller(&self) -> crate::object::Caller {
                self.object.caller()
            }
            fn now(&self) -> types::Utime {
                self.object.now()
            }
            fn update_id(&self) -> String {
                self.object.update_id()
            }
            fn random(&mut self) -> u64 {
                self.object.random()
            }
            fn snap_seq(&self) -> u64 {
                self.object.snap_seq()
            }
            fn stat(&mut self) -> Result<Option<crate::object::Stat>, Stop> {
                self.object.stat()
            }
            $($(fn $name(&mut self, $($arg: $ty),*) -> $result {
                self.$field = true;
                self.object.$name($($arg),*)
            })*)*
        }
    };
}

watched! {
    reads: {
        fn read(offset: u64, len: u64) -> Result<Bytes, Stop>;
        fn attr(name: &str) -> Result<Option<Bytes>, Stop>;
        fn attrs() -> Result<std::collections::BTreeMap<Bytes, Bytes>, Stop>;
        fn omap_header() -> Result<Bytes, Stop>;
        fn omap_get(key: &[u8]) -> Result<Option<Bytes>, Stop>;
        fn omap_list(after: &[u8], prefix: &[u8], max: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop>;
    }
    writes: {
        fn create(exclusive: bool) -> Result<(), Stop>;
        fn remove() -> Result<(), Stop>;
        fn write(offset: u64, data: Bytes) -> Result<(), Stop>;
        fn write_full(data: Bytes) -> Result<(), Stop>;
        fn truncate(size: u64) -> Result<(), Stop>;
        fn zero(offset: u64, len: u64) -> Result<(), Stop>;
        fn set_attr(name: &str, value: Bytes) -> Result<(), Stop>;
        fn remove_attr(name: &str) -> Result<(), Stop>;
        fn omap_set(entries: Vec<(Bytes, Bytes)>) -> Result<(), Stop>;
        fn omap_remove(keys: Vec<Bytes>) -> Result<(), Stop>;
        fn omap_remove_range(from: Bytes, to: Bytes) -> Result<(), Stop>;
        fn omap_set_header(header: Bytes) -> Result<(), Stop>;
    }
}
