//! Class `hello`: the example class, which client test suites call (`cls_hello`).

use crate::method::{Class, Flags, Method};
use crate::object::{Failure, ObjectContext, Result};
use bytes::Bytes;
use types::Errno;

const GREETING_INPUT_MAX: usize = 100;
const REPLAY_MAX: u64 = 1100;

pub(crate) const CLASS: Class = Class {
    name: "hello",
    default_allowed: false,
    methods: &[&[
        Method { name: "say_hello", flags: Flags::READ, function: say_hello },
        Method { name: "record_hello", flags: Flags::WRITE, function: record_hello },
        Method { name: "write_return_data", flags: Flags::WRITE, function: write_return_data },
        Method {
            name: "writes_dont_return_data",
            flags: Flags::WRITE,
            function: write_return_data,
        },
        Method {
            name: "write_too_much_return_data",
            flags: Flags::WRITE,
            function: write_too_much_return_data,
        },
        Method { name: "replay", flags: Flags::READ, function: replay },
        Method { name: "turn_it_to_11", flags: Flags::READ_WRITE, function: turn_it_to_11 },
        Method { name: "bad_reader", flags: Flags::WRITE, function: bad_reader },
        Method { name: "bad_writer", flags: Flags::READ, function: bad_writer },
    ]],
};

fn greeting(input: &[u8]) -> Result<Vec<u8>> {
    if input.len() > GREETING_INPUT_MAX {
        return Err(Errno::INVAL.into());
    }
    let whom = if input.is_empty() { b"world" } else { input };
    Ok([b"Hello, ", whom, b"!"].concat())
}

fn origin(object: &dyn ObjectContext) -> Bytes {
    let caller = object.caller();
    format!("{} {}", caller.request.name, caller.addr).into()
}

fn say_hello(_: &mut dyn ObjectContext, input: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    output.extend(greeting(input)?);
    Ok(0)
}

fn record_hello(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let content = greeting(input)?;
    match object.size() {
        Ok(_) => return Err(Errno::EXIST.into()),
        Err(Failure::Errno(_)) => {}
        Err(Failure::Missing) => return Err(Failure::Missing),
    }
    object.write_full(content.into())?;
    let origin = origin(object);
    object.set_xattr(b"said_by", origin)?;
    Ok(0)
}

fn write_return_data(
    object: &mut dyn ObjectContext,
    input: &Bytes,
    output: &mut Vec<u8>,
) -> Result<i32> {
    object.set_xattr(b"foo", Bytes::from_static(b"bar"))?;
    if !input.is_empty() {
        output.extend(b"too much input data!");
        return Err(Errno::INVAL.into());
    }
    output.extend(b"you might see this");
    Ok(42)
}

/// Returns more output than a write's reply may carry.
fn write_too_much_return_data(
    object: &mut dyn ObjectContext,
    _: &Bytes,
    output: &mut Vec<u8>,
) -> Result<i32> {
    object.set_xattr(b"foo", Bytes::from_static(b"bar"))?;
    output.extend(b"you should not see this because it is toooooo long. ".repeat(10));
    Ok(42)
}

fn replay(object: &mut dyn ObjectContext, _: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    output.extend(object.read(0, REPLAY_MAX)?);
    Ok(0)
}

fn turn_it_to_11(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    if !input.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let loud = object.read(0, REPLAY_MAX)?.to_ascii_uppercase();
    object.write_full(loud.into())?;
    let origin = origin(object);
    object.set_xattr(b"amplified_by", origin)?;
    Ok(0)
}

/// Reads although it is registered for writing only: the caller refuses.
fn bad_reader(object: &mut dyn ObjectContext, _: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    output.extend(object.read(0, 100)?);
    Ok(0)
}

/// Writes although it is registered for reading only: the caller refuses.
fn bad_writer(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    object.write_full(Bytes::copy_from_slice(input))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::test_object::TestObject;
    use types::Errno;

    #[test]
    fn hello_greets_records_and_amplifies() {
        let mut object = TestObject::existing();
        assert_eq!(object.call("hello", "say_hello", b"").unwrap(), b"Hello, world!");
        assert_eq!(object.call("hello", "say_hello", &[b'x'; 101]), Err(Errno::INVAL));
        assert_eq!(object.call("hello", "record_hello", b""), Err(Errno::EXIST));
        object.state.exists = false;
        object.call("hello", "record_hello", b"test").unwrap();
        object.call("hello", "turn_it_to_11", b"").unwrap();
        assert_eq!(object.state.data, b"HELLO, TEST!");
    }
}
