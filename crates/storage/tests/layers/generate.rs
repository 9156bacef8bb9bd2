//! Generates test cases: random cases, and cases that are known to be difficult.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::ops::Op;
use crate::world::Step;

/// The paths use few names, so that different calls use the same paths.
fn path() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        3 => vec(name(), 1),
        4 => vec(name(), 2),
        2 => vec(name(), 3),
    ]
    .prop_map(|names| names.join("/"))
}

fn content() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{0,6}",
        1 => Just("page".repeat(3000)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let mode = || prop::sample::select(vec![0o644, 0o600, 0o755, 0o4755, 0o2770, 0o1777, 0o000]);
    let id = || prop::sample::select(vec![0_u32, 1000, 65_533]);
    let xattr = || {
        prop::sample::select(vec!["user.a", "user.overlay.opaque", "user.b"])
            .prop_map(str::to_owned)
    };
    prop_oneof![
        6 => (path(), content()).prop_map(|(p, c)| Op::Write(p, c)),
        3 => (path(), content()).prop_map(|(p, c)| Op::Append(p, c)),
        1 => (path(), 0..5000_u64).prop_map(|(p, n)| Op::Truncate(p, n)),
        8 => path().prop_map(Op::Mkdir),
        1 => path().prop_map(Op::Fifo),
        3 => path().prop_map(Op::Unlink),
        2 => path().prop_map(Op::Rmdir),
        2 => path().prop_map(Op::RemoveTree),
        8 => (path(), path()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (path(), path()).prop_map(|(a, b)| Op::RenameNew(a, b)),
        2 => (path(), path()).prop_map(|(a, b)| Op::Exchange(a, b)),
        2 => (path(), path()).prop_map(|(a, b)| Op::Symlink(a, b)),
        2 => (path(), path()).prop_map(|(a, b)| Op::Link(a, b)),
        2 => (path(), mode()).prop_map(|(p, m)| Op::Chmod(p, m)),
        2 => (path(), id(), id()).prop_map(|(p, u, g)| Op::Chown(p, u, g)),
        2 => (path(), xattr(), "[a-z]{0,4}").prop_map(|(p, n, v)| Op::SetXattr(p, n, v)),
        1 => (path(), xattr()).prop_map(|(p, n)| Op::RemoveXattr(p, n)),
    ]
}

/// A random case. It begins with some folders and files.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Most steps use the first zone, so that its chain grows long.
    let zone = || prop_oneof![3 => Just(0), 1 => 1..4_usize];
    let step = prop_oneof![
        8 => (zone(), vec(op(), 1..12)).prop_map(|(n, ops)| Step::Work(n, ops)),
        6 => zone().prop_map(Step::Seal),
        4 => (zone(), 1..3_usize).prop_map(|(n, most)| Step::Shorten(n, most)),
        3 => (zone(), 1..3_usize, vec(op(), 0..6), vec(op(), 0..6))
            .prop_map(|(n, most, first, then)| Step::Beside(n, most, first, then)),
        1 => zone().prop_map(Step::Clone),
        1 => zone().prop_map(Step::Destroy),
    ];
    // Folders are created first, from the top down, and then files at paths without a folder.
    let folders = prop::collection::btree_set(path(), 3..20);
    let first = (folders, vec((path(), content()), 3..12)).prop_map(|(folders, files)| {
        let folders = folders.into_iter().map(Op::Mkdir);
        let files = files.into_iter().map(|(p, c)| Op::Write(p, c));
        folders.chain(files).collect()
    });
    (first, vec(step, 1..24)).prop_map(|(first, mut steps)| {
        steps.insert(0, Step::Work(0, first));
        steps
    })
}

fn s(text: &str) -> String {
    text.to_owned()
}

fn work(ops: Vec<Op>) -> Step {
    Step::Work(0, ops)
}

