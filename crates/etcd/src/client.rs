//! Calls to an etcd of several members.
//!
//! One member is spoken to until it fails; then the next one is asked the same again. What is written,
//! and how values are read whole, is in `values`.

use crate::marks::Marks;
use crate::options::EtcdOptions;
use crate::pace::{ATTEMPT_TIME, Pace};
use crate::proto::{
    AuthenticateRequest, AuthenticateResponse, EVENT_DELETE, KeyValue, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, RangeRequest, WatchAsked, WatchCreateRequest, WatchEvent, WatchRequest,
    WatchResponse,
};
use anyhow::{Context, Result};
use control::{CommitError, Entry, LeaseError, LeaseId, Revision};
use prost::Message;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

const CONNECT_TIME: Duration = Duration::from_millis(500);
/// How long a member that failed is asked only if all others did, too.
const DISTRUST: Duration = Duration::from_secs(3);
/// Pause after all members have failed in turn.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// How long a transaction is tried before it counts as failed.
pub(crate) const COMMIT_PATIENCE: Duration = Duration::from_secs(10);
/// Leases are asked for again by their holder.
const LEASE_PATIENCE: Duration = Duration::from_secs(2);
/// The pieces of a value that a watch has told are there.
const PIECE_PATIENCE: Duration = Duration::from_secs(5);
/// Time limit of a page of a load, before the monitor reports that it is not answered. The load goes on.
pub(crate) const LOAD_PATIENCE: Duration = Duration::from_secs(5);
/// Keys of one answer; all of them follow in several.
const KEYS_PER_PAGE: i64 = 256;
/// Larger than anything that etcd takes.
const MESSAGE_LEN_MAX: usize = 256 << 20;
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";

pub(crate) struct Client {
    pub(crate) options: EtcdOptions,
    members: Vec<Grpc<Channel>>,
    /// The member that is asked first.
    active: Cell<usize>,
    /// When each failed last.
    failed: RefCell<Vec<Option<Instant>>>,
    token: RefCell<Option<String>>,
    /// Under which name this process marks its transactions.
    pub(crate) writer: String,
    /// Tells this process from earlier ones of that name.
    pub(crate) nonce: u64,
    /// Keys whose values are in pieces elsewhere.
    pub(crate) large: RefCell<BTreeSet<String>>,
    pub(crate) marks: RefCell<Marks>,
    pub(crate) pace: Cell<Pace>,
    /// Nothing is written once the state is being moved elsewhere, or was.
    pub(crate) is_fenced: bool,
}

/// An open watch: what to ask of it, and what it tells.
pub(crate) struct Watch {
    pub(crate) requests: mpsc::Sender<WatchRequest>,
    pub(crate) responses: Streaming<WatchResponse>,
}

impl Client {
    /// Opens no connection yet; must be called within a runtime.
    pub(crate) fn new(options: &EtcdOptions, writer: &str, nonce: u64) -> Result<Self> {
        options.check()?;
        let tls = tls(options)?;
        let members: Result<Vec<_>> =
            options.endpoints.iter().map(|url| member(url, tls.as_ref())).collect();
        Ok(Client {
            options: options.clone(),
            members: members?,
            active: Cell::new(0),
            failed: RefCell::new(vec![None; options.endpoints.len()]),
            token: RefCell::new(None),
            writer: writer.to_owned(),
            nonce,
            large: RefCell::default(),
            marks: RefCell::default(),
            pace: Cell::default(),
            is_fenced: false,
        })
    }

    /// A monitor's: see [`Client::is_fenced`].
    pub(crate) fn fenced(self) -> Self {
        Client { is_fenced: true, ..self }
    }

    pub(crate) fn shown(&self) -> String {
        self.options.shown()
    }

    fn root(&self) -> String {
        format!("{}/state/", self.options.prefix)
    }

    pub(crate) fn key(&self, key: &str) -> Vec<u8> {
        (self.root() + key).into_bytes()
    }

