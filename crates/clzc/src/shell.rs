//! The shell of `configure`: the language of zonecfg, with the scope `node`.

mod node;
mod shared;

use std::cell::RefCell;
use std::rc::Rc;

use model::ZoneName;
use model::config::Value;
use syntax::command::Template;
use syntax::{Argument, Command, Console, Mode, Session};

use crate::config::{Node, ZoneCluster};
use crate::memory::{Errors, Memory, Templates};
use node::{NODE, NODE_HELP, Open};
use shared::Shared;

/// The decision after a line.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Read the next line.
    Go,
    /// Store this configuration, and read the next line.
    Commit(Box<ZoneCluster>),
    /// Leave the shell. The configuration is to be stored first if it was changed.
    Exit(Option<Box<ZoneCluster>>),
    /// Leave the shell; an error is printed, and nothing is to be stored.
    Abort,
}

type Inner<T, C> = Session<Memory<T>, Shared<C>>;

/// A shell on one zone cluster.
pub struct Shell<T, C> {
    name: ZoneName,
    mode: Mode,
    console: Shared<C>,
    base: Inner<T, C>,
    nodes: Vec<Node>,
    open: Option<Open<C>>,
    /// The configuration as stored.
    stored: Option<ZoneCluster>,
}

impl<T, C> std::fmt::Debug for Shell<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shell")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<T: Templates + Clone, C: Console> Shell<T, C> {
    /// Returns a shell on a zone cluster that is stored, or on a name without one.
    pub fn new(
        name: &ZoneName,
        stored: Option<ZoneCluster>,
        mode: Mode,
        templates: T,
        console: C,
    ) -> Self {
        let console = Shared {
            console: Rc::new(RefCell::new(console)),
            errors: Rc::default(),
        };
        let memory = Memory {
            stored: stored.as_ref().map(|cluster| cluster.base.clone()),
            templates,
        };
        Self {
            name: name.clone(),
            mode,
            base: Session::new(name.clone(), mode, memory, console.clone()),
            console,
            nodes: stored
                .as_ref()
                .map(|cluster| cluster.nodes.clone())
                .unwrap_or_default(),
            open: None,
            stored,
        }
    }

    /// Returns the prompt.
    #[must_use]
    pub fn prompt(&self) -> String {
        let (inner, node) = match &self.open {
            Some(open) => (open.session.prompt(), ":node"),
            None => (self.base.prompt(), ""),
        };
        let scope = inner.strip_prefix(&format!("zonecfg:{}", self.name));
        format!("clzc:{}{node}{}", self.name, scope.unwrap_or("> "))
    }

    /// Returns the configuration, or `None` if none was created.
    #[must_use]
    pub fn current(&mut self) -> Option<ZoneCluster> {
        let base = self.base.context(&[]).config.cloned();
        let base = base.or_else(|| self.base.backing().stored.clone())?;
        Some(ZoneCluster {
            base,
            nodes: self.nodes.clone(),
        })
    }

    /// Returns the number of errors that were printed.
    #[must_use]
    pub fn errors(&self) -> usize {
        *self.console.errors.borrow()
    }

    /// Runs the commands of one line.
    pub fn line(&mut self, line: &str) -> Step {
        for command in syntax::parse_line(line) {
            let before = self.errors();
            let step = match command {
                Ok(command) => self.execute(command),
                Err(error) => {
                    self.console.syntax_error(&error);
                    Step::Go
                }
            };
            if step != Step::Go {
                return step;
            }
            if self.errors() > before && self.mode == Mode::File {
                return Step::Abort;
            }
        }
        Step::Go
    }

    /// Sets a property of the zone cluster.
    pub fn set(&mut self, property: &str, value: &str) {
        let set = Command::Set {
            force: false,
            property: property.to_owned(),
            value: Value::Simple(value.to_owned()),
        };
        // It only leads on to the next command.
        let _ = self.execute(set);
    }

    /// Ends the shell as `exit` does, at the end of the input.
    pub fn finish(&mut self) -> Step {
        if self.in_resource() || self.open.is_some() {
            self.fail("the input ends in a resource: 'end' completes it; nothing is stored");
            return Step::Abort;
        }
        let current = self.current();
        let Some(current) = current.filter(|_| self.current_differs()) else {
            return Step::Exit(None);
        };
        match self.is_whole(&current) {
            true => Step::Exit(Some(Box::new(current))),
            false => Step::Abort,
        }
    }

    /// Takes a configuration that the caller has stored as the one to compare with.
    pub fn stored(&mut self, cluster: &ZoneCluster) {
        self.stored = Some(cluster.clone());
        self.base.backing().stored = Some(cluster.base.clone());
    }

    fn current_differs(&mut self) -> bool {
        self.current() != self.stored
    }

    fn in_resource(&self) -> bool {
        match &self.open {
            Some(open) => open.session.context(&[]).resource.is_some(),
            None => self.base.context(&[]).resource.is_some(),
        }
    }

    fn fail(&mut self, text: &str) {
        self.console.error(text);
    }

    fn is_whole(&mut self, cluster: &ZoneCluster) -> bool {
        let problems = cluster.problems();
        for problem in &problems {
            self.fail(&format!("{}: {problem}", self.name));
        }
        problems.is_empty()
    }

    fn execute(&mut self, command: Command) -> Step {
        if self.in_resource() {
            return self.pass(command);
        }
        if self.open.is_some() {
            self.in_node(command);
            return Step::Go;
        }
        match command {
            Command::Add { what, value: None } if what == NODE => self.add_node(),
            Command::Select { what, filters } if what == NODE => {
                if let Some(place) = self.find(&filters) {
                    self.open_node(self.nodes[place].clone(), Some(place));
                }
            }
            Command::Remove {
                what,
                argument: Argument::Filters(filters),
                ..
            } if what == NODE => {
                if let Some(place) = self.find(&filters) {
                    self.nodes.remove(place);
                }
            }
            Command::Create { ref template, .. } => {
                let known = matches!(
                    template,
                    Template::Default | Template::Blank | Template::Named(_)
                );
                let before = self.errors();
                self.base.execute(command);
                if known && self.errors() == before {
                    self.nodes.clear();
                }
            }
            Command::Set {
                property, value, ..
            } if property == "zonename" => {
                let same = value == Value::Simple(self.name.to_string());
                if !same {
                    self.fail("zonename: a zone cluster cannot be renamed");
                }
            }
            Command::Commit(how) => {
                if let Some(current) = self.current_or_fail() {
                    if self.is_whole(&current) && !how.dry_run {
                        return Step::Commit(Box::new(current));
                    }
                }
            }
            Command::Verify => {
                if let Some(current) = self.current_or_fail() {
                    self.is_whole(&current);
                }
            }
            Command::Export {
                json: false,
                file: None,
            } => {
                if let Some(current) = self.current_or_fail() {
                    self.console.print(&current.export());
                }
            }
            Command::Export { .. } => {
                self.fail("export: takes no option here; 'clzonecluster export -f FILE NAME' writes a file");
            }
            Command::Info { json: true, .. } => {
                self.fail("info: -j is not available for a zone cluster");
            }
            Command::Info { what: None, .. } => {
                if let Some(current) = self.current_or_fail() {
                    self.console.page(&current.info());
                }
            }
            Command::Info {
                what: Some(what), ..
            } if what == NODE => {
                let text: String = self.nodes.iter().map(Node::info).collect();
                self.console.page(&text);
            }
            Command::Help {
                subject: Some(subject),
            } if subject == NODE => self.console.page(NODE_HELP),
            Command::Revert { .. } => {
                self.nodes = self
                    .stored
                    .as_ref()
                    .map(|one| one.nodes.clone())
                    .unwrap_or_default();
                self.base.execute(command);
            }
            Command::Delete { .. } => {
                self.fail("delete: 'clzonecluster delete NAME' deletes a zone cluster");
            }
            Command::Exit { .. } => return self.finish(),
            other => return self.pass(other),
        }
        Step::Go
    }

    /// Has the session of the present scope run a command.
    fn pass(&mut self, command: Command) -> Step {
        if let Command::Exit { force } = command {
            if !force && self.mode == Mode::Interactive {
                self.fail("a resource is incomplete: 'end' or 'cancel' first, or exit -F to drop all changes");
                return Step::Go;
            }
            self.fail("a resource is incomplete; nothing is stored");
            return Step::Abort;
        }
        match &mut self.open {
            Some(open) => {
                open.session.execute(command);
            }
            None => {
                self.base.execute(command);
            }
        }
        Step::Go
    }

    fn current_or_fail(&mut self) -> Option<ZoneCluster> {
        let current = self.current();
        if current.is_none() {
            let text = format!("{}: no such zone cluster; 'create' begins one", self.name);
            self.fail(&text);
        }
        current
    }
}

