//! Compares random layers in memory. The plain trees, with which the output is checked, are made by
//! another algorithm: from the lowest layer upwards.

#[path = "../tests/overlay/check.rs"]
mod check;
mod folders;
mod memory;

use std::ops::ControlFlow;

use proptest::prelude::*;

use crate::layer::Mark;
use crate::view::Side;
use crate::{Action, Done, Event};
use check::{Seen, Tree, check, is_sorted};
use memory::{Layers, Node, Plain};

/// Returns a change in the form of [`check`].
fn seen(event: &Event<'_>) -> Option<Seen> {
    let Event::Change(change) = event else {
        return None;
    };
    Some(Seen {
        action: match change.action {
            Action::Removed => '-',
            Action::Added => '+',
            Action::Modified => 'M',
            Action::Renamed => 'R',
        },
        path: change.path.to_vec(),
        from: change.from.map(<[u8]>::to_vec),
        differs: !change.what.is_nothing(),
    })
}

/// The layers of both moments: own ones before and after, and shared ones.
#[derive(Clone, Debug)]
struct Case {
    own: [Vec<Node>; 2],
    shared: Vec<Node>,
}

impl Case {
    fn compare(&self) -> (Vec<Seen>, Done) {
        let all: Vec<&Node> = self.own.iter().flatten().chain(&self.shared).collect();
        let first = self.own[0].len();
        let own = first + self.own[1].len();
        let shared = own..own + self.shared.len();
        let side = |own: std::ops::Range<usize>| Side {
            own: own.len(),
            layers: own.chain(shared.clone()).collect(),
        };
        let sides = [side(0..first), side(first..own)];
        let mut all_seen = Vec::new();
        let done = crate::walk::walk(&Layers::new(&all), &sides, &mut |event| {
            all_seen.extend(seen(event));
            ControlFlow::Continue(())
        });
        (all_seen, done)
    }

    /// Returns the plain trees of both moments, and the number of places of each folder of the
    /// shared layers in both.
    fn plain(&self) -> [Plain; 2] {
        let mut shared = Plain::of(&self.shared, None);
        shared.number();
        [0, 1].map(|n| Plain::of(&self.own[n], Some(&shared)))
    }
}

fn folder(mark: Mark, look: u8, children: Vec<(&'static str, Node)>) -> Node {
    let children = children.into_iter();
    Node::Folder {
        mark,
        look,
        children: children
            .map(|(name, node)| (name.as_bytes().to_vec(), node))
            .collect(),
    }
}

fn plain_folder(children: Vec<(&'static str, Node)>) -> Node {
    folder(Mark::None, 0, children)
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c"])
}

fn mark() -> impl Strategy<Value = Mark> {
    let path = prop::sample::select(vec!["/a", "/b", "/a/b", "/b/a", "/c/a", "/a/b/c"]);
    prop_oneof![
        6 => Just(Mark::None),
        1 => Just(Mark::Opaque),
        1 => name().prop_map(|name| Mark::Name(name.as_bytes().to_vec())),
        1 => path.prop_map(|path| Mark::Path(path.as_bytes().to_vec())),
    ]
}

fn layer() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        3 => (0..3u8).prop_map(Node::File),
        1 => Just(Node::Whiteout),
        1 => (mark(), 0..2u8).prop_map(|(mark, look)| folder(mark, look, Vec::new())),
    ];
    let node = leaf.prop_recursive(4, 24, 4, |inner| {
        (
            mark(),
            0..2u8,
            prop::collection::btree_map(name(), inner, 0..4),
        )
            .prop_map(|(mark, look, all)| folder(mark, look, all.into_iter().collect()))
    });
    (0..2u8, prop::collection::btree_map(name(), node, 0..4))
        .prop_map(|(look, all)| folder(Mark::None, look, all.into_iter().collect()))
}

