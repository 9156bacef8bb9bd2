use std::collections::BTreeMap;

use label::Label;

use super::*;

mod property;
mod storing;

/// A store in memory, for tests.
#[derive(Default)]
struct Memory {
    zones: BTreeMap<String, (State, Config)>,
    commits: usize,
    exported: Option<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
enum MemoryError {
    #[error("{0}: No such zone configured")]
    NoTemplate(String),
    #[error("changed meanwhile")]
    Changed,
}

impl Backing for Memory {
    type Error = MemoryError;

    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, MemoryError> {
        let stored = self.zones.get(zone.as_str());
        Ok(stored.map(|(_, config)| config.clone()))
    }

    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, MemoryError> {
        Ok(self.zones.get(zone.as_str()).map(|(state, _)| *state))
    }

    fn has_files(&mut self, zone: &ZoneName) -> Result<bool, MemoryError> {
        let zone = self.zones.get(zone.as_str());
        Ok(zone.is_some_and(|(state, _)| *state > State::Configured))
    }

    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, MemoryError> {
        let mut config = Config::new(zone.clone());
        config.set_zonepath("/zones/%{zonename}").unwrap();
        match template {
            None => config.add(inherited("/usr")).unwrap(),
            Some("SUNWblank") => {}
            Some(other) => return Err(MemoryError::NoTemplate(other.to_owned())),
        }
        Ok(config)
    }

    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, MemoryError> {
        let mut config = self.template(Some("SUNWblank"), zone)?;
        config.set_zonepath(zonepath).unwrap();
        Ok(config)
    }

    fn existing(&mut self, zone: &ZoneName) -> Result<Config, MemoryError> {
        Err(MemoryError::NoTemplate(zone.to_string()))
    }

    fn problems(&mut self, config: &Config) -> Vec<String> {
        let admins = config.admins().filter(|admin| admin.user == "nobody-here");
        admins
            .map(|admin| format!("{}: no such user", admin.user))
            .collect()
    }

    fn label_text(&mut self, label: Label) -> Option<String> {
        (label.classification() == 4).then(|| "SECRET".to_owned())
    }

    fn unlabeled(&mut self, zone: &ZoneName) -> Result<Vec<ZoneName>, MemoryError> {
        let others = self.zones.keys().map(|one| name(one));
        Ok(others.filter(|one| one != zone).collect())
    }

    fn host_dirs(&self) -> &[&str] {
        &["/usr", "/opt"]
    }

    fn commit(&mut self, change: &Change) -> Result<(), MemoryError> {
        let stored = self.zones.get(change.zone.as_str());
        if stored.map(|(_, config)| config) != change.base {
            return Err(MemoryError::Changed);
        }
        let state = stored.map_or(State::Configured, |(state, _)| *state);
        self.zones.remove(change.zone.as_str());
        let name = change.config.name().to_string();
        self.zones.insert(name, (state, change.config.clone()));
        self.commits += 1;
        Ok(())
    }

    fn delete(&mut self, zone: &ZoneName, _: bool) -> Result<(), MemoryError> {
        self.zones.remove(zone.as_str());
        Ok(())
    }

    fn write_export(&mut self, file: &str, text: &str) -> std::io::Result<()> {
        self.exported = Some((file.to_owned(), text.to_owned()));
        Ok(())
    }
}

/// A user for tests, who gives the prepared answers. Records the output, with errors as `! ...` and
/// questions as `? ...`.
#[derive(Default)]
struct User {
    printed: String,
    answers: Vec<bool>,
}

impl Console for User {
    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn notice(&mut self, text: &str) {
        self.printed.push_str(&format!("~ {text}\n"));
    }

    fn error(&mut self, text: &str) {
        self.printed.push_str(&format!("! {text}\n"));
    }

    fn syntax_error(&mut self, error: &SyntaxError) {
        self.error(&error.to_string());
    }