/// Returns, by name, the cases that are difficult because of overlay.
pub fn known() -> Vec<(&'static str, Vec<Step>)> {
    let tree = || {
        work(vec![
            Op::Mkdir(s("a")),
            Op::Mkdir(s("a/b")),
            Op::Mkdir(s("a/b/c")),
            Op::Write(s("a/f"), s("one")),
            Op::Write(s("a/b/c/g"), s("two")),
            Op::Chown(s("a/b"), 1000, 1000),
            Op::Chmod(s("a/b"), 0o2770),
        ])
    };
    vec![
        (
            "a renamed folder is renamed again above",
            vec![
                tree(),
                Step::Seal(0),
                work(vec![Op::Rename(s("a"), s("b"))]),
                Step::Seal(0),
                work(vec![
                    Op::Rename(s("b/b"), s("c")),
                    Op::Write(s("c/c/h"), s("three")),
                ]),
                Step::Seal(0),
                work(vec![
                    Op::Rename(s("c"), s("b/c")),
                    Op::Rename(s("b"), s("a")),
                ]),
                Step::Seal(0),
                work(vec![Op::Append(s("a/c/c/g"), s("more"))]),
            ],
        ),
        (
            "a removed folder comes back empty",
            vec![
                tree(),
                Step::Seal(0),
                work(vec![Op::RemoveTree(s("a")), Op::Mkdir(s("a"))]),
                Step::Seal(0),
                work(vec![Op::Mkdir(s("a/b"))]),
                Step::Seal(0),
                work(vec![Op::RemoveTree(s("a")), Op::Write(s("a"), s("file"))]),
                Step::Seal(0),
                work(vec![Op::Unlink(s("a")), Op::Mkdir(s("a"))]),
            ],
        ),
        (
            "a folder moves over one that was removed",
            vec![
                tree(),
                Step::Seal(0),
                work(vec![
                    Op::Mkdir(s("c")),
                    Op::Rename(s("a/b"), s("c/a")),
                    Op::RemoveTree(s("a")),
                    Op::Rename(s("c"), s("a")),
                ]),
                Step::Clone(0),
                Step::Work(1, vec![Op::Write(s("a/a/c/g"), s("clone"))]),
                Step::Destroy(0),
                work(vec![Op::Exchange(s("a"), s("a/a"))]),
            ],
        ),
        (
            "names of one file part when sealed",
            vec![
                tree(),
                work(vec![Op::Link(s("a/f"), s("b")), Op::Link(s("a/f"), s("c"))]),
                Step::Seal(0),
                work(vec![
                    Op::Append(s("b"), s("b")),
                    Op::Rename(s("c"), s("a/f")),
                ]),
                Step::Seal(0),
                work(vec![
                    Op::Link(s("b"), s("c")),
                    Op::Append(s("c"), s("both")),
                ]),
            ],
        ),
        (
            "layers merge above others with all their marks",
            vec![
                tree(),
                Step::Seal(0),
                work(vec![
                    Op::Rename(s("a"), s("b")),
                    Op::Mkdir(s("a")),
                    Op::Mkdir(s("a/b")),
                    Op::Unlink(s("b/f")),
                ]),
                Step::Seal(0),
                work(vec![
                    Op::Rename(s("b/b"), s("a/c")),
                    Op::RemoveTree(s("b")),
                    Op::Write(s("a/b/new"), s("new")),
                ]),
                Step::Seal(0),
                Step::Clone(0),
                Step::Shorten(0, 2),
                work(vec![Op::Append(s("a/c/c/g"), s("more"))]),
                Step::Shorten(0, 1),
                work(vec![Op::Rename(s("a/c"), s("b")), Op::Mkdir(s("a/c"))]),
                Step::Seal(0),
                Step::Shorten(0, 1),
                work(vec![]),
                Step::Shorten(1, 1),
            ],
        ),
        (
            "layers merge below a zone that goes on with what was moved",
            vec![
                tree(),
                Step::Seal(0),
                work(vec![
                    Op::Rename(s("a/b"), s("b")),
                    Op::Link(s("a/f"), s("c")),
                ]),
                Step::Seal(0),
                work(vec![Op::RemoveTree(s("a")), Op::Mkdir(s("a"))]),
                Step::Seal(0),
                Step::Beside(
                    0,
                    1,
                    vec![
                        Op::Rename(s("b/c"), s("a/c")),
                        Op::Append(s("c"), s("more")),
                    ],
                    vec![
                        Op::Rename(s("a/c"), s("b/a")),
                        Op::Append(s("b/a/g"), s("more")),
                        Op::Rename(s("b"), s("a/b")),
                    ],
                ),
                work(vec![Op::Write(s("a/b/a/h"), s("three"))]),
                Step::Seal(0),
                Step::Beside(0, 1, vec![Op::RemoveTree(s("a/b"))], vec![]),
                Step::Clone(0),
                Step::Work(1, vec![Op::Mkdir(s("a/b"))]),
            ],
        ),
        (
            "what is unlinked in a folder that moved stays away",
            vec![
                tree(),
                Step::Seal(0),
                work(vec![Op::Rename(s("a"), s("b")), Op::Unlink(s("b/f"))]),
                Step::Seal(0),
                work(vec![Op::Rename(s("b"), s("a")), Op::Mkdir(s("b"))]),
                Step::Seal(0),
                work(vec![Op::Rmdir(s("b")), Op::RemoveTree(s("a"))]),
            ],
        ),
    ]
}
