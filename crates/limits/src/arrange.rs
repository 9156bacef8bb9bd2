//! Assigns CPUs: some zones have CPUs of their own, and all other zones share the rest.
//!
//! The CPUs of a zone are recorded in an attribute of its v2 group, the *claim*. Therefore the
//! claim ends with the group, however the zone ends. A command that changes claims holds the lock
//! of the base. The command assigns all CPUs again and binds every zone to its new CPUs: zones with
//! a claim to their set, the others to the rest.
//!
//! In v2 each zone's group has its own set. From Linux 6.7 on, CPUs of a single zone become a
//! partition, and then no other process of the host runs there either. In v1 a zone has a group in
//! the cpuset hierarchy only after any zone has made a claim, because this group costs time at
//! boot. In v1, and with older kernels, processes of the host may run on every CPU, because zones
//! do not change the groups of the host.

use std::fs;
use std::path::{Path, PathBuf};

use model::controls::{Control, Controls, Dedicated};
use rustix::fs::XattrFlags;
use serde::{Deserialize, Serialize};

use crate::cpus::{read, with_number};
use crate::groups::{is_gone, lock, make_v1, move_into, zones};
use crate::pools::{Number, Want, deal};
use crate::{CpuSet, Error, ZoneCgroups, controllers};

/// The name of the attribute that holds a claim.
const CLAIM: &str = "user.zones.pool";

/// Maximum length of a claim, in bytes.
const MAX_CLAIM_BYTES: usize = 4096;

/// The prefix of the name of a zone's own pool, as on Solaris.
pub const TEMPORARY_POOL: &str = "SUNWtmp_";

/// The importance of a zone that sets none.
const DEFAULT_IMPORTANCE: u32 = 1;

/// CPUs that a zone claims, alone or together with the other zones of its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The name of the pool: `SUNWtmp_<zone>` for a single zone, or the name of a shared pool.
    pub pool: String,
    /// The number or range of CPUs that the zone asks for.
    pub wanted: Dedicated,
    /// The importance when CPUs are scarce; the higher number wins.
    pub importance: u32,
    /// The assigned CPUs, in the kernel's notation.
    pub cpus: String,
    /// The pid of the claiming process. While this process lives, the claim is valid although no
    /// process runs in the zone yet.
    by: i32,
}

impl Claim {
    /// Returns the claim of a zone with these controls.
    pub(crate) fn of(zone: &str, controls: &Controls) -> Option<Self> {
        let own = controls.dedicated_cpu.as_ref();
        let own = own.map(|wanted| {
            (
                format!("{TEMPORARY_POOL}{zone}"),
                wanted,
                controls.importance,
            )
        });
        let pool = controls.pool.as_ref();
        let pool =
            pool.and_then(|pool| Some((pool.name.clone(), pool.wanted.as_ref()?, pool.importance)));
        let (pool, wanted, importance) = own.or(pool)?;
        Some(Self {
            pool,
            wanted: wanted.clone(),
            importance: importance.unwrap_or(DEFAULT_IMPORTANCE),
            cpus: String::new(),
            by: rustix::process::getpid().as_raw_nonzero().get(),
        })
    }

    /// Returns true if the claim belongs to a single zone.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.pool.starts_with(TEMPORARY_POOL)
    }

    fn want(&self, all: &CpuSet) -> Want {
        Want {
            number: match &self.wanted {
                Dedicated::Count(least, most) => Number::Between(*least as usize, *most as usize),
                Dedicated::Cpus(list) => Number::Named(CpuSet::parse(list)),
                Dedicated::Cores(list) => Number::Named(with_number(list, "core_id", all)),
                Dedicated::Sockets(list) => {
                    Number::Named(with_number(list, "physical_package_id", all))
                }
            },
            importance: self.importance,
            held: CpuSet::parse(&self.cpus),
        }
    }

    /// Returns true if no process uses the claim or will use it: the zone ended, and its groups
    /// were not removed yet.
    fn is_dead(&self, group: &Path) -> bool {
        let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
        events.contains("populated 0") && !Path::new("/proc").join(self.by.to_string()).exists()
    }
}

/// The groups of one zone in which its CPUs are set.
struct Seat {
    /// The v2 group, whose attribute holds the claim.
    v2: PathBuf,
    /// The v1 group in the cpuset hierarchy, if v1 has it.
    v1: Option<PathBuf>,
}

impl Seat {
    fn of(groups: &ZoneCgroups) -> Option<Self> {
        let v1 = groups.cpuset().cloned();
        let has_place = v1.is_some() || groups.v2.join("cpuset.cpus").exists();
        has_place.then(|| Self {
            v2: groups.v2.clone(),
            v1,
        })
    }

