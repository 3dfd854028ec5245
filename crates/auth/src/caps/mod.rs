//! Capabilities: parsers for the four languages of Ceph, and the checks that daemons make.
//!
//! A capability is a list of grants separated by `,` or `;`. Each service has its own language, as Ceph's
//! documentation on user management describes them: [`MonCaps`], [`OsdCaps`], [`MdsCaps`] and [`MgrCaps`].
//!
//! Invariants: text that does not parse grants nothing, and a request that no grant clearly allows is
//! denied. Parsing follows Ceph: alternatives are tried in order and the first match is taken, and the
//! number of blanks and separators matters.

mod constraint;
mod mds;
mod mgr;
mod mon;
mod mon_grant;
mod mon_profiles;
mod network;
mod osd;
mod permissions;
mod scanner;

pub use mds::{Caller, MdsAccess, MdsCaps, MdsLevel, Ownership};
pub use mgr::{MgrAccess, MgrCaps};
pub use mon::MonCaps;
pub use mon_grant::MonAccess;
pub use osd::{ApplicationMetadata, ClassCall, OsdAccess, OsdCaps};
pub use permissions::Rwx;
pub use scanner::CapsError;

/// Checks the capability text for a service, as commands that set capabilities must. An unknown service is
/// an error.
pub fn validate(service: &str, text: &str) -> Result<(), CapsError> {
    match service {
        "mon" => MonCaps::parse(text).map(drop),
        "osd" => OsdCaps::parse(text).map(drop),
        "mgr" => MgrCaps::parse(text).map(drop),
        "mds" => MdsCaps::parse(text).map(drop),
        _ => Err(CapsError::UnknownService { service: service.to_owned() }),
    }
}
