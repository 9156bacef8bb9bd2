//! The subcommands that act on zones, on one or on many at once.

use host::{Error, Host, flatten};
use model::verb::Admission;
use model::{State, Verb, ZoneName};
use store::index::Index;
use zone::clone::Unknown;
use zone::uninstall::Data;

use crate::call::Call;
use crate::choose::prepare;
use crate::options::{Options, Parsed, parse};
use crate::{amount, apply, attach, delegated, many, report, usage};

pub fn run(call: &Call) -> u8 {
    let verb = call.verb.as_str();
    let options = match parse(verb, &call.rest) {
        Ok(Parsed::Options(options)) => Options {
            words: call.zones.clone(),
            ..*options
        },
        Ok(Parsed::Help) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    if call.root.is_some() && !matches!(verb, "mark" | "mount" | "unmount") {
        return usage::complain(&format!("-R does not go with {verb}"), None);
    }
    if let Some(manifest) = &options.manifest {
        return attach::check(call, manifest);
    }
    if call.zones.is_empty() && call.uuid.is_none() {
        return usage::complain(&format!("{verb} needs a zone: -z zonename"), Some(verb));
    }
    if let Some(zone) = cli::current_zone() {
        eprintln!("zoneadm: zone '{zone}': must be in the global zone to {verb} a zone.");
        return cli::status::ERROR;
    }
    if verb == "apply" && call.zones == [model::name::GLOBAL] && cli::is_root() {
        return balance(call, options.dry_run);
    }
    if call.zones.iter().any(|zone| zone == model::name::GLOBAL) {
        eprintln!("zoneadm: zone 'global': {verb} operation is invalid for the global zone.");
        return cli::status::ERROR;
    }
    if !cli::is_root() {
        let has_question = matches!(verb, "uninstall" | "rollback");
        let asks = has_question && !options.force && !options.shared_disks && !options.dry_run;
        return delegated::run(call, asks);
    }
    match prepare(call) {
        Ok((host, zones)) => {
            let plan_only = options.dry_run;
            dispatch(&Host { plan_only, ..host }, verb, &zones, &options)
        }
        Err(text) => {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        }
    }
}

/// Applies the configuration of the global zone: its shares of the CPUs.
fn balance(call: &Call, dry_run: bool) -> u8 {
    let done = cli::host(call.root.as_deref())
        .map_err(|error| error.to_string())
        .and_then(|host| match dry_run {
            true => Ok(()),
            false => platform::controls::balance(&host).map_err(|error| flatten(&error)),
        });
    match done {
        Ok(()) => cli::status::OK,
        Err(text) => {
            eprintln!("zoneadm: zone 'global': {text}");
            cli::status::ERROR
        }
    }
}

/// Returns the exit status of a subcommand that names no zone or the global zone, or that runs in a
/// zone, after printing the reason.
pub fn cannot_begin(call: &Call) -> Option<u8> {
    let verb = call.verb.as_str();
    if call.zones.is_empty() && call.uuid.is_none() {
        let text = format!("{verb} needs a zone: -z zonename");
        return Some(usage::complain(&text, Some(verb)));
    }
    if let Some(zone) = cli::current_zone() {
        eprintln!("zoneadm: zone '{zone}': must be in the global zone to {verb} a zone.");
        return Some(cli::status::ERROR);
    }
    if call.zones.iter().any(|zone| zone == model::name::GLOBAL) {
        eprintln!("zoneadm: zone 'global': {verb} operation is invalid for the global zone.");
        return Some(cli::status::ERROR);
    }
    None
}

/// Returns the host and the zones of a subcommand that zoneauthd does not run. Fails with the exit
/// status if the subcommand must stop. `asks` is true if the subcommand asks the user a question.
pub fn admitted(call: &Call, asks: bool) -> Result<(Host, Vec<ZoneName>), u8> {
    if let Some(status) = cannot_begin(call) {
        return Err(status);
    }
    if !cli::is_root() {
        return Err(delegated::run(call, asks));
    }
    prepare(call).map_err(|text| {
        eprintln!("zoneadm: {text}");
        cli::status::ERROR
    })
}

fn dispatch(host: &Host, verb: &str, zones: &[ZoneName], options: &Options) -> u8 {
    match verb {
        "clone" => {
            let unknown = match options.create {
                true => Unknown::Configure,
                false => Unknown::Refuse,
            };
            let source = many::Source {
                zone: options.operand.as_deref().unwrap_or_default(),
                snapshot: options.snapshot.clone(),
                profile: options.profile.clone(),
            };
            many::clone(host, zones, source, unknown, options.dry_run)
        }
        "apply" => apply::all(host, zones, options.dry_run, options.quiet),
        "uninstall" if !options.force && !options.shared_disks && !options.dry_run => {
            let (zones, refused) = can_be_uninstalled(host, zones, options.delete);
            let deed = match options.delete {
                true => "uninstall and delete",
                false => verb,
            };
            // No question is asked about zones that do not exist.
            match zones.as_slice() {
                [] => refused,
                zones => refused.max(
                    ask(verb, deed, zones)
                        .unwrap_or_else(|| act_on_each(host, verb, zones, options)),
                ),
            }
        }
        "rollback" if !options.force && !options.dry_run => {
            let lost = "roll back, losing all later changes,";
            ask(verb, lost, zones).unwrap_or_else(|| act_on_each(host, verb, zones, options))
        }
        _ => act_on_each(host, verb, zones, options),
    }
}

fn act_on_each(host: &Host, verb: &str, zones: &[ZoneName], options: &Options) -> u8 {
    if verb == "move" && zones.len() > 1 {
        let text = "move takes one zone: each zone needs a zonepath of its own";
        return usage::complain(text, Some(verb));
    }
    let is_guarded = options.data() != Data::Removed;
    if verb == "uninstall" && !is_guarded && (options.delete || zones.len() > 1 && !options.dry_run)
    {
        return many::uninstall(host, zones, options);
    }
    many::for_each(verb, zones, |zone, progress| match verb {
        "verify" => {
            let verified = zone::verify::verify(host, zone)?;
            warn_of_what_has_no_effect(host, zone);
            Ok(verified)
        }
        "install" => zone::install::install(host, zone, &options.brand, options.dry_run, progress),
        "uninstall" => {
            let data = options.data();
            zone::uninstall::uninstall(host, zone, data, options.dry_run, progress)
        }
        "move" => {
            let to = options.operand.as_deref().unwrap_or_default();
            zone::relocate::relocate(host, zone, to.as_ref(), options.dry_run, progress)
        }
        "detach" => zone::detach::detach(host, zone, options.dry_run, options.force, progress),
        "attach" => zone::attach::attach(host, zone, &options.attach, &attach::updater, progress),
        "ready" => zone::boot::ready(host, zone, options.dry_run),
        "boot" if options.boot.eager && zones.len() == 1 => {
            let boot = || zone::boot::boot(host, zone, &options.boot, options.dry_run);
            amount::follow(host, zone, "resume", boot)
        }
        "boot" => zone::boot::boot(host, zone, &options.boot, options.dry_run),
        "reboot" => zone::reboot::reboot(host, zone, &options.boot, options.dry_run),
        "shutdown" => {
            let again = options.again.then_some(&options.boot);
            zone::shutdown::shutdown(host, zone, again, options.dry_run)
        }
        "suspend" if zones.len() == 1 => {
            let suspend = || zone::suspend::suspend(host, zone, options.dry_run);
            amount::follow(host, zone, verb, suspend)
        }
        "suspend" => zone::suspend::suspend(host, zone, options.dry_run),
        "savecore" => zone::savecore::savecore(host, zone, options.dry_run, progress),
        "halt" => zone::halt::halt(host, zone, options.dry_run),
        "mount" => zone::mount::mount(host, zone, options.dry_run),
        "unmount" => zone::mount::unmount(host, zone, options.dry_run),
        "mark" => zone::mark::incomplete(host, zone, options.dry_run),
        "snapshot" => {
            let name = options.named()?;
            zone::snapshot::snapshot(host, zone, &name, options.dry_run, progress)
        }
        "merge" if zones.len() == 1 => amount::show(zone, verb, |tell| {
            zone::merge::merge(host, zone, options.dry_run, tell)
        }),
        "merge" => zone::merge::merge(host, zone, options.dry_run, &mut |_, _| {}),
        "destroy-snapshot" => {
            zone::snapshot::destroy(host, zone, &options.named()?, options.dry_run)
        }
        "quota" => zone::quota::set(host, zone, options.quota, options.dry_run),
        "rollback" => zone::rollback::rollback(host, zone, &options.named()?, options.dry_run),
        other => Err(Error::Usage(format!("{other}: unknown subcommand"))),
    })
}

/// Returns the zones that can be uninstalled in their present state, and the exit status for the
/// other zones. Prints an error for each other zone. The verb checks the state again under the
/// zone's lock.
fn can_be_uninstalled(host: &Host, zones: &[ZoneName], delete: bool) -> (Vec<ZoneName>, u8) {
    let mut status = cli::status::OK;
    let index = match Index::load(&host.root) {
        Ok(index) => index,
        Err(error) => {
            eprintln!("zoneadm: {}", flatten(&error));
            return (Vec::new(), cli::status::ERROR);
        }
    };
    let look = |zone: &ZoneName| -> Result<(), Error> {
        let (state, _) = subject::state(host, index.get(zone)?)?;
        if delete && state == State::Configured {
            return Ok(());
        }
        match Verb::Uninstall.admission(state) {
            Admission::Refuse(text) => Err(Error::State(text)),
            Admission::Go | Admission::Already(_) => Ok(()),
        }
    };
    let mut possible = zones.to_vec();
    possible.retain(|zone| match look(zone) {
        Ok(()) => true,
        Err(error) => {
            status = status.max(report::error(zone.as_str(), &error));
            false
        }
    });
    (possible, status)
}

/// Warns at verify of settings that are stored but have no effect yet.
fn warn_of_what_has_no_effect(host: &Host, zone: &ZoneName) {
    // Verify has just read the configuration. If the file is gone now, there are no settings to
    // warn of.
    let Ok(config) = store::xml::load(&host.root, zone) else {
        return;
    };
    for line in zone::verify::warnings(host, &config) {
        eprintln!("zoneadm: zone '{zone}': WARNING: {line}");
    }
}

/// Asks for confirmation before data is lost. Returns an exit status if the subcommand must stop.
fn ask(verb: &str, deed: &str, zones: &[ZoneName]) -> Option<u8> {
    if !cli::prompt::can_ask() {
        eprintln!("zoneadm: Input not from terminal and -F not specified: {verb} not done.");
        return Some(cli::status::ERROR);
    }
    let what = match zones {
        [zone] => format!("zone {zone}"),
        many => format!("{} zones", many.len()),
    };
    let yes = cli::prompt::confirm(&format!("Are you sure you want to {deed} {what}"));
    (!yes).then_some(cli::status::OK)
}
