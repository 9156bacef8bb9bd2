//! Keeps the zone's rules in the host's firewall, and the resolver of zones.

use std::time::Instant;

use host::flatten;
use net::host_side::Needs;
use net::watch::Watch;
use subject::network::Records;
use subject::network::resolver::{self, Watched};

use super::Server;
use super::wait::{Source, Woken};

impl Server<'_> {
    /// Watches the host's firewall if the host routes for the zone. The firewall then has rules of
    /// the zone, or may get them after a change of the zone's configuration.
    pub(super) fn watch_rules(&self) -> Option<Watch> {
        let record = Records::of(&self.host.root).load(self.zone).ok()??;
        if Needs::of_record(&record).is_nothing() {
            return None;
        }
        let watch = Watch::open(self.runtime.id);
        let watch = watch.inspect_err(|error| {
            self.log(&format!(
                "WARNING: rules that another program removes from the host's firewall do not \
                 come back by themselves: {error}"
            ));
        });
        watch.ok()
    }

    /// Restores the zone's rules after another program has removed them, a short time after the
    /// change of the firewall. Restores the resolver a short time after its end.
    pub(super) fn mind_rules(&mut self, woken: &Woken) {
        let Some(watch) = &mut self.firewall else {
            return;
        };
        let now = Instant::now();
        if woken.has(Source::Firewall) {
            watch.take_messages(now);
        }
        if woken.has(Source::Resolver) {
            self.resolver = None;
            watch.plan_check(now);
        }
        if !watch.is_due(now) {
            return;
        }
        match Records::of(&self.host.root).restore(self.zone) {
            Ok(restored) => {
                if restored.rules {
                    self.log(
                        "another program removed rules for zones from the host's firewall; they \
                         are back",
                    );
                }
                if restored.resolver {
                    self.log("the resolver of zones had ended; it runs again");
                }
                for remark in restored.remarks {
                    self.log(&format!("WARNING: {remark}"));
                }
            }
            Err(why) => {
                self.log(&format!(
                    "WARNING: could not restore rules for zones in the host's firewall: {}",
                    flatten(&why)
                ));
                // A planned check would fail and warn again and again.
                if let Watched::Up(resolver) = resolver::watch() {
                    self.resolver = Some(resolver);
                }
                return;
            }
        }
        self.watch_resolver();
    }

    /// Watches the resolver of zones. If it has ended before it could be watched, and the zone needs
    /// it, a check is planned, which restores it.
    pub(super) fn watch_resolver(&mut self) {
        let Some(watch) = &mut self.firewall else {
            return;
        };
        self.resolver = match resolver::watch() {
            Watched::Up(resolver) => Some(resolver),
            Watched::Lost => {
                let record = Records::of(&self.host.root).load(self.zone).ok().flatten();
                if record.is_some_and(|record| Needs::of_record(&record).has_pool()) {
                    watch.plan_check(Instant::now());
                }
                None
            }
            Watched::Down => None,
        };
    }
}
