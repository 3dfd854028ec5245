//! Methods and classes: tables of names, flags and functions.

use crate::encoding::{decode_input, encode_output};
use crate::object::{ObjectContext, Result};
use bytes::Bytes;

/// Flags of a method, against which caps and operation ordering are checked (`CLS_METHOD_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// The method reads the object: it needs the capability to read (`CLS_METHOD_RD`).
    pub read: bool,
    /// The method changes the object: it needs the capability to write, and runs at the primary alone, in
    /// order with writes (`CLS_METHOD_WR`).
    pub write: bool,
}

impl Flags {
    /// Reads only.
    pub const READ: Flags = Flags { read: true, write: false };
    /// Changes without reading.
    pub const WRITE: Flags = Flags { read: false, write: true };
    /// Reads and changes.
    pub const READ_WRITE: Flags = Flags { read: true, write: true };
}

/// Appends its reply to the output, which reaches the caller even with an error, and returns a
/// result of zero or more.
pub type Function = fn(&mut dyn ObjectContext, &Bytes, &mut Vec<u8>) -> Result<i32>;

/// One method of a class.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// The name by which clients call it.
    pub name: &'static str,
    /// The rights that it needs.
    pub flags: Flags,
    /// The code.
    pub function: Function,
}

/// A set of methods under one name.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// The name by which clients call it, and capabilities name it.
    pub name: &'static str,
    /// Whether caps that do not name the class allow it by default (`osd_class_default_list`).
    pub default_allowed: bool,
    /// One table for each family of methods.
    pub methods: &'static [&'static [Method]],
}

/// A table of methods, each with its name, its flags, and a typed function.
macro_rules! methods {
    ($($name:literal: $flags:ident => $function:path,)*) => {
        &[$($crate::method::Method {
            name: $name,
            flags: $crate::method::Flags::$flags,
            function: |object, input, output| $crate::method::typed(object, input, output, $function),
        }),*]
    };
}
pub(crate) use methods;

/// Calls a function with decoded input, and encodes its output.
pub(crate) fn typed<I: codec::Decode, O: codec::Encode>(
    object: &mut dyn ObjectContext,
    input: &[u8],
    output: &mut Vec<u8>,
    function: impl FnOnce(&mut dyn ObjectContext, I) -> Result<O>,
) -> Result<i32> {
    let value = function(object, decode_input(input)?)?;
    encode_output(&value, output);
    Ok(0)
}
