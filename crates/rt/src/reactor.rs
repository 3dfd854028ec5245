//! The loop: submits requests, waits, turns completions into events.

use crate::buffers::{GROUP, ProvidedBuffers};
use crate::disk::{DiskFile, DiskRequest, DiskResult, Disks, FileId, Progress};
use crate::mailbox::Waker;
use crate::ring::{GENERATION_MASK, Operation, UserData, build};
use crate::socket::{DRAINED_MIN, Receiving, SockAddr, Socket, SocketId};
use bytes::{Bytes, BytesMut};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Pause of accepting after an accept failed; the usual cause, a lack of descriptors, does not end at once.
static ACCEPT_PAUSE: Timespec = Timespec::new().nsec(100_000_000);
/// Time that the drop of a reactor waits for operations that cannot be cancelled.
const CANCEL_TIME_MAX: Timespec = Timespec::new().sec(1);

/// Sizes of a reactor.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Operations that can be submitted in one turn before an extra system call is needed.
    pub ring_entries: u32,
    /// Provided receive buffers of 64 KiB each; a power of two.
    pub receive_buffers: u16,
}

impl Default for Config {
    fn default() -> Self {
        Config { ring_entries: 1024, receive_buffers: 32 }
    }
}

/// Id of a listening socket of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u32);

/// An event.
#[derive(Debug)]
pub enum Event {
    /// A peer has connected to a listener.
    Accepted {
        /// The listener.
        listener: ListenerId,
        /// The new connection.
        socket: SocketId,
        /// `None` for Unix sockets.
        peer: Option<SocketAddr>,
    },
    /// A connection that this side began is established.
    Connected {
        /// The connection.
        socket: SocketId,
    },
    /// Bytes have arrived, in a buffer that the kernel picked.
    Received {
        /// The connection.
        socket: SocketId,
        /// The bytes, in order.
        bytes: Bytes,
    },
    /// Result of [`Reactor::receive_into`]: the buffer with the received bytes appended.
    Filled {
        /// The connection.
        socket: SocketId,
        /// The buffer that the owner gave.
        buffer: BytesMut,
    },
    /// No receive is armed and all received data was delivered: the owner continues with [`Reactor::receive`]
    /// or [`Reactor::receive_into`].
    ReceiveIdle {
        /// The connection.
        socket: SocketId,
    },
    /// The send queue is empty, after it held 64 KiB or more.
    Drained {
        /// The connection.
        socket: SocketId,
    },
    /// The connection ended or could not be established; the id is dead.
    Closed {
        /// The connection.
        socket: SocketId,
        /// The reason; `None` if the peer ended the connection in order.
        error: Option<io::Error>,
    },
    /// A waker or a mailbox of this reactor was used.
    Woken,
    /// Result of [`Reactor::submit_disk`].
    DiskDone {
        /// The caller's number of the request.
        token: u64,
        /// The outcome.
        result: DiskResult,
    },
}

struct Listener {
    socket: OwnedFd,
}

/// The ring of one thread, with its sockets, files, timer and mailboxes.
pub struct Reactor {
    // Dropped before the memory that the kernel may still use.
    ring: IoUring,
    buffers: ProvidedBuffers,
    sockets: Vec<Option<Socket>>,
    free_slots: Vec<u32>,
    next_generation: u32,
    listeners: Vec<Listener>,
    disks: Disks,
    waker: Waker,
    wake_value: Box<u64>,
    /// Sockets whose queues are sent when the turn ends.
    to_flush: Vec<SocketId>,
    events: VecDeque<Event>,
}

impl Reactor {
    /// A ring for this thread, without sockets and files. Fails if the kernel refuses the ring or its
    /// buffers.
    pub fn new(config: Config) -> io::Result<Self> {
        let ring = build(config.ring_entries)?;
        let buffers = ProvidedBuffers::register(&ring.submitter(), config.receive_buffers)?;
        let disks = Disks::register(&ring.submitter())?;
        let mut this = Reactor {
            ring,
            buffers,
            sockets: Vec::new(),
            free_slots: Vec::new(),
            next_generation: 1,
            listeners: Vec::new(),
            disks,
            waker: Waker::new()?,
            wake_value: Box::new(0),
            to_flush: Vec::new(),
            events: VecDeque::new(),
        };
        this.arm_waker();
        Ok(this)
    }

    /// A handle that wakes this reactor from other threads. `wake` causes [`Event::Woken`]; messages do not,
    /// as mailboxes are read after each turn.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Listens; port 0 lets the kernel choose. Returns the actual address.
    pub fn listen(&mut self, addr: SocketAddr) -> io::Result<(ListenerId, SocketAddr)> {
        let socket = TcpListener::bind(addr)?;
        let local = socket.local_addr()?;
        Ok((self.add_listener(socket.into()), local))
    }

