//! Plans the changes of a running kernel zone's network cards.

use super::{AT_BOOT, Act, Compared, Making, PUBLISH, Places, compare};
use crate::Config;
use crate::config::Resource;

/// The type of resource that is a network card of a machine.
pub(super) const ANET: &str = "anet";

/// The reason why a network card cannot be removed while the zone runs.
const STAYS: &str = "this network card stays until the machine ends";

/// The reason why a network card cannot be added while the zone runs.
const NO_PORT: &str = "the machine has no free port";

/// The reason why the properties of a network card cannot change while the zone runs.
const KEEPS: &str =
    "a network card keeps its properties: remove the anet, apply, and add it again, or reboot";

/// The reason why a network card cannot be removed before others.
const SHIFTS: &str = "other links of the zone would get other addresses";

impl Making<'_> {
    /// Plans the removal and the addition of network cards. A removed card makes its place free for
    /// an added one; `free` is the number of free places. The other differences need a reboot.
    pub(super) fn cards(&mut self, places: &Places, free: &mut usize) {
        let same_network = self.running.ip_type() == self.wanted.ip_type();
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for one in compare(self.running, self.wanted, ANET) {
            let removable = |old: &Resource| {
                let name = self.running.anet_name(old);
                places.removable_cards.contains(&name)
            };
            match (&one.old, &one.new) {
                _ if !same_network => self.plan.at_boot.push((one.difference, AT_BOOT)),
                (Some(_), Some(_)) => self.plan.at_boot.push((one.difference, KEEPS)),
                (Some(old), None) if removable(old) => gone.push(one),
                (Some(_), None) => self.plan.at_boot.push((one.difference, STAYS)),
                (None, _) => come.push(one),
            }
        }
        let mut less = self.now.clone();
        for old in gone.iter().filter_map(|one| one.old.as_ref()) {
            less.remove(old);
        }
        if shifts(&self.now, &less) {
            let gone = gone.drain(..);
            self.plan
                .at_boot
                .extend(gone.map(|one| (one.difference, SHIFTS)));
        }
        if !gone.is_empty() {
            self.close_published();
        }
        for one in gone {
            *free += 1;
            self.change_card(one);
        }
        for one in come {
            match free.checked_sub(1) {
                Some(left) => {
                    *free = left;
                    self.change_card(one);
                }
                None => self.plan.at_boot.push((one.difference, NO_PORT)),
            }
        }
    }

    /// Plans the removal or the addition of a card.
    fn change_card(&mut self, one: Compared) {
        let act = match (&one.old, &one.new) {
            (Some(old), _) => {
                let link = self.now.anet_name(old);
                self.now.remove(old);
                Act::RemoveCard(link)
            }
            (None, Some(new)) => {
                // The wanted configuration has this resource, so this configuration accepts it too.
                let _ = self.now.add_stored(new.clone());
                Act::AddCard(self.now.anet_name(new))
            }
            (None, None) => return,
        };
        self.plan.now.push(one.difference);
        self.step(act);
    }

    /// Plans to close the ports that are published no more, because a removed link may be the one to
    /// which they lead. [`Making::links`] lists these differences.
    fn close_published(&mut self) {
        let before = self.now.clone();
        let wanted: Vec<Resource> = self.wanted.resources_of(PUBLISH).cloned().collect();
        self.now
            .retain(|one| one.spec().name != PUBLISH || wanted.contains(one));
        if self.now != before {
            self.step(Act::Links);
        }
    }
}

/// Returns true if links that stay would get other addresses of the pool. The number of a link among
/// the links without a lower link determines its addresses.
fn shifts(before: &Config, after: &Config) -> bool {
    let numbered = |config: &Config| -> Vec<String> {
        let anets = config.resources_of(ANET);
        let automatic = anets.filter(|one| ["", "auto"].contains(&one.get("lower-link")));
        automatic.map(|one| config.anet_name(one)).collect()
    };
    !numbered(before).starts_with(&numbered(after))
}
