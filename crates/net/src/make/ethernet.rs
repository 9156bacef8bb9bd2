//! Links with neighbours: the port of a bridge, a device with its own Ethernet address on a link of the
//! host, and a link of the host that moves into the zone.

use std::os::fd::AsFd;
use std::time::Duration;

use model::plan::network::Mac;

use super::{Error, Maker};
use crate::guard::{self, Verdict};
use crate::record::Held;
use crate::request::{self, Ready, Route};

/// The number of times that the state of a link is read, and the pause between two reads.
const READY_TRIES: u32 = 100;
const READY_PAUSE: Duration = Duration::from_millis(1);

impl Maker<'_> {
    pub(super) fn port(&self, bridge: &str, held: &mut Held) -> Result<(), Error> {
        let bridge = self.present(bridge)?;
        let (zone, host) = self.pair(other_end(self.mac()), held)?;
        held.counters = Some(self.guard(&host, false, None, Verdict::Host)?);
        self.limit(zone, host.index, None)?;
        let alias = self.alias();
        let ready = Ready {
            alias: Some(&alias),
            bridge: Some(bridge.index),
            ..Ready::default()
        };
        let ready = request::ready(&host.name, ready);
        self.ends.host.change(ready).map_err(self.refused())?;
        self.configure_ethernet(zone)?;
        self.announce_ethernet(zone, held.host.as_deref());
        Ok(())
    }

    /// Makes a device with its own Ethernet address on a link of the host. Frames for this address
    /// go to the zone, and frames of the zone leave from the device after the guard has checked
    /// them.
    pub(super) fn wire(
        &self,
        lower: &str,
        vlan: Option<u16>,
        held: &mut Held,
    ) -> Result<(), Error> {
        let lower = self.present(lower)?;
        let (zone, host) = self.pair(other_end(self.mac()), held)?;
        let outer = held.outer.clone().unwrap_or_default();
        let alias = self.alias();
        let kernel = &self.ends.host;
        kernel
            .change(request::ethernet_on(
                lower.index,
                &outer,
                self.mac(),
                &alias,
            ))
            .map_err(self.refused())?;
        let outer = self.present(&outer)?;
        held.counters = Some(self.guard(&host, false, vlan, Verdict::Device(outer.index))?);
        let inbound = guard::load_inbound(vlan, host.index).map_err(self.io("make its guard"))?;
        let requests = request::filter(outer.index, inbound.as_fd());
        kernel.change(requests.into()).map_err(self.refused())?;
        self.limit(zone, host.index, Some(outer.index))?;
        let ready = Ready {
            alias: Some(&alias),
            ..Ready::default()
        };
        kernel
            .change(request::ready(&host.name, ready))
            .map_err(self.refused())?;
        self.configure_ethernet(zone)?;
        self.announce_ethernet(zone, held.host.as_deref());
        Ok(())
    }

    pub(super) fn moved(&self, nic: &str, held: &mut Held) -> Result<(), Error> {
        if self.link.label.is_some() {
            return Err(self.why(
                "a link that moves into the zone has no guard, so its packets have no label: use an anet",
            ));
        }
        let found = self.present(nic)?;
        let kernel = &self.ends.host;
        kernel
            .change(vec![request::into_namespace(
                found.index,
                nic,
                self.ends.zone_namespace(),
            )])
            .map_err(self.refused())?;
        let inside = self
            .ends
            .zone
            .link(nic)
            .map_err(self.io("find it in the zone"))?;
        let inside = inside.ok_or_else(|| Error::Link {
            link: nic.to_owned(),
            why: "did not arrive in the zone".to_owned(),
        })?;
        held.moved_index = Some(inside.index);
        self.configure_ethernet(inside.index)?;
        self.announce_ethernet(inside.index, None);
        Ok(())
    }

    /// Announces the addresses of a link with neighbours as soon as the link on the host is ready
    /// to send. A bridge forwards frames only after that.
    fn announce_ethernet(&self, zone: u32, host: Option<&str>) {
        if self.link.addresses.is_empty() {
            return;
        }
        let is_up = |name: &str| {
            let found = self.ends.host.link(name).ok().flatten();
            found.is_none_or(|link| link.running)
        };
        for _ in 0..READY_TRIES {
            if host.is_none_or(is_up) {
                break;
            }
            std::thread::sleep(READY_PAUSE);
        }
        let inside = self.ends.zone.link_at(zone).ok().flatten();
        let mac = inside.and_then(|link| link.mac);
        self.announce(self.ends.zone_namespace(), zone, mac);
    }

    /// Sets the addresses and routes of a link with neighbours.
    fn configure_ethernet(&self, zone: u32) -> Result<(), Error> {
        let ready = Ready {
            own_addresses: true,
            ..Ready::default()
        };
        let mut requests = request::ready(&self.link.name, ready);
        for address in &self.link.addresses {
            requests.push(request::address(zone, address, true));
        }
        for router in &self.link.routers {
            let route = Route::to_everywhere(zone, *router, None);
            requests.push(request::route(&route));
        }
        self.ends.zone.change(requests).map_err(self.refused())
    }
}

/// Returns an Ethernet address for the host's side of a link with neighbours.
const fn other_end(mac: Mac) -> Mac {
    let mut bytes = mac.0;
    // The first byte is high, because a bridge takes the lowest address of its ports as its own.
    // The last byte differs from the zone's address, because a bridge does not forward frames for
    // the addresses of its ports.
    bytes[0] = 0xfe;
    bytes[5] = !bytes[5];
    Mac(bytes)
}