/// Reads a configuration that `export` printed.
///
/// # Errors
/// Fails with the first error of the commands, or if the configuration is incomplete.
pub(crate) fn read<T: Templates + Clone>(
    name: &ZoneName,
    text: &str,
    templates: T,
) -> Result<ZoneCluster, String> {
    let mut shell = Shell::new(name, None, Mode::File, templates, Errors::default());
    for (number, line) in text.lines().enumerate() {
        let step = shell.line(line);
        if let Some(error) = shell.console.console.borrow_mut().0.take() {
            return Err(format!("line {}: {error}", number + 1));
        }
        if step != Step::Go {
            return Err(format!(
                "line {}: expected the configuration only",
                number + 1
            ));
        }
    }
    if shell.open.is_some() || shell.in_resource() {
        return Err("the text ends in a resource".to_owned());
    }
    shell.current().ok_or_else(|| "no configuration".to_owned())
}

#[cfg(test)]
mod tests {
    use syntax::SyntaxError;

    use super::*;
    use crate::config::tests::{THREE, read as whole};
    use crate::memory::NoTemplates;

    /// A console that records what is printed; errors begin with `!`.
    #[derive(Clone, Default)]
    struct Record(Rc<RefCell<String>>);

    impl Console for Record {
        fn print(&mut self, text: &str) {
            self.0.borrow_mut().push_str(text);
        }

