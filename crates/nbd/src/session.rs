//! One connection, from its greeting to its end.

use crate::input::Input;
use crate::negotiation::{self, Agreement, Next, OPTION_LEN_MAX};
use crate::protocol::{CommandError, OPTION_MAGIC, command, command_flags};
use crate::transmission::{
    Command, CommandId, EXTENTS_MAX, LENGTH_MAX, Outcome, REQUEST_LEN, Request,
};
use crate::{Export, Exports, Tls, reply};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// Length in bytes of an option header: magic, number, length.
const OPTION_HEAD_LEN: usize = 16;
/// Options per session before one selects an export; real clients need a handful. Beyond it the session ends.
const OPTIONS_MAX: u32 = 256;
/// A payload with at least this many missing bytes is received into its own buffer.
const DIRECT_MIN: usize = 32 << 10;

/// Bounds of one client's commands in flight; further ones wait in its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of commands.
    pub commands: usize,
    /// Data of commands and of their replies.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { commands: 256, bytes: 64 << 20 }
    }
}

/// Next step for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The pending output is sent in the clear; everything later, in both directions, is encrypted.
    StartTls,
    /// The client has selected this export.
    Opened(Export),
    /// The host executes the command and calls [`Session::complete`].
    Command(CommandId, Command),
    /// The pending output may still be sent.
    Closed(CloseReason),
}

/// Reason why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client sent `NBD_OPT_ABORT` or `NBD_CMD_DISC`.
    #[error("the client has taken its leave")]
    Left,
    /// `NBD_OPT_EXPORT_NAME` has no error reply, so the session ends.
    #[error("the client asked for an export that there is not")]
    NoExport,
    /// The client did not set the flag of the fixed newstyle negotiation.
    #[error("the client does not speak the fixed newstyle protocol")]
    OldProtocol,
    /// TLS is required and the session is in the clear.
    #[error("the client asked for an export without TLS")]
    Unencrypted,
    /// A magic number or a length is wrong; nothing behind it can be read.
    #[error("what the client sent is not the protocol")]
    NotTheProtocol,
    /// More than 256 options without an export selected.
    #[error("the client tried too many options")]
    TooManyOptions,
    /// A payload exceeds the bound of a command.
    #[error("the client wrote more at once than it may")]
    TooLong,
}

#[derive(Debug)]
enum Stage {
    /// The client's flags are expected.
    Flags,
    Options,
    /// Skips the rest of an option that is too long.
    SkippingOption {
        option: u32,
        left: u64,
    },
    Transmission,
    /// A write whose data is expected.
    Payload(Request),
    Closed,
}

/// A command that has not completed.
#[derive(Debug)]
struct Pending {
    cookie: u64,
    offset: u64,
    flags: u16,
    weight: usize,
}

/// See the crate's description.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    stage: Stage,
    input: Input,
    output: Vec<Bytes>,
    agreement: Agreement,
    tls: Tls,
    options: u32,
    export: Option<Export>,
    pending: BTreeMap<CommandId, Pending>,
    /// Sum of the weights of pending commands, in bytes.
    weight: usize,
    last_command: u64,
    closing: Option<CloseReason>,
}

impl Session {
    /// The server's side of a new connection; its greeting is pending output.
    pub fn new(limits: Limits, tls: Tls) -> Self {
        Session {
            limits,
            stage: Stage::Flags,
            input: Input::default(),
            output: vec![negotiation::greeting()],
            agreement: Agreement::default(),
            tls,
            options: 0,
            export: None,
            pending: BTreeMap::new(),
            weight: 0,
            last_command: 0,
            closing: None,
        }
    }

