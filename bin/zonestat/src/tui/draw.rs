//! Draws the full-screen view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row as Cells, Sparkline, Table, TableState};
use stat::history::Point;
use stat::interval::percent;
use stat::{Interval, Resource, Row};

use super::app::{App, Order, View};
use crate::number::{Reader, amount, cpus, or_none, percent as show_percent};
use crate::time::Stamp;

/// Number of columns that show a zone's last intervals in the list.
const TREND_COLUMNS: usize = 20;

/// Characters with zero to eight eighths of a full height.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const KEYS: &str =
    " q quit  ? keys  / filter  s sort  r reverse  enter zone  p pause  +/- interval";

const HELP: &str = " \
up, down, j, k      choose a zone; also page up and down, home, end
 enter               more of the chosen zone, and back
 c m v l n i         sort by CPU, memory, virtual memory, threads, name, id
 s                   sort by the next column
 r                   the other way round
 /                   list zones whose name has this in it; esc takes it back
 p, blank            stop the figures, and go on
 + -                 longer and shorter intervals
 ?                   these keys
 q, control-c        leave

 Memory is what the kernel charges the zone with, cached files included; what
 several zones share is charged to one of them.";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let [head, bars, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(app)).style(strong()), head);
    match &app.shown {
        None => frame.render_widget(
            Paragraph::new(" Collecting data for first interval..."),
            bars,
        ),
        Some(interval) => frame.render_widget(Paragraph::new(totals(interval, app.colour)), bars),
    }
    match app.view {
        View::Help => frame.render_widget(
            Paragraph::new(HELP).block(Block::bordered().title(" Keys ")),
            body,
        ),
        View::List => list(frame, app, body),
        View::Zone => zone(frame, app, body),
    }
    let foot_text = if app.typing {
        format!(" filter: {}_", app.filter)
    } else {
        KEYS.to_owned()
    };
    frame.render_widget(Paragraph::new(foot_text), foot);
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn title(app: &App) -> String {
    let rows = app.rows().len();
    let time = app
        .shown
        .as_ref()
        .map(|interval| Stamp::Date.show(interval.unix));
    let mut text = format!(
        " zonestat  {}  every {} s  {rows} zones  by {}{}",
        time.unwrap_or_default(),
        app.interval.as_secs(),
        app.order.name(),
        if app.reverse { " reversed" } else { "" },
    );
    if !app.filter.is_empty() {
        text += &format!("  with '{}'", app.filter);
    }
    if app.paused {
        text += "  PAUSED";
    }
    text
}

/// Returns the host's resources and their used parts, with a bar for each.
fn totals(interval: &Interval, colour: bool) -> Vec<Line<'static>> {
    let line = |name: &str, resource: Resource, show: fn(u64, Reader) -> String| {
        let used = interval.total.figures[resource];
        let size = interval.size[resource];
        let part = used.zip(size).and_then(|(used, size)| percent(used, size));
        let text = format!(
            "{} of {}, system {}",
            or_none(used, |used| show(used, Reader::Human)),
            or_none(size, |size| show(size, Reader::Human)),
            or_none(interval.system.figures[resource], |used| show(
                used,
                Reader::Human
            )),
        );
        Line::from(vec![
            Span::raw(format!(" {name:8} [")),
            Span::styled(bar(part.unwrap_or_default(), 30), heat(part, colour)),
            Span::raw(format!(
                "] {:>5}  {text}",
                or_none(part, |part| show_percent(part, Reader::Human))
            )),
        ])
    };
    vec![
        line("CPU", Resource::Cpu, cpus),
        line("Memory", Resource::Physical, amount),
        line("Virtual", Resource::Virtual, amount),
    ]
}

/// Returns hundredths of a percent as a bar.
fn bar(part: u64, width: usize) -> String {
    let full = usize::try_from(part.min(10_000)).unwrap_or_default() * width / 10_000;
    "|".repeat(full) + &" ".repeat(width - full)
}