    /// The key as the monitor knows it.
    fn own_key(&self, key: &[u8]) -> Option<String> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(&self.root()).map(str::to_owned)
    }

    /// Asks one member after the other until one answers or patience ends.
    pub(crate) async fn call<M, R>(
        &self,
        path: &'static str,
        request: M,
        patience: Duration,
    ) -> Outcome<R>
    where
        M: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.call_with(path, || (request.clone(), ATTEMPT_TIME), |_| (), patience).await
    }

    /// The same with a request and a time for each attempt. Failed attempts are told.
    pub(crate) async fn call_with<M, R>(
        &self,
        path: &'static str,
        request: impl Fn() -> (M, Duration),
        failed: impl Fn(&Status),
        patience: Duration,
    ) -> Outcome<R>
    where
        M: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let deadline = Instant::now() + patience;
        for tried in 1.. {
            let member = self.active.get();
            let (request, time) = request();
            let answer = match self.authenticated(member).await {
                Ok(()) => self.attempt(member, path, request, time).await,
                Err(status) => Err(status),
            };
            if let Err(status) = &answer {
                failed(status);
            }
            match answer {
                Err(status) if is_passing(&status) => {
                    tracing::debug!(path, %status, "a member of etcd failed");
                    self.turn_from(member);
                    if Instant::now() >= deadline {
                        return Err(status);
                    }
                    if tried % self.members.len() == 0 {
                        sleep(ROUND_PAUSE).await;
                    }
                }
                other => return other,
            }
        }
        unreachable!("the loop returns")
    }

    async fn attempt<M, R>(
        &self,
        member: usize,
        path: &'static str,
        request: M,
        time: Duration,
    ) -> Outcome<R>
    where
        M: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.members[member].clone();
        let request = self.with_token(tonic::Request::new(request));
        let call = async {
            grpc.ready().await.map_err(|error| Status::unavailable(described(&error)))?;
            let path = PathAndQuery::from_static(path);
            grpc.unary(request, path, ProstCodec::<M, R>::new()).await
        };
        match timeout(time, call).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("it does not answer")),
        }
    }

    /// After a failure of `member`, moves on to the next member that did not fail lately, by one step for all
    /// callers.
    fn turn_from(&self, member: usize) {
        let mut failed = self.failed.borrow_mut();
        failed[member] = Some(Instant::now());
        if self.active.get() == member {
            let count = self.members.len();
            let others = || (1..=count).map(|step| (member + step) % count);
            let is_fresh = |at: &usize| failed[*at].is_none_or(|when| when.elapsed() > DISTRUST);
            self.active.set(others().find(is_fresh).unwrap_or((member + 1) % count));
        }
        // Tokens are told by one member to the others only when that lives.
        self.token.take();
    }

    async fn authenticated(&self, member: usize) -> Outcome<()> {
        let (Some(name), false) = (&self.options.user, self.token.borrow().is_some()) else {
            return Ok(());
        };
        let password = self.options.password.clone().unwrap_or_default();
        let request = AuthenticateRequest { name: name.clone(), password };
        let answer: AuthenticateResponse =
            self.attempt(member, "/etcdserverpb.Auth/Authenticate", request, ATTEMPT_TIME).await?;
        self.token.replace(Some(answer.token));
        Ok(())
    }

    fn with_token<M>(&self, mut request: tonic::Request<M>) -> tonic::Request<M> {
        let token = self.token.borrow();
        if let Some(token) = token.as_ref().and_then(|token| token.parse().ok()) {
            request.metadata_mut().insert("token", token);
        }
        request
    }

    /// Everything below a prefix, as of one revision.
    pub(crate) async fn range(
        &self,
        prefix: &str,
        patience: Duration,
    ) -> Outcome<(Vec<Entry>, Revision)> {
        let mut from = self.key(prefix);
        let range_end = prefix_end(&from);
        let (mut entries, mut revision) = (Vec::new(), 0);
        loop {
            let request = RangeRequest {
                key: from.clone(),
                range_end: range_end.clone(),
                limit: KEYS_PER_PAGE,
                revision,
            };
            let page = self.page(request, patience).await?;
            if revision == 0 {
                revision = page.header.as_ref().map_or(0, |header| header.revision);
            }
            if let Some(last) = page.kvs.last() {
                from = [&last.key[..], &[0]].concat();
            }
            entries.extend(page.kvs.into_iter().filter_map(|kv| self.entry(kv)));
            if !page.more {
                break;
            }
        }
        for entry in &mut entries {
            entry.value = self.whole(&entry.key, entry.value.clone(), revision, patience).await?;
        }
        self.pace.set(Pace::default());
        Ok((entries, revision as Revision))
    }

    fn entry(&self, kv: KeyValue) -> Option<Entry> {
        let revision = kv.mod_revision as Revision;
        Some(Entry { key: self.own_key(&kv.key)?, value: kv.value, revision })
    }

    pub(crate) async fn grant(&self, ttl: Duration) -> Result<LeaseId, LeaseError> {
        let request = LeaseGrantRequest { ttl_seconds: ttl.as_secs().max(1) as i64 };
        let answer: Outcome<LeaseGrantResponse> =
            self.call("/etcdserverpb.Lease/LeaseGrant", request, LEASE_PATIENCE).await;
        let answer =
            answer.map_err(|status| LeaseError::Failed { reason: self.reason(&status) })?;
        Ok(answer.id as LeaseId)
    }

    /// One request on a stream made for many: renewals are seldom.
    pub(crate) async fn renew(&self, lease: LeaseId) -> Result<LeaseId, LeaseError> {
        let request = LeaseKeepAliveRequest { id: lease as i64 };
        let answer: Outcome<LeaseKeepAliveResponse> =
            self.call("/etcdserverpb.Lease/LeaseKeepAlive", request, LEASE_PATIENCE).await;
        match answer {
            Ok(answer) if answer.ttl_seconds > 0 => Ok(lease),
            Ok(_) => Err(LeaseError::Ended),
            Err(status) => Err(LeaseError::Failed { reason: self.reason(&status) }),
        }
    }

    pub(crate) async fn revoke(&self, lease: LeaseId) {
        let request = LeaseRevokeRequest { id: lease as i64 };
        let done: Outcome<LeaseRevokeResponse> =
            self.call("/etcdserverpb.Lease/LeaseRevoke", request, Duration::ZERO).await;
        if let Err(status) = done {
            tracing::debug!(%status, "a lease ends by itself");
        }
    }

    /// Watches all keys from a revision on, at the member that is spoken to.
    pub(crate) async fn watch(&self, from: Revision) -> Outcome<Watch> {
        let member = self.active.get();
        let opened = self.watch_at(member, from);
        let opened = timeout(ATTEMPT_TIME, opened).await;
        let opened = opened.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
        if opened.is_err() {
            self.turn_from(member);
        }
        opened
    }

    async fn watch_at(&self, member: usize, from: Revision) -> Outcome<Watch> {
        self.authenticated(member).await?;
        let key = self.key("");
        let range_end = prefix_end(&key);
        let create = WatchCreateRequest { key, range_end, start_revision: from as i64 };
        let (requests, to_send) = mpsc::channel(4);
        let create = WatchRequest { request: Some(WatchAsked::Create(create)) };
        requests.send(create).await.expect("the other end is here");
        let mut grpc = self.members[member].clone();
        grpc.ready().await.map_err(|error| Status::unavailable(described(&error)))?;
        let mut request = self.with_token(tonic::Request::new(ReceiverStream::new(to_send)));
        // A member that has lost the others ends the watch instead of staying silent.
        request.metadata_mut().insert("hasleader", "true".parse().expect("plain text"));
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::new();
        let responses = grpc.streaming(request, path, codec).await?.into_inner();
        Ok(Watch { requests, responses })
    }

    /// The watch went silent or wrong: the next one is opened elsewhere.
    pub(crate) fn give_up_member(&self) {
        self.turn_from(self.active.get());
    }

    /// A watched key as the monitor knows it; nothing if it is none of its keys.
    pub(crate) async fn event(&self, event: WatchEvent) -> Outcome<Option<control::Event>> {
        let Some(kv) = event.kv else { return Ok(None) };
        let Some(key) = self.own_key(&kv.key) else { return Ok(None) };
        let value = match event.kind == EVENT_DELETE {
            true => None,
            false => Some(self.whole(&key, kv.value, kv.mod_revision, PIECE_PATIENCE).await?),
        };
        Ok(Some(control::Event { key, value, revision: kv.mod_revision as Revision }))
    }

    /// The error with advice for the operator.
    pub(crate) fn reason(&self, status: &Status) -> String {
        format!("{}: {}{}", self.shown(), status.message(), advice(status))
    }

    pub(crate) fn commit_error(&self, status: &Status) -> CommitError {
        let reason = self.reason(status);
        match is_refusal(status) {
            true => CommitError::Refused { reason },
            false => CommitError::Failed { reason },
        }
    }
}

