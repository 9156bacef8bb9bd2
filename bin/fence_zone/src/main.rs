//! fence_zone(8): a fence agent that runs in a zone of a zone cluster and fences its other nodes.

#[macro_use(eprint, eprintln, print, println)]
extern crate cli;

mod args;

use std::io::{ErrorKind, IsTerminal as _};
use std::process::ExitCode;

use args::{Action, Options};
use clzc::{FenceAction, FenceRequest, Power};
use control::beadm_socket::{self, Answer};

const NAME: &str = "fence_zone";

/// The description for pcs and Pacemaker.
const METADATA: &str = include_str!("metadata.xml");

const USAGE: &str = "\
usage: fence_zone -o ACTION [-n NODE] [-v]
       fence_zone < OPTIONS

Fence agent for the cluster inside a zone cluster (clzonecluster): asks the zone's host about the zone
of another node. Runs in the zone, as root. Without options it reads lines KEY=VALUE of standard
input, as Pacemaker gives them: action, plug (or port, nodename), verbose.

  -o ACTION  off, on, reboot (the default)
               halt and boot the zone of NODE; off and reboot succeed only if the zone has ended
             status        tells if the zone of NODE runs
             list          the host names of the other nodes
             monitor       asks if this zone's host takes requests
             metadata      the description of this agent, XML
             validate-all  checks the options
  -n NODE    host name of the node's zone, which is its name in corosync
  -v         print each request

Exit status: 0 done, or the zone runs (status); 1 failed, refused, or wrong options; 2 the zone does not
run (status).

example: pcs stonith create fence fence_zone
         fence_zone -o status -n pg2
";

/// Exit status of `status` for a zone that does not run.
const OFF: u8 = 2;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version(NAME) {
        return status;
    }
    let options = match std::env::args_os().len() {
        0 | 1 if std::io::stdin().is_terminal() => Ok(None),
        0 | 1 => args::input(std::io::stdin()).map(Some),
        _ => args::words(lexopt::Parser::from_env()),
    };
    let done = match options {
        Ok(None) => return cli::output::help(NAME, USAGE),
        Ok(Some(options)) => act(&options),
        Err(error) => Err(error),
    };
    let status = done.unwrap_or_else(|error| {
        // 2 is the answer of `status`, so that wrong options have the status of all failures.
        eprintln!("{NAME}: {error:#}");
        cli::status::ERROR
    });
    cli::output::end(NAME, status)
}

/// Carries out the action. Returns the exit status.
fn act(options: &Options) -> anyhow::Result<u8> {
    let action = match options.action()? {
        Action::Metadata => {
            cli::output::only_prints();
            print!("{METADATA}");
            return Ok(cli::status::OK);
        }
        Action::ValidateAll => {
            options.check()?;
            return Ok(cli::status::OK);
        }
        Action::Ask(action) => action,
    };
    let node = action.needs_node().then(|| options.node()).transpose()?;
    let request = FenceRequest { action, node };
    let (status, said) = ask(&request, options.verbose)?;
    if status != cli::status::OK {
        return Ok(cli::status::ERROR);
    }
    match (action, Power::read(said.trim())) {
        (FenceAction::List, _) => print!("{said}"),
        (FenceAction::Monitor, _) => {}
        (FenceAction::Status, Some(Power::On)) => println!("Status: ON"),
        (FenceAction::Status, Some(Power::Off)) => {
            println!("Status: OFF");
            return Ok(OFF);
        }
        // The host has proof of the state that it prints.
        (FenceAction::Off, Some(Power::Off)) | (FenceAction::On, Some(Power::On)) => {}
        (FenceAction::Reboot, Some(_)) => {}
        _ => anyhow::bail!("unexpected answer of the host: '{}'", said.escape_debug()),
    }
    Ok(cli::status::OK)
}

/// Sends the request to the zone's zoneadmd. Returns the exit status and the output; prints the errors.
fn ask(request: &FenceRequest, verbose: bool) -> anyhow::Result<(u8, String)> {
    let words = [vec![beadm_socket::FENCE.to_owned()], request.words()].concat();
    if verbose {
        eprintln!("{NAME}: asks the host: {}", words.join(" "));
    }
    let mut said = Vec::new();
    let asked = beadm_socket::ask(&words, |answer| match answer {
        Answer::Output(text) => said.extend(text),
        Answer::Errors(text) => eprint!("{}", String::from_utf8_lossy(&text)),
        Answer::Exit(_) => {}
    });
    match asked {
        Ok(status) => Ok((status, String::from_utf8_lossy(&said).into_owned())),
        Err(error) => Err(match error.kind() {
            ErrorKind::PermissionDenied => anyhow::anyhow!("only root of the zone may do that"),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow::anyhow!(
                "{}: no zoneadmd answers; this agent runs in a zone of a zone cluster",
                beadm_socket::SOCKET
            ),
            ErrorKind::UnexpectedEof => {
                anyhow::anyhow!("the zone's zoneadmd ended before it answered")
            }
            _ => anyhow::Error::new(error).context(beadm_socket::SOCKET),
        }),
    }
}
