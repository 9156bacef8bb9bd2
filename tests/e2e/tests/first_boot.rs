//! Tests the first boot of zones: profiles of Solaris, seeds of cloud-init, and enabled services.

use std::fs;
use std::path::PathBuf;

use e2e::{Host, machine, wait_for};

/// A profile as sysconfig(8) of Solaris writes it, with the commands of a first boot.
fn profile(host: &Host, commands: &[&str]) -> PathBuf {
    let mut values = String::new();
    for command in commands {
        values.push_str(&format!("<value_node value=\"{command}\"/>"));
    }
    let text = format!(
        r#"<?xml version='1.0' encoding='US-ASCII'?>
<!DOCTYPE service_bundle SYSTEM "/usr/share/lib/xml/dtd/service_bundle.dtd.1">
<service_bundle type="profile" name="sysconfig">
  <service version="1" type="service" name="system/identity">
    <instance enabled="true" name="node">
      <property_group type="application" name="config">
        <propval type="astring" name="nodename" value="db-1"/>
      </property_group>
    </instance>
  </service>
  <service version="1" type="service" name="system/config-user">
    <instance enabled="true" name="default">
      <property_group type="application" name="root_account">
        <propval type="astring" name="login" value="root"/>
        <propval type="astring" name="password" value="$6$salt$verysecrethash"/>
        <propval type="astring" name="type" value="role"/>
      </property_group>
      <property_group type="application" name="user_account">
        <propval type="astring" name="login" value="jack"/>
        <propval type="astring" name="password" value="$6$salt$verysecrethash"/>
        <propval type="astring" name="description" value="Jack"/>
        <propval type="astring" name="shell" value="/bin/sh"/>
        <propval type="astring" name="sudoers" value="ALL=(ALL) ALL"/>
        <propval type="astring" name="roles" value="root"/>
        <property type="astring" name="ssh_public_keys">
          <astring_list><value_node value="ssh-ed25519 AAAAC3Nza jack@example"/></astring_list>
        </property>
      </property_group>
    </instance>
  </service>
  <service version="1" type="service" name="system/timezone">
    <instance enabled="true" name="default">
      <property_group type="application" name="timezone">
        <propval type="astring" name="localtime" value="Asia/Tokyo"/>
      </property_group>
    </instance>
  </service>
  <service version="1" type="service" name="network/physical">
    <instance enabled="true" name="default">
      <property_group type="application" name="netcfg">
        <propval type="astring" name="active_ncp" value="DefaultFixed"/>
      </property_group>
    </instance>
  </service>
  <service version="1" type="service" name="site/first-boot">
    <instance enabled="true" name="default">
      <property_group type="application" name="run">
        <property type="astring" name="command"><astring_list>{values}</astring_list></property>
      </property_group>
    </instance>
  </service>
</service_bundle>
"#
    );
    let path = host.path("/sc_profile.xml");
    fs::write(&path, text).unwrap();
    path
}

fn count(host: &Host, zone: &str, file: &str) -> usize {
    let text = fs::read_to_string(host.top(zone).join(file)).unwrap_or_default();
    text.lines().count()
}

fn wait_for_file(host: &Host, zone: &str, file: &str) {
    wait_for(file, || host.top(zone).join(file).exists().then_some(()));
}

#[test]
fn a_profile_of_solaris_configures_a_zone_and_runs_its_commands_once() {
    let Some(host) = Host::new() else { return };
    let commands = [
        "echo one &gt;&gt;/var/one",
        "exit 7",
        "date +%Z &gt;&gt;/var/three",
    ];
    let path = profile(&host, &commands);
    let path = path.to_string_lossy();
    host.configure("web", "");
    let planned = host.on("web", &["install", "-n", "-c", &path]).ok().out;
    assert!(planned.contains("apply the profile"), "{planned}");
    let said = host.on("web", &["install", "-c", &path]).ok().out;
    for part in [
        "user_account/roles: has no effect",
        "netcfg/active_ncp: has no effect: zonecfg configures the network",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("verysecrethash"), "{said}");

    host.boot("web");
    wait_for_file(&host, "web", "var/lib/zones/first-boot/003.done");
    assert_eq!(host.sh("web", "hostname"), "db-1");
    assert_eq!(host.sh("web", "cat /etc/hostname"), "db-1");
    assert_eq!(host.sh("web", "getent hosts db-1 | wc -l"), "1");
    let user = host.sh(
        "web",
        "id jack; getent passwd jack; stat -c '%U %a' /home/jack/.ssh",
    );
    assert_eq!(
        user,
        "uid=1000(jack) gid=1000(jack) groups=1000(jack)\n\
         jack:x:1000:1000:Jack:/home/jack:/bin/sh\njack 700"
    );
    let key = host.sh(
        "web",
        "stat -c '%U %a' /home/jack/.ssh/authorized_keys; cat /home/jack/.ssh/authorized_keys",
    );
    assert_eq!(key, "jack 600\nssh-ed25519 AAAAC3Nza jack@example");
    let shadow = host.sh(
        "web",
        "grep -c verysecrethash /etc/shadow; stat -c %a /etc/shadow",
    );
    assert!(shadow.starts_with("2\n6"), "{shadow}");
    assert_eq!(
        host.sh("web", "cat /etc/sudoers.d/zone-jack"),
        "jack ALL=(ALL) ALL"
    );
    assert_eq!(host.sh("web", "date +%Z"), "JST");
    assert_eq!(host.sh("web", "cat /var/three"), "JST");

    // The failure of a command is on the console, and the commands after it ran.
    let console = fs::read_to_string(host.path("/var/log/zones/web.console")).unwrap();
    assert!(
        console.contains("first boot: command 002 failed: exit status 7"),
        "{console}"
    );
    for log in fs::read_dir(host.path("/var/log/zones")).unwrap().flatten() {
        let text = fs::read_to_string(log.path()).unwrap_or_default();
        assert!(!text.contains("verysecrethash"), "{}", log.path().display());
    }
    host.on("web", &["reboot"]).quiet();
    let _ = host.sh("web", "sleep 1");
    host.halt("web");
    host.boot("web");
    let _ = host.sh("web", "sleep 1");
    assert_eq!(
        (
            count(&host, "web", "var/one"),
            count(&host, "web", "var/three")
        ),
        (1, 1)
    );
    assert!(
        !host
            .top("web")
            .join("etc/rc2.d/S99zone-first-boot")
            .exists()
    );
}