    /// Listens at a path, which must not exist.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<ListenerId> {
        let socket = UnixListener::bind(path)?;
        Ok(self.add_listener(socket.into()))
    }

    fn add_listener(&mut self, socket: OwnedFd) -> ListenerId {
        let id = ListenerId(self.listeners.len() as u32);
        self.listeners.push(Listener { socket });
        self.arm_accept(id);
        id
    }

    /// Starts to connect; `Connected` or `Closed` follows.
    pub fn connect(&mut self, addr: SocketAddr) -> io::Result<SocketId> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let id = self.insert(fd, false);
        let socket = self.socket_mut(id).expect("just inserted");
        let sockaddr = Box::new(SockAddr::new(addr));
        let (pointer, length) = ((&raw const sockaddr.storage).cast(), sockaddr.length);
        socket.connect_addr = Some(sockaddr);
        let fd = socket.raw_fd();
        self.submit_for(
            id,
            Operation::Connect,
            opcode::Connect::new(Fd(fd), pointer, length).build(),
        );
        Ok(id)
    }

    /// Queues bytes, which are sent together when the turn ends. Ignored for dead ids.
    pub fn send(&mut self, id: SocketId, bytes: Bytes) {
        if let Some(socket) = self.socket_mut(id) {
            socket.sending.push(bytes);
        }
    }

    /// Sends the queue when the turn ends; to be called once per socket and turn.
    pub fn flush(&mut self, id: SocketId) {
        if self.socket(id).is_some_and(Socket::has_to_send) {
            self.to_flush.push(id);
        }
    }

    fn flush_all(&mut self) {
        let mut ids = std::mem::take(&mut self.to_flush);
        // A send through the ring completes at once and would cause a turn of its own; with many sockets the
        // ring saves system calls.
        if let [id] = ids[..]
            && let Some(socket) = self.socket_mut(id)
            && socket.has_to_send()
            && socket.sending.queued_len() < DRAINED_MIN
        {
            socket.send_now();
        }
        ids.drain(..).for_each(|id| self.submit_send(id));
        self.to_flush = ids;
    }

    fn submit_send(&mut self, id: SocketId) {
        let Some(socket) = self.socket_mut(id) else { return };
        if !socket.has_to_send() {
            return;
        }
        let header = socket.sending.prepare();
        let fd = Fd(socket.raw_fd());
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        self.submit_for(id, Operation::Send, opcode::SendMsg::new(fd, header).flags(flags).build());
    }

    /// Bytes in the send queue.
    pub fn send_queue_len(&self, id: SocketId) -> usize {
        self.socket(id).map_or(0, |socket| socket.sending.queued_len())
    }

    /// Closes the connection once the queued bytes are sent; [`Event::Closed`] follows. A peer that does not
    /// read keeps it open.
    pub fn finish(&mut self, id: SocketId) {
        let Some(socket) = self.socket_mut(id) else { return };
        if socket.closing {
            return;
        }
        socket.finishing = true;
        if socket.has_to_send() {
            socket.send_now();
        }
        match socket.sending.queued_len() {
            0 => self.fail(id, None),
            _ => self.flush(id),
        }
    }

    /// Closes the connection; no events follow. Queued bytes are sent as far as the kernel takes them at
    /// once.
    pub fn close(&mut self, id: SocketId) {
        let Some(socket) = self.socket_mut(id) else { return };
        if socket.closing {
            return;
        }
        socket.closing = true;
        if socket.connected {
            socket.send_now();
        }
        let (connected, receiving) = (socket.connected, socket.receiving);
        // Ends a pending receive and send; fails harmlessly on a socket that never connected.
        let _ = rustix::net::shutdown(&socket.fd, rustix::net::Shutdown::Both);
        if !connected {
            self.cancel(id, Operation::Connect);
        } else if receiving == Receiving::Multishot {
            self.cancel(id, Operation::Receive);
        }
        self.release_if_done(id);
    }

    /// Stops or resumes receiving. Some data may still arrive after a pause.
    pub fn pause(&mut self, id: SocketId, paused: bool) {
        let Some(socket) = self.socket_mut(id) else { return };
        socket.paused = paused;
        match (paused, socket.receiving) {
            (true, Receiving::Multishot) => self.cancel_receive(id),
            (false, Receiving::Ready) => self.arm_receive(id),
            _ => {}
        }
    }

    /// Stops receiving into provided buffers; `ReceiveIdle` follows the data still on its way.
    pub fn stop_receiving(&mut self, id: SocketId) {
        if self.socket(id).is_some_and(|socket| socket.receiving == Receiving::Multishot) {
            self.cancel_receive(id);
        }
    }

    /// Answers `ReceiveIdle`: receives any data into provided buffers.
    pub fn receive(&mut self, id: SocketId) {
        self.arm_receive(id);
    }

    /// Answers `ReceiveIdle`: appends the next `length` bytes to `buffer`, straight from the kernel. `Filled`
    /// follows, complete unless the connection ended.
    pub fn receive_into(&mut self, id: SocketId, mut buffer: BytesMut, length: usize) {
        let Some(socket) = self.socket_mut(id) else { return };
        if socket.closing || socket.receiving != Receiving::Ready {
            return;
        }
        buffer.reserve(length);
        let length = length.min(u32::MAX as usize) as u32;
        socket.receiving = Receiving::Direct;
        socket.direct = buffer;
        let pointer = socket.direct.spare_capacity_mut().as_mut_ptr().cast();
        let entry = opcode::Recv::new(Fd(socket.raw_fd()), pointer, length);
        let entry = entry.flags(libc::MSG_WAITALL).build();
        self.submit_for(id, Operation::ReceiveDirect, entry);
    }

    /// Registers a file.
    pub fn add_file(&mut self, file: DiskFile) -> io::Result<FileId> {
        self.disks.add(&self.ring.submitter(), file)
    }

    /// An open file.
    pub fn file(&self, id: FileId) -> &DiskFile {
        self.disks.file(id)
    }

    /// Begins an operation on a file; `DiskDone` with the same token follows. Concurrent operations are not
    /// ordered.
    pub fn submit_disk(&mut self, file: FileId, token: u64, request: DiskRequest) {
        let (slot, entry) = self.disks.begin(file, token, request);
        self.push_disk(slot, entry);
    }

    /// Submits, waits for at least one completion or `timeout`, and collects events.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let wait = if self.events.is_empty() { timeout } else { Some(Duration::ZERO) };
        let sleeps = wait != Some(Duration::ZERO) && self.waker.may_sleep();
        self.submit_and_wait(if sleeps { wait } else { Some(Duration::ZERO) })?;
        if self.waker.awake() {
            self.events.push_back(Event::Woken);
        }
        loop {
            let Some(entry) = self.ring.completion().next() else { return Ok(()) };
            self.complete(&entry);
        }
    }

    /// The next event; `None` if all were taken. [`Reactor::turn`] collects more.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::ReceiveIdle { socket } = event
            && let Some(socket) = self.socket_mut(socket)
        {
            socket.receiving = Receiving::Ready;
        }
        Some(event)
    }

    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.flush_all();
        let result = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(Duration::ZERO) => self.submit_without_wait(),
            Some(timeout) => {
                let timespec = Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos());
                let args = SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // A timeout; a signal; or completions must be reaped first, which comes next.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Submits without waiting: a zero timeout would arm a timer and sleep all the same.
    fn submit_without_wait(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: no argument is passed; what is queued upholds what `push` says.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, flags, None) }
    }

    fn complete(&mut self, entry: &cqueue::Entry) {
        let data = UserData::unpack(entry.user_data());
        let more = cqueue::more(entry.flags());
        match data.operation {
            Operation::Wake => self.arm_waker(),
            Operation::Accept => self.accepted(ListenerId(data.slot), entry.result(), more),
            Operation::AcceptAgain => self.arm_accept(ListenerId(data.slot)),
            Operation::Disk => self.disk_done(data.slot, entry.result()),
            Operation::Cancel => {}
            operation => self.socket_done(data, operation, entry, more),
        }
    }

    fn socket_done(
        &mut self,
        data: UserData,
        operation: Operation,
        entry: &cqueue::Entry,
        more: bool,
    ) {
        let id = SocketId { slot: data.slot, generation: data.generation };
        let buffer = cqueue::buffer_select(entry.flags());
        let Some(socket) = self.socket_mut(id) else {
            unreachable!("a slot outlives its operations");
        };
        if !more {
            socket.operations -= 1;
        }
        let closing = socket.closing;
        match operation {
            Operation::Connect => self.connect_done(id, entry.result()),
            Operation::Receive => self.receive_done(id, entry.result(), buffer, more),
            Operation::ReceiveDirect => self.direct_done(id, entry.result()),
            Operation::Send => self.send_done(id, entry.result()),
            _ => unreachable!("{operation:?} has no socket"),
        }
        if closing {
            self.release_if_done(id);
        }
    }

    fn accepted(&mut self, listener: ListenerId, result: i32, more: bool) {
        if result >= 0 {
            // SAFETY: the kernel has just returned this descriptor; it has no other owner.
            let fd = unsafe { OwnedFd::from_raw_fd(result) };
            if let Ok(peer) = peer_of(&fd) {
                let id = self.insert(fd, true);
                self.socket(id).expect("just inserted").set_no_delay();
                self.events.push_back(Event::Accepted { listener, socket: id, peer });
                self.arm_receive(id);
            }
        } else {
            tracing::warn!(error = %io::Error::from_raw_os_error(-result), "accept failed");
        }
        match (result, more) {
            (_, true) => {}
            (0.., false) => self.arm_accept(listener),
            (_, false) => self.accept_later(listener),
        }
    }

    fn accept_later(&mut self, listener: ListenerId) {
        let operation = Operation::AcceptAgain;
        let data = UserData { operation, generation: 0, slot: listener.0 };
        let entry = opcode::Timeout::new(&raw const ACCEPT_PAUSE).build();
        self.push(entry.user_data(data.pack()));
    }

    fn connect_done(&mut self, id: SocketId, result: i32) {
        let socket = self.socket_mut(id).expect("checked by the caller");
        socket.connect_addr = None;
        if socket.closing {
            return;
        }
        if result < 0 {
            return self.fail(id, Some(io::Error::from_raw_os_error(-result)));
        }
        socket.connected = true;
        socket.set_no_delay();
        self.events.push_back(Event::Connected { socket: id });
        self.arm_receive(id);
    }

    fn receive_done(&mut self, id: SocketId, result: i32, buffer: Option<u16>, more: bool) {
        let socket = self.socket_mut(id).expect("checked by the caller");
        let closing = socket.closing;
        if !more {
            socket.receiving = Receiving::Idle;
        }
        match (result, buffer) {
            (length @ 1.., Some(buffer)) if !closing => {
                let bytes = self.buffers.take(buffer, length as usize);
                self.events.push_back(Event::Received { socket: id, bytes });
            }
            (_, Some(buffer)) => self.buffers.put_back(buffer),
            _ => {}
        }
        if closing || more {
            return;
        }
        match -result {
            0 => self.fail(id, None),
            // ENOBUFS: all buffers are filled; they are returned as this turn's events are handled.
            errno if errno > 0 && !matches!(errno, libc::ECANCELED | libc::ENOBUFS) => {
                self.fail(id, Some(io::Error::from_raw_os_error(errno)));
            }
            _ => self.events.push_back(Event::ReceiveIdle { socket: id }),
        }
    }

    fn direct_done(&mut self, id: SocketId, result: i32) {
        let socket = self.socket_mut(id).expect("checked by the caller");
        socket.receiving = Receiving::Idle;
        let mut buffer = std::mem::take(&mut socket.direct);
        if socket.closing {
            return;
        }
        if result <= 0 {
            let error = (result < 0).then(|| io::Error::from_raw_os_error(-result));
            return self.fail(id, error);
        }
        let length = buffer.len() + result as usize;
        assert!(length <= buffer.capacity(), "the kernel fills at most what it was given");
        // SAFETY: the kernel wrote `result` bytes at the start of the buffer's spare capacity.
        unsafe { buffer.set_len(length) };
        self.events.push_back(Event::Filled { socket: id, buffer });
        self.events.push_back(Event::ReceiveIdle { socket: id });
    }

    fn send_done(&mut self, id: SocketId, result: i32) {
        let socket = self.socket_mut(id).expect("checked by the caller");
        if result < 0 {
            socket.sending.in_flight = false;
            if !socket.closing {
                self.fail(id, Some(io::Error::from_raw_os_error(-result)));
            }
            return;
        }
        socket.sending.sent(result as usize);
        if socket.closing {
            return;
        }
        if socket.finishing && socket.sending.queued_len() == 0 {
            return self.fail(id, None);
        }
        if socket.sending.take_drained() {
            self.events.push_back(Event::Drained { socket: id });
        } else {
            self.submit_send(id);
        }
    }

    /// The connection was ended by the peer or by an error.
    fn fail(&mut self, id: SocketId, error: Option<io::Error>) {
        self.events.push_back(Event::Closed { socket: id, error });
        self.close(id);
    }

    fn disk_done(&mut self, slot: u32, result: i32) {
        match self.disks.complete(slot, result) {
            Progress::More(entry) => self.push_disk(slot, entry),
            Progress::Done { token, result } => {
                self.events.push_back(Event::DiskDone { token, result });
            }
        }
    }

    fn arm_waker(&mut self) {
        let data = UserData { operation: Operation::Wake, generation: 0, slot: 0 };
        let pointer = (&raw mut *self.wake_value).cast::<u8>();
        let entry = opcode::Read::new(Fd(self.waker.raw_fd()), pointer, 8).build();
        self.push(entry.user_data(data.pack()));
    }

    fn arm_accept(&mut self, listener: ListenerId) {
        let data = UserData { operation: Operation::Accept, generation: 0, slot: listener.0 };
        let fd = Fd(self.listeners[listener.0 as usize].socket.as_raw_fd());
        let entry = opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry.user_data(data.pack()));
    }

    fn arm_receive(&mut self, id: SocketId) {
        let Some(socket) = self.socket_mut(id) else { return };
        if socket.closing || socket.paused || socket.receiving != Receiving::Ready {
            return;
        }
        socket.receiving = Receiving::Multishot;
        let entry = opcode::RecvMulti::new(Fd(socket.raw_fd()), GROUP).build();
        self.submit_for(id, Operation::Receive, entry);
    }

    fn cancel_receive(&mut self, id: SocketId) {
        if let Some(socket) = self.socket_mut(id) {
            socket.receiving = Receiving::Cancelling;
            self.cancel(id, Operation::Receive);
        }
    }

    fn cancel(&mut self, id: SocketId, operation: Operation) {
        let target = UserData { operation, generation: id.generation, slot: id.slot }.pack();
        let data = UserData { operation: Operation::Cancel, generation: 0, slot: 0 };
        self.push(opcode::AsyncCancel::new(target).build().user_data(data.pack()));
    }

    fn submit_for(&mut self, id: SocketId, operation: Operation, entry: squeue::Entry) {
        self.socket_mut(id).expect("checked by the caller").operations += 1;
        let data = UserData { operation, generation: id.generation, slot: id.slot };
        self.push(entry.user_data(data.pack()));
    }

    fn push_disk(&mut self, slot: u32, entry: squeue::Entry) {
        let data = UserData { operation: Operation::Disk, generation: 0, slot };
        self.push(entry.user_data(data.pack()));
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: every pointer in an entry is to memory that a slot, a boxed field or a
            // disk operation of this reactor owns until the entry's last completion.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            if let Err(error) = self.ring.submit() {
                let busy =
                    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR));
                assert!(busy, "io_uring refuses submissions: {error}");
            }
        }
    }

    fn insert(&mut self, fd: OwnedFd, connected: bool) -> SocketId {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.sockets.push(None);
            self.sockets.len() as u32 - 1
        });
        let generation = self.next_generation;
        self.next_generation = (self.next_generation + 1) & GENERATION_MASK;
        self.sockets[slot as usize] = Some(Socket::new(fd, generation, connected));
        SocketId { slot, generation }
    }

    fn socket(&self, id: SocketId) -> Option<&Socket> {
        let socket = self.sockets.get(id.slot as usize)?.as_ref()?;
        (socket.generation == id.generation).then_some(socket)
    }

    fn socket_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(id.slot as usize)?.as_mut()?;
        (socket.generation == id.generation).then_some(socket)
    }

    fn release_if_done(&mut self, id: SocketId) {
        let Some(socket) = self.socket(id) else { return };
        if socket.closing && socket.operations == 0 {
            self.sockets[id.slot as usize] = None;
            self.free_slots.push(id.slot);
        }
    }
}

/// Cancels all operations and waits for them, since the kernel frees a ring in the background: their memory
/// may be freed only after they end, and ports become free. Memory that a hung disk may still write to is
/// leaked.
impl Drop for Reactor {
    fn drop(&mut self) {
        // Having nothing to cancel, or a kernel before 6.0, is no reason to stop.
        let _ =
            self.ring.submitter().register_sync_cancel(Some(CANCEL_TIME_MAX), CancelBuilder::any());
        while let Some(entry) = self.ring.completion().next() {
            let data = UserData::unpack(entry.user_data());
            if data.operation == Operation::Disk {
                self.disks.end(data.slot);
            }
        }
        self.disks.leak_unfinished();
        // The ring's references would keep the files open and locked.
        let _ = self.ring.submitter().unregister_files();
    }
}

/// Fails if the peer is gone already.
fn peer_of(fd: &OwnedFd) -> io::Result<Option<SocketAddr>> {
    Ok(rustix::net::getpeername(fd)?.and_then(|addr| addr.try_into().ok()))
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sockets = self.sockets.iter().flatten().count();
        write!(f, "Reactor({sockets} sockets, {} listeners)", self.listeners.len())
    }
}

#[cfg(test)]
mod tests;
