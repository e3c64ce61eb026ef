//! Where a unit is, for people who want to see what is in it.

use membership::view_log::Seats;
use membership::{Epoch, Member};
use pe::Unit;

use super::NodeCore;

/// Where a unit is under the view of a node.
#[derive(Clone, Debug)]
pub struct UnitPlace {
    /// The number of the view.
    pub epoch: Epoch,
    /// Who serves it, or is to as soon as it can.
    pub owner: Member,
    /// In which of its containers.
    pub container: u16,
    /// Whether it is served now.
    pub is_served: bool,
    /// The others who have a copy, in the order of the set.
    pub copies: Vec<Member>,
}

impl NodeCore {
    /// Where a unit is; nothing without a view, or if there is no such unit.
    pub fn place_of(&self, unit: Unit) -> Option<UnitPlace> {
        let view = self.view.as_ref()?;
        let (share, seats) = (view.body.share(unit)?, Seats::new(&view.head));
        let (owner, container) = share.home(&seats)?;
        let copies = view.body.copies(&seats).of(share).into_iter();
        Some(UnitPlace {
            epoch: view.head.number,
            owner: seats.of_disk(owner.disk)?.member.clone(),
            container,
            is_served: !share.is_waiting(&seats),
            copies: copies
                .filter(|seat| seat.disk() != owner.disk)
                .map(|seat| seat.member.clone())
                .collect(),
        })
    }
}
