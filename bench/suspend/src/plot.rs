//! Draws the plot: the speed at which the same memory is written to disk and read back, for each
//! way.

use std::fmt::Write;

use crate::figures::Figures;

const LABELS: f64 = 210.0;
const BARS: f64 = 430.0;
const LINE: f64 = 22.0;

/// The bars for each size: the label, the row of `zonesuspend bench` and a colour.
const BARS_OF: [(&str, &str, &str); 9] = [
    ("disk at most", "roofline disk, synced, {} thr", "#9a9a9a"),
    ("adaptive", "save adaptive, {} thr", "#2f6f9f"),
    ("raw", "save raw, {} thr", "#2f6f9f"),
    ("lz4", "save lz4, {} thr", "#2f6f9f"),
    ("zstd", "save zstd, {} thr", "#2f6f9f"),
    ("QEMU, plain, not sealed", "QEMU plain", "#c98a3a"),
    ("QEMU, zstd -1 -T0", "QEMU zstd -1 -T0", "#c98a3a"),
    ("QEMU, zstd -T0", "QEMU zstd -T0", "#c98a3a"),
    ("restored (lz4)", "restore lz4, {} thr", "#7a8f5a"),
];

/// Returns the plot of all figures.
pub fn draw(figures: &Figures) -> String {
    let groups: Vec<_> = figures
        .engines
        .iter()
        .map(|engine| {
            let bars = BARS_OF.iter().filter_map(|(label, row, colour)| {
                let name = row.replace("{}", &engine.measured.threads.to_string());
                Some((*label, engine.row(&name)?.median(), *colour))
            });
            (engine, bars.collect::<Vec<_>>())
        })
        .collect();
    let most = groups
        .iter()
        .flat_map(|(_, bars)| bars.iter().map(|bar| bar.1))
        .fold(1.0, f64::max);
    let lines: usize = groups.iter().map(|(_, bars)| bars.len() + 2).sum();
    let (width, height) = (LABELS + BARS + 80.0, 40.0 + LINE * lines as f64);
    let title = "Memory without zeros to the disk, synced, and back: MB/s, median";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"16\">{title}</text>\n"
    );
    let mut y = 40.0;
    for (engine, bars) in &groups {
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{} GiB, {} threads</text>",
            y + 16.0,
            engine.gib(),
            engine.measured.threads
        );
        y += LINE;
        for (label, value, colour) in bars {
            let long = BARS * value / most;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>\
                 <rect x=\"{LABELS}\" y=\"{y}\" width=\"{long:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{value:.0}</text>",
                LABELS - 8.0,
                y + 13.0,
                LINE - 6.0,
                LABELS + long + 6.0,
                y + 13.0
            );
            y += LINE;
        }
        y += LINE;
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Engine, Measured, Row};

    #[test]
    fn a_bar_for_each_that_was_measured() {
        let row = |name: &str, value| Row {
            rounds: vec![value],
            ..Row::new(name, "MB/s")
        };
        let figures = Figures {
            engines: vec![Engine {
                measured: Measured {
                    memory_bytes: 4 << 30,
                    nonzero_bytes: 1,
                    threads: 2,
                    rows: vec![row("save lz4, 2 thr", 1500.0), row("QEMU plain", 750.0)],
                },
                ratios: Vec::new(),
            }],
            ..Figures::default()
        };
        let svg = draw(&figures);
        assert_eq!(svg.matches("<rect x=\"210\"").count(), 2);
        assert!(svg.contains("4 GiB") && !svg.contains("NaN"));
        assert!(!draw(&Figures::default()).contains("NaN"));
    }
}