/// Returns a colour for a part of a whole. The colour adds nothing to the number.
fn heat(part: Option<u64>, colour: bool) -> Style {
    if !colour {
        return Style::new();
    }
    Style::new().fg(match part.unwrap_or_default() {
        0..=5_999 => Color::Green,
        6_000..=8_999 => Color::Yellow,
        _ => Color::Red,
    })
}

/// Returns the last points as characters, the newest last. `most` is the value of a full character.
fn trend(points: &[u64], most: u64, width: usize) -> String {
    let last = &points[points.len().saturating_sub(width)..];
    let mut text = " ".repeat(width - last.len());
    for point in last {
        let eighths = (u128::from(*point) * 8)
            .div_ceil(u128::from(most.max(1)))
            .min(8);
        text.push(EIGHTHS[usize::try_from(eighths).unwrap_or(8)]);
    }
    text
}

fn list(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(interval) = &app.shown else { return };
    let rows = app.rows();
    let psets = interval.psets();
    let mark = |order: Order, name: &str| {
        let arrow = if app.reverse { '↑' } else { '↓' };
        if app.order == order {
            format!("{arrow}{name}")
        } else {
            name.to_owned()
        }
    };
    let right = |text: String| Cell::from(Line::from(text).right_aligned());
    let header = Cells::new(vec![
        Cell::from(mark(Order::Name, "ZONE")),
        right(mark(Order::Id, "ID")),
        right(mark(Order::Cpu, "CPU")),
        right("%PART".to_owned()),
        right("%CAP".to_owned()),
        right(mark(Order::Memory, "MEM")),
        right("%CAP".to_owned()),
        right(mark(Order::Virtual, "VIRT")),
        right(mark(Order::Lwps, "LWPS")),
        Cell::from("CPU HISTORY"),
    ])
    .style(strong());
    let show = |value: Option<u64>| or_none(value, |value| show_percent(value, Reader::Human));
    let amount_of = |row: &Row, resource| {
        or_none(row.used.figures[resource], |value| {
            amount(value, Reader::Human)
        })
    };
    let lines = rows.iter().map(|row| {
        let set = psets.iter().find(|set| *set.pset == row.setting.pset);
        let part = set.and_then(|set| set.percent(&row.used));
        let of_cap = row.percent_of_cap(Resource::Cpu);
        let memory_of_cap = row.percent_of_cap(Resource::Physical);
        let points: Vec<u64> = app.history.zone(&row.name).map(|point| point.cpu).collect();
        let most = row
            .cap(Resource::Cpu)
            .unwrap_or_else(|| points.iter().copied().max().unwrap_or_default());
        let percent_cell = |value: Option<u64>| {
            Cell::from(Line::styled(show(value), heat(value, app.colour)).right_aligned())
        };
        Cells::new(vec![
            Cell::from(row.name.to_string()),
            right(row.id.to_string()),
            right(or_none(row.used.figures[Resource::Cpu], |value| {
                cpus(value, Reader::Human)
            })),
            percent_cell(part),
            percent_cell(of_cap),
            right(amount_of(row, Resource::Physical)),
            percent_cell(memory_of_cap),
            right(amount_of(row, Resource::Virtual)),
            right(amount_of(row, Resource::Lwps)),
            Cell::from(trend(&points, most, TREND_COLUMNS)),
        ])
    });
    let widths = [
        Constraint::Min(12),
        Constraint::Length(10),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(20),
    ];
    let table = Table::new(lines, widths)
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol(">");
    let mut state = TableState::default().with_selected(Some(app.place(&rows)));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Draws the figures of the selected zone.
fn zone(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let rows = app.rows();
    let (Some(interval), Some(row)) = (&app.shown, rows.get(app.place(&rows))) else {
        frame.render_widget(Paragraph::new(" no such zone"), area);
        return;
    };
    let [text_area, cpu_area, memory_area] = Layout::vertical([
        Constraint::Length(9),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    let lines: Vec<Line<'_>> = details(interval, row).into_iter().map(Line::from).collect();
    let title = format!(" {}, id {} ", row.name, row.id);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(title)),
        text_area,
    );
    let points: Vec<Point> = app.history.zone(&row.name).collect();
    let graph = |frame: &mut Frame<'_>, area: Rect, title: &str, read: fn(&Point) -> u64| {
        let width = usize::from(area.width.saturating_sub(2));
        let mut values: Vec<u64> = points.iter().map(read).collect();
        values.drain(..values.len().saturating_sub(width));
        let most = values.iter().copied().max().unwrap_or_default();
        let style = if app.colour {
            Style::new().fg(Color::Cyan)
        } else {
            Style::new()
        };
        let widget = Sparkline::default()
            .block(Block::bordered().title(format!(" {title} ")))
            .max(most.max(1))
            .style(style)
            .data(values);
        frame.render_widget(widget, area);
    };
    graph(frame, cpu_area, "CPU", |point| point.cpu);
    graph(frame, memory_area, "Memory", |point| point.memory);
}

