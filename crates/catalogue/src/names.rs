//! Finds the product that a name means.

use crate::product::Product;

/// Maximum number of names that a message suggests.
const MAX_SUGGESTIONS: usize = 3;

/// Maximum number of letters of a name that are compared for suggestions.
const MAX_COMPARED: usize = 48;

/// The products of a remote.
#[derive(Debug, Clone, Copy)]
pub struct Shelf<'a> {
    /// The name of the remote.
    pub remote: &'a str,
    /// The architecture of the images to find, in Debian's words.
    pub architecture: &'a str,
    /// All products of the remote.
    pub products: &'a [Product],
}

/// A product that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// The name of the remote.
    pub remote: &'a str,
    /// The product.
    pub product: &'a Product,
}

/// The reason why a name means no product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// No product has this name.
    Unknown {
        /// Similar names.
        near: Vec<String>,
        /// The architectures for which products with this name exist.
        architectures: Vec<String>,
    },
    /// Several products have this name: the names that mean only one of them.
    Ambiguous(Vec<String>),
}

/// Finds the only product with this name among the products of all remotes.
///
/// # Errors
/// Fails with similar names if there is no such product, and with longer names if there are several.
pub fn find<'a>(shelves: &[Shelf<'a>], word: &str) -> Result<Found<'a>, Missing> {
    let mut found = Vec::new();
    for shelf in shelves {
        let fits = |product: &&Product| product.architecture == shelf.architecture;
        let products = shelf.products.iter().filter(fits);
        found.extend(
            products
                .filter(|product| product.answers_to(word))
                .map(|product| Found {
                    remote: shelf.remote,
                    product,
                }),
        );
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Missing::Unknown {
            near: near(shelves, word),
            architectures: architectures(shelves, word),
        }),
        several => {
            let first = several[0].remote;
            let names =
                several
                    .iter()
                    .map(|one| match several.iter().all(|one| one.remote == first) {
                        // The same name in one remote: only the names of products differ.
                        true => format!("{}:{}", one.remote, one.product.name),
                        false => format!("{}:{word}", one.remote),
                    });
            let mut names: Vec<String> = names.collect();
            names.dedup();
            Err(Missing::Ambiguous(names))
        }
    }
}

fn architectures(shelves: &[Shelf<'_>], word: &str) -> Vec<String> {
    let all = shelves.iter().flat_map(|shelf| shelf.products);
    let mut found: Vec<String> = all
        .filter(|product| product.answers_to(word))
        .map(|product| product.architecture.clone())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the names of images that are most similar to a word: few letters differ, or the
/// distribution is the same.
fn near(shelves: &[Shelf<'_>], word: &str) -> Vec<String> {
    let start = word.split(['/', ':']).next().unwrap_or_default();
    let mut names: Vec<(usize, &str)> = Vec::new();
    for shelf in shelves {
        for product in shelf.products {
            if product.architecture != shelf.architecture {
                continue;
            }
            let called = product.aliases.iter().map(String::as_str);
            let called = called.chain([product.name.as_str()]);
            let nearest = called.map(|name| (distance(word, name), name)).min();
            let same = product.called().split(['/', ':']).next() == Some(start);
            match nearest {
                Some((far, name)) if far <= 2 => names.push((far, name)),
                Some((far, _)) if same => names.push((far, product.called())),
                _ => {}
            }
        }
    }
    names.sort_unstable();
    names.dedup_by_key(|(_, name)| *name);
    names
        .into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Returns the number of letters that must be added, removed or replaced to turn one word into the
/// other.
fn distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.chars().take(MAX_COMPARED).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut last = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = last + usize::from(a != b);
            last = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(last + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::product;

    fn shelf<'a>(remote: &'a str, products: &'a [Product]) -> Shelf<'a> {
        Shelf {
            remote,
            architecture: "amd64",
            products,
        }
    }

    #[test]
    fn a_name_means_one_product_of_the_architecture() {
        let products = [
            product("debian:trixie:amd64:default", &["debian/13"]),
            product("debian:trixie:arm64:default", &["debian/13"]),
            product("debian:trixie:amd64:cloud", &["debian/13/cloud"]),
            product("alpine:3.22:arm64:default", &["alpine/3.22"]),
        ];
        let shelves = [shelf("images", &products)];
        for (word, name) in [
            ("debian/13", "debian:trixie:amd64:default"),
            ("debian/trixie", "debian:trixie:amd64:default"),
            ("debian/13/cloud", "debian:trixie:amd64:cloud"),
            ("debian:trixie:amd64:cloud", "debian:trixie:amd64:cloud"),
        ] {
            assert_eq!(find(&shelves, word).unwrap().product.name, name);
        }
        assert_eq!(
            find(&shelves, "alpine/3.22"),
            Err(Missing::Unknown {
                near: Vec::new(),
                architectures: vec!["arm64".to_owned()]
            })
        );
        let Err(Missing::Unknown { near, .. }) = find(&shelves, "debian/14") else {
            panic!("found")
        };
        assert_eq!(near, ["debian/13", "debian/13/cloud"]);
        let Err(Missing::Unknown { near, .. }) = find(&shelves, "debain/13") else {
            panic!("found")
        };
        assert_eq!(near, ["debian/13"]);
    }

    #[test]
    fn a_name_of_several_products_is_ambiguous() {
        let one = [product("debian:13:amd64:default", &["debian/13", "debian"])];
        let two = [
            product("debian:13:amd64:default", &["debian/13"]),
            product("debian:13:amd64:small", &["debian/13"]),
        ];
        let shelves = [shelf("a", &one), shelf("b", &one)];
        assert_eq!(
            find(&shelves, "debian/13"),
            Err(Missing::Ambiguous(vec![
                "a:debian/13".to_owned(),
                "b:debian/13".to_owned()
            ]))
        );
        assert_eq!(
            find(&[shelf("b", &two)], "debian/13"),
            Err(Missing::Ambiguous(vec![
                "b:debian:13:amd64:default".to_owned(),
                "b:debian:13:amd64:small".to_owned()
            ]))
        );
    }

    #[test]
    fn the_distance_counts_letters() {
        for (one, other, far) in [
            ("a", "a", 0),
            ("ab", "ba", 2),
            ("", "abc", 3),
            ("debian", "debien", 1),
        ] {
            assert_eq!(distance(one, other), far);
        }
    }
}
