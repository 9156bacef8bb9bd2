//! The options of a boot.

use host::Error;
use model::Config;
use model::immutable::Access;
use storage::{BadName, Name};

/// The options of a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOptions {
    /// The path in the zone of another init program (`-i`).
    pub init: Option<String>,
    /// The arguments of init.
    pub arguments: Vec<String>,
    /// The boot environment for this boot only (`-Z`).
    pub environment: Option<Name>,
    /// True to remove the image of a suspended zone.
    pub discard: bool,
    /// True to load all memory of a suspended zone before the zone runs.
    pub eager: bool,
    /// True if the command line has boot options. The property bootargs is ignored then.
    pub given: bool,
    /// Number of reboots in quick succession that led to this boot.
    pub reboots: u32,
    /// The use that the boot makes of the profile of an immutable zone (`-w`, `-W`).
    pub access: Access,
}

impl BootOptions {
    /// Returns the arguments of init, as the console shows them.
    pub(super) fn words(&self) -> String {
        let init = self.init.iter().flat_map(|path| ["-i", path]);
        let words = init.chain(self.arguments.iter().map(String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Parses boot options from the words after `--` or from the property bootargs: `-i PATH`,
    /// `-s`, `-m OPTIONS`, `-Z NAME`, `--discard-suspend`, `--eager`. Other words that begin with
    /// `-` are unknown; they are returned for a warning.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`] for an option without its value.
    pub fn parse(words: &[String]) -> Result<(Self, Vec<String>), Error> {
        let mut options = Self {
            given: !words.is_empty(),
            ..Self::default()
        };
        let mut unknown = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-i" => {
                    let path = words.next().ok_or_else(|| {
                        Error::Usage("boot option -i needs the path of an init".to_owned())
                    })?;
                    options.init = Some(path.clone());
                }
                "-Z" => {
                    let name = words.next().ok_or_else(|| {
                        Error::Usage("boot option -Z needs a boot environment".to_owned())
                    })?;
                    let name = name.parse();
                    options.environment =
                        Some(name.map_err(|error: BadName| Error::Usage(error.to_string()))?);
                }
                "-m" => {
                    let value = words
                        .next()
                        .ok_or_else(|| Error::Usage("boot option -m needs a value".to_owned()))?;
                    options.arguments.extend(["-m".to_owned(), value.clone()]);
                }
                "--discard-suspend" => options.discard = true,
                "--eager" => options.eager = true,
                // Every init program of Linux knows the option -s (single user) by this name.
                "-s" => options.arguments.push("-s".to_owned()),
                other if other.starts_with('-') => unknown.push(other.to_owned()),
                other => options.arguments.push(other.to_owned()),
            }
        }
        Ok((options, unknown))
    }

    /// Returns these options if the command line has boot options, otherwise the options of the
    /// property bootargs. Keeps the number of reboots.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`] for an option of bootargs without its value.
    pub(super) fn or_configured(&self, config: &Config) -> Result<Self, Error> {
        if self.given {
            return Ok(self.clone());
        }
        let words = config.bootargs().split_whitespace().map(str::to_owned);
        Ok(Self {
            given: false,
            reboots: self.reboots,
            access: self.access,
            ..Self::parse(&words.collect::<Vec<_>>())?.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (BootOptions, Vec<String>) {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        BootOptions::parse(&words).unwrap()
    }

    #[test]
    fn reads_the_options_of_solaris_and_names_others() {
        let (options, unknown) = parse("-s -i /bin/sh -m verbose extra -Z be -L");
        assert_eq!(options.init.as_deref(), Some("/bin/sh"));
        assert_eq!(options.arguments, ["-s", "-m", "verbose", "extra"]);
        assert_eq!(options.environment, Some("be".parse().unwrap()));
        assert_eq!(unknown, ["-L"]);
        assert!(options.given);
        assert!(!parse("").0.given);
        for alone in ["-i", "-Z", "-Z -L"] {
            let words: Vec<String> = alone.split(' ').map(str::to_owned).collect();
            assert!(BootOptions::parse(&words).is_err(), "{alone}");
        }
    }

    #[test]
    fn takes_bootargs_and_keeps_the_count_of_reboots() {
        let mut config = Config::new("web".parse().unwrap());
        config.set("bootargs", "-m verbose").unwrap();
        let again = BootOptions {
            reboots: 3,
            ..BootOptions::default()
        };
        let options = again.or_configured(&config).unwrap();
        assert_eq!(options.arguments, ["-m", "verbose"]);
        assert_eq!(options.reboots, 3);
        let given = parse("-s").0.or_configured(&config).unwrap();
        assert_eq!(given.arguments, ["-s"]);
    }
}
