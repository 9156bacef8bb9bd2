//! Lists the longest functions and files, without their tests.

use std::path::Path;

use syn::visit::{self, Visit};

use crate::source::Source;

/// The number of lines and the names of functions and files.
#[derive(Debug, Default)]
pub struct Longest {
    functions: Vec<(usize, String)>,
    files: Vec<(usize, String)>,
}

impl Longest {
    /// Adds the files of a crate.
    pub fn add(&mut self, name: &str, source: &Source) {
        for module in source.values() {
            if module.lines > 0 {
                self.files
                    .push((module.lines, format!("{name}/{}", module.file.display())));
            }
            let mut reader = Reader {
                longest: self,
                name,
                file: &module.file,
            };
            for item in &module.items {
                if !matches!(item, syn::Item::Mod(_)) {
                    reader.visit_item(item);
                }
            }
        }
    }

    /// Returns `count` functions and files, the longest first.
    pub fn show(&mut self, count: usize) -> String {
        let mut text = String::new();
        for (title, all) in [
            ("functions", &mut self.functions),
            ("files", &mut self.files),
        ] {
            all.sort_by(|a, b| b.cmp(a));
            text += &format!("\nlongest {title}\n");
            for (lines, name) in all.iter().take(count) {
                text += &format!("{lines:5} {name}\n");
            }
        }
        text
    }
}

struct Reader<'a> {
    longest: &'a mut Longest,
    name: &'a str,
    file: &'a Path,
}

impl Reader<'_> {
    fn function(&mut self, name: &syn::Ident, block: &syn::Block) {
        let lines = block.brace_token.span.close().end().line - name.span().start().line + 1;
        let text = format!("{}/{} {name}", self.name, self.file.display());
        self.longest.functions.push((lines, text));
    }
}

impl Visit<'_> for Reader<'_> {
    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Module;

    #[test]
    fn the_longest_comes_first() {
        let text = "/// Doc.\nfn short() {}\nimpl A {\n    fn long(\n    ) {\n    }\n}\n";
        let module = Module {
            file: "a.rs".into(),
            lines: 7,
            items: syn::parse_file(text).unwrap().items,
        };
        let mut longest = Longest::default();
        longest.add("x", &Source::from([(Vec::new(), module)]));
        assert_eq!(
            longest.show(2),
            "\nlongest functions\n    3 x/a.rs long\n    1 x/a.rs short\n\nlongest files\n    7 x/a.rs\n"
        );
    }
}
