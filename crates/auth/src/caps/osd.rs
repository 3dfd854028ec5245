//! Capabilities for objects (`OSDCap`).
//!
//! ```text
//! grant   = "allow" spec match [network]  |  "allow" match spec [network]  |  profile [network]
//! spec    = "*" | some of r w x, class-read, class-write | class NAME [METHOD]
//! match   = [namespace] tag APPLICATION KEY = VALUE
//!         | [pool NAME] [namespace NAME[*]] [object_prefix PREFIX]
//! profile = profile NAME [pool NAME] [namespace NAME[*]]
//! ```
//!
//! One grant must allow reading and writing together; calls of object classes may be collected from several
//! grants that each allow the plain part of the request.

use super::{CapsError, network::Network, scanner::Scanner};
use crate::AuthCaps;
use std::{collections::BTreeMap, net::IpAddr};

/// A pool's `application metadata`: application, key, value.
pub type ApplicationMetadata = BTreeMap<String, BTreeMap<String, String>>;

/// A request whose permission is checked.
#[derive(Debug, Clone, Copy)]
pub struct OsdAccess<'a> {
    /// Name of the object's pool.
    pub pool_name: &'a str,
    /// The pool's metadata, which some grants require.
    pub applications: &'a ApplicationMetadata,
    /// Namespace of the object; empty for the default one.
    pub namespace: &'a str,
    /// The locator key if the object has one, else its name.
    pub object: &'a str,
    /// The request reads.
    pub may_read: bool,
    /// The request writes.
    pub may_write: bool,
    /// Calls of object classes in the request.
    pub classes: &'a [ClassCall<'a>],
    /// Address of the client; `None` matches no network.
    pub peer: Option<IpAddr>,
}

/// A call of an object class within the request.
#[derive(Debug, Clone, Copy)]
pub struct ClassCall<'a> {
    /// Name of the class.
    pub class: &'a str,
    /// Name of the method.
    pub method: &'a str,
    /// The method reads.
    pub reads: bool,
    /// The method writes.
    pub writes: bool,
    /// The class is in `osd_class_default_list`: `x` suffices.
    pub allowed_by_default: bool,
}

/// Parsed capabilities of one client for all OSDs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsdCaps {
    grants: Vec<Grant>,
    allows_all: bool,
}

impl OsdCaps {
    /// Parses a whole text; on an error nothing is granted.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Scanner::grants("osd", text, read_grant)?;
        let allows_all = grants.iter().any(Grant::allows_all);
        Ok(OsdCaps { grants, allows_all })
    }

    /// Capabilities of a ticket. A ticket without text grants nothing.
    pub fn granted(caps: &AuthCaps) -> Result<Self, CapsError> {
        match caps.text.as_str() {
            _ if caps.allow_all => Ok(OsdCaps::allow_all()),
            "" => Ok(OsdCaps::default()),
            text => OsdCaps::parse(text),
        }
    }

    /// Capabilities of a daemon, or of a client without authentication.
    pub fn allow_all() -> Self {
        let everything = Grant::new(Match::default(), Spec::of(Permissions::ANY));
        OsdCaps { grants: vec![everything], allows_all: true }
    }

    /// True if every request from every address is allowed.
    pub fn allows_all(&self) -> bool {
        self.allows_all
    }

    /// True if no request is allowed.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty() && !self.allows_all
    }

    /// True if one grant allows the plain part of the request, and the matching grants up to it all class
    /// calls.
    pub fn allows(&self, access: &OsdAccess<'_>) -> bool {
        if self.allows_all {
            return true;
        }
        let mut granted = vec![false; access.classes.len()];
        self.grants.iter().any(|grant| grant.allows(access, &mut granted))
    }

    /// True if self-managed snapshots of a pool may be created: a grant must allow writing everywhere, or
    /// somewhere in the pool that it names. A tag names no pool. `pool` is `None` if the pool does not
    /// exist.
    pub fn allows_snapshots(&self, pool: Option<&str>, peer: Option<IpAddr>) -> bool {
        let covers = |(objects, spec): &(Match, Spec)| {
            let names_pool = pool.is_some() && objects.pool.as_deref() == pool;
            spec.permissions.contains(Permissions::WRITE) && (names_pool || objects.is_everything())
        };
        let mut reachable = self
            .grants
            .iter()
            .filter(|grant| grant.network.as_ref().is_none_or(|network| network.contains(peer)));
        self.allows_all || reachable.any(|grant| grant.parts.iter().any(covers))
    }
}

/// `osd_rwxa_t`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Permissions(u8);

impl Permissions {
    const READ: Permissions = Permissions(1 << 1);
    const WRITE: Permissions = Permissions(1 << 2);
    const CLASS_READ: Permissions = Permissions(1 << 3);
    const CLASS_WRITE: Permissions = Permissions(1 << 4);
    const EXECUTE: Permissions = Permissions(Self::CLASS_READ.0 | Self::CLASS_WRITE.0);
    const ANY: Permissions = Permissions(0xff);

    fn with(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }

    fn contains(self, needed: Permissions) -> bool {
        self.0 & needed.0 == needed.0
    }

