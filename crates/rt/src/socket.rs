//! The slot of a socket: its operations in flight and the memory that the kernel uses for them.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Id of a socket of one reactor; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Pieces of one vectored send; the kernel's own bound is 1024.
const GATHER_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// No receive is armed, and the owner has not been informed.
    Idle,
    /// The owner has all received data and may continue.
    Ready,
    /// A multishot receive into provided buffers is armed.
    Multishot,
    /// The multishot receive is being cancelled; data may still arrive.
    Cancelling,
    /// A receive straight into `direct` is in flight.
    Direct,
}

pub(crate) struct Socket {
    /// The socket; closed when the slot is freed.
    pub fd: OwnedFd,
    /// Generation of the slot.
    pub generation: u32,
    /// Operations whose last completion has not arrived; the slot lives until then.
    pub operations: u32,
    /// The owner has closed the socket; it gets no events.
    pub closing: bool,
    /// The connection ends once the queue is sent.
    pub finishing: bool,
    /// The connection is established.
    pub connected: bool,
    /// State of receiving.
    pub receiving: Receiving,
    /// The owner wants no data for now.
    pub paused: bool,
    /// The owner's buffer while the kernel receives into it.
    pub direct: BytesMut,
    /// The send queue.
    pub sending: Box<Sending>,
    /// Address to connect to, which the kernel reads until the connection is established.
    pub connect_addr: Option<Box<SockAddr>>,
}

impl Socket {
    /// A slot without operations in flight.
    pub fn new(fd: OwnedFd, generation: u32, connected: bool) -> Self {
        Socket {
            fd,
            generation,
            operations: 0,
            closing: false,
            finishing: false,
            connected,
            receiving: Receiving::Ready,
            paused: false,
            direct: BytesMut::new(),
            sending: Box::new(Sending::new()),
            connect_addr: None,
        }
    }

    /// The descriptor for system calls.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// True if bytes are queued and no send is in flight.
    pub fn has_to_send(&self) -> bool {
        self.connected && !self.closing && !self.sending.in_flight && self.sending.queued_len() > 0
    }

    /// Sends as much of the queue as the kernel takes without waiting, unless a send is in flight.
    pub fn send_now(&mut self) {
        const FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        while !self.sending.in_flight && self.sending.queued_len() > 0 {
            let header = self.sending.prepare();
            // SAFETY: the header and all that it points to are ours and outlive the call.
            let result = unsafe { libc::sendmsg(self.fd.as_raw_fd(), header, FLAGS) };
            self.sending.sent(result.max(0) as usize);
            if result <= 0 {
                return;
            }
        }
    }

    /// Sets `TCP_NODELAY`.
    pub fn set_no_delay(&self) {
        // Without the option small replies wait for acknowledgements; a socket without it still works.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&self.fd, true);
    }
}

/// Queue length in bytes from which emptying the queue is reported.
pub(crate) const DRAINED_MIN: usize = 64 << 10;

/// The send queue and the vectored send in flight. Boxed: the kernel reads the header and the vector at their
/// addresses until the send completes.
pub(crate) struct Sending {
    queue: VecDeque<Bytes>,
    queued_len: usize,
    /// Maximum length since the queue was last empty, in bytes.
    queued_len_max: usize,
    /// A send is in flight.
    pub in_flight: bool,
    vector: [libc::iovec; GATHER_MAX],
    header: libc::msghdr,
}

impl Sending {
    fn new() -> Self {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all-zero is a valid msghdr: no name, no vector, no control data.
        let header = unsafe { MaybeUninit::zeroed().assume_init() };
        Sending {
            queue: VecDeque::new(),
            queued_len: 0,
            queued_len_max: 0,
            in_flight: false,
            vector: [empty; GATHER_MAX],
            header,
        }
    }

    /// Appends to the queue.
    pub fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued_len += bytes.len();
            self.queued_len_max = self.queued_len_max.max(self.queued_len);
            self.queue.push_back(bytes);
        }
    }

    /// True if the queue, empty now, was so long that its owner may have held back data.
    pub fn take_drained(&mut self) -> bool {
        self.queued_len == 0 && std::mem::take(&mut self.queued_len_max) >= DRAINED_MIN
    }

    /// Bytes in the queue.
    pub fn queued_len(&self) -> usize {
        self.queued_len
    }

    /// Points the header at the head of the queue; the pointer stays valid until `sent`.
    pub fn prepare(&mut self) -> *const libc::msghdr {
        let mut parts = 0;
        for (part, bytes) in self.vector.iter_mut().zip(&self.queue) {
            part.iov_base = bytes.as_ptr().cast_mut().cast();
            part.iov_len = bytes.len();
            parts += 1;
        }
        self.header.msg_iov = self.vector.as_mut_ptr();
        self.header.msg_iovlen = parts;
        self.in_flight = true;
        &self.header
    }

    /// Drops the first `length` bytes, which the kernel has taken.
    pub fn sent(&mut self, mut length: usize) {
        self.in_flight = false;
        self.queued_len -= length;
        while length > 0 {
            let first = self.queue.front_mut().expect("the kernel sends no more than was queued");
            if first.len() > length {
                return first.advance(length);
            }
            length -= first.len();
            self.queue.pop_front();
        }
    }
}

/// A socket address in the kernel's format.
pub(crate) struct SockAddr {
    /// Family, address and port.
    pub storage: libc::sockaddr_storage,
    /// Length of the valid part in bytes.
    pub length: libc::socklen_t,
}

impl SockAddr {
    /// Converts an address.
    pub fn new(addr: SocketAddr) -> Self {
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        let pointer = &raw mut storage;
        let length = match addr {
            SocketAddr::V4(v4) => {
                // SAFETY: sockaddr_storage is large and aligned enough for every sockaddr.
                let raw = unsafe { &mut *pointer.cast::<libc::sockaddr_in>() };
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let raw = unsafe { &mut *pointer.cast::<libc::sockaddr_in6>() };
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = v6.port().to_be();
                raw.sin6_flowinfo = v6.flowinfo();
                raw.sin6_addr.s6_addr = v6.ip().octets();
                raw.sin6_scope_id = v6.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
        };
        SockAddr { storage, length: length as libc::socklen_t }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_send_keeps_the_rest_in_order() {
        let mut sending = Sending::new();
        for part in [&b"hello "[..], b"", b"wide ", b"world"] {
            sending.push(Bytes::copy_from_slice(part));
        }
        sending.prepare();
        assert_eq!(sending.header.msg_iovlen, 3);
        sending.sent(8);
        assert_eq!(sending.queued_len(), 8);
        let rest: Vec<u8> = sending.queue.iter().flatten().copied().collect();
        assert_eq!(rest, b"de world");
    }
}
