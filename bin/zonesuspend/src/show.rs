//! Prints the properties of images.

use std::fmt::Write as _;
use std::path::Path;

use cli::units;
use serde::Serialize;
use serde_json::{Value, json};
use suspend::codec::Codec;
use suspend::format::{CHUNK, Header};
use suspend::{Image, Restored};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the properties that can be read without the key.
pub fn outside(header: &Header, size: u64, json: bool) -> String {
    if json {
        return to_json(&json!({
            "id": hex(&header.id),
            "created": header.created,
            "bytes": size,
            "proved": false,
        }));
    }
    let mut text = String::new();
    line(&mut text, "id", &hex(&header.id));
    line(&mut text, "created", &units::utc(header.created));
    line(&mut text, "size", &units::bytes(size));
    line(&mut text, "proved", "nothing: no key was given");
    text
}

/// The number of an image's chunks for each codec.
#[derive(Serialize)]
struct Counts {
    zero: u64,
    raw: u64,
    lz4: u64,
    zstd: u64,
}

/// Returns all properties of an image.
pub fn image(image: &Image, json: bool) -> String {
    let (header, index) = (image.header(), image.index());
    let mut counts = Counts {
        zero: 0,
        raw: 0,
        lz4: 0,
        zstd: 0,
    };
    for entry in &index.entries {
        *match (entry.is_empty(), entry.codec()) {
            (true, _) => &mut counts.zero,
            (_, Codec::Raw) => &mut counts.raw,
            (_, Codec::Lz4) => &mut counts.lz4,
            (_, Codec::Zstd) => &mut counts.zstd,
        } += 1;
    }
    if json {
        let streams: Vec<Value> = index
            .streams
            .iter()
            .map(|stream| json!({"name": stream.name, "bytes": stream.size}))
            .collect();
        return to_json(&json!({
            "id": hex(&header.id),
            "created": header.created,
            "bytes": image.size(),
            "proved": true,
            "identity": index.identity,
            "streams": streams,
            "chunk_bytes": CHUNK,
            "chunks": counts,
        }));
    }
    let mut text = String::new();
    line(&mut text, "id", &hex(&header.id));
    line(&mut text, "created", &units::utc(header.created));
    line(&mut text, "size", &units::bytes(image.size()));
    line(&mut text, "proved", "header and index, by the key");
    for stream in &index.streams {
        let size = units::bytes(stream.size);
        line(&mut text, "stream", &format!("{} {size}", stream.name));
    }
    let Counts {
        zero,
        raw,
        lz4,
        zstd,
    } = counts;
    let chunks = format!("{zero} zero, {raw} raw, {lz4} lz4, {zstd} zstd");
    line(&mut text, "chunks", &chunks);
    if let Value::Object(facts) = &index.identity {
        for (name, value) in facts {
            line(&mut text, "identity", &format!("{name} {value}"));
        }
    }
    text
}

/// Returns the message of verify about an intact image.
pub fn verified(path: &Path, restored: Restored, json: bool) -> String {
    let seconds = restored.took.as_secs_f64();
    if json {
        return to_json(&json!({
            "whole": true,
            "raw_bytes": restored.raw,
            "stored_bytes": restored.stored,
            "seconds": seconds,
        }));
    }
    format!(
        "{}: as it was written; {} MB of memory in {seconds:.2} s\n",
        path.display(),
        restored.raw / 1_000_000
    )
}

fn line(text: &mut String, name: &str, value: &str) {
    // Names come from an image: unprintable characters are not sent to a terminal.
    let value: String = value
        .chars()
        .map(|one| if one.is_control() { '?' } else { one })
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name:>9}: {value}");
}

/// Returns data as JSON, for `-j`.
pub fn to_json(value: &impl Serialize) -> String {
    // These are plain data: they always have a JSON form.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