    fn allow(self, reads: bool, writes: bool) -> bool {
        (!reads || self.contains(Self::READ)) && (!writes || self.contains(Self::WRITE))
    }

    fn allow_class(self, call: &ClassCall<'_>) -> bool {
        (!call.reads || self.contains(Self::CLASS_READ))
            && (!call.writes || self.contains(Self::CLASS_WRITE))
    }
}

/// `OSDCapSpec`: the permissions of a grant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Spec {
    permissions: Permissions,
    class: Option<(String, Option<String>)>,
}

impl Spec {
    fn of(permissions: Permissions) -> Self {
        Spec { permissions, class: None }
    }

    fn class(class: &str, method: &str) -> Self {
        let class = Some((class.to_owned(), Some(method.to_owned())));
        Spec { permissions: Permissions::default(), class }
    }

    fn allows_class(&self, call: &ClassCall<'_>) -> bool {
        let by_name = self.class.as_ref().is_some_and(|(class, method)| {
            class == call.class && method.as_ref().is_none_or(|method| method == call.method)
        });
        by_name || (call.allowed_by_default && self.permissions.allow_class(call))
    }
}

/// `OSDCapMatch`: the objects that a grant covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Match {
    pool: Option<String>,
    namespace: Option<NamespacePattern>,
    tag: Option<PoolTag>,
    object_prefix: String,
}

impl Match {
    fn is_everything(&self) -> bool {
        *self == Match::default()
    }

    fn matches(&self, access: &OsdAccess<'_>) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool == access.pool_name)
            && self.namespace.as_ref().is_none_or(|pattern| pattern.matches(access.namespace))
            && self.tag.as_ref().is_none_or(|tag| tag.matches(access.applications))
            && access.object.starts_with(&self.object_prefix)
    }
}

/// A namespace, or the prefix of one in front of a `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamespacePattern(String);

impl NamespacePattern {
    fn matches(&self, namespace: &str) -> bool {
        let by_prefix = self.0.strip_suffix('*').is_some_and(|front| namespace.starts_with(front));
        by_prefix || self.0 == namespace
    }
}

/// `OSDCapPoolTag`: pools by their application metadata; `*` stands for any key or value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PoolTag {
    application: String,
    key: String,
    value: String,
}

impl PoolTag {
    fn matches(&self, applications: &ApplicationMetadata) -> bool {
        let Some(metadata) = applications.get(&self.application) else { return false };
        match (self.key.as_str(), self.value.as_str()) {
            ("*", "*") => true,
            ("*", value) => metadata.values().any(|found| found == value),
            (key, "*") => metadata.contains_key(key),
            (key, value) => metadata.get(key).is_some_and(|found| found == value),
        }
    }
}

/// `OSDCapGrant`. A profile is replaced by its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    parts: Vec<(Match, Spec)>,
    network: Option<Network>,
}

impl Grant {
    fn new(objects: Match, spec: Spec) -> Self {
        Grant { parts: vec![(objects, spec)], network: None }
    }

    fn within(mut self, network: Option<String>) -> Self {
        self.network = network.as_deref().map(Network::parse);
        self
    }

    fn allows_all(&self) -> bool {
        let all = |(objects, spec): &(Match, Spec)| {
            objects.is_everything() && spec.permissions == Permissions::ANY
        };
        self.network.is_none() && self.parts.iter().any(all)
    }

    /// `granted` marks the class calls that a grant so far has allowed.
    fn allows(&self, access: &OsdAccess<'_>, granted: &mut [bool]) -> bool {
        self.network.as_ref().is_none_or(|network| network.contains(access.peer))
            && self.parts.iter().any(|(objects, spec)| {
                objects.matches(access) && part_allows(spec, access, granted)
            })
    }
}

fn part_allows(spec: &Spec, access: &OsdAccess<'_>, granted: &mut [bool]) -> bool {
    if !spec.permissions.allow(access.may_read, access.may_write) {
        return false;
    }
    if spec.permissions == Permissions::ANY {
        return true;
    }
    for (granted, call) in granted.iter_mut().zip(access.classes) {
        *granted |= spec.allows_class(call);
    }
    granted.iter().all(|granted| *granted)
}

fn read_grant(s: &mut Scanner<'_>) -> Option<Grant> {
    s.attempt(|s| {
        s.expect("allow")?;
        let spec = read_spec(s)?;
        Some(Grant::new(read_match(s), spec).within(s.network_clause()))
    })
    .or_else(|| {
        s.attempt(|s| {
            s.expect("allow")?;
            let objects = read_match(s);
            Some(Grant::new(objects, read_spec(s)?).within(s.network_clause()))
        })
    })
    .or_else(|| s.attempt(read_profile))
}

fn read_spec(s: &mut Scanner<'_>) -> Option<Spec> {
    s.attempt(read_permissions).map(Spec::of).or_else(|| s.attempt(read_class))
}

