//! zoneimg(8): the images that zones are installed from.

#[macro_use(print, println, eprint, eprintln)]
extern crate cli;

mod catalogues;
mod show;
mod subcommands;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::command::Unrun;
use host::{Error, Host, flatten};
use lexopt::prelude::*;
use storage::{Digest, Image, Images};
use subcommands::PROGRAM;
use zone::images::{BadSource, Request, Source};

/// The options and operands of a subcommand.
#[derive(Debug, Default)]
struct Options {
    json: bool,
    parseable: bool,
    force: bool,
    allow_older: bool,
    tls_only: bool,
    protocol: Option<String>,
    keyring: Option<PathBuf>,
    name: Option<String>,
    digest: Option<Digest>,
    architecture: Option<String>,
    credentials: Option<PathBuf>,
    operands: Vec<String>,
}

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zoneimg") {
        return status;
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let status = match run(words) {
        Ok(status) => status,
        Err(why) => {
            let (out, complaint, status) = PROGRAM.answer(why);
            cli::output::only_prints();
            print!("{out}");
            eprint!("{complaint}");
            status
        }
    };
    cli::output::end(PROGRAM.name, status)
}

fn run(words: Vec<OsString>) -> Result<u8, Unrun> {
    let (root, verb, options) = parse(words)?;
    if let Some(zone) = cli::current_zone() {
        eprintln!("zoneimg: zone '{zone}': images belong to the global zone.");
        return Ok(cli::status::ERROR);
    }
    if !cli::is_root() {
        eprintln!("zoneimg: only a privileged user may {verb} images.");
        return Ok(cli::status::ERROR);
    }
    if let Some(status) = cli::refuse_relative_root("zoneimg", root.as_deref()) {
        return Ok(status);
    }
    let done = cli::host(root.as_deref())
        .map_err(|error| Error::Refused(error.to_string()))
        .and_then(|host| act(&host, verb, &options));
    Ok(match done {
        Ok(status) => status,
        Err(error) => complain(&error),
    })
}

fn complain(error: &Error) -> u8 {
    eprintln!("zoneimg: {}", flatten(error));
    if error.is_usage() {
        cli::status::USAGE
    } else {
        cli::status::ERROR
    }
}

fn parse(words: Vec<OsString>) -> Result<(Option<PathBuf>, &'static str, Options), Unrun> {
    let usage = |text: String| Unrun::Usage(text, None);
    let (mut root, mut verb, mut options) = (None, None, Options::default());
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| usage(error.to_string()))? {
        let here = |text: String| Unrun::Usage(text, verb);
        match word {
            Short('?' | 'h') | Long("help") => return Err(Unrun::Help(verb)),
            Short('R') if verb.is_none() => {
                let value = words.value().map_err(|error| usage(error.to_string()))?;
                root = Some(PathBuf::from(value));
            }
            Value(word) if verb.is_none() => {
                let mut topic = || Some(words.value().ok()?.to_string_lossy().into_owned());
                verb = Some(PROGRAM.subcommand(&word.to_string_lossy(), &mut topic)?);
            }
            Short('j') | Long("json")
                if matches!(
                    verb,
                    Some("list" | "inspect" | "prune" | "search" | "remote")
                ) =>
            {
                options.json = true;
            }
            Short('p') if verb == Some("list") => options.parseable = true,
            Short('f') if verb == Some("remove") => options.force = true,
            Short('n') | Long("name") if verb == Some("import") => {
                options.name = Some(string(&mut words).map_err(here)?);
            }
            Long("digest") if verb == Some("import") => {
                let value = string(&mut words).map_err(here)?;
                let digest = value.parse();
                options.digest = Some(digest.map_err(|error| here(format!("{value}: {error}")))?);
            }
            Long("allow-older") if verb == Some("refresh") => options.allow_older = true,
            Long("tls-only") if verb == Some("remote") => options.tls_only = true,
            Long("protocol") if verb == Some("remote") => {
                options.protocol = Some(string(&mut words).map_err(here)?);
            }
            Long("keyring") if verb == Some("remote") => {
                let value = words.value().map_err(|error| here(error.to_string()))?;
                options.keyring = Some(value.into());
            }
            Long("arch") if matches!(verb, Some("import" | "remote")) => {
                options.architecture = Some(string(&mut words).map_err(here)?);
            }
            Long("credentials") if verb == Some("import") => {
                let value = words.value().map_err(|error| here(error.to_string()))?;
                options.credentials = Some(value.into());
            }
            Value(word) => {
                let word = word.string().map_err(|error| here(error.to_string()))?;
                options.operands.push(word);
            }
            other => return Err(here(other.unexpected().to_string())),
        }
    }
    let verb = verb.ok_or(Unrun::Nothing)?;
    let fits = match verb {
        "list" | "prune" => options.operands.is_empty(),
        "import" | "inspect" => options.operands.len() == 1,
        "search" => options.operands.len() <= 1,
        "refresh" => true,
        _ => !options.operands.is_empty(),
    };
    if !fits {
        let text = "wrong number of operands".to_owned();
        return Err(Unrun::Usage(text, Some(verb)));
    }
    if options.name.as_deref().is_some_and(|name| !is_name(name)) {
        let text = "a name has up to 64 printable characters".to_owned();
        return Err(Unrun::Usage(text, Some(verb)));
    }
    Ok((root, verb, options))
}

