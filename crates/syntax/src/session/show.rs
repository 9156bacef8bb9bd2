//! Commands that print: `info`, `export` and `help`.

use model::table;

use super::{Backing, Console, Done, Session, unknown_filter};
use crate::command::{Filters, Scope};
use crate::{export, help, info, json};

impl<B: Backing, C: Console> Session<B, C> {
    pub(super) fn export(&mut self, json: bool, file: Option<&str>) -> Done {
        let config = self.config()?;
        let text = if json {
            json::all(config)
        } else {
            export::export(config)
        };
        match file {
            None => self.console.print(&text),
            Some(file) => {
                if let Err(error) = self.backing.write_export(file, &text) {
                    return self.refuse(&format!("opening file {file}: {error}"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn help(&mut self, subject: Option<&str>) -> Done {
        let scope = if self.scope.is_some() {
            Scope::Resource
        } else {
            Scope::Global
        };
        let text = match subject {
            None => Some(help::commands(Some(scope))),
            Some(subject) => help::subject(subject),
        };
        match (text, subject) {
            (Some(text), _) => {
                self.console.page(&text);
                Ok(())
            }
            (None, subject) => self.refuse(&format!(
                "Unknown help subject {}.  Type 'help commands' for the commands.",
                subject.unwrap_or_default()
            )),
        }
    }

    pub(super) fn info(&mut self, json: bool, what: Option<&str>, filters: &Filters) -> Done {
        // This call loads the configuration, or prints that the zone does not exist.
        self.config()?;
        let Some(config) = &self.config else {
            return Ok(());
        };
        let (scope, what) = (self.scope.as_ref(), what.unwrap_or_default());
        let text = if let Some(open) = scope {
            let resource = &open.resource;
            match resource.spec().property(what) {
                _ if json => json::resource(config, resource),
                Some(spec) => {
                    let mut text = String::new();
                    info::resource_property(&mut text, config, resource, spec);
                    text
                }
                None => info::resource(config, resource),
            }
        } else if what.is_empty() && json {
            json::all(config)
        } else if what.is_empty() {
            info::all(config)
        } else if let Some(spec) = table::global(what) {
            match json {
                true => json::property(config, spec),
                false => info::property(config, spec),
            }
        } else if let Some(spec) = table::resource(what) {
            if let Some(text) = unknown_filter(spec, filters) {
                return self.refuse(&text);
            }
            if json {
                let text = json::resources(config, spec, filters);
                self.console.page(&text);
                return Ok(());
            }
            match info::resources(config, spec, filters) {
                text if text.is_empty() && !filters.is_empty() => {
                    format!("No such {what} resource.\n")
                }
                text => text,
            }
        } else {
            return self.refuse(&format!("{what}: No such resource type"));
        };
        let text = match json || self.scope.is_some() {
            true => text,
            false => self.with_label_text(text),
        };
        self.console.page(&text);
        Ok(())
    }
}
