//! `zoneadm monitor`: prints the events of zones as they happen, until its reader ends.
//!
//! The kernel reports changes of the folders with the index, the states and the messages of zones
//! (inotify). Between events the program sleeps; nothing is read at intervals.

mod event;
mod known;
mod watch;

use std::os::fd::AsFd;

use lexopt::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::stdout;

use crate::call::Call;
use crate::usage;
use event::Event;
use known::Known;
use watch::Watch;

pub fn run(call: &Call) -> u8 {
    let json = match parse(&call.rest) {
        Ok(Some(json)) => json,
        Ok(None) => return usage::print(Some("monitor")),
        Err(text) => return usage::complain(&text, Some("monitor")),
    };
    if call.uuid.is_some() {
        return usage::complain("monitor takes zones by -z only", Some("monitor"));
    }
    if let Some(zone) = cli::current_zone() {
        eprintln!("zoneadm: zone '{zone}': must be in the global zone to monitor zones.");
        return cli::status::ERROR;
    }
    match follow(call, json) {
        Ok(()) => cli::status::OK,
        Err(text) => {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        }
    }
}

/// Returns true for JSON, and `None` if the user asks for help.
fn parse(words: &[String]) -> Result<Option<bool>, String> {
    let mut json = false;
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('j') | Long("json") => json = true,
            Short('?' | 'h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(json))
}

/// Prints events until the reader of standard output has ended.
fn follow(call: &Call, json: bool) -> Result<(), String> {
    let host = cli::host(call.root.as_deref()).map_err(|error| error.to_string())?;
    // Only root can read the messages.
    let has_messages = cli::is_root();
    let watch = Watch::new(&host.root, has_messages);
    let mut watch = watch.map_err(|error| format!("could not watch zones: {error}"))?;
    let print = |event: &Event| {
        if event
            .zone
            .as_deref()
            .is_none_or(|zone| is_chosen(call, zone))
        {
            match json {
                true => println!("{}", event.json()),
                false => println!("{event}"),
            }
        }
    };
    let mut known = Known::new(host);
    print(&Event::start(has_messages));
    loop {
        let (has_changed, has_ended) = {
            let mut both = [
                PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN),
                // Without a flag, poll(2) reports only that the reader has closed the pipe.
                PollFd::from_borrowed_fd(stdout(), PollFlags::empty()),
            ];
            match poll(&mut both, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("could not wait for events: {error}")),
            }
            let ended = PollFlags::ERR | PollFlags::HUP;
            (
                !both[0].revents().is_empty(),
                both[1].revents().intersects(ended),
            )
        };
        if has_ended {
            return Ok(());
        }
        if has_changed {
            let news = watch.news();
            known.events(&news).iter().for_each(print);
        }
    }
}

/// Returns true if `-z` selects a zone of this name, or if there is no `-z`.
fn is_chosen(call: &Call, zone: &str) -> bool {
    let Ok(name) = zone.parse::<model::ZoneName>() else {
        return false;
    };
    let known = [name.clone()];
    let mut words = call.zones.iter().map(String::as_str);
    call.zones.is_empty()
        || words.any(|word| {
            cli::select::resolve([word], &known).is_ok_and(|chosen| chosen.contains(&name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_chosen_by_names_and_patterns() {
        let call = |words: &str| {
            let words = words.split_whitespace().map(Into::into).collect();
            crate::call::parse(words).unwrap()
        };
        assert!(is_chosen(&call("monitor"), "web"));
        let some = call("-z web -z db* -z app[1-3] monitor");
        for (zone, expected) in [
            ("web", true),
            ("web1", false),
            ("db7", true),
            ("app2", true),
            ("app4", false),
        ] {
            assert_eq!(is_chosen(&some, zone), expected, "{zone}");
        }
    }

    #[test]
    fn json_is_the_only_option() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(parse(&words("-j")), Ok(Some(true)));
        assert_eq!(parse(&[]), Ok(Some(false)));
        assert_eq!(parse(&words("--help")), Ok(None));
        assert!(parse(&words("-f")).is_err() && parse(&words("web")).is_err());
    }
}
