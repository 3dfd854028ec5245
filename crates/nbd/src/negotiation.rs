//! Option negotiation, until an option selects an export.

use crate::protocol::{
    ALLOCATION, ALLOCATION_ID, GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake, info,
    option, option_reply, transmission_flags as flags,
};
use crate::transmission::LENGTH_MAX;
use crate::{Export, Exports, Tls};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bound for the data of an option in bytes: a name and some queries. Longer ones are refused.
pub(crate) const OPTION_LEN_MAX: u32 = 64 << 10;
/// The protocol's bound for names and other strings, in bytes.
const TEXT_LEN_MAX: usize = 4096;
/// Zeros at the end of the oldest reply form, unless both sides can do without.
const PADDING: usize = 124;

/// Result of the negotiation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Agreement {
    /// `NBD_FLAG_C_NO_ZEROES`: the reply to EXPORT_NAME has no padding.
    pub skips_padding: bool,
    /// The client has negotiated structured replies.
    pub has_structured_replies: bool,
    /// The export for which block status was negotiated.
    pub allocation_of: Option<usize>,
}

/// Next step after an option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another option follows.
    Option,
    Transmission(Export),
    /// Encrypted bytes follow.
    StartTls,
    /// The client ends the session, or has sent something for which the protocol demands it.
    Close,
}

pub(crate) fn greeting() -> Bytes {
    let mut bytes = BytesMut::with_capacity(18);
    bytes.put_u64(GREETING_MAGIC);
    bytes.put_u64(OPTION_MAGIC);
    bytes.put_u16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    bytes.freeze()
}

/// Parses the client's flags; `None` if they contain unknown ones.
pub(crate) fn agree(client_flags: u32) -> Option<Agreement> {
    let (fixed, no_zeroes) =
        (u32::from(handshake::FIXED_NEWSTYLE), u32::from(handshake::NO_ZEROES));
    let is_known = client_flags & !(fixed | no_zeroes) == 0 && client_flags & fixed != 0;
    let skips_padding = client_flags & no_zeroes != 0;
    is_known.then_some(Agreement { skips_padding, ..Agreement::default() })
}

/// Writes option replies.
struct Replies<'a> {
    option: u32,
    output: &'a mut Vec<Bytes>,
}

impl Replies<'_> {
    fn reply(&mut self, kind: u32, data: &[u8]) {
        let mut bytes = BytesMut::with_capacity(20 + data.len());
        bytes.put_u64(OPTION_REPLY_MAGIC);
        bytes.put_u32(self.option);
        bytes.put_u32(kind);
        bytes.put_u32(data.len() as u32);
        bytes.put_slice(data);
        self.output.push(bytes.freeze());
    }

    fn acknowledge(&mut self) -> Next {
        self.reply(option_reply::ACK, &[]);
        Next::Option
    }

    /// Refuses an option with a text.
    fn refuse(&mut self, kind: u32, why: &str) -> Next {
        self.reply(kind, why.as_bytes());
        Next::Option
    }
}

/// Result of an option if TLS decides it; `None` otherwise.
pub(crate) fn secure(option: u32, data: &[u8], tls: Tls, output: &mut Vec<Bytes>) -> Option<Next> {
    let mut replies = Replies { option, output };
    Some(match (option, tls) {
        (option::STARTTLS, Tls::Unavailable) => replies.refuse(
            option_reply::POLICY,
            "this server has no certificate; connect through a Unix socket or a tunnel",
        ),
        (option::STARTTLS, Tls::Established) => {
            replies.refuse(option_reply::INVALID, "this connection is encrypted already")
        }
        (option::STARTTLS, _) if !data.is_empty() => {
            replies.refuse(option_reply::INVALID, "this option has no data")
        }
        (option::STARTTLS, _) => {
            replies.acknowledge();
            Next::StartTls
        }
        // EXPORT_NAME has no error reply.
        (option::EXPORT_NAME, Tls::Required) => Next::Close,
        (option::ABORT, _) => return None,
        (_, Tls::Required) => replies
            .refuse(option_reply::TLS_REQUIRED, "this server wants TLS first (NBD_OPT_STARTTLS)"),
        _ => return None,
    })
}

pub(crate) fn handle(
    option: u32,
    data: Bytes,
    agreement: &mut Agreement,
    exports: &dyn Exports,
    output: &mut Vec<Bytes>,
) -> Next {
    if option == option::EXPORT_NAME {
        return choose_by_name(&data, agreement, exports, output);
    }
    let mut replies = Replies { option, output };
    match option {
        option::ABORT => {
            replies.acknowledge();
            Next::Close
        }
        option::LIST if !data.is_empty() => {
            replies.refuse(option_reply::INVALID, "this option has no data")
        }
        option::LIST => list(exports, &mut replies),
        option::INFO | option::GO => choose(data, agreement, exports, &mut replies),
        option::STRUCTURED_REPLY if !data.is_empty() => {
            replies.refuse(option_reply::INVALID, "this option has no data")
        }
        option::STRUCTURED_REPLY => {
            agreement.has_structured_replies = true;
            replies.acknowledge()
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            contexts(data, agreement, exports, &mut replies)
        }
        _ => replies.refuse(option_reply::UNSUPPORTED, "this server does not know the option"),
    }
}

