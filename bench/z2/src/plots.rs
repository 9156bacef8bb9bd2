//! Draws plots in SVG, with bars on a logarithmic scale.

use std::fmt::Write;

use crate::report::up;
use crate::results::{FleetRow, Results};

const LABELS: f64 = 250.0;
const BARS: f64 = 420.0;
const LINE: f64 = 24.0;
const COLOURS: [&str; 4] = ["#2f6f9f", "#7fb2d6", "#c98a3a", "#7a8f5a"];

/// A bar with a label; its parts follow one another.
struct Bar {
    label: String,
    parts: Vec<f64>,
}

/// Returns every plot with the name of its file.
pub fn all(results: &Results) -> Vec<(&'static str, String)> {
    let fleets = &results.fleets;
    let label = |row: &FleetRow| format!("{}, {} zones", short(&row.tool), row.zones);
    let of =
        |parts: &dyn Fn(&FleetRow) -> Vec<f64>, keep: &dyn Fn(&&FleetRow) -> bool| -> Vec<Bar> {
            let kept = fleets.iter().filter(keep);
            kept.map(|row| Bar {
                label: label(row),
                parts: parts(row),
            })
            .collect()
        };
    let part = |value: Option<f64>| value.unwrap_or(0.0);
    let shared = results.shared.iter().map(|row| Bar {
        label: format!("{}, {} zones", short(&row.tool), row.zones),
        parts: vec![row.pss_mib / row.zones as f64],
    });
    vec![
        (
            "z2-up.svg",
            plot(
                "From nothing to running, ms per zone",
                &["clone", "boot"],
                Scale::Log,
                &of(&|row| vec![part(row.clone), part(row.boot)], &|row| {
                    up(row) > 0.0
                }),
            ),
        ),
        (
            "z2-down.svg",
            plot(
                "From running to nothing, ms per zone",
                &["halt", "remove"],
                Scale::Log,
                &of(&|row| vec![part(row.halt), part(row.remove)], &|row| {
                    row.halt.is_some() || row.remove.is_some()
                }),
            ),
        ),
        (
            "z2-memory.svg",
            plot(
                "Memory of an idle zone, KiB",
                &["processes", "kernel"],
                Scale::Linear,
                &of(&|row| vec![row.processes, row.kernel().max(0.0)], &|row| {
                    row.processes > 0.0
                }),
            ),
        ),
        (
            "z2-disk.svg",
            plot(
                "Disk of a zone after three boots, KiB",
                &["disk"],
                Scale::Linear,
                &of(&|row| vec![row.disk_after_boots.max(0.0)], &|row| {
                    row.processes > 0.0
                }),
            ),
        ),
        (
            "z2-shared.svg",
            plot(
                "One program of 20 MB in every zone, MiB (PSS) per zone",
                &["program"],
                Scale::Log,
                &shared.collect::<Vec<_>>(),
            ),
        ),
    ]
}

/// Returns the name of a tool without the text in brackets.
fn short(tool: &str) -> &str {
    tool.split(" (").next().unwrap_or(tool)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// The length of a bar is its logarithm; parts divide it by their share.
    Log,
}

fn plot(title: &str, parts: &[&str], scale: Scale, bars: &[Bar]) -> String {
    let sum = |bar: &Bar| bar.parts.iter().sum::<f64>();
    let most = bars.iter().map(sum).fold(0.0, f64::max);
    let least = bars
        .iter()
        .map(sum)
        .filter(|sum| *sum > 0.0)
        .fold(f64::MAX, f64::min);
    // The scale starts one power of ten below the smallest value, so that every bar is visible.
    let floor = 10f64.powf(least.log10().floor());
    let length = |value: f64| match scale {
        _ if value <= 0.0 || most <= 0.0 => 0.0,
        Scale::Linear => BARS * value / most,
        Scale::Log => {
            BARS * (value / floor * 1.25).log10().max(0.02) / (most / floor * 1.25).log10()
        }
    };
    let height = 80.0 + LINE * bars.len() as f64;
    let width = LABELS + BARS + 110.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"16\">{title}{}</text>\n",
        if scale == Scale::Log {
            " (log scale)"
        } else {
            ""
        }
    );
    let mut x = 10.0;
    for (name, colour) in parts.iter().zip(COLOURS) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"45\">{name}</text>",
            x + 17.0
        );
        x += 40.0 + 8.0 * name.len() as f64;
    }
    for (i, bar) in bars.iter().enumerate() {
        let y = 62.0 + LINE * i as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LABELS - 8.0,
            y + 13.0,
            escape(&bar.label)
        );
        let (whole, all) = (length(sum(bar)), sum(bar));
        let mut x = LABELS;
        for (part, colour) in bar.parts.iter().zip(COLOURS) {
            let wide = if all > 0.0 { whole * part / all } else { 0.0 };
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{wide:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                LINE - 7.0
            );
            x += wide;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{}</text>",
            x + 6.0,
            y + 13.0,
            figure(all)
        );
    }
    svg + "</svg>\n"
}

/// Returns a number with three significant digits.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_bar_for_each_and_survives_nothing() {
        let bars = [("a<b", 0.5), ("c", 50.0)].map(|(label, value)| Bar {
            label: label.to_owned(),
            parts: vec![value, value],
        });
        let svg = plot("t", &["x", "y"], Scale::Log, &bars);
        assert_eq!(svg.matches("<rect x=\"250").count(), 2);
        assert!(svg.contains("a&lt;b") && svg.contains(">100<") && !svg.contains("NaN"));
        assert!(!plot("t", &[], Scale::Linear, &[]).contains("NaN"));
    }
}