    /// Returns the seat of another zone of the same base.
    fn beside(&self, group: &Path) -> Self {
        let name = group.file_name().unwrap_or_default();
        Self {
            v2: group.to_owned(),
            v1: self.v1.as_ref().map(|path| path.with_file_name(name)),
        }
    }

    fn base(&self) -> &Path {
        self.v2.parent().unwrap_or(&self.v2)
    }

    /// Returns the group whose CPU set binds the zone.
    fn group(&self) -> &Path {
        self.v1.as_deref().unwrap_or(&self.v2)
    }

    /// Returns all CPUs that zones can have.
    fn available(&self, claims: &[(PathBuf, Claim)]) -> Result<CpuSet, Error> {
        if let Some(v1) = &self.v1 {
            let base = v1.parent().unwrap_or(v1);
            make_v1(base)?;
            return Ok(CpuSet::parse(&read(&base.join("cpuset.cpus"))?));
        }
        // CPUs of partitions are no longer in this set.
        let left = CpuSet::parse(&read(&self.base().join("cpuset.cpus.effective"))?);
        Ok(left.with(&held_by(claims)))
    }

    /// Binds the zone to CPUs. Processes that already run in the zone move to these CPUs.
    fn bind(&self, set: &CpuSet) -> Result<(), Error> {
        let Some(v1) = &self.v1 else {
            return write(&self.v2, "cpuset.cpus", &set.to_string());
        };
        let is_new = !v1.exists();
        make_v1(v1)?;
        write(v1, "cpuset.cpus", &set.to_string())?;
        if !is_new {
            return Ok(());
        }
        // At its end, a zone removes its v2 group first. If that group is gone, no command would
        // remove a v1 group that is made now.
        if !self.v2.exists() {
            let _ = fs::remove_dir(v1);
            return Ok(());
        }
        move_into(v1, &self.v2)
    }

    /// Makes the CPUs of a zone a partition, so that no other process of the host uses them, if
    /// this kernel can.
    fn close(&self, closed: &CpuSet, set: &CpuSet) {
        let partition = self.v2.join("cpuset.cpus.partition");
        let exclusive = self.v2.join("cpuset.cpus.exclusive");
        if self.v1.is_some()
            || !exclusive.exists()
            || !self.base().join("cpuset.cpus.exclusive").exists()
        {
            return;
        }
        let closing = || -> std::io::Result<bool> {
            fs::write(
                self.base().join("cpuset.cpus.exclusive"),
                closed.to_string(),
            )?;
            fs::write(&exclusive, set.to_string())?;
            fs::write(&partition, "root")?;
            Ok(fs::read_to_string(&partition)?.trim() == "root")
        };
        if !closing().unwrap_or_default() {
            self.open();
        }
    }

    /// Undoes [`Seat::close`].
    fn open(&self) {
        if is_closed(&self.v2) {
            let _ = fs::write(self.v2.join("cpuset.cpus.partition"), "member");
        }
        clear(&self.v2.join("cpuset.cpus.exclusive"));
    }
}

/// Empties a set of CPUs, if the file exists and is not empty.
fn clear(path: &Path) {
    if fs::read_to_string(path).is_ok_and(|set| !set.trim().is_empty()) {
        let _ = fs::write(path, "\n");
    }
}

/// Returns true if the v2 group is a partition: only its zone runs on the CPUs of the group.
fn is_closed(group: &Path) -> bool {
    let shown = fs::read_to_string(group.join("cpuset.cpus.partition"));
    shown.is_ok_and(|shown| shown.starts_with("root"))
}

/// Returns the claim of a zone: its own CPUs, or those of its pool. `group` is the zone's v2 group.
#[must_use]
pub fn claimed(group: &Path) -> Option<Claim> {
    let mut text = [0; MAX_CLAIM_BYTES];
    let length = rustix::fs::getxattr(group, CLAIM, &mut text[..]).ok()?;
    serde_json::from_slice(text.get(..length)?).ok()
}

/// The processes that cannot run on the CPUs of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptOff {
    /// All other processes of the host.
    Everybody,
    /// The processes of other zones.
    Zones,
}