        fn notice(&mut self, text: &str) {
            self.error(text);
        }

        fn error(&mut self, text: &str) {
            self.0.borrow_mut().push_str(&format!("! {text}\n"));
        }

        fn syntax_error(&mut self, error: &SyntaxError) {
            self.error(&error.at());
        }

        fn ask(&mut self, _: &str) -> Option<bool> {
            None
        }
    }

    /// Types lines into a shell, and returns each with its prompt and what is printed.
    fn typed(stored: Option<ZoneCluster>, lines: &[&str]) -> (String, Vec<Step>) {
        let record = Record::default();
        let name = "pg".parse().unwrap();
        let mut shell = Shell::new(
            &name,
            stored,
            Mode::Interactive,
            NoTemplates,
            record.clone(),
        );
        let mut steps = Vec::new();
        for line in lines {
            let prompt = shell.prompt();
            record.0.borrow_mut().push_str(&format!("{prompt}{line}\n"));
            steps.push(shell.line(line));
        }
        let text = record.0.borrow().clone();
        (text, steps)
    }

    #[test]
    fn a_session_at_a_terminal() {
        let (text, steps) = typed(
            None,
            &[
                "add node",
                "create -b",
                "commit",
                "set zonepath=/zones/pg",
                "set ip-type=exclusive",
                "add node",
                "set colour=red",
                "set physical-host=-oProxyCommand=x",
                "end",
                "set physical-host=host1; set hostname=pg1",
                "add anet",
                "set lower-link=br0",
                "exit",
                "end",
                "info",
                "commit",
                "end",
                "verify",
                "set zonename=other",
                "exit",
            ],
        );
        insta::assert_snapshot!(text);
        let Some(Step::Exit(Some(cluster))) = steps.last() else {
            panic!("expected a configuration to store: {steps:?}");
        };
        assert_eq!(cluster.hosts(), ["host1"]);
    }

    #[test]
    fn a_node_can_be_changed_and_removed() {
        let (text, steps) = typed(
            Some(whole(THREE)),
            &[
                "select node hostname=pg2",
                "set hostname=db2",
                "end",
                "remove node physical-host=host3",
                "remove node physical-host=host9",
                "select node",
                "commit",
            ],
        );
        insta::assert_snapshot!(text);
        let Some(Step::Commit(cluster)) = steps.last() else {
            panic!("expected a configuration to store: {steps:?}");
        };
        assert_eq!(cluster.hosts(), ["host1", "host2"]);
        assert_eq!(cluster.nodes[1].hostname, "db2");
    }

