//! What rules may ask of the runs of a command.

use bench::engine::{STORM_GROUPINGS, has_grouping, refusal};
use bench::{Acks, Model, Spec, Traffic, Workload};

use super::super::contender::Contender;
use super::super::report::Report;
use super::super::statistics::Estimate;
use super::limits::TURNS_MIN;

/// All runs of a command, and what this version of the engine takes.
pub(in super::super) struct Evidence<'a> {
    pub(super) reports: &'a [Report],
    /// Why acks are refused, if they are.
    pub(super) acks_refused: Option<String>,
    /// Groupings of Storm that the engine does not have.
    pub(super) groupings_missing: Vec<&'static str>,
}

impl<'a> Evidence<'a> {
    /// Asks the engine beside the runs.
    pub(in super::super) fn new(reports: &'a [Report]) -> Self {
        let acked = Spec { acks: Some(1), ..Spec::new(Workload::WordCount, Model::Keyed) };
        let missing = STORM_GROUPINGS.into_iter().filter(|grouping| !has_grouping(grouping));
        Self { reports, acks_refused: refusal(&acked), groupings_missing: missing.collect() }
    }

    /// A figure of a contender under a workload, of enough turns.
    pub(super) fn estimate(
        &self,
        workload: Workload,
        figure: &str,
        who: Contender,
    ) -> Option<Estimate> {
        let mut found = self.of(workload).filter_map(|report| report.estimate(figure, who));
        found.find(|estimate| estimate.turns >= TURNS_MIN)
    }

    /// How many times the figure of the other it is, of enough turns.
    pub(super) fn times(
        &self,
        workload: Workload,
        figure: &str,
        one: Contender,
        other: Contender,
    ) -> Option<Estimate> {
        let mut found = self.of(workload).filter_map(|report| report.times(figure, one, other));
        found.find(|estimate| estimate.turns >= TURNS_MIN)
    }

    /// Threads of the runs of a workload.
    pub(super) fn threads(&self, workload: Workload) -> Option<usize> {
        self.of(workload).map(|report| report.spec.threads).next()
    }

    /// Whether a contender's results of a workload were right, if it took part.
    pub(super) fn is_right(&self, workload: Workload, who: Contender) -> Option<bool> {
        self.of(workload).find_map(|report| Some(report.is_right(report.series_of(who)?)))
    }

    /// What every turn with acks says of them, with its workload.
    pub(super) fn acks(&self) -> impl Iterator<Item = (Workload, Contender, Acks)> {
        self.reports.iter().flat_map(|report| {
            report.series.iter().flat_map(|series| {
                let (workload, who) = (report.spec.workload, series.contender);
                let acks = series.turns.iter().filter_map(|turn| turn.acks);
                acks.filter(move |_| who.acks.is_some()).map(move |acks| (workload, who, acks))
            })
        })
    }

    /// How events went in every turn of the engine.
    pub(super) fn traffic(&self) -> impl Iterator<Item = Traffic> {
        let series = self.reports.iter().flat_map(|report| &report.series);
        series.flat_map(|series| &series.turns).filter_map(|turn| turn.traffic)
    }

    /// The reports of a workload; those of no sweep first.
    fn of(&self, workload: Workload) -> impl Iterator<Item = &'a Report> {
        let of = move |is_swept: bool| {
            self.reports.iter().filter(move |report| {
                report.spec.workload == workload && report.setting.is_some() == is_swept
            })
        };
        of(false).chain(of(true))
    }
}
