//! The templates: the configurations from which `create` starts.
//!
//! A template is an ordinary configuration. The file of a template in `/etc/zones` has the name of
//! the template, so any zone can be a template (`create -t web`). If `/etc/zones` has no file of
//! that name, the template is one of the built-in templates.

use std::path::Path;

use model::{Config, ZoneName, name};

use crate::{Error, Root, identity, xml};

/// The template that `create` uses by default.
pub const DEFAULT: &str = "SUNWdefault";

/// The template of `create -b`, the command with which each export begins.
pub const BLANK: &str = "SUNWblank";

/// The built-in templates, by name, which need no file in `/etc/zones`.
static BUILT_IN: &[(&str, &str)] = &[
    ("SUNWdefault", include_str!("templates/SUNWdefault.xml")),
    ("SUNWblank", include_str!("templates/SUNWblank.xml")),
    ("SUNWlx", include_str!("templates/SUNWlx.xml")),
    ("SYSdefault", include_str!("templates/SYSdefault.xml")),
    ("SYSblank", include_str!("templates/SYSblank.xml")),
    ("SYSlx", include_str!("templates/SYSlx.xml")),
    ("SYSsmall", include_str!("templates/SYSsmall.xml")),
    ("SYSsystemd", include_str!("templates/SYSsystemd.xml")),
    ("SYSsolaris", include_str!("templates/SYSsolaris.xml")),
    ("SYSsolaris-kz", include_str!("templates/SYSsolaris-kz.xml")),
];

/// The reason why a template gives no configuration.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template has no file, and is not built in.
    #[error("{0}: No such zone configured")]
    NoSuchTemplate(String),
    /// The file of the template cannot be used.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Returns the names of the built-in templates.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Returns a configuration for `zone` from a template.
///
/// `host_dirs` are the software directories that are real directories on this host: only `/usr` if
/// /usr is merged. Built-in templates inherit only the directories in `host_dirs`, and give a
/// kernel zone at most the `cpus` CPUs of this host. The content of a template file is used
/// unchanged.
///
/// # Errors
/// Fails with [`TemplateError`].
pub fn load(
    root: &Root,
    template: &str,
    zone: &ZoneName,
    host_dirs: &[&str],
    cpus: u32,
) -> Result<Config, TemplateError> {
    let missing = || TemplateError::NoSuchTemplate(template.to_owned());
    // This check also refuses a name that is a path to another folder.
    if !name::is_well_formed(template) {
        return Err(missing());
    }
    let path = root.etc().join(format!("{template}.xml"));
    if let Some(text) = xml::read_bounded(&path)? {
        return Ok(xml::parse(&text, &path, template, zone)?);
    }
    let mut built_in = BUILT_IN.iter();
    let (_, text) = built_in
        .find(|(name, _)| *name == template)
        .ok_or_else(missing)?;
    let mut config = xml::parse(text, Path::new(template), template, zone)?;
    config.retain(|resource| {
        resource.spec().name != "inherit-pkg-dir" || host_dirs.contains(&resource.get("dir"))
    });
    let virtual_cpu = config.resources_of("virtual-cpu").next().cloned();
    if let Some(one) = virtual_cpu.filter(|_| config.machine_cpus() > cpus) {
        let mut fewer = one.clone();
        fewer
            .set("ncpus", &cpus.max(1).to_string())
            .and_then(|()| config.replace(&one, fewer))
            .map_err(|error| Error::Damaged {
                path: template.into(),
                line: 1,
                reason: Box::new(error.into()),
            })?;
    }
    Ok(config)
}

/// The name of the file that a detached zone leaves in its zonepath.
pub use crate::xml::manifest::DETACHED;

