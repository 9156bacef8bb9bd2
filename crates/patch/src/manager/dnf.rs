//! The package managers dnf and microdnf, on rpm.

use super::{Manager, Mood, Unfit, Work, shown};
use crate::order::Order;

/// The package manager dnf or microdnf.
#[derive(Debug)]
pub(super) struct Dnf;

impl Manager for Dnf {
    fn name(&self) -> &'static str {
        "dnf"
    }

    fn work(&self, order: &Order, how: Mood) -> Result<Work, Unfit> {
        let (what, more) = match order {
            Order::Upgrade => ("upgrade", Vec::new()),
            Order::DistUpgrade => ("dist-upgrade", Vec::new()),
            Order::Security => ("security", Vec::new()),
            Order::Packages(names) => {
                // dnf separates the name and the version of a package by a minus.
                let own = names.iter().map(|name| name.replace('=', "-"));
                ("packages", own.collect())
            }
            Order::Files(files) => ("files", shown(files)?),
            Order::Back { .. } => return Err(Unfit::WholeTransactions("dnf")),
        };
        Ok(Work::new(SCRIPT, what, how, more))
    }

    fn tells(&self) -> bool {
        true
    }

    fn decides(&self) -> &'static [&'static str] {
        &[
            "var/lib/rpm/rpmdb.sqlite",
            "var/lib/rpm/Packages",
            "usr/lib/sysimage/rpm/rpmdb.sqlite",
            "etc/dnf/dnf.conf",
            "etc/yum.repos.d",
        ]
    }
}

/// A dry run does all the work in a copy, and the copy is removed afterwards. Without `--refresh`,
/// dnf would not see packages that were published in the last two days.
const SCRIPT: &str = r#"
export LC_ALL=C.UTF-8 HOME=/root
what=$1 mood=$2
shift 2
dnf=$(command -v dnf || command -v microdnf) || exit 11
go() {
    case $mood:$dnf in
    live:*/dnf) "$dnf" -y "$@" --downloadonly || exit 13 ;;
    esac
    "$dnf" -y "$@" || exit 12
}
list() {
    rpm -qa --qf "zonepatch: $1 %{NAME} %{ARCH} %{EVR}\n"
}
list was || exit 11
case $what in
upgrade) go --refresh upgrade ;;
dist-upgrade) go --refresh distro-sync ;;
security) go --refresh upgrade --security ;;
packages) go --refresh upgrade "$@" ;;
files) go install "$@" ;;
esac
list is || exit 64
exit 0
"#;