pub(crate) type Outcome<T> = std::result::Result<T, Status>;

/// Whether another member, or the same one later, may well answer.
pub(crate) fn is_passing(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => true,
        Code::Unknown | Code::Internal | Code::Unauthenticated => true,
        Code::ResourceExhausted => !is_full(status) && !is_refusal(status),
        _ => false,
    }
}

/// The members' databases have reached their quota.
fn is_full(status: &Status) -> bool {
    status.message().contains("space exceeded")
}

/// Whether etcd will never take this request, whatever it takes otherwise.
fn is_refusal(status: &Status) -> bool {
    const LIMITS: [&str; 3] = ["too large", "too many operations", "larger than max"];
    LIMITS.iter().any(|limit| status.message().contains(limit))
}

/// The operator's next step.
fn advice(status: &Status) -> &'static str {
    match status.code() {
        _ if is_refusal(status) => "; see etcd's --max-request-bytes and --max-txn-ops",
        Code::ResourceExhausted if is_full(status) => {
            "; see `etcdctl alarm list`, then compact, defragment and disarm it, or raise --quota-backend-bytes"
        }
        Code::ResourceExhausted => "; see `etcdctl endpoint status`",
        Code::OutOfRange => {
            "; it forgets revisions faster than they are read: see --auto-compaction-retention"
        }
        Code::InvalidArgument
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition => {
            "; see --etcd-user and its password, and what roles it has (`etcdctl user get`, `etcdctl role get`)"
        }
        Code::Unavailable | Code::DeadlineExceeded => "; is its quorum up?",
        _ => "",
    }
}