fn case() -> impl Strategy<Value = Case> {
    let own = || prop::collection::vec(layer(), 1..3);
    let shared = prop::collection::vec(layer(), 1..3);
    (own(), own(), shared).prop_map(|(before, after, shared)| Case {
        own: [before, after],
        shared,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_global_rejects: 200_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_output_turns_one_tree_into_the_other(case in case()) {
        let plain = case.plain();
        // Only forged marks show one folder at two places.
        prop_assume!(plain.iter().all(Plain::is_real));
        let trees = plain.map(|plain| plain.tree());
        let (seen, done) = case.compare();
        prop_assert_eq!(done.problems, 0);
        prop_assert_eq!(done.changes, seen.len() as u64);
        let checked = check(&trees[0], &trees[1], &seen);
        prop_assert!(checked.is_ok(), "{}\n{seen:?}", checked.unwrap_err());
        if seen.iter().all(|one| one.action != 'R') {
            prop_assert!(is_sorted(&seen), "{seen:?}");
        }
    }

    #[test]
    fn forged_marks_do_no_harm(case in case()) {
        let (seen, done) = case.compare();
        prop_assert_eq!(done.changes, seen.len() as u64);
    }

    #[test]
    fn a_moment_does_not_differ_from_itself(own in prop::collection::vec(layer(), 1..3), shared in layer()) {
        let case = Case { own: [own.clone(), own], shared: vec![shared] };
        prop_assume!(case.plain().iter().all(Plain::is_real));
        prop_assert_eq!(case.compare().0, []);
    }
}

fn told(case: &Case) -> Vec<String> {
    let (seen, _) = case.compare();
    let path = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
    seen.iter()
        .map(|one| match &one.from {
            Some(from) => format!("{} {} {}", one.action, path(from), path(&one.path)),
            None => format!("{} {}", one.action, path(&one.path)),
        })
        .collect()
}

fn base() -> Node {
    let file = Node::File;
    plain_folder(vec![
        (
            "a",
            plain_folder(vec![
                ("x", file(1)),
                ("y", plain_folder(vec![("z", file(2))])),
            ]),
        ),
        ("b", plain_folder(vec![("x", file(1))])),
    ])
}

fn case_of(before: Node, after: Node) -> Case {
    Case {
        own: [vec![before], vec![after]],
        shared: vec![base()],
    }
}

#[test]
fn a_renamed_folder_is_one_line() {
    let redirect = folder(Mark::Path(b"/a".to_vec()), 0, vec![("x", Node::File(5))]);
    let moved = plain_folder(vec![("a", Node::Whiteout), ("n", redirect)]);
    let there = case_of(plain_folder(vec![]), moved.clone());
    assert_eq!(told(&there), ["R /a /n", "M /a/x /n/x"]);
    let back = case_of(moved, plain_folder(vec![]));
    assert_eq!(told(&back), ["R /n /a", "M /n/x /a/x"]);
}

#[test]
fn folders_that_change_places_are_renamed() {
    let swapped = plain_folder(vec![
        ("a", folder(Mark::Name(b"b".to_vec()), 0, vec![])),
        ("b", folder(Mark::Name(b"a".to_vec()), 0, vec![])),
    ]);
    let case = case_of(plain_folder(vec![]), swapped);
    assert_eq!(told(&case), ["R /b /a", "R /a /b"]);
}

#[test]
fn a_folder_that_left_a_renamed_folder_is_renamed() {
    let out = plain_folder(vec![
        ("a", Node::Whiteout),
        (
            "n",
            folder(Mark::Path(b"/a".to_vec()), 0, vec![("y", Node::Whiteout)]),
        ),
        ("o", folder(Mark::Path(b"/a/y".to_vec()), 0, vec![])),
    ]);
    let case = case_of(plain_folder(vec![]), out);
    assert_eq!(told(&case), ["R /a /n", "R /a/y /o"]);
}

#[test]
fn an_opaque_folder_hides_all_below() {
    let opaque = folder(Mark::Opaque, 0, vec![("x", Node::File(1))]);
    let case = case_of(plain_folder(vec![]), plain_folder(vec![("a", opaque)]));
    assert_eq!(told(&case), ["- /a/y", "- /a/y/z"]);
}

#[test]
fn a_folder_that_became_a_file_is_removed_with_its_content() {
    let case = case_of(
        plain_folder(vec![]),
        plain_folder(vec![("a", Node::File(0))]),
    );
    assert_eq!(
        told(&case),
        ["- /a", "+ /a", "- /a/x", "- /a/y", "- /a/y/z"]
    );
}

#[test]
fn a_large_folder_is_read_in_sorted_pieces() {
    // More names than one piece takes: about 30 MB with their overhead.
    const NAMES: u32 = 100_000;
    let name = |n: u32| format!("{:08x}{}", n.wrapping_mul(2_654_435_761), "n".repeat(230));
    let children = (0..NAMES).map(|n| (name(n).into_bytes(), Node::File(0)));
    let large = Node::Folder {
        mark: Mark::None,
        look: 0,
        children: children.collect(),
    };
    let case = case_of(plain_folder(vec![]), large);
    let (seen, done) = case.compare();
    assert_eq!((done.changes, done.problems), (u64::from(NAMES), 0));
    assert!(is_sorted(&seen));
}

#[test]
fn the_tree_of_a_case_is_as_expected() {
    let renamed = plain_folder(vec![("a", folder(Mark::Name(b"b".to_vec()), 1, vec![]))]);
    let case = case_of(renamed, plain_folder(vec![]));
    let [before, _] = case.plain().map(|plain| plain.tree());
    let want: Tree = [
        ("/", "folder 0"),
        ("/a", "folder 1"),
        ("/a/x", "file 1"),
        ("/b", "folder 0"),
        ("/b/x", "file 1"),
    ]
    .map(|(path, text)| (path.as_bytes().to_vec(), text.to_owned()))
    .into();
    assert_eq!(before, want);
}
