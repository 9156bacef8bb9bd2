//! Formats images for printing.

use std::fmt::Write as _;
use std::time::SystemTime;

use cli::table::{Column, Table};
use cli::units;
use host::Error;
use serde::Serialize;
use storage::{Image, Images, Pruned};

/// The printed properties of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    digest: String,
    name: String,
    source: String,
    /// The digest of the archive that the image was imported from.
    archive: Option<String>,
    /// Time of the import, in seconds since 1970.
    imported: u64,
    entries: u64,
    /// Size of all files, in bytes.
    bytes: u64,
    /// Space on disk, in bytes.
    disk_bytes: u64,
    /// Number of layers of the image.
    layers: usize,
    /// Zonepaths and layers that use the image.
    users: Vec<String>,
}

pub fn rows(images: &Images, all: &[Image]) -> Result<Vec<Row>, Error> {
    all.iter().map(|image| row(images, image)).collect()
}

pub fn row(images: &Images, image: &Image) -> Result<Row, Error> {
    let since = image.imported.duration_since(SystemTime::UNIX_EPOCH);
    Ok(Row {
        digest: image.digest.to_string(),
        name: printable(&image.about.name),
        source: printable(&image.about.source),
        archive: image.about.archive.map(|digest| digest.to_string()),
        imported: since.unwrap_or_default().as_secs(),
        entries: image.about.entries,
        bytes: image.about.bytes,
        disk_bytes: images.usage(image)?,
        layers: image.trees.len(),
        users: image
            .users
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    })
}

/// Names of images come from file names, so control characters are replaced: they could control the
/// terminal.
fn printable(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

pub fn list(rows: &[Row], json: bool, parseable: bool) -> String {
    if json {
        return to_json(&rows);
    }
    if parseable {
        let line = |row: &Row| {
            format!(
                "{}:{}:{}:{}:{}\n",
                row.digest.replace(':', "\\:"),
                row.disk_bytes,
                row.users.len(),
                row.imported,
                row.name.replace(':', "\\:")
            )
        };
        return rows.iter().map(line).collect();
    }
    let mut table = Table::new([
        Column::left("DIGEST", 19),
        Column::right("SIZE", 8),
        Column::right("USERS", 5),
        Column::left("IMPORTED", 20),
        Column::left("NAME", 0),
    ]);
    for row in rows {
        table.row(vec![
            // The first twelve digits of the digest identify the image.
            row.digest.chars().take(19).collect(),
            units::bytes(row.disk_bytes),
            row.users.len().to_string(),
            units::utc(row.imported),
            row.name.clone(),
        ]);
    }
    table.render()
}

pub fn one(row: &Row, image: &Image, json: bool) -> String {
    if json {
        return to_json(row);
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:>9}: {value}");
    };
    line("digest", &row.digest);
    line("name", &row.name);
    line("source", &row.source);
    if let Some(archive) = &row.archive {
        line("archive", archive);
    }
    line("imported", &units::utc(row.imported));
    line("entries", &row.entries.to_string());
    line("size", &units::bytes(row.bytes));
    line("on disk", &units::bytes(row.disk_bytes));
    for tree in &image.trees {
        line("files", &tree.display().to_string());
    }
    for user in &row.users {
        line("used by", user);
    }
    text
}

pub fn pruned(pruned: &Pruned, json: bool) -> String {
    let images: Vec<String> = pruned
        .images
        .iter()
        .map(|image| image.digest.to_string())
        .collect();
    let lost: Vec<String> = pruned
        .collected
        .lost
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if json {
        return to_json(&serde_json::json!({
            "images": images,
            "stale_references": pruned.collected.stale_refs,
            "trees": pruned.collected.removed,
            "lost": lost,
        }));
    }
    let mut text = String::new();
    for (image, digest) in pruned.images.iter().zip(&images) {
        let _ = writeln!(text, "removed {digest} {}", printable(&image.about.name));
    }
    for path in lost {
        let _ = writeln!(text, "kept the layers of {path}, which is not there");
    }
    text
}

pub fn to_json(value: &impl Serialize) -> String {
    // These are plain data: they always have a JSON form.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_fields() {
        let row = Row {
            digest: format!("sha256:{}", "0123456789abcdef".repeat(4)),
            name: "debian-12".into(),
            source: "/tmp/debian-12.tar".into(),
            archive: None,
            imported: 1_763_674_377,
            entries: 2,
            bytes: 3,
            disk_bytes: 4096,
            layers: 1,
            users: vec!["/zones/web".into()],
        };
        assert_eq!(
            list(std::slice::from_ref(&row), false, false),
            "DIGEST                  SIZE USERS IMPORTED             NAME\n\
             sha256:0123456789ab     4.0K     1 2025-11-20T21:32:57Z debian-12\n"
        );
        let fields = list(std::slice::from_ref(&row), false, true);
        assert!(
            fields.starts_with("sha256\\:0123")
                && fields.ends_with(":4096:1:1763674377:debian-12\n")
        );
        assert!(list(&[row], true, false).contains("\"disk_bytes\": 4096"));
        assert_eq!(printable("a\u{1b}[2Jb"), "a?[2Jb");
    }
}
