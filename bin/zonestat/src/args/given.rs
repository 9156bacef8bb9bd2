//! Turns the options of the command line into a request.

use stat::report::Kind;

use super::words::{lines, sections, sorting};
use super::{Call, Common, DEFAULT_INTERVAL, Dashboard, Form, Lines, Reports, Timing, Wrong};
use crate::time::{Span, Stamp, span};

/// The options and operands of the command line, not checked yet.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
pub(super) struct Given {
    pub(super) common: Common,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) stamp: Option<String>,
    pub(super) reports: Vec<String>,
    pub(super) quiet: bool,
    pub(super) parseable: bool,
    pub(super) lines: Vec<String>,
    pub(super) sort: Vec<String>,
    pub(super) operands: Vec<String>,
    pub(super) limits: bool,
    pub(super) full_names: bool,
    pub(super) big_p: bool,
    pub(super) dashboard: bool,
    pub(super) json: bool,
    pub(super) tui: bool,
    pub(super) metrics: bool,
    pub(super) serve: bool,
    pub(super) help: bool,
}

impl Given {
    /// Returns whether an option is given that only Solaris 11 has.
    pub(super) fn is_of_solaris(&self) -> bool {
        !(self.resources.is_empty()
            && self.names.is_empty()
            && self.reports.is_empty()
            && self.sort.is_empty())
            || self.stamp.is_some()
            || self.quiet
            || self.parseable
    }

    /// Returns true if an option selects lines or sorts them: JSON has one object for each zone.
    fn is_of_lines(&self) -> bool {
        self.stamp.is_some() || !(self.names.is_empty() && self.sort.is_empty())
    }

    /// Returns the arguments of `-r`. JSON without `-r` has all figures.
    fn chosen_resources(&self) -> Vec<String> {
        match self.json && self.resources.is_empty() {
            true => vec!["all".to_owned()],
            false => self.resources.clone(),
        }
    }

    pub(super) fn refuse_reports(&self) -> Result<(), Wrong> {
        if self.is_of_solaris() {
            let text = "-r, -n, -T, -R, -q, -p and -S are for reports only";
            return Err(Wrong(text.to_owned()));
        }
        Ok(())
    }

    pub(super) fn at_most(&self, operands: usize) -> Result<(), Wrong> {
        match self.operands.get(operands) {
            None => Ok(()),
            Some(word) => Err(Wrong(format!("Too many operands: \"{word}\""))),
        }
    }

    /// Returns the interval in seconds, if it is given.
    pub(super) fn interval(&self) -> Result<Option<u64>, Wrong> {
        let Some(word) = self.operands.first() else {
            return Ok(None);
        };
        match span(word) {
            Some(Span::Plain(seconds) | Span::Time(seconds)) => Ok(Some(seconds)),
            Some(Span::Default) => Ok(Some(DEFAULT_INTERVAL)),
            Some(Span::Endless) | None => Err(Wrong(format!("Invalid interval: \"{word}\""))),
        }
    }

    /// Returns the operand at a position in seconds; `None` for no end. A plain number counts
    /// intervals.
    fn period(&self, place: usize, what: &str, interval: u64) -> Result<Option<u64>, Wrong> {
        let Some(word) = self.operands.get(place) else {
            return Ok(None);
        };
        match span(word) {
            Some(Span::Plain(count)) => Ok(Some(count.saturating_mul(interval))),
            Some(Span::Time(seconds)) => Ok(Some(seconds)),
            Some(Span::Endless) => Ok(None),
            Some(Span::Default) | None => Err(Wrong(format!("Invalid {what}: \"{word}\""))),
        }
    }

    pub(super) fn dashboard(self) -> Result<Call, Wrong> {
        if self.json || self.tui || self.metrics || self.serve {
            let text = "-l, -N and -P without -p are for the dashboard only";
            return Err(Wrong(text.to_owned()));
        }
        if self.is_of_solaris() {
            let text = "-l, -N and -P without -p cannot go with -r, -n, -T, -R, -q and -S";
            return Err(Wrong(text.to_owned()));
        }
        if self.big_p
            && self
                .operands
                .first()
                .is_some_and(|word| lines(word).is_some())
        {
            return Err(Wrong("-P requires -p".to_owned()));
        }
        self.at_most(2)?;
        let interval = self.interval()?;
        let count = match (interval, self.operands.get(1)) {
            (None, _) => Some(1),
            (_, None) => None,
            (_, Some(word)) => match span(word) {
                Some(Span::Plain(count)) => Some(count),
                Some(Span::Endless) => None,
                _ => return Err(Wrong(format!("Invalid count: \"{word}\""))),
            },
        };
        Ok(Call::Dashboard(Dashboard {
            common: self.common,
            limits: self.limits,
            parseable: self.big_p,
            full_names: self.full_names,
            interval: interval.unwrap_or(1),
            count,
        }))
    }

    pub(super) fn reports(self) -> Result<Call, Wrong> {
        let form = match (self.parseable, self.json) {
            (true, true) => return Err(Wrong("-p and -j are two forms".to_owned())),
            (false, true) if self.is_of_lines() => {
                let text = "-n, -T and -S cannot go with -j, which has one object for each zone";
                return Err(Wrong(text.to_owned()));
            }
            (true, false) => Form::Parseable,
            (false, true) => Form::Json,
            (false, false) => Form::Human,
        };
        let stamp = match self.stamp.as_deref() {
            None => None,
            Some("u") => Some(Stamp::Unix),
            Some("i") => Some(Stamp::Iso),
            Some("d") if form == Form::Human => Some(Stamp::Date),
            Some("d") => {
                let text = "-T d invalid with -p.  Use -T [u | i]";
                return Err(Wrong(text.to_owned()));
            }
            Some(other) => {
                return Err(Wrong(format!(
                    "Invalid -T arg \"{other}\". Must be 'u', 'i', or 'd'."
                )));
            }
        };
        self.at_most(3)?;
        let interval = match self.interval()? {
            Some(interval) => interval,
            // JSON without an interval prints one sample.
            None if self.json && self.operands.is_empty() => 1,
            None => return Err(Wrong("Interval required.".to_owned())),
        };
        let once = self.operands.is_empty().then_some(interval);
        let timing = Timing {
            interval,
            duration: self.period(1, "duration", interval)?.or(once),
            report: self.period(2, "report period", interval)?,
        };
        let mut kinds = Vec::new();
        for word in &self.reports {
            let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == word);
            kinds.push(kind.ok_or_else(|| Wrong(format!("Unknown -R arg: {word}")))?);
        }
        kinds.sort_unstable();
        kinds.dedup();
        if self.quiet && kinds.is_empty() {
            return Err(Wrong("-q requires -R".to_owned()));
        }
        if self.operands.len() > 2 && kinds.is_empty() {
            return Err(Wrong("A report period requires -R".to_owned()));
        }
        let (sort, summary_by) = sorting(&self.sort)?;
        let mut chosen = Lines::all(self.lines.is_empty());
        for word in &self.lines {
            let line = lines(word).ok_or_else(|| Wrong(format!("Unknown -P arg: {word}")))?;
            *line(&mut chosen) = true;
        }
        let sections = sections(&self.chosen_resources())?;
        Ok(Call::Reports(Box::new(Reports {
            common: self.common,
            sections,
            names: self.names,
            stamp,
            kinds,
            quiet: self.quiet,
            form,
            lines: chosen,
            sort,
            summary_by,
            timing,
        })))
    }
}