/// Claims CPUs for a zone. With `None`, ends the claim of the zone. Returns the zone's former
/// claim.
///
/// # Errors
/// Fails with [`Error::NoCpus`] or [`Error::CpusTaken`], and then changes nothing. The caller
/// undoes a successful call by claiming the former CPUs.
pub(crate) fn claim(groups: &ZoneCgroups, new: Option<Claim>) -> Result<Option<Claim>, Error> {
    let before = claimed(&groups.v2);
    if new.is_none() && before.is_none() {
        return Ok(None);
    }
    let change = Change::Claim(new);
    let control = change.control();
    if let Some(base) = groups.v2.parent() {
        // The cpuset controller is enabled only on demand, because it makes every scheduling
        // decision slower.
        let _ = controllers::hand_down(base, &["cpuset"]);
    }
    let seat = Seat::of(groups).ok_or_else(|| groups.unsupported(control))?;
    let _lock = lock(seat.base())?;
    arrange(&seat, change)?;
    Ok(before)
}

/// Returns which processes cannot run on the CPUs that a zone has claimed.
pub(crate) fn kept_off(groups: &ZoneCgroups) -> KeptOff {
    match is_closed(&groups.v2) {
        true => KeptOff::Everybody,
        false => KeptOff::Zones,
    }
}

/// Returns the CPUs that a zone has claimed, in the kernel's notation.
pub(crate) fn held(groups: &ZoneCgroups) -> Option<(Claim, CpuSet)> {
    let claim = claimed(&groups.v2)?;
    let seat = Seat::of(groups)?;
    let shown = fs::read_to_string(seat.group().join("cpuset.cpus")).ok()?;
    Some((claim, CpuSet::parse(&shown)))
}

/// Binds a new zone to CPUs that no other zone has claimed.
pub(crate) fn admit(groups: &ZoneCgroups) -> Result<(), Error> {
    let Some(seat) = Seat::of(groups) else {
        return Ok(());
    };
    // While no zone has a claim, every zone may use every CPU.
    let parent = seat.group().parent();
    if !parent.is_some_and(|base| base.join("cpuset.cpus").exists()) {
        return Ok(());
    }
    let _lock = lock(seat.base())?;
    let claims = claims(&seat, &zones(seat.base()));
    if claims.is_empty() {
        return Ok(());
    }
    seat.bind(&seat.available(&claims)?.without(&held_by(&claims)))
}

/// Assigns the CPUs of an ended zone again. The groups of this zone are already removed.
pub(crate) fn release(groups: &ZoneCgroups) -> Result<(), Error> {
    let Some(seat) = Seat::of(groups) else {
        return release_v2(groups);
    };
    let _lock = lock(seat.base())?;
    arrange(&seat, Change::None)
}

/// The files of the ended zone are gone, so the base tells in which hierarchy the controller is.
fn release_v2(groups: &ZoneCgroups) -> Result<(), Error> {
    let seat = Seat {
        v2: groups.v2.clone(),
        v1: None,
    };
    if !seat.base().join("cpuset.cpus.effective").exists() {
        return Ok(());
    }
    let _lock = lock(seat.base())?;
    arrange(&seat, Change::None)
}

enum Change {
    /// The new claim of the zone to which the seat belongs; `None` ends its claim.
    Claim(Option<Claim>),
    None,
}

impl Change {
    /// Returns the control that the user changes.
    fn control(&self) -> Control {
        match self {
            Self::Claim(Some(claim)) if !claim.is_temporary() => Control::Pool,
            _ => Control::DedicatedCpu,
        }
    }
}

/// Returns all CPUs that can be assigned.
fn held_by(claims: &[(PathBuf, Claim)]) -> CpuSet {
    let sets = claims.iter().map(|(_, claim)| CpuSet::parse(&claim.cpus));
    sets.fold(CpuSet::default(), |all, set| all.with(&set))
}

/// Returns the claims of all zones, except those of zones that ended.
fn claims(seat: &Seat, zones: &[PathBuf]) -> Vec<(PathBuf, Claim)> {
    zones
        .iter()
        .filter_map(|zone| Some((zone.clone(), claimed(zone)?)))
        .filter(|(zone, claim)| *zone == seat.v2 || !claim.is_dead(zone))
        .collect()
}