    fn ask(&mut self, question: &str) -> Option<bool> {
        if self.answers.is_empty() {
            return None;
        }
        self.printed.push_str(&format!("? {question}\n"));
        Some(self.answers.remove(0))
    }
}

fn inherited(dir: &str) -> Resource {
    let mut resource = Resource::new(table::resource("inherit-pkg-dir").unwrap());
    resource.set("dir", dir).unwrap();
    resource
}

/// Returns a store with the zone `web1` in a state.
fn with_web1(state: State) -> Memory {
    let mut memory = Memory::default();
    let config = memory.template(None, &name("web1")).unwrap();
    memory.zones.insert("web1".to_owned(), (state, config));
    memory
}

fn name(text: &str) -> ZoneName {
    text.parse().unwrap()
}

/// The result of a session.
struct Ran {
    printed: String,
    finish: Finish,
    memory: Memory,
}

impl Ran {
    fn stored(&self, zone: &str) -> &Config {
        &self.memory.zones[zone].1
    }
}

fn run_as(mode: Mode, memory: Memory, answers: &[bool], script: &str) -> Ran {
    let user = User {
        answers: answers.to_vec(),
        ..User::default()
    };
    let mut session = Session::new(name("web1"), mode, memory, user);
    let mut flow = Flow::Go;
    for line in script.lines() {
        flow = session.line(line);
        if flow != Flow::Go {
            break;
        }
    }
    let finish = if flow == Flow::Abort {
        Finish::Failed
    } else {
        session.finish()
    };
    Ran {
        printed: session.console.printed,
        finish,
        memory: session.backing,
    }
}

fn run(memory: Memory, script: &str) -> Ran {
    run_as(Mode::Words, memory, &[], script)
}

#[test]
fn create_alone_is_a_complete_configuration() {
    let ran = run(Memory::default(), "create");
    assert_eq!((ran.printed.as_str(), ran.finish), ("", Finish::Ok));
    assert_eq!(ran.memory.commits, 1);
    assert_eq!(ran.stored("web1").zonepath().to_str(), Some("/zones/web1"));
    assert_eq!(ran.memory.zones["web1"].0, State::Configured);
}

#[test]
fn an_unchanged_session_stores_nothing() {
    let ran = run(with_web1(State::Configured), "info zonename; verify; exit");
    assert_eq!(ran.printed, "zonename: web1\n");
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 0));
}

#[test]
fn messages_of_single_commands() {
    for (script, printed) in [
        ("bogus", "! syntax error at 'bogus'\n"),
        ("set colour=red", "! colour: No such property type\n"),
        ("set zonepath=[a]", "! A simple value was expected here.\n"),
        (
            "set zonepath=zones",
            "! zonepath: Invalid argument: 'zones' is not an absolute path.\n",
        ),
        (
            "set brand=hurd",
            "! brand: Invalid argument: 'hurd' is not a known brand.\n",
        ),
        (
            "set ip-type=none",
            "! ip-type value must be 'shared' or 'exclusive'.\n",
        ),
        (
            "set -F zonepath=/x",
            "! set -F is only for the first label of a host, and for zonepath with an alternate root.\n",
        ),
        (
            "clear zonepath",
            "! zonepath: Clearing this property is not allowed\n",
        ),
        ("add colour", "! colour: No such resource type\n"),
        (
            "cancel",
            "! The cancel command only makes sense in the resource scope.\n",
        ),
        (
            "end",
            "! The end command only makes sense in the resource scope.\n",
        ),
        ("remove fs", "! remove fs: No such entry\n"),
        (
            "remove fs dir=/x",
            "! remove fs: No such resource with that id\n",
        ),
        ("remove fs colour=x", "! colour: No such property type\n"),
        ("select fs", "! select fs: No such entry\n"),
        (
            "select inherit-pkg-dir dir=/x",
            "! select inherit-pkg-dir: No such resource with that id\n",
        ),
        ("info colour", "! colour: No such resource type\n"),
        ("info fs", ""),
        ("info fs dir=/x", "No such fs resource.\n"),
        (
            "info inherit-pkg-dir dir=/usr",
            "inherit-pkg-dir:\n\tdir: /usr\n",
        ),
        (
            "create -t nosuch -F",
            "Zone web1 already exists; overwriting.\n! nosuch: No such zone configured\n",
        ),
        ("revert", "! No changes to revert.\n"),
        (
            "help colour",
            "! Unknown help subject colour.  Type 'help commands' for the commands.\n",
        ),
        ("set zonename=../x", "! ../x: Bogus zone name\n"),
    ] {
        let ran = run(with_web1(State::Configured), script);
        assert_eq!(ran.printed, printed, "{script}");
        let failed = printed.contains('!');
        assert_eq!(ran.finish == Finish::Failed, failed, "{script}");
        assert_eq!(ran.memory.commits, 0, "{script}");
    }
}

