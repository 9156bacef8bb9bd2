//! The configurations that `create` starts from.
//!
//! A template is an ordinary configuration: the file of that name in
//! `/etc/zones`, so any zone can be one (`create -t web`), or else one of those
//! that are built in, which are such files too.

use std::path::Path;

use model::{Config, ZoneName, name};

use crate::{Error, Root, xml};

/// The template of `create`.
pub const DEFAULT: &str = "SUNWdefault";

/// The template of `create -b`, with which an export begins.
pub const BLANK: &str = "SUNWblank";

/// The templates that need no file, by name.
static BUILT_IN: &[(&str, &str)] = &[
    ("SUNWdefault", include_str!("templates/SUNWdefault.xml")),
    ("SUNWblank", include_str!("templates/SUNWblank.xml")),
    ("SUNWlx", include_str!("templates/SUNWlx.xml")),
    ("SYSdefault", include_str!("templates/SYSdefault.xml")),
    ("SYSblank", include_str!("templates/SYSblank.xml")),
    ("SYSlx", include_str!("templates/SYSlx.xml")),
    ("SYSsolaris", include_str!("templates/SYSsolaris.xml")),
    ("SYSsolaris-kz", include_str!("templates/SYSsolaris-kz.xml")),
];

/// Why there is no configuration from a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Neither a file nor built in.
    #[error("{0}: No such zone configured")]
    NoSuchTemplate(String),
    /// Its file cannot be used.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The names of the built-in templates.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// A configuration for `zone` from a template.
///
/// `host_dirs` are the directories of software that this host has as real directories: just `/usr`
/// where /usr is merged. Built-in templates inherit no others, and give a kernel zone at most the
/// `cpus` that this host has; the content of a file is not changed.
///
/// # Errors
/// [`TemplateError`].
pub fn load(
    root: &Root,
    template: &str,
    zone: &ZoneName,
    host_dirs: &[&str],
    cpus: u32,
) -> Result<Config, TemplateError> {
    let missing = || TemplateError::NoSuchTemplate(template.to_owned());
    // This also keeps the name from being a path out of the folder.
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

/// The file that a zone leaves in its zonepath when it is detached.
pub use crate::xml::manifest::DETACHED;

/// The configuration that a detached zone has left in `zonepath`, a path below the
/// root, as that of `zone` at this place.
///
/// # Errors
/// [`TemplateError`].
pub fn detached(root: &Root, zonepath: &str, zone: &ZoneName) -> Result<Config, TemplateError> {
    let path = root.path(Path::new(zonepath)).join(DETACHED);
    let Some(text) = xml::read_bounded(&path)? else {
        return Err(TemplateError::NoSuchTemplate(path.display().to_string()));
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
        ] {
            let config = from(template, &["/usr"]).unwrap();
            assert_eq!(config.brand(), brand, "{template}");
            assert_eq!(config.ip_type(), ip_type, "{template}");
            let expected: Vec<_> = inherited.iter().map(std::path::PathBuf::from).collect();
            assert_eq!(config.inherited_dirs(), expected, "{template}");
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
        // A file that an administrator wrote is used as it is.
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