    /// Sets properties as `clzonecluster set` does; `hosts` are those of `-n`. Returns what is printed, and the end.
    fn set(hosts: &[&str], values: &[(&str, &str)]) -> (String, Step) {
        let record = Record::default();
        let (name, stored) = ("pg".parse().unwrap(), Some(whole(THREE)));
        let mut shell = Shell::new(&name, stored, Mode::File, NoTemplates, record.clone());
        match hosts {
            [] => values
                .iter()
                .for_each(|(property, value)| shell.set(property, value)),
            some => {
                let owned = |(property, value): &(&str, &str)| {
                    ((*property).to_owned(), (*value).to_owned())
                };
                let values: Vec<(String, String)> = values.iter().map(owned).collect();
                shell.set_of_nodes(some, &values);
            }
        }
        let end = shell.finish();
        let text = record.0.borrow().clone();
        (text, end)
    }

    #[test]
    fn several_properties_make_one_configuration() {
        let (text, end) = set(&[], &[("cpu-shares", "7"), ("autoboot", "true")]);
        assert_eq!(text, "");
        let Step::Exit(Some(cluster)) = end else {
            panic!("expected a configuration to store: {end:?}");
        };
        let zone = cluster.zone_of(&cluster.nodes[2]).unwrap();
        assert_eq!(zone.get("autoboot"), "true");
        assert!(syntax::info::all(&zone).contains("cpu-shares: 7"));
        assert_eq!(set(&[], &[("autoboot", "false")]).1, Step::Exit(None));
    }

    #[test]
    fn a_node_that_gets_another_host_gets_the_other_properties_too() {
        let values = [("physical-host", "host4"), ("hostname", "pg4")];
        let (text, end) = set(&["host2"], &values);
        assert_eq!(text, "");
        let Step::Exit(Some(cluster)) = end else {
            panic!("expected a configuration to store: {end:?}");
        };
        assert_eq!(
            cluster.node("host4").map(|node| node.hostname.as_str()),
            Some("pg4")
        );
        assert!(cluster.node("host2").is_none());
    }

    #[test]
    fn a_property_of_some_nodes_is_set_with_the_same_checks() {
        let (text, end) = set(&["host2"], &[("hostname", "db2")]);
        assert_eq!(text, "");
        let Step::Exit(Some(cluster)) = end else {
            panic!("expected a configuration to store: {end:?}");
        };
        let names: Vec<&str> = cluster
            .nodes
            .iter()
            .map(|one| one.hostname.as_str())
            .collect();
        assert_eq!(names, ["pg1", "db2", "pg3"]);
        // Two nodes have the same name, a value that is no name, and a property that a node does not have.
        for (hosts, property, value) in [
            (&["host1", "host2"][..], "hostname", "db"),
            (&["host2"], "hostname", "pg3"),
            (&["host2"], "physical-host", "host1"),
            (&["host2"], "hostname", "-x"),
            (&["host2"], "hostname", ""),
            (&["host2"], "autoboot", "true"),
        ] {
            let (text, end) = set(hosts, &[(property, value)]);
            assert!(text.starts_with("! "), "{property}={value}: {text}");
            assert!(
                !matches!(end, Step::Exit(Some(_))),
                "{property}={value}: {end:?}"
            );
        }
    }

    #[test]
    fn an_unchanged_configuration_is_not_stored() {
        let (_, steps) = typed(Some(whole(THREE)), &["info", "exit"]);
        assert_eq!(steps.last(), Some(&Step::Exit(None)));
    }

    #[test]
    fn revert_brings_the_stored_nodes_back() {
        let (_, steps) = typed(
            Some(whole(THREE)),
            &[
                "remove node physical-host=host1",
                "set autoboot=true",
                "revert -F",
                "exit",
            ],
        );
        assert_eq!(steps.last(), Some(&Step::Exit(None)));
    }
}