/// Returns the value of an option as text.
fn string(words: &mut lexopt::Parser) -> Result<String, String> {
    let value = words.value().and_then(|value| value.string());
    value.map_err(|error| error.to_string())
}

fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=64).contains(&length) && !name.chars().any(char::is_control)
}

fn act(host: &Host, verb: &str, options: &Options) -> Result<u8, Error> {
    if matches!(verb, "list" | "inspect" | "verify") {
        cli::output::only_prints();
    }
    if matches!(verb, "search" | "refresh" | "remote") {
        return catalogues::act(host, verb, options);
    }
    let images = zone::images::open(host)?;
    match verb {
        "list" => {
            let rows = show::rows(&images, &images.list()?)?;
            print!("{}", show::list(&rows, options.json, options.parseable));
        }
        "import" => {
            let source = source(host, options)?;
            let credentials = options.credentials.as_ref().map(std::path::absolute);
            let credentials = credentials
                .transpose()
                .map_err(|error| Error::Io("look at the credentials".to_owned(), error))?;
            let request = Request {
                name: options.name.clone(),
                digest: options.digest,
                architecture: options.architecture.clone(),
                credentials,
                ..Request::of(source)
            };
            let image = zone::images::import(host, &request, &mut |line| eprintln!("{line}"))?;
            println!("{}", image.digest);
        }
        "inspect" => {
            let image = images.find(&options.operands[0])?;
            let row = show::row(&images, &image)?;
            print!("{}", show::one(&row, &image, options.json));
        }
        "prune" => print!(
            "{}",
            show::pruned(&zone::images::prune(host)?, options.json)
        ),
        _ => return Ok(each(&images, verb, options)),
    }
    Ok(cli::status::OK)
}

/// Returns the source that the operand of import names: a container image, a file, or an image of a
/// catalogue.
fn source(host: &Host, options: &Options) -> Result<Source, Error> {
    let operand = &options.operands[0];
    if Source::is_image(operand) {
        let source = operand.parse();
        return source.map_err(|error: BadSource| Error::Usage(error.to_string()));
    }
    let path = absolute(operand)?;
    if operand.starts_with(['/', '.']) || path.exists() {
        return Ok(Source::look(&path));
    }
    let architecture = options.architecture.as_deref();
    zone::images::by_name::resolve(host, operand, architecture, &mut |line| eprintln!("{line}"))
}

/// Acts on several images; an error stops no other.
fn each(images: &Images, verb: &str, options: &Options) -> u8 {
    let mut status = cli::status::OK;
    for word in &options.operands {
        let done = images
            .find(word)
            .map_err(Error::from)
            .and_then(|image| match verb {
                "verify" => {
                    images.verify(&image)?;
                    println!("{}: unchanged since import", image.digest);
                    Ok(())
                }
                _ => remove(images, &image, options.force),
            });
        if let Err(error) = done {
            status = status.max(complain(&error));
        }
    }
    status
}

fn remove(images: &Images, image: &Image, force: bool) -> Result<(), Error> {
    if !force && !image.users.is_empty() {
        let first = image.users[0].display();
        return Err(Error::Refused(format!(
            "{}: in use by {} zones or layers, {first} first; -f removes its name, and its \
             files when nobody needs them",
            image.digest,
            image.users.len()
        )));
    }
    Ok(images.remove(&image.digest)?)
}

fn absolute(text: &str) -> Result<PathBuf, Error> {
    let path = Path::new(text);
    std::path::absolute(path)
        .map_err(|error| Error::Io(format!("look at {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(line: &str) -> Result<(&'static str, Options), String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        match parse(words) {
            Ok((_, verb, options)) => Ok((verb, options)),
            Err(Unrun::Help(topic)) => Err(format!("help {topic:?}")),
            Err(Unrun::Nothing) => Err(cli::command::NOTHING.to_owned()),
            Err(Unrun::Usage(text, _)) => Err(text),
        }
    }

    #[test]
    fn lines_are_read_as_they_are_described() {
        let digest = "a".repeat(64);
        let (verb, options) = status(&format!("import -n deb --digest {digest} root.tar")).unwrap();
        assert_eq!((verb, options.name.as_deref()), ("import", Some("deb")));
        assert_eq!(options.digest, digest.parse().ok());
        assert_eq!(options.operands, ["root.tar"]);
        assert!(status("list -j").unwrap().1.json);
        assert!(status("remove -f one two").unwrap().1.force);
        assert_eq!(status("help import").unwrap_err(), "help Some(\"import\")");
        assert_eq!(
            status("import --help").unwrap_err(),
            "help Some(\"import\")"
        );
        for wrong in [
            "",
            "lisst",
            "list extra",
            "list -f",
            "import",
            "import a b",
            "import --digest abc a",
            "inspect",
            "verify",
        ] {
            assert!(status(wrong).is_err(), "{wrong}");
        }
        for one in PROGRAM.subcommands {
            assert!(one.form.starts_with(one.name));
        }
    }
}