#[test]
fn no_command_runs_twice_if_the_zone_is_killed() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let commands = [
        "echo one &gt;&gt;/var/one",
        "echo two &gt;&gt;/var/two; sleep 1000",
        "echo three &gt;&gt;/var/three",
    ];
    let path = profile(&host, &commands);
    let path = path.to_string_lossy();
    host.on("killed", &["clone", "--create", "-c", &path, "master"])
        .quiet();
    host.boot("killed");
    wait_for_file(&host, "killed", "var/two");
    host.halt("killed");
    assert_eq!(count(&host, "killed", "var/three"), 0);
    host.boot("killed");
    wait_for_file(&host, "killed", "var/lib/zones/first-boot/003.done");
    for (file, times) in [("var/one", 1), ("var/two", 1), ("var/three", 1)] {
        assert_eq!(count(&host, "killed", file), times, "{file}");
    }
    let console = fs::read_to_string(host.path("/var/log/zones/killed.console")).unwrap();
    assert!(
        console.contains("command 002 was interrupted and does not run again"),
        "{console}"
    );
}

#[test]
fn bad_settings_change_nothing_and_show_no_secret() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let at = |name: &str| host.path(name).to_string_lossy().into_owned();
    let bad = profile(&host, &["true"]);
    let text = fs::read_to_string(&bad).unwrap();
    fs::write(&bad, text.replace("$6$salt$verysecrethash", "verysecret")).unwrap();
    let seed = host.path("/seed");
    fs::create_dir(&seed).unwrap();
    fs::write(
        seed.join("user-data"),
        "#cloud-config\npassword: verysecret\n",
    )
    .unwrap();
    for (path, status, why) in [
        (
            at("/sc_profile.xml"),
            1,
            "root_account/password: expected a crypted password",
        ),
        (at("/seed"), 1, "the root has no cloud-init"),
        (at("/nowhere"), 2, "is not a directory"),
    ] {
        let ran = host.on("web", &["install", "-c", &path]);
        assert!(
            !ran.err.contains("verysecret") && !ran.out.contains("verysecret"),
            "{}",
            ran.err
        );
        ran.mentions(status, why);
        assert_eq!(host.state("web"), "configured");
    }
}

#[test]
fn the_small_template_starts_the_services_that_are_enabled() {
    let Some(host) = Host::new() else { return };
    if !std::path::Path::new("/usr/sbin/update-rc.d").exists() {
        return e2e::skip("no update-rc.d");
    }
    host.zonecfg(&[
        "-z",
        "web",
        "create -t SYSsmall; set zonepath=/zones/web; remove anet",
    ])
    .quiet();
    host.on("web", &["install"]).quiet();
    host.put_program(
        "web",
        "etc/init.d/greeter",
        "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: greeter\n# Required-Start:\n# Required-Stop:\n\
         # Default-Start: 2 3 4 5\n# Default-Stop: 0 1 6\n### END INIT INFO\necho $1 >>/var/greeted\n",
    );
    host.boot("web");
    assert_eq!(host.sh("web", "cat /proc/1/comm"), "zinit");
    assert!(!host.top("web").join("var/greeted").exists());
    let _ = host.sh("web", "update-rc.d greeter defaults");
    host.on("web", &["shutdown", "-r"]).quiet();
    wait_for("the service", || {
        (count(&host, "web", "var/greeted") == 2).then_some(())
    });
    assert_eq!(host.sh("web", "cat /var/greeted"), "stop\nstart");
    let _ = host.sh("web", "update-rc.d greeter remove");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(count(&host, "web", "var/greeted"), 2);
}