#[test]
fn a_missing_zone_is_told() {
    for (mode, printed) in [
        (Mode::Words, "! web1: No such zone configured\n"),
        (
            Mode::Interactive,
            "! web1: No such zone configured\nUse 'create' to begin configuring a new zone.\n",
        ),
    ] {
        let ran = run_as(mode, Memory::default(), &[], "info");
        assert_eq!(
            (ran.printed.as_str(), ran.finish),
            (printed, Finish::Failed)
        );
    }
}

#[test]
fn resources_are_added_selected_and_removed() {
    let ran = run(
        with_web1(State::Configured),
        "add fs; set dir=/a; set special=/s; set type=lofs; add options [ro,nosuid]; end\n\
         select fs dir=/a; remove options ro; set special=/t; add options noexec; end\n\
         add attr; set name=x; set type=int; set value=1; end\n\
         add attr; set name=y; set type=int; set value=1; end\n\
         remove attr name=x",
    );
    assert_eq!((ran.printed.as_str(), ran.finish), ("", Finish::Ok));
    let config = ran.stored("web1");
    let fs = config.filesystems().next().unwrap();
    assert_eq!(
        (fs.special.as_str(), fs.options),
        ("/t", vec!["nosuid".to_owned(), "noexec".to_owned()])
    );
    assert_eq!((config.attr("x"), config.attr("y")), (None, Some("1")));
    assert_eq!(ran.memory.commits, 1);
}

#[test]
fn end_stays_in_the_scope_on_error() {
    let ran = run(
        with_web1(State::Configured),
        "add fs; set dir=/a; end; info; set special=/s; set type=lofs; end\n\
         add fs; set dir=/a; set special=/s; set type=lofs; end; cancel\n\
         add attr; set name=x; set type=uint; set value=-1; end; clear value; cancel",
    );
    assert_eq!(
        ran.printed,
        "! special not specified\n! type not specified\n\
         fs:\n\tdir: /a\n\tspecial not specified\n\traw not specified\n\ttype not specified\n\toptions: []\n\
         ! A fs resource with the dir '/a' already exists.\n\
         ! invalid attr value for type=uint\n\
         ! value: Clearing this property is not allowed\n"
    );
    // The accepted changes are stored nevertheless, and the exit status reports the errors.
    assert_eq!(ran.finish, Finish::Failed);
    assert_eq!(ran.stored("web1").filesystems().count(), 1);
}

#[test]
fn an_incomplete_resource_stores_nothing() {
    let script = "set autoboot=true; add fs; set dir=/a";
    let ran = run(with_web1(State::Configured), script);
    assert_eq!(ran.printed, "! Resource incomplete.\n");
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));

    let ran = run(with_web1(State::Configured), "add fs; commit");
    assert_eq!(
        ran.printed,
        "! resource specification incomplete\n! Zone web1 failed to verify\n\
         ! web1: Insufficient specification\n! Resource incomplete.\n"
    );
}

#[test]
fn file_mode_stops_at_the_first_error_and_keeps_what_came_before() {
    let script = "set autoboot=true\nset colour=red\nset bootargs=-s";
    let ran = run_as(Mode::File, with_web1(State::Configured), &[], script);
    assert_eq!(ran.finish, Finish::Failed);
    let config = ran.stored("web1");
    assert_eq!((config.autoboot(), config.bootargs()), (true, ""));
    // In the mode of the command line, an error does not stop later commands.
    let ran = run(with_web1(State::Configured), script);
    assert_eq!(ran.stored("web1").bootargs(), "-s");
    assert_eq!(ran.finish, Finish::Failed);
}

