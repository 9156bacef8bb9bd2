//! The package manager apk of Alpine Linux.

use super::{Manager, Mood, Unfit, Work, shown};
use crate::order::Order;

/// The package manager apk.
#[derive(Debug)]
pub(super) struct Apk;

impl Manager for Apk {
    fn name(&self) -> &'static str {
        "apk"
    }

    fn work(&self, order: &Order, how: Mood) -> Result<Work, Unfit> {
        let (what, more) = match order {
            Order::Upgrade => ("upgrade", Vec::new()),
            Order::DistUpgrade => ("dist-upgrade", Vec::new()),
            Order::Packages(names) => ("packages", names.clone()),
            Order::Files(files) => ("files", shown(files)?),
            Order::Security => return Err(Unfit::NoSecurity("apk")),
            Order::Back { .. } => return Err(Unfit::NoFormer("apk")),
        };
        Ok(Work::new(SCRIPT, what, how, more))
    }

    fn tells(&self) -> bool {
        true
    }

    fn decides(&self) -> &'static [&'static str] {
        &[
            "lib/apk/db/installed",
            "usr/lib/apk/db/installed",
            "etc/apk/world",
            "etc/apk/repositories",
        ]
    }
}

/// Packages are `NAME-VERSION-rN`. A dry run does all the work in a copy, and the copy is removed
/// afterwards.
const SCRIPT: &str = r#"
export LC_ALL=C HOME=/root
what=$1 mood=$2
shift 2
go() {
    [ "$mood" != live ] || apk --no-progress --simulate "$@" || exit 13
    apk --no-progress "$@" || exit 12
}
list() {
    all=$(apk info -v 2>/dev/null) || return
    echo "$all" |
        sed -n "s/^\(.*\)-\([^-]*-r[0-9]*\)\$/zonepatch: $1 \1 - \2/p"
}
list was || exit 11
[ "$what" = files ] || apk --no-progress update || exit 11
case $what in
upgrade) go upgrade ;;
dist-upgrade) go upgrade --available ;;
packages) go add --upgrade "$@" ;;
files) go add --allow-untrusted "$@" ;;
esac
list is || exit 64
exit 0
"#;
