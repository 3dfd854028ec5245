//! The layout of a pool's groups: whole copies, or shards of erasure-coded objects.

use crate::Member;
use codec::{Decode, Encode, Reader, Result, Writer};
use erasure::{Code, Technique};
use types::{OsdId, ShardId};

/// The spread of an object over the members of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Each member keeps the whole object.
    #[default]
    Replicated,
    /// Each member keeps the shard of its position.
    Erasure(ErasureLayout),
}

/// The layout of an erasure-coded pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureLayout {
    /// Shards of data; all members together are at most [`ShardId::MAX_COUNT`].
    pub data: u8,
    /// Shards of parity.
    pub parity: u8,
    /// Bytes of a stripe in one shard.
    pub unit: u32,
    /// The matrix that encodes stripes.
    pub code: ErasureCode,
}

/// The matrices from which parity is computed. All are over GF(2⁸).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureCode {
    /// `plugin=isa technique=reed_sol_van`
    IsaVandermonde = 1,
    /// `plugin=isa technique=cauchy`
    IsaCauchy = 2,
    /// `plugin=jerasure technique=reed_sol_van`
    JerasureVandermonde = 3,
}

impl ErasureLayout {
    /// The code that computes its parities; `None` beyond the limits of the matrix.
    pub fn new_code(&self) -> Option<Code> {
        let technique = match self.code {
            ErasureCode::IsaVandermonde => Technique::IsaVandermonde,
            ErasureCode::IsaCauchy => Technique::IsaCauchy,
            ErasureCode::JerasureVandermonde => Technique::JerasureVandermonde,
        };
        Code::new(technique, self.data.into(), self.parity.into()).ok()
    }

    /// Shards of an object that determine the others.
    pub(crate) fn enough(&self) -> usize {
        self.data.into()
    }

    /// All shards of an object.
    pub(crate) fn shards(&self) -> usize {
        usize::from(self.data) + usize::from(self.parity)
    }
}

impl ErasureCode {
    /// The code of a technique. With two parities, RAID 6 has the rows of ones and of powers of two, as well.
    pub fn of(technique: Technique) -> Self {
        match technique {
            Technique::IsaVandermonde | Technique::JerasureRaid6 => ErasureCode::IsaVandermonde,
            Technique::IsaCauchy => ErasureCode::IsaCauchy,
            Technique::JerasureVandermonde => ErasureCode::JerasureVandermonde,
        }
    }
}

impl Encode for Layout {
    fn encode(&self, w: &mut Writer) {
        match self {
            Layout::Replicated => w.u8(0),
            Layout::Erasure(ErasureLayout { data, parity, unit, code }) => {
                w.u8(1);
                w.u8(*data);
                w.u8(*parity);
                w.u32(*unit);
                w.u8(*code as u8);
            }
        }
    }
}

impl Decode for Layout {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        match r.u8("layout")? {
            0 => Ok(Layout::Replicated),
            1 => r.value().map(Layout::Erasure),
            other => Err(at.invalid("layout", other.into())),
        }
    }
}

impl Decode for ErasureLayout {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let (data, parity) = (r.u8("data shards")?, r.u8("parity shards")?);
        let shards = usize::from(data) + usize::from(parity);
        if data == 0 || parity == 0 || shards > ShardId::MAX_COUNT {
            return Err(at.invalid("shards", shards as u64));
        }
        let unit = r.u32("stripe unit")?;
        let at = *r;
        let code = match r.u8("code")? {
            1 => ErasureCode::IsaVandermonde,
            2 => ErasureCode::IsaCauchy,
            3 => ErasureCode::JerasureVandermonde,
            other => return Err(at.invalid("code", other.into())),
        };
        Ok(ErasureLayout { data, parity, unit, code })
    }
}

impl Layout {
    /// The member at a position of a set of OSDs; `None` for a hole, and behind the last shard.
    fn member(self, position: usize, osd: OsdId) -> Option<Member> {
        match self {
            Layout::Replicated => Some(Member::replicated(osd)),
            Layout::Erasure(_) if osd == OsdId::NONE => None,
            Layout::Erasure(_) => Some(Member { osd, shard: ShardId::at(position)? }),
        }
    }

    /// The members of a set of OSDs, without its holes.
    pub(crate) fn members(self, osds: &[OsdId]) -> impl Iterator<Item = Member> + '_ {
        let members = osds.iter().enumerate();
        members.filter_map(move |(position, osd)| self.member(position, *osd))
    }

    /// Whether a set of OSDs has this member.
    pub(crate) fn has(self, osds: &[OsdId], member: Member) -> bool {
        match member.shard.position() {
            None => self == Layout::Replicated && osds.contains(&member.osd),
            Some(position) => self != Layout::Replicated && osds.get(position) == Some(&member.osd),
        }
    }

    /// All members that an OSD can be.
    pub(crate) fn members_on(self, osd: OsdId) -> impl Iterator<Item = Member> {
        let (whole, shards) = match self {
            Layout::Replicated => (Some(Member::replicated(osd)), 0),
            Layout::Erasure(layout) => (None, layout.shards()),
        };
        let shards = (0..shards).filter_map(ShardId::at);
        whole.into_iter().chain(shards.map(move |shard| Member { osd, shard }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erasure() -> Layout {
        let code = ErasureCode::IsaVandermonde;
        Layout::Erasure(ErasureLayout { data: 2, parity: 1, unit: 4096, code })
    }

    #[test]
    fn the_members_of_a_replicated_group_have_no_shard() {
        let osds = [4, 2].map(OsdId);
        let members: Vec<Member> = Layout::Replicated.members(&osds).collect();
        assert_eq!(members, osds.map(Member::replicated));
        assert!(members.iter().all(|member| Layout::Replicated.has(&osds, *member)));
        assert!(members.iter().all(|member| !erasure().has(&osds, *member)));
        assert_eq!(members[0].to_string(), osds[0].to_string());
    }

    #[test]
    fn the_position_of_a_member_is_its_shard_and_holes_are_none() {
        let osds = [OsdId(4), OsdId::NONE, OsdId(4)];
        let members: Vec<Member> = erasure().members(&osds).collect();
        let [first, last] =
            [0, 2].map(|at| Member { osd: OsdId(4), shard: ShardId::at(at).unwrap() });
        assert_eq!(members, [first, last], "an OSD may keep several shards");
        assert!(members.iter().all(|member| erasure().has(&osds, *member)));
        assert!(!erasure().has(&osds, Member { osd: OsdId(4), shard: ShardId::at(1).unwrap() }));
        assert_eq!(erasure().members_on(OsdId(4)).count(), 3);
        assert_eq!(last.to_string(), format!("{}(2)", OsdId(4)));
    }
}
