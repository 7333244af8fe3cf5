//! Class `hello`: Ceph's example, with which client libraries test calls.

use crate::method::Method;
use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::Errno;
use wire::Reader;

pub(crate) const METHODS: &[Method] = &[
    Method::read("say_hello", say_hello),
    Method::blind_write("record_hello", record_hello),
    Method::blind_write("write_return_data", write_return_data),
    Method::blind_write("writes_dont_return_data", write_return_data),
    Method::blind_write("write_too_much_return_data", write_too_much_return_data),
    Method::read("replay", replay),
    Method::update("turn_it_to_11", turn_it_to_11),
    Method::blind_write("bad_reader", |object, _| Ok(Output { value: 0, data: object.read(0, 100)? })),
    Method::read("bad_writer", |object, input| {
        object.write_full(Bytes::copy_from_slice(input.peek()))?;
        Ok(Output::none())
    }),
];

const NAME_BYTES_MAX: usize = 100;
const HELLO_BYTES_MAX: u64 = 1100;

fn greeting(name: &[u8]) -> Result<Bytes, Stop> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::EINVAL.into());
    }
    let name = if name.is_empty() { b"world" } else { name };
    Ok([b"Hello, ", name, b"!"].concat().into())
}

fn say_hello(_: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    Ok(Output { value: 0, data: greeting(input.peek())? })
}

/// The caller in Ceph's format: name and address.
fn origin(object: &dyn Object) -> Bytes {
    let caller = object.caller();
    format!("{} {}", caller.name, caller.addr.legacy_str()).into()
}

fn record_hello(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let greeting = greeting(input.peek())?;
    if object.exists()? {
        return Err(Errno::EEXIST.into());
    }
    object.write_full(greeting)?;
    let said_by = origin(object);
    object.set_attr("said_by", said_by)?;
    Ok(Output::none())
}

fn write_return_data(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    object.set_attr("foo", Bytes::from_static(b"bar"))?;
    if !input.is_empty() {
        return Err(Stop::Failed { errno: Errno::EINVAL, output: Bytes::from_static(b"too much input data!") });
    }
    Ok(Output { value: 42, data: Bytes::from_static(b"you might see this") })
}

fn write_too_much_return_data(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    object.set_attr("foo", Bytes::from_static(b"bar"))?;
    if !input.is_empty() {
        return Err(Stop::Failed { errno: Errno::EINVAL, output: Bytes::from_static(b"too much input data!") });
    }
    Ok(Output { value: 42, data: "you should not see this because it is toooooo long".repeat(8).into() })
}

fn replay(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    Ok(Output { value: 0, data: object.read(0, HELLO_BYTES_MAX)? })
}

fn turn_it_to_11(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    if !input.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let loud = object.read(0, HELLO_BYTES_MAX)?.to_ascii_uppercase();
    object.write_full(loud.into())?;
    let amplified_by = origin(object);
    object.set_attr("amplified_by", amplified_by)?;
    Ok(Output::none())
}
