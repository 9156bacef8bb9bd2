//! The programs of Pacemaker and of zones that are called.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cluster::View;

/// Interval between two looks at a change that Pacemaker makes.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Runs a program and returns its output.
///
/// # Errors
/// Fails with its message if it fails.
pub fn run(program: &str, words: &[&str]) -> anyhow::Result<String> {
    with_input(program, words, "")
}

/// Runs a program with an input.
///
/// # Errors
/// Fails with its message if it fails.
pub fn with_input(program: &str, words: &[&str], input: &str) -> anyhow::Result<String> {
    let output = output(program, words, input)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    }
    bail!("{program} {}: {said} ({})", words.join(" "), output.status)
}

/// Runs a program, which may fail.
///
/// # Errors
/// Fails if it cannot be started.
pub fn output(program: &str, words: &[&str], input: &str) -> anyhow::Result<Output> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| {
            format!("{program} cannot be started: are the packages pacemaker-cli-utils and zones installed?")
        })?;
    let stdin = child.stdin.take();
    let text = input.to_owned();
    // The child may write before it has read all.
    let writer = thread::spawn(move || stdin.map(|mut pipe| pipe.write_all(text.as_bytes())));
    let output = child
        .wait_with_output()
        .with_context(|| format!("the output of {program} cannot be read"))?;
    // A child that did not want its input has closed the pipe.
    let _ = writer.join();
    Ok(output)
}

/// Returns Pacemaker's view.
///
/// # Errors
/// Fails if Pacemaker does not run on this host.
pub fn view() -> anyhow::Result<View> {
    let text = run("crm_mon", &["-1", "-r", "--output-as=xml"])?;
    Ok(View::read(&text)?)
}

/// Returns true if the zone of a CIB is a kernel zone with shared disks, which moves live.
///
/// # Errors
/// Fails if the CIB cannot be read.
pub fn has_shared_disks(cib: &str, zone: &str) -> anyhow::Result<bool> {
    let value = cluster::setting(cib, &cluster::zone_id(zone), "shared_disks")?;
    Ok(value.as_deref() == Some("true"))
}

/// Waits until the view is as it should be.
///
/// # Errors
/// Fails with the last view of the zones if that takes longer than `limit`.
pub fn wait_until(
    what: &str,
    limit: Duration,
    good: impl Fn(&View) -> bool,
) -> anyhow::Result<View> {
    let end = Instant::now() + limit;
    loop {
        let view = view()?;
        if good(&view) {
            return Ok(view);
        }
        if Instant::now() > end {
            bail!(
                "{what}: not done after {} s; 'crm_mon -1 -r' tells the state of the cluster",
                limit.as_secs()
            );
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// A zone as `zoneadm list -p` prints it.
#[derive(Debug, PartialEq, Eq)]
pub struct Zone {
    /// Name of the zone.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Its zonepath.
    pub path: String,
}

/// Returns the zones of this host.
///
/// # Errors
/// Fails if zoneadm fails.
pub fn zones() -> anyhow::Result<Vec<Zone>> {
    Ok(read_zones(&run("zoneadm", &["list", "-cp"])?))
}

fn read_zones(text: &str) -> Vec<Zone> {
    text.lines().filter_map(read_zone).collect()
}

/// Reads a line: id, name, state, zonepath, and more. A colon in the zonepath has a backslash in front.
fn read_zone(line: &str) -> Option<Zone> {
    let mut fields = line.splitn(4, ':').skip(1);
    let (name, state, rest) = (fields.next()?, fields.next()?, fields.next()?);
    let mut path = String::new();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => path.extend(letters.next()),
            ':' => break,
            _ => path.push(letter),
        }
    }
    Some(Zone {
        name: name.to_owned(),
        state: state.to_owned(),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_zonepath_with_a_colon() {
        let zones = read_zones("0:global:running:/::native\n-:web:installed:/z\\:1/web:u:native\n");
        assert_eq!(zones[0].path, "/");
        assert_eq!(
            (zones[1].state.as_str(), zones[1].path.as_str()),
            ("installed", "/z:1/web")
        );
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_message() {
        let error = run("sh", &["-c", "echo no >&2; exit 3"]).unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
        assert!(run("/nonexistent/program", &[]).is_err());
    }
}