fn read_permissions(s: &mut Scanner<'_>) -> Option<Permissions> {
    let any = |s: &mut Scanner<'_>| {
        s.spaces()?;
        read_wildcard(s)
    };
    if s.attempt(any).is_some() {
        return Some(Permissions::ANY);
    }
    let letters = s.attempt(|s| {
        s.spaces()?;
        let found = [
            (s.literal("r"), Permissions::READ),
            (s.literal("w"), Permissions::WRITE),
            (s.literal("x"), Permissions::EXECUTE),
        ];
        collect(found)
    });
    let classes = [
        (s.spaced("class-read").is_some(), Permissions::CLASS_READ),
        (s.spaced("class-write").is_some(), Permissions::CLASS_WRITE),
    ];
    match (letters, collect(classes)) {
        (None, None) => None,
        (letters, classes) => Some(letters.unwrap_or_default().with(classes.unwrap_or_default())),
    }
}

/// The union of the permissions that were parsed, or `None`.
fn collect<const N: usize>(found: [(bool, Permissions); N]) -> Option<Permissions> {
    found
        .into_iter()
        .filter_map(|(is_found, permission)| is_found.then_some(permission))
        .reduce(Permissions::with)
}

fn read_class(s: &mut Scanner<'_>) -> Option<Spec> {
    s.spaced("class")?;
    s.spaces()?;
    let class = s.word()?;
    let method = s.attempt(|s| {
        s.spaces()?;
        s.word()
    });
    Some(Spec { permissions: Permissions::default(), class: Some((class, method)) })
}

fn read_match(s: &mut Scanner<'_>) -> Match {
    if let Some(tag) = s.attempt(read_tag) {
        return Match { tag: Some(tag), ..Match::default() };
    }
    let tagged = s.attempt(|s| {
        let namespace = Some(read_namespace(s)?);
        Some(Match { namespace, tag: Some(read_tag(s)?), ..Match::default() })
    });
    tagged.unwrap_or_else(|| Match {
        pool: s.attempt(read_pool),
        namespace: s.attempt(read_namespace),
        tag: None,
        object_prefix: s.attempt(read_object_prefix).unwrap_or_default(),
    })
}

fn read_pool(s: &mut Scanner<'_>) -> Option<String> {
    s.spaces()?;
    s.label("pool")?;
    s.word()
}

fn read_namespace(s: &mut Scanner<'_>) -> Option<NamespacePattern> {
    s.spaces()?;
    s.label("namespace")?;
    let mut namespace = s.word_or_empty()?;
    if s.star() {
        namespace.push('*');
    }
    Some(NamespacePattern(namespace))
}

fn read_object_prefix(s: &mut Scanner<'_>) -> Option<String> {
    s.spaced("object_prefix")?;
    s.spaces()?;
    s.word()
}

fn read_tag(s: &mut Scanner<'_>) -> Option<PoolTag> {
    s.spaced("tag")?;
    s.spaces()?;
    let application = s.word()?;
    s.spaces()?;
    let key = read_wildcard(s).or_else(|| s.word())?;
    s.blanks();
    s.expect("=")?;
    s.blanks();
    let value = read_wildcard(s).or_else(|| s.word())?;
    Some(PoolTag { application, key, value })
}

fn read_wildcard(s: &mut Scanner<'_>) -> Option<String> {
    (s.star() || s.literal("all")).then(|| "*".to_owned())
}

fn read_profile(s: &mut Scanner<'_>) -> Option<Grant> {
    s.label("profile")?;
    let name = s.word()?;
    let (pool, namespace) = (s.attempt(read_pool), s.attempt(read_namespace));
    let parts = profile(&name, pool, namespace);
    Some(Grant { parts, network: None }.within(s.network_clause()))
}

/// The parts of a profile; an unknown profile grants nothing.
fn profile(
    name: &str,
    pool: Option<String>,
    namespace: Option<NamespacePattern>,
) -> Vec<(Match, Spec)> {
    let home = Match { pool: pool.clone(), namespace, ..Match::default() };
    let anywhere = |prefix: &str| Match { object_prefix: prefix.to_owned(), ..Match::default() };
    let within = |prefix: &str| Match { object_prefix: prefix.to_owned(), ..home.clone() };
    // The image list and settings of a pool lie in its default namespace.
    let info =
        Match { pool, namespace: Some(NamespacePattern(String::new())), ..anywhere("rbd_info") };
    let read = Permissions::READ;
    match name {
        "read-only" => vec![(home, Spec::of(read))],
        "read-write" => vec![(home, Spec::of(read.with(Permissions::WRITE)))],
        "rbd" => vec![
            (anywhere("rbd_info"), Spec::of(read)),
            (anywhere("rbd_children"), Spec::of(Permissions::CLASS_READ)),
            (anywhere("rbd_mirroring"), Spec::of(Permissions::CLASS_READ)),
            (info, Spec::class("rbd", "metadata_list")),
            (home, Spec::of(read.with(Permissions::WRITE).with(Permissions::EXECUTE))),
        ],
        "rbd-read-only" => vec![
            (info, Spec::class("rbd", "metadata_list")),
            (home.clone(), Spec::of(read.with(Permissions::CLASS_READ))),
            (within("rbd_header."), Spec::class("rbd", "child_attach")),
            (within("rbd_header."), Spec::class("rbd", "child_detach")),
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