#[test]
fn verify_prints_every_problem() {
    let ran = run(
        with_web1(State::Configured),
        "set brand=lx; set pool=SUNWx; verify",
    );
    let problems = "! pool: names that begin with SUNW are reserved.\n\
                    ! inherit-pkg-dir: not allowed for brand 'lx'.\n";
    assert_eq!(
        ran.printed,
        format!(
            "{problems}! web1: Invalid argument\n\
             {problems}! Zone web1 failed to verify\n! web1: Invalid argument\n\
             ! Configuration not saved.\n"
        )
    );
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));
}

#[test]
fn prompts_follow_scope_and_name() {
    let mut session = Session::new(
        name("web1"),
        Mode::Interactive,
        with_web1(State::Configured),
        User::default(),
    );
    assert_eq!(session.prompt(), "zonecfg:web1> ");
    session.line("set zonename=web2; add fs");
    assert_eq!(session.prompt(), "zonecfg:web2:fs> ");
    session.line("cancel; revert -F");
    assert_eq!(session.prompt(), "zonecfg:web1> ");
}

#[test]
fn export_goes_to_a_file() {
    let ran = run(with_web1(State::Configured), "export -f /tmp/x");
    let (file, text) = ran.memory.exported.unwrap();
    assert_eq!(file, "/tmp/x");
    assert!(text.starts_with("create -b\n"));
    assert_eq!(ran.printed, "");
}

#[test]
fn removing_several_asks() {
    let remove = |answers: &[bool], script| {
        let mut memory = with_web1(State::Configured);
        let (_, config) = memory.zones.get_mut("web1").unwrap();
        config.add(inherited("/opt")).unwrap();
        run_as(Mode::Interactive, memory, answers, script)
    };
    let ran = remove(&[true], "remove inherit-pkg-dir");
    assert_eq!(
        ran.printed,
        "? Are you sure you want to remove ALL 'inherit-pkg-dir' resources\n"
    );
    assert_eq!(ran.stored("web1").resources().len(), 0);
    assert_eq!(remove(&[false], "remove inherit-pkg-dir").memory.commits, 0);
    assert_eq!(remove(&[], "remove inherit-pkg-dir").finish, Finish::Failed);
    assert_eq!(remove(&[], "remove -F inherit-pkg-dir").finish, Finish::Ok);
}

#[test]
fn a_label_is_fixed_once_the_zone_is_installed() {
    let ran = run(
        with_web1(State::Configured),
        "set label=0X0004-08-6800; info label; set label=0x0003-08-00; info label",
    );
    assert_eq!(ran.printed, "label: SECRET\nlabel: 0x0003-08-00\n");
    let ran = run(with_web1(State::Installed), "set label=0x0004-08-68");
    assert_eq!(
        ran.printed,
        "! Zone web1 already installed; set label not allowed.\n"
    );
    let ran = run(with_web1(State::Configured), "set label=TOP");
    assert!(
        ran.printed.contains("'TOP' is not a label"),
        "{}",
        ran.printed
    );
}

#[test]
fn the_first_label_of_a_host_needs_force() {
    let two = || {
        let mut memory = with_web1(State::Configured);
        let config = memory.template(None, &name("web2")).unwrap();
        let other = (State::Configured, config);
        memory.zones.insert("web2".to_owned(), other);
        memory
    };
    let ran = run(two(), "set label=0x0004-08-68");
    assert_eq!(
        ran.printed,
        "! label: this is the first label of the host. Zones without a label would no longer boot: \
         web2. To set it nevertheless, type set -F label=...\n"
    );
    let ran = run(two(), "set -F label=0x0004-08-68; info label");
    assert_eq!(ran.printed, "label: SECRET\n");
    let ran = run(two(), "set -F bootargs=x");
    assert!(
        ran.printed.contains("set -F is only for"),
        "{}",
        ran.printed
    );
}