fn member(url: &str, tls: Option<&ClientTlsConfig>) -> Result<Grpc<Channel>> {
    let endpoint = Endpoint::from_shared(url.to_owned());
    let endpoint = endpoint.with_context(|| format!("{url:?} is no address of an etcd"))?;
    let mut endpoint = endpoint.connect_timeout(CONNECT_TIME).tcp_nodelay(true);
    if let Some(tls) = tls
        && url.starts_with("https://")
    {
        endpoint = endpoint.tls_config(tls.clone()).context("preparing TLS towards etcd")?;
    }
    let grpc = Grpc::new(endpoint.connect_lazy());
    Ok(grpc.max_decoding_message_size(MESSAGE_LEN_MAX).max_encoding_message_size(MESSAGE_LEN_MAX))
}

fn tls(options: &EtcdOptions) -> Result<Option<ClientTlsConfig>> {
    if !options.endpoints.iter().any(|url| url.starts_with("https://")) {
        return Ok(None);
    }
    let read = |path: &std::path::Path| {
        fs::read(path).with_context(|| format!("reading {}", path.display()))
    };
    let mut tls = ClientTlsConfig::new();
    if let Some(ca) = &options.ca {
        tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
    }
    if let (Some(cert), Some(key)) = (&options.cert, &options.key) {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(Some(tls))
}

/// The first key behind all that begin with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |last| last + 1);
    let mut end = prefix[..kept].to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(0),
    }
    end
}

fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_will_never_take_is_neither_asked_again_nor_taken_for_a_full_store() {
        let too_large = Status::invalid_argument("etcdserver: request is too large");
        let too_many = Status::invalid_argument("etcdserver: too many operations in txn request");
        let beyond = Status::resource_exhausted("grpc: received message larger than max (9 vs. 8)");
        for status in [too_large, too_many, beyond] {
            assert!(is_refusal(&status) && !is_passing(&status), "{status}");
            assert!(advice(&status).contains("--max-request-bytes"));
        }
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        assert!(!is_refusal(&full) && !is_passing(&full));
        assert!(advice(&full).contains("alarm list"));
        let busy = Status::resource_exhausted("etcdserver: too many requests");
        assert!(is_passing(&busy));
    }

    #[test]
    fn who_may_not_write_is_told_to_look_at_user_and_roles() {
        let wrong = "etcdserver: authentication failed, invalid user ID or password";
        let none = "etcdserver: user name is empty";
        let denied = Status::permission_denied("etcdserver: permission denied");
        for status in [Status::invalid_argument(wrong), Status::invalid_argument(none), denied] {
            assert!(!is_passing(&status) && !is_refusal(&status), "{status}");
            assert!(advice(&status).contains("--etcd-user"), "{status}");
        }
    }
}