/// EXPORT_NAME, the oldest way to select an export, has no error reply.
fn choose_by_name(
    name: &Bytes,
    agreement: &mut Agreement,
    exports: &dyn Exports,
    output: &mut Vec<Bytes>,
) -> Next {
    let Some(export) = exports.find(name) else { return Next::Close };
    forget_other(agreement, export);
    let mut bytes = BytesMut::with_capacity(10 + PADDING);
    bytes.put_u64(export.size);
    bytes.put_u16(transmission_flags(export));
    if !agreement.skips_padding {
        bytes.put_bytes(0, PADDING);
    }
    output.push(bytes.freeze());
    Next::Transmission(export)
}

fn list(exports: &dyn Exports, replies: &mut Replies<'_>) -> Next {
    for name in exports.names() {
        let mut data = BytesMut::with_capacity(4 + name.len());
        data.put_u32(name.len() as u32);
        data.put_slice(&name);
        replies.reply(option_reply::SERVER, &data);
    }
    replies.acknowledge()
}

fn choose(
    mut data: Bytes,
    agreement: &mut Agreement,
    exports: &dyn Exports,
    replies: &mut Replies<'_>,
) -> Next {
    let Some((name, wanted)) = take_text(&mut data).zip(take_wanted(&mut data)) else {
        return replies.refuse(option_reply::INVALID, "the option's lengths do not fit its data");
    };
    let Some(export) = exports.find(&name) else {
        return replies
            .refuse(option_reply::UNKNOWN, "there is no such export; NBD_OPT_LIST names them");
    };
    let mut data = BytesMut::with_capacity(12);
    data.put_u16(info::EXPORT);
    data.put_u64(export.size);
    data.put_u16(transmission_flags(export));
    replies.reply(option_reply::INFO, &data);
    if wanted.contains(&info::NAME) {
        let mut data = BytesMut::with_capacity(2 + name.len());
        data.put_u16(info::NAME);
        data.put_slice(&name);
        replies.reply(option_reply::INFO, &data);
    }
    if wanted.contains(&info::BLOCK_SIZE) {
        let mut data = BytesMut::with_capacity(14);
        data.put_u16(info::BLOCK_SIZE);
        data.put_u32(1);
        data.put_u32(export.preferred_block);
        data.put_u32(LENGTH_MAX);
        replies.reply(option_reply::INFO, &data);
    }
    replies.acknowledge();
    if replies.option == option::INFO {
        return Next::Option;
    }
    forget_other(agreement, export);
    Next::Transmission(export)
}

/// Contexts are valid only for the export for which they were negotiated.
fn forget_other(agreement: &mut Agreement, export: Export) {
    agreement.allocation_of = agreement.allocation_of.filter(|number| *number == export.number);
}

fn take_wanted(data: &mut Bytes) -> Option<Vec<u16>> {
    if data.len() < 2 {
        return None;
    }
    let count = usize::from(data.get_u16());
    (data.len() == 2 * count).then(|| (0..count).map(|_| data.get_u16()).collect())
}

/// A string with a 32-bit length.
fn take_text(data: &mut Bytes) -> Option<Bytes> {
    if data.len() < 4 {
        return None;
    }
    let length = data.get_u32() as usize;
    (length <= TEXT_LEN_MAX && length <= data.len()).then(|| data.split_to(length))
}

fn contexts(
    mut data: Bytes,
    agreement: &mut Agreement,
    exports: &dyn Exports,
    replies: &mut Replies<'_>,
) -> Next {
    let lists = replies.option == option::LIST_META_CONTEXT;
    if !lists {
        // An earlier selection ends, whatever the result.
        agreement.allocation_of = None;
    }
    let Some((name, queries)) = take_text(&mut data).zip(take_queries(&mut data)) else {
        return replies.refuse(option_reply::INVALID, "the option's lengths do not fit its data");
    };
    if !agreement.has_structured_replies {
        return replies.refuse(option_reply::INVALID, "block status needs structured replies");
    }
    let Some(export) = exports.find(&name) else {
        return replies
            .refuse(option_reply::UNKNOWN, "there is no such export; NBD_OPT_LIST names them");
    };
    let asks = |query: &Bytes| query == ALLOCATION || lists && query == &b"base:"[..];
    if queries.iter().any(asks) || lists && queries.is_empty() {
        let mut data = BytesMut::with_capacity(4 + ALLOCATION.len());
        data.put_u32(if lists { 0 } else { ALLOCATION_ID });
        data.put_slice(ALLOCATION);
        replies.reply(option_reply::META_CONTEXT, &data);
        if !lists {
            agreement.allocation_of = Some(export.number);
        }
    }
    replies.acknowledge()
}

fn take_queries(data: &mut Bytes) -> Option<Vec<Bytes>> {
    if data.len() < 4 {
        return None;
    }
    let count = data.get_u32();
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(take_text(data)?);
    }
    data.is_empty().then_some(queries)
}

fn transmission_flags(export: Export) -> u16 {
    let common = flags::HAS_FLAGS
        | flags::FLUSH
        | flags::FUA
        | flags::DONT_FRAGMENT
        | flags::MULTI_CONN
        | flags::CACHE;
    match export.is_read_only {
        true => common | flags::READ_ONLY,
        false => common | flags::TRIM | flags::WRITE_ZEROES | flags::FAST_ZERO,
    }
}

/// Refuses an option that is too long.
pub(crate) fn refuse_length(option: u32, output: &mut Vec<Bytes>) {
    let mut replies = Replies { option, output };
    replies.refuse(option_reply::TOO_BIG, "the option has more data than this server takes");
}