// This function is long because the order of its steps is the rule: partitions are opened before
// claims are stored, claims are stored before groups are bound, and partitions are closed last.
fn arrange(seat: &Seat, change: Change) -> Result<(), Error> {
    let zones = zones(seat.base());
    let mut claims = claims(seat, &zones);
    if claims.is_empty()
        && matches!(change, Change::None | Change::Claim(None))
        && seat.v1.is_none()
    {
        // No zone has a claim, and none had one before.
        if zones.iter().all(|zone| !is_bound(zone)) {
            return Ok(());
        }
    }
    let all = seat.available(&claims)?;
    let is_end = matches!(change, Change::None | Change::Claim(None));
    let control = change.control();
    if let Change::Claim(new) = change {
        let before = claims.iter().find(|(zone, _)| *zone == seat.v2).cloned();
        claims.retain(|(zone, _)| *zone != seat.v2);
        if let Some(mut new) = new {
            // A changed definition of a pool applies to all zones in it.
            for (_, claim) in claims
                .iter_mut()
                .filter(|(_, claim)| claim.pool == new.pool)
            {
                claim.wanted.clone_from(&new.wanted);
                claim.importance = new.importance;
                new.cpus.clone_from(&claim.cpus);
            }
            if let Some((_, before)) = before.filter(|(_, before)| before.pool == new.pool) {
                new.cpus = before.cpus;
            }
            claims.push((seat.v2.clone(), new));
        }
    }
    let taken = match share_out(&all, &mut claims, control) {
        // All zones keep their CPUs, because the halt of a zone must not fail for lack of CPUs.
        Err(_) if is_end => held_by(&claims),
        other => other?,
    };
    let rest = all.without(&taken);
    let has = |zone: &Path| claims.iter().find(|(holder, _)| holder == zone);
    // All partitions that change are opened first, because two partitions must never have the same
    // CPU.
    for zone in &zones {
        let stays = has(zone).is_some_and(|(_, claim)| claimed(zone).as_ref() == Some(claim));
        if !stays {
            seat.beside(zone).open();
        }
    }
    let mut result = Ok(());
    for (zone, claim) in &claims {
        result = result.and(remember(zone, claim));
    }
    for zone in &zones {
        let one = seat.beside(zone);
        let set = has(zone).map_or_else(|| rest.clone(), |(_, claim)| CpuSet::parse(&claim.cpus));
        if has(zone).is_none() {
            let _ = rustix::fs::removexattr(zone, CLAIM);
            // This group had no CPUs of its own, and gets none.
            let was_bound = one
                .v1
                .as_ref()
                .map_or_else(|| is_bound(zone), |path| path.exists());
            if claims.is_empty() && !was_bound {
                continue;
            }
        }
        match one.bind(&set) {
            // The zone ends at this moment.
            Err(Error::File { source, .. }) if *zone != seat.v2 && is_gone(&source) => {}
            other => result = result.and(other),
        }
    }
    let closed: Vec<(&PathBuf, CpuSet)> = claims
        .iter()
        .filter(|(_, claim)| claim.is_temporary())
        .map(|(zone, claim)| (zone, CpuSet::parse(&claim.cpus)))
        .collect();
    let together = closed
        .iter()
        .fold(CpuSet::default(), |all, (_, set)| all.with(set));
    for (zone, set) in &closed {
        if !is_closed(zone) {
            seat.beside(zone).close(&together, set);
        }
    }
    if closed.is_empty() {
        clear(&seat.base().join("cpuset.cpus.exclusive"));
    }
    result
}

/// Returns true if a v2 group is bound to a CPU set of its own.
fn is_bound(zone: &Path) -> bool {
    let set = fs::read_to_string(zone.join("cpuset.cpus"));
    set.is_ok_and(|set| !set.trim().is_empty())
}

/// Assigns CPUs to all claimed pools. Returns the set of all assigned CPUs.
fn share_out(
    all: &CpuSet,
    claims: &mut [(PathBuf, Claim)],
    control: Control,
) -> Result<CpuSet, Error> {
    // Each pool is assigned once, at the position of its last claim.
    let mut pools: Vec<Claim> = Vec::new();
    for (_, claim) in claims.iter() {
        pools.retain(|pool| pool.pool != claim.pool);
        pools.push(claim.clone());
    }
    let wants: Vec<Want> = pools.iter().map(|claim| claim.want(all)).collect();
    let sets = deal(all, &wants, control)?;
    for (pool, set) in pools.iter().zip(&sets) {
        for (_, claim) in claims
            .iter_mut()
            .filter(|(_, claim)| claim.pool == pool.pool)
        {
            claim.cpus = set.to_string();
        }
    }
    Ok(sets
        .iter()
        .fold(CpuSet::default(), |all, set| all.with(set)))
}

fn remember(zone: &Path, claim: &Claim) -> Result<(), Error> {
    // A claim is plain data, so its conversion to JSON does not fail.
    let text = serde_json::to_vec(claim).unwrap_or_default();
    rustix::fs::setxattr(zone, CLAIM, &text, XattrFlags::empty())
        .map_err(|errno| Error::file("mark the CPUs of", zone)(errno.into()))
}

fn write(group: &Path, file: &str, text: &str) -> Result<(), Error> {
    let path = group.join(file);
    if fs::read_to_string(&path).is_ok_and(|shown| shown.trim() == text) {
        return Ok(());
    }
    fs::write(&path, text).map_err(Error::file("write", &path))
}