const USER_DATA: &str = "#cloud-config
locale: false
users:
  - name: jack
    shell: /bin/sh
    ssh_authorized_keys: [ssh-ed25519 AAAAC3Nza jack@example]
write_files:
  - path: /etc/written
    content: by cloud-init
runcmd:
  - echo run >>/var/ran
";

/// Waits until cloud-init has ended, and returns its state.
fn cloud_init_ended(host: &Host, zone: &str) -> String {
    wait_for("cloud-init", || {
        let ran = host.zlogin(&[zone, "cloud-init status"]);
        let state = ran.out.trim().strip_prefix("status: ")?.to_owned();
        let over = ["done", "error", "disabled"].contains(&state.as_str());
        over.then_some(state).or_else(|| {
            std::thread::sleep(std::time::Duration::from_millis(500));
            None
        })
    })
}

#[test]
fn cloud_init_in_a_zone_applies_a_seed_once_for_each_zone() {
    let Some(host) = Host::new() else { return };
    if e2e::left_to_long_runs("the root is downloaded") {
        return;
    }
    let packages = "systemd-sysv,dbus,iproute2,cloud-init";
    let root = match e2e::roots::root("bookworm-cloud-init", "bookworm", packages) {
        Ok(root) => root,
        Err(why) => return e2e::skip(&why),
    };
    let seed = host.path("/seed");
    fs::create_dir(&seed).unwrap();
    fs::write(seed.join("user-data"), USER_DATA).unwrap();
    let (root, seed) = (root.to_string_lossy(), seed.to_string_lossy());
    host.zonecfg(&["-z", "cloud", "create -t SYSlx; remove anet"])
        .quiet();
    let _ = host
        .on("cloud", &["install", "-a", &root, "-c", &seed])
        .ok();
    host.boot("cloud");
    assert_eq!(cloud_init_ended(&host, "cloud"), "done");
    assert_eq!(
        host.sh("cloud", "hostname; cat /etc/written"),
        "cloud\nby cloud-init"
    );
    let key = host.sh("cloud", "cat ~jack/.ssh/authorized_keys");
    assert_eq!(key, "ssh-ed25519 AAAAC3Nza jack@example");
    let id = host.sh("cloud", "cloud-init query instance_id");
    assert_eq!(id, host.row("cloud").uuid);
    host.on("cloud", &["reboot"]).quiet();
    assert_eq!(cloud_init_ended(&host, "cloud"), "done");
    assert_eq!(count(&host, "cloud", "var/ran"), 1);
    host.halt("cloud");
    // A clone is a new instance, in which cloud-init runs again.
    host.clone_from("cloud", "copy");
    host.boot("copy");
    assert_eq!(cloud_init_ended(&host, "copy"), "done");
    assert_eq!(host.sh("copy", "hostname; wc -l </var/ran"), "copy\n2");
}

#[test]
fn a_kernel_zone_gets_its_seed_on_a_disk() {
    let Some(host) = Host::new() else { return };
    if !machine::has_qemu() {
        return;
    }
    let seed = host.path("/seed");
    fs::create_dir(&seed).unwrap();
    fs::write(seed.join("user-data"), USER_DATA).unwrap();
    let disk = host.path("/disk.img");
    let mut blocks = machine::loader("guest is here");
    blocks.resize(1 << 20, 0);
    fs::write(&disk, blocks).unwrap();
    let (disk, seed) = (disk.to_string_lossy(), seed.to_string_lossy());
    machine::configure(&host, "k1", "");
    let profile = profile(&host, &["true"]);
    let profile = profile.to_string_lossy();
    host.on("k1", &["install", "-a", &disk, "-c", &profile])
        .mentions(2, "-c takes a directory with user-data");
    let _ = host.on("k1", &["install", "-a", &disk, "-c", &seed]).ok();

    let image = host.path("/zones/k1/cidata.img");
    let path = image.to_string_lossy().into_owned();
    let mut read = std::process::Command::new("mtype");
    read.args(["-i", &path, "::user-data"]);
    assert_eq!(e2e::run::run(&mut read, b"").ok().out, USER_DATA);
    let mut read = std::process::Command::new("mtype");
    read.args(["-i", &path, "::meta-data"]);
    let uuid = host.row("k1").uuid;
    assert_eq!(
        e2e::run::run(&mut read, b"").ok().out,
        format!("instance-id: \"{uuid}\"\nlocal-hostname: \"k1\"\n")
    );
    let mut label = std::process::Command::new("blkid");
    label.args(["-p", "-s", "LABEL", "-o", "value", &path]);
    assert_eq!(e2e::run::run(&mut label, b"").ok().text(), "cidata");

    machine::done(host.on("k1", &["boot"]));
    let holds = host.processes().into_iter().any(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|one| fs::read_link(one.path()).is_ok_and(|file| file == image))
    });
    assert!(holds, "QEMU has the disk open");
    host.halt("k1");
    host.on("k1", &["uninstall", "-F"]).quiet();
    assert!(!image.exists());
}