/// Returns the configuration that a detached zone left in `zonepath`, as the configuration of
/// `zone` with that zonepath. `zonepath` is relative to the root. If the zone was not detached,
/// because its host died, the configuration is the one with which it last booted.
///
/// # Errors
/// Fails with [`TemplateError`].
pub fn detached(root: &Root, zonepath: &str, zone: &ZoneName) -> Result<Config, TemplateError> {
    let folder = root.path(Path::new(zonepath));
    let mut path = folder.join(DETACHED);
    let text = match xml::read_bounded(&path)? {
        Some(text) => text,
        None => match identity::read(&folder)?.configuration {
            Some(stored) => {
                path = folder.join(identity::FILE);
                stored.text
            }
            None => return Err(TemplateError::NoSuchTemplate(path.display().to_string())),
        },
    };
    let mut config = xml::parse_any(&text, &path, zone)?;
    let damaged = |error: model::config::Error| Error::Damaged {
        path: path.clone(),
        line: 1,
        reason: Box::new(error.into()),
    };
    config
        .set_zonepath(&zonepath.replace('%', "%%"))
        .map_err(damaged)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::IpType;

    fn from(template: &str, host_dirs: &[&str]) -> Result<Config, TemplateError> {
        let dir = tempfile::tempdir().unwrap();
        load(
            &Root::new(dir.path()),
            template,
            &"web1".parse().unwrap(),
            host_dirs,
            8,
        )
    }

    #[test]
    fn every_built_in_template_is_a_complete_configuration() {
        for template in built_in() {
            let config = from(template, &["/usr"]).unwrap();
            assert_eq!(config.zonepath(), Path::new("/zones/web1"), "{template}");
            assert_eq!(model::verify::config(&config), [], "{template}");
        }
    }

    #[test]
    fn templates_are_what_their_names_promise() {
        for (template, brand, ip_type, inherited) in [
            ("SUNWdefault", "native", IpType::Shared, &["/usr"][..]),
            ("SUNWblank", "native", IpType::Shared, &[]),
            ("SUNWlx", "lx", IpType::Shared, &[]),
            ("SYSdefault", "native", IpType::Exclusive, &[]),
            ("SYSblank", "native", IpType::Exclusive, &[]),
            ("SYSlx", "lx", IpType::Exclusive, &[]),
            ("SYSsmall", "native", IpType::Exclusive, &["/usr"]),
            ("SYSsystemd", "native", IpType::Exclusive, &[]),
        ] {
            let config = from(template, &["/usr"]).unwrap();
            assert_eq!(config.brand(), brand, "{template}");
            assert_eq!(config.ip_type(), ip_type, "{template}");
            let expected: Vec<_> = inherited.iter().map(std::path::PathBuf::from).collect();
            assert_eq!(config.inherited_dirs(), expected, "{template}");
        }
        for (template, init) in [
            ("SUNWdefault", None),
            ("SYSsmall", Some("zinit")),
            ("SYSsystemd", Some("/lib/systemd/systemd")),
        ] {
            let config = from(template, &["/usr"]).unwrap();
            assert_eq!(config.attr("init"), init, "{template}");
        }
        let unmerged = from("SUNWdefault", &["/usr", "/lib", "/bin"]).unwrap();
        assert_eq!(unmerged.inherited_dirs().len(), 3);
    }

    #[test]
    fn a_machine_has_no_more_processors_than_its_host() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let zone: ZoneName = "k1".parse().unwrap();
        for (host, machine) in [(1, 1), (2, 2), (4, 4), (64, 4)] {
            let config = load(&root, "SYSsolaris-kz", &zone, &[], host).unwrap();
            assert_eq!(config.machine_cpus(), machine, "{host}");
        }
        // A template file that an administrator wrote is used unchanged.
        let own = load(&root, "SYSsolaris-kz", &zone, &[], 8).unwrap();
        xml::save(&root, &own).unwrap();
        let config = load(&root, "k1", &"k2".parse().unwrap(), &[], 2).unwrap();
        assert_eq!(config.machine_cpus(), 4);
    }

    #[test]
    fn a_file_comes_first_and_any_zone_can_be_a_template() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut web = Config::new("web".parse().unwrap());
        web.set("bootargs", "-s").unwrap();
        xml::save(&root, &web).unwrap();
        let zone: ZoneName = "web2".parse().unwrap();
        let config = load(&root, "web", &zone, &[], 8).unwrap();
        assert_eq!((config.name(), config.bootargs()), (&zone, "-s"));

        let own = "<zone name='SUNWdefault'><inherited-pkg-dir directory='/opt'/></zone>";
        std::fs::write(root.etc().join("SUNWdefault.xml"), own).unwrap();
        let config = load(&root, DEFAULT, &zone, &["/usr"], 8).unwrap();
        assert_eq!(config.inherited_dirs(), [Path::new("/opt")]);
    }

    #[test]
    fn unknown_names_and_paths_are_no_templates() {
        for name in ["nosuch", "../../etc/passwd", "", "a/b"] {
            let error = from(name, &[]).unwrap_err().to_string();
            assert_eq!(error, format!("{name}: No such zone configured"));
        }
    }
}