    /// The export that the client has selected; `None` before [`Event::Opened`].
    pub fn export(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// Sets a new size of the export; later commands are checked against it.
    pub fn set_size(&mut self, size: u64) {
        if let Some(export) = &mut self.export {
            export.size = size;
        }
    }

    /// Bytes from the client, after decryption. Follow with [`Session::poll_event`] until it returns
    /// `None`.
    pub fn handle_received(&mut self, bytes: Bytes) {
        self.input.push(bytes);
    }

    /// Missing bytes of a payload that is worth receiving into its own buffer.
    pub fn receive_hint(&self) -> Option<usize> {
        let Stage::Payload(request) = &self.stage else { return None };
        let missing = (request.length as usize).saturating_sub(self.input.len());
        (missing >= DIRECT_MIN && !self.is_choked()).then_some(missing)
    }

    /// The buffer for the bytes of the hint, if there was one.
    pub fn take_receive_buffer(&mut self) -> Option<BytesMut> {
        self.receive_hint()?;
        let Stage::Payload(request) = &self.stage else { return None };
        Some(self.input.drain_into_buffer(request.length as usize))
    }

    /// The buffer from [`Session::take_receive_buffer`], filled from the socket.
    pub fn handle_filled(&mut self, buffer: BytesMut) {
        self.input.push(buffer.freeze());
    }

    /// True while the bounds of commands in flight are reached, so that no input is parsed.
    pub fn is_choked(&self) -> bool {
        self.pending.len() >= self.limits.commands || self.weight >= self.limits.bytes
    }

    /// Commands that the host has got and not completed.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Appends the bytes to send to `pieces`, in order.
    pub fn poll_transmit(&mut self, pieces: &mut Vec<Bytes>) {
        pieces.append(&mut self.output);
    }

    /// The next step; `None` until more is received or a command completes. Names of exports are looked up
    /// in `exports`.
    pub fn poll_event(&mut self, exports: &dyn Exports) -> Option<Event> {
        loop {
            if let Some(reason) = self.closing.take() {
                self.stage = Stage::Closed;
                return Some(Event::Closed(reason));
            }
            if let Some(event) = self.advance(exports)? {
                return Some(event);
            }
        }
    }

    /// Parses the next item of the input; `None` if it is incomplete or the session is at its bounds.
    fn advance(&mut self, exports: &dyn Exports) -> Option<Option<Event>> {
        match self.stage {
            Stage::Closed => None,
            Stage::Flags => self.take_flags().map(|()| None),
            Stage::Options => self.take_option(exports),
            Stage::SkippingOption { option, left } => {
                self.skip_option(option, left);
                (self.input.len() > 0).then_some(None)
            }
            Stage::Transmission if self.is_choked() => None,
            Stage::Transmission => self.take_request(),
            Stage::Payload(request) => {
                let data = self.input.take(request.length as usize)?;
                self.stage = Stage::Transmission;
                Some(self.begin(request, data))
            }
        }
    }

    fn skip_option(&mut self, option: u32, left: u64) {
        let left = left - self.input.discard(left);
        self.stage = Stage::SkippingOption { option, left };
        if left == 0 {
            negotiation::refuse_length(option, &mut self.output);
            self.stage = Stage::Options;
        }
    }

    fn close(&mut self, reason: CloseReason) {
        self.closing = Some(reason);
    }

    fn take_flags(&mut self) -> Option<()> {
        let flags = self.input.peek::<4>()?;
        self.input.discard(4);
        match negotiation::agree(u32::from_be_bytes(flags)) {
            Some(agreement) => {
                self.agreement = agreement;
                self.stage = Stage::Options;
            }
            None => self.close(CloseReason::OldProtocol),
        }
        Some(())
    }

    /// Parses an option; `None` if it is incomplete.
    fn take_option(&mut self, exports: &dyn Exports) -> Option<Option<Event>> {
        let head: [u8; OPTION_HEAD_LEN] = self.input.peek()?;
        let (magic, rest) = head.split_at(8);
        let option = u32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
        let length = u32::from_be_bytes(rest[4..].try_into().expect("four bytes"));
        if magic != OPTION_MAGIC.to_be_bytes() {
            self.close(CloseReason::NotTheProtocol);
            return Some(None);
        }
        if length > OPTION_LEN_MAX {
            self.input.discard(OPTION_HEAD_LEN as u64);
            self.stage = Stage::SkippingOption { option, left: length.into() };
            return Some(None);
        }
        if self.input.len() < OPTION_HEAD_LEN + length as usize {
            return None;
        }
        self.input.discard(OPTION_HEAD_LEN as u64);
        let data = self.input.take(length as usize)?;
        self.options += 1;
        if self.options > OPTIONS_MAX {
            self.close(CloseReason::TooManyOptions);
            return Some(None);
        }
        let output = &mut self.output;
        let next = negotiation::secure(option, &data, self.tls, output).unwrap_or_else(|| {
            negotiation::handle(option, data, &mut self.agreement, exports, output)
        });
        Some(match next {
            Next::Option => None,
            Next::Transmission(export) => {
                self.export = Some(export);
                self.stage = Stage::Transmission;
                Some(Event::Opened(export))
            }
            Next::StartTls => self.start_tls(),
            Next::Close => {
                self.close(match (option, self.tls) {
                    (crate::protocol::option::ABORT, _) => CloseReason::Left,
                    (_, Tls::Required) => CloseReason::Unencrypted,
                    _ => CloseReason::NoExport,
                });
                None
            }
        })
    }

    /// Discards everything negotiated in the clear, and everything received before the reply: an attacker
    /// could have injected it to have it taken for encrypted input.
    fn start_tls(&mut self) -> Option<Event> {
        if self.input.len() > 0 {
            self.close(CloseReason::NotTheProtocol);
            return None;
        }
        let skips_padding = self.agreement.skips_padding;
        self.agreement = Agreement { skips_padding, ..Agreement::default() };
        self.tls = Tls::Established;
        Some(Event::StartTls)
    }

    /// Parses a request header; `None` if it is incomplete. Returns a command if no payload follows.
    fn take_request(&mut self) -> Option<Option<Event>> {
        let head: [u8; REQUEST_LEN] = self.input.peek()?;
        self.input.discard(REQUEST_LEN as u64);
        let Some(request) = Request::decode(&head) else {
            self.close(CloseReason::NotTheProtocol);
            return Some(None);
        };
        if request.command == command::DISCONNECT {
            self.close(CloseReason::Left);
            return Some(None);
        }
        if request.payload_len() > LENGTH_MAX {
            // Skipping the payload would cost as much as serving the request.
            self.close(CloseReason::TooLong);
            return Some(None);
        }
        if request.payload_len() > 0 {
            self.stage = Stage::Payload(request);
            return Some(None);
        }
        Some(self.begin(request, Bytes::new()))
    }

    /// The command of a request; `None` if the request was refused.
    fn begin(&mut self, request: Request, data: Bytes) -> Option<Event> {
        let Request { cookie, offset, flags, .. } = request;
        let export = self.export.as_ref()?;
        let has_status = self.agreement.allocation_of.is_some();
        let command = match request.command(data, export, has_status) {
            Ok(command) => command,
            Err(error) => {
                self.refuse(cookie, error);
                return None;
            }
        };
        let weight = command.weight();
        self.last_command += 1;
        let id = CommandId(self.last_command);
        self.pending.insert(id, Pending { cookie, offset, flags, weight });
        self.weight += weight;
        Some(Event::Command(id, command))
    }

    fn refuse(&mut self, cookie: u64, error: CommandError) {
        match self.agreement.has_structured_replies {
            true => reply::error(cookie, error, &mut self.output),
            false => reply::simple(cookie, Some(error), &mut self.output),
        }
    }

    /// Completes a command.
    pub fn complete(&mut self, id: CommandId, outcome: Result<Outcome, CommandError>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.weight -= pending.weight;
        let Pending { cookie, offset, flags, .. } = pending;
        let output = &mut self.output;
        match (outcome, self.agreement.has_structured_replies) {
            (Err(error), _) => self.refuse(cookie, error),
            (Ok(Outcome::Data(data)), false) => {
                reply::simple(cookie, None, output);
                reply::plain_data(data, output);
            }
            (Ok(Outcome::Data(data)), true) if flags & command_flags::DONT_FRAGMENT != 0 => {
                reply::whole(cookie, offset, data, output);
            }
            (Ok(Outcome::Data(data)), true) => reply::fragments(cookie, offset, data, output),
            (Ok(Outcome::Status(extents)), _) => {
                let most = if flags & command_flags::ONE_EXTENT != 0 { 1 } else { EXTENTS_MAX };
                reply::status(cookie, &extents[..most.min(extents.len())], output);
            }
            // The simple reply form is allowed for commands that read nothing.
            (Ok(Outcome::Done), _) => reply::simple(cookie, None, output),
        }
    }
}

#[cfg(test)]
mod tests;