fn details(interval: &Interval, row: &Row) -> Vec<String> {
    let set = interval.psets();
    let set = set.iter().find(|set| *set.pset == row.setting.pset);
    let part = set.map(|set| set.part(row)).unwrap_or_default();
    let size = |value: Option<u64>| or_none(value, |value| amount(value, Reader::Human));
    let of = |resource: Resource| size(row.used.figures[resource]);
    let cap = |resource: Resource| size(row.cap(resource));
    let cpu = |value: Option<u64>| or_none(value, |value| cpus(value, Reader::Human));
    let share = |value: Option<u64>| or_none(value, |value| show_percent(value, Reader::Human));
    let elapsed = u64::try_from(interval.elapsed.as_micros()).unwrap_or(u64::MAX);
    let rate = |bytes: u64| {
        let rate = (u128::from(bytes) * 1_000_000).checked_div(u128::from(elapsed));
        amount(
            u64::try_from(rate.unwrap_or_default()).unwrap_or(u64::MAX),
            Reader::Human,
        )
    };
    let waited = |usec: u64| share(percent(usec.min(elapsed), elapsed));
    let mut lines = vec![
        format!(
            "CPU        {} of {} CPUs, cap {}, shares {}, of what they are worth {}",
            cpu(row.used.figures[Resource::Cpu]),
            set.map_or(0, |set| set.cpus),
            cpu(row.cap(Resource::Cpu)),
            size(part.shares),
            share(part.percent_of_entitled),
        ),
        format!(
            "Memory     {}, cap {}; virtual {}, cap {}",
            of(Resource::Physical),
            cap(Resource::Physical),
            of(Resource::Virtual),
            cap(Resource::Virtual),
        ),
        format!(
            "Processes  {}, cap {}; threads {}, cap {}",
            of(Resource::Processes),
            cap(Resource::Processes),
            of(Resource::Lwps),
            cap(Resource::Lwps),
        ),
    ];
    if let Some(traffic) = row.network {
        lines.push(format!(
            "Network    {} bytes/s received, {} sent",
            rate(traffic.bytes_in),
            rate(traffic.bytes_out)
        ));
    }
    if let Some(traffic) = row.disk {
        lines.push(format!(
            "Disk       {} bytes/s read, {} written",
            rate(traffic.bytes_in),
            rate(traffic.bytes_out)
        ));
    }
    if let Some(pressure) = &row.pressure {
        lines.push(format!(
            "Waited     CPU {}, memory {}, disks {}",
            waited(pressure.cpu.some_usec),
            waited(pressure.memory.some_usec),
            waited(pressure.io.some_usec)
        ));
    }
    if let Some(hits) = row.hits {
        lines.push(format!(
            "Limits hit {} killed for memory, {} threads refused",
            hits.oom_kills, hits.lwps_refused
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insta::assert_snapshot;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::example;
    use crate::zones::Zones;

    fn app(colour: bool) -> App {
        let mut app = App::new(Zones::new(&[]).unwrap(), Duration::from_secs(2), colour);
        for _ in 0..3 {
            app.show(example::interval());
        }
        app
    }

    fn terminal(app: &mut App, width: u16, height: u16) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        terminal
    }

    fn screen(app: &mut App, width: u16, height: u16) -> String {
        terminal(app, width, height).backend().to_string()
    }

    fn press(app: &mut App, code: KeyCode) {
        let _ = app.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn the_list_view_shows_all_zones() {
        assert_snapshot!(screen(&mut app(false), 100, 12), @r#"
    " zonestat  Thu Nov 20 21:32:57 UTC 2025  every 2 s  5 zones  by CPU                                 "
    " CPU      [|||||||                       ] 25.0%  2.00 of 8.00, system 0.01                         "
    " Memory   [|||||||||||||||               ] 50.0%  8192M of 16.0G, system 1024M                      "
    " Virtual  [||||||||||||                  ] 41.6%  10.0G of 24.0G, system 1024M                      "
    " ZONE                          ID   ↓CPU %PART  %CAP    MEM  %CAP   VIRT   LWPS CPU HISTORY         "
    ">db                             7   1.50 75.0%     -  3072M     -  3840M      4                  ███"
    " global                         0   0.25 4.16%     -  2785M     -  3737M    284                  ███"
    " web                            3   0.20 3.33% 80.0%   256M 50.0%   320M      4                  ▇▇▇"
    " guest                 2147483647   0.04 0.66%     -  1024M     -  1280M      4                  ███"
    " web-of-a-long-name          1000   0.00 0.00%     -  31.0M     -  38.7M      4                     "
    "                                                                                                    "
    " q quit  ? keys  / filter  s sort  r reverse  enter zone  p pause  +/- interval                     "
    "#);
    }

    #[test]
    fn the_filter_shows_while_it_is_typed() {
        let mut app = app(false);
        for key in "/web".chars() {
            press(&mut app, KeyCode::Char(key));
        }
        assert_snapshot!(screen(&mut app, 100, 9), @r#"
    " zonestat  Thu Nov 20 21:32:57 UTC 2025  every 2 s  2 zones  by CPU  with 'web'                     "
    " CPU      [|||||||                       ] 25.0%  2.00 of 8.00, system 0.01                         "
    " Memory   [|||||||||||||||               ] 50.0%  8192M of 16.0G, system 1024M                      "
    " Virtual  [||||||||||||                  ] 41.6%  10.0G of 24.0G, system 1024M                      "
    " ZONE                          ID   ↓CPU %PART  %CAP    MEM  %CAP   VIRT   LWPS CPU HISTORY         "
    ">web                            3   0.20 3.33% 80.0%   256M 50.0%   320M      4                  ▇▇▇"
    " web-of-a-long-name          1000   0.00 0.00%     -  31.0M     -  38.7M      4                     "
    "                                                                                                    "
    " filter: web_                                                                                       "
    "#);
    }

    #[test]
    fn the_zone_view_shows_one_zone() {
        let mut app = app(false);
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Enter);
        assert_snapshot!(screen(&mut app, 80, 24), @r#"
    " zonestat  Thu Nov 20 21:32:57 UTC 2025  every 2 s  5 zones  by CPU             "
    " CPU      [|||||||                       ] 25.0%  2.00 of 8.00, system 0.01     "
    " Memory   [|||||||||||||||               ] 50.0%  8192M of 16.0G, system 1024M  "
    " Virtual  [||||||||||||                  ] 41.6%  10.0G of 24.0G, system 1024M  "
    "┌ web, id 3 ───────────────────────────────────────────────────────────────────┐"
    "│CPU        0.20 of 6 CPUs, cap 0.25, shares 3, of what they are worth 5.55%   │"
    "│Memory     256M, cap 512M; virtual 320M, cap 1024M                            │"
    "│Processes  3, cap 50; threads 4, cap 100                                      │"
    "│Network    585K bytes/s received, 781K sent                                   │"
    "│Disk       195K bytes/s read, 390K written                                    │"
    "│Waited     CPU 2.00%, memory 0.00%, disks 0.00%                               │"
    "│Limits hit 1 killed for memory, 0 threads refused                             │"
    "└──────────────────────────────────────────────────────────────────────────────┘"
    "┌ CPU ─────────────────────────────────────────────────────────────────────────┐"
    "│███                                                                           │"
    "│███                                                                           │"
    "│███                                                                           │"
    "└──────────────────────────────────────────────────────────────────────────────┘"
    "┌ Memory ──────────────────────────────────────────────────────────────────────┐"
    "│███                                                                           │"
    "│███                                                                           │"
    "│███                                                                           │"
    "└──────────────────────────────────────────────────────────────────────────────┘"
    " q quit  ? keys  / filter  s sort  r reverse  enter zone  p pause  +/- interval "
    "#);
    }

    #[test]
    fn keys() {
        let mut app = app(false);
        press(&mut app, KeyCode::Char('?'));
        assert_snapshot!(screen(&mut app, 80, 20), @r#"
    " zonestat  Thu Nov 20 21:32:57 UTC 2025  every 2 s  5 zones  by CPU             "
    " CPU      [|||||||                       ] 25.0%  2.00 of 8.00, system 0.01     "
    " Memory   [|||||||||||||||               ] 50.0%  8192M of 16.0G, system 1024M  "
    " Virtual  [||||||||||||                  ] 41.6%  10.0G of 24.0G, system 1024M  "
    "┌ Keys ────────────────────────────────────────────────────────────────────────┐"
    "│ up, down, j, k      choose a zone; also page up and down, home, end          │"
    "│ enter               more of the chosen zone, and back                        │"
    "│ c m v l n i         sort by CPU, memory, virtual memory, threads, name, id   │"
    "│ s                   sort by the next column                                  │"
    "│ r                   the other way round                                      │"
    "│ /                   list zones whose name has this in it; esc takes it back  │"
    "│ p, blank            stop the figures, and go on                              │"
    "│ + -                 longer and shorter intervals                             │"
    "│ ?                   these keys                                               │"
    "│ q, control-c        leave                                                    │"
    "│                                                                              │"
    "│ Memory is what the kernel charges the zone with, cached files included; what │"
    "│ several zones share is charged to one of them.                               │"
    "└──────────────────────────────────────────────────────────────────────────────┘"
    " q quit  ? keys  / filter  s sort  r reverse  enter zone  p pause  +/- interval "
    "#);
    }

    #[test]
    fn tiny_screens_and_missing_figures_are_drawn() {
        let mut empty = App::new(Zones::new(&[]).unwrap(), Duration::from_secs(2), true);
        assert!(screen(&mut empty, 80, 10).contains("Collecting data"));
        for (width, height) in [(1, 1), (10, 3), (20, 5), (300, 2)] {
            for view in [View::List, View::Zone, View::Help] {
                let mut app = app(true);
                app.view = view;
                let _ = screen(&mut app, width, height);
                empty.view = view;
                let _ = screen(&mut empty, width, height);
            }
        }
    }

    #[test]
    fn the_text_is_the_same_without_colour() {
        let (mut plain, mut coloured) = (app(false), app(true));
        let (plain, coloured) = (
            terminal(&mut plain, 100, 12),
            terminal(&mut coloured, 100, 12),
        );
        let cells = |terminal: &Terminal<TestBackend>| terminal.backend().buffer().content.clone();
        let is_plain =
            |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
        assert!(cells(&plain).iter().all(is_plain));
        assert!(!cells(&coloured).iter().all(is_plain));
        let text = |terminal| -> Vec<String> {
            let cells: Vec<ratatui::buffer::Cell> = cells(terminal);
            cells.iter().map(|cell| cell.symbol().to_owned()).collect()
        };
        assert_eq!(text(&plain), text(&coloured));
    }

    #[test]
    fn trends() {
        assert_eq!(trend(&[0, 1, 50, 100], 100, 6), "  \u{20}▁▄█");
        assert_eq!(trend(&[7; 9], 0, 3), "███");
        assert_eq!(bar(5_000, 4), "||  ");
        assert_eq!(bar(20_000, 4), "||||");
    }
}
