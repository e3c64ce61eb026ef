//! What must hold at every step, whatever the world does.
//!
//! The referee sees what is synced, what is sent and what is installed, and nothing of the inside of a
//! view log. It works out for itself what is decided: what a majority of the voters has on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use membership::view_log::{
    Ballot, ClusterId, Digest, DiskId, Generation, Message, Record, View, ViewId, Word,
};

use crate::host::Notes;

type NotesView = View<Notes>;

/// Keeps the books of one world.
pub(crate) struct Referee {
    seed: u64,
    /// All views that are decided, founded or recovered to.
    pub(crate) decided: BTreeMap<(ClusterId, ViewId), Arc<NotesView>>,
    /// Who voted for what: the view voted in, the ballot, the value.
    votes: BTreeMap<(ViewId, Ballot, Digest), BTreeSet<DiskId>>,
    /// What was asked to be voted for under a ballot.
    proposed: BTreeMap<(ViewId, Ballot), Digest>,
    /// The promise of a disk, and the view it was about.
    promised: BTreeMap<DiskId, (Option<ViewId>, Option<Ballot>)>,
    /// The newest view of each disk.
    newest: BTreeMap<DiskId, ViewId>,
    clusters: BTreeMap<DiskId, ClusterId>,
    /// Attempts that were beaten.
    pub(crate) duels: u64,
    /// Attempts that had to take up the value of another.
    pub(crate) adopted: u64,
}

impl Referee {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            decided: BTreeMap::new(),
            votes: BTreeMap::new(),
            proposed: BTreeMap::new(),
            promised: BTreeMap::new(),
            newest: BTreeMap::new(),
            clusters: BTreeMap::new(),
            duels: 0,
            adopted: 0,
        }
    }

    /// A record is on disk.
    pub(crate) fn written(&mut self, record: &Record<Notes>) {
        self.promises_never_fall(record);
        if let Some(view) = &record.view {
            self.one_cluster_per_disk(record.disk, view);
            self.one_view_per_number(view);
            self.views_only_grow(record.disk, view.id());
        }
        if let (Some(view), Some((ballot, value))) = (&record.view, &record.accepted) {
            self.follows(view, value);
            let voters = self.votes.entry((view.id(), *ballot, value.digest())).or_default();
            if view.head.is_voter(record.disk) {
                voters.insert(record.disk);
            }
            if voters.len() > view.head.voters.len() / 2 {
                self.a_decision_is_never_replaced(value);
            }
        }
    }

    /// A node that has this on disk sends that.
    pub(crate) fn sent(&mut self, record: Option<&Record<Notes>>, message: &Message<Notes>) {
        self.nothing_is_sent_before_it_is_on_disk(record, message);
        if let (Some((_, at)), Word::Accept(ballot, value)) = (message.at, &message.word) {
            self.a_ballot_has_one_value(at, *ballot, value.digest());
            let digest = value.digest();
            let is_anothers = |(id, by, voted): &(ViewId, Ballot, Digest)| {
                *id == at && *voted == digest && by.disk != ballot.disk
            };
            self.adopted += u64::from(self.votes.keys().any(is_anothers));
        }
        self.duels += u64::from(matches!(message.word, Word::Beaten(..)));
    }

    /// A node goes by a view from now on.
    pub(crate) fn installed(&mut self, disk: DiskId, view: &Arc<NotesView>) {
        self.one_cluster_per_disk(disk, view);
        self.one_view_per_number(view);
        self.views_only_grow(disk, view.id());
        let key = (view.head.cluster, view.id());
        assert!(self.decided.contains_key(&key), "seed {}: nobody decided {key:?}", self.seed);
    }

    fn a_decision_is_never_replaced(&mut self, value: &Arc<NotesView>) {
        let key = (value.head.cluster, value.id());
        let first = self.decided.entry(key).or_insert_with(|| Arc::clone(value));
        assert_eq!(first, value, "seed {}: two decisions", self.seed);
    }

    fn one_view_per_number(&mut self, view: &Arc<NotesView>) {
        let key = (view.head.cluster, view.id());
        let is_first = view.head.number.0 == 1 || !view.head.lost.is_empty();
        let known = match self.decided.get(&key) {
            Some(known) => known,
            None if is_first => self.decided.entry(key).or_insert_with(|| Arc::clone(view)),
            None => panic!("seed {}: nobody decided {key:?}", self.seed),
        };
        assert_eq!(known, view, "seed {}: two views of one number", self.seed);
    }

    fn follows(&self, view: &NotesView, value: &NotesView) {
        let (seed, checked) = (self.seed, view.check_next(value));
        assert_eq!(checked, Ok(()), "seed {seed}: a vote for what may not follow");
    }

    fn views_only_grow(&mut self, disk: DiskId, id: ViewId) {
        let newest = self.newest.entry(disk).or_insert(id);
        let (seed, before) = (self.seed, *newest);
        assert!(before <= id && before.number <= id.number, "seed {seed}: {disk} fell to {id:?}");
        *newest = id;
    }

    fn promises_never_fall(&mut self, record: &Record<Notes>) {
        let now = (record.view.as_ref().map(|view| view.id()), record.promised);
        let before = self.promised.insert(record.disk, now);
        let seed = self.seed;
        assert!(before.is_none_or(|before| before <= now), "seed {seed}: {before:?} then {now:?}");
        let voted = record.accepted.as_ref().map(|(ballot, _)| *ballot);
        assert!(voted <= record.promised, "seed {seed}: voted below what was promised");
    }

    fn one_cluster_per_disk(&mut self, disk: DiskId, view: &NotesView) {
        let cluster = *self.clusters.entry(disk).or_insert(view.head.cluster);
        assert_eq!(cluster, view.head.cluster, "seed {}: {disk} changed its cluster", self.seed);
    }

    fn a_ballot_has_one_value(&mut self, at: ViewId, ballot: Ballot, value: Digest) {
        let first = *self.proposed.entry((at, ballot)).or_insert(value);
        assert_eq!(first, value, "seed {}: two values under {ballot:?}", self.seed);
    }

    fn nothing_is_sent_before_it_is_on_disk(
        &self,
        record: Option<&Record<Notes>>,
        message: &Message<Notes>,
    ) {
        let on_disk = record.and_then(|record| record.view.as_ref()).map(|view| view.id());
        let said = message.at.map(|(_, id)| id);
        let seed = self.seed;
        assert!(said <= on_disk, "seed {seed}: {message:?} was sent, {on_disk:?} is on disk");
        if said < on_disk {
            return; // About a number that is decided.
        }
        let promised = record.and_then(|record| record.promised);
        let voted = record.and_then(|record| record.accepted.as_ref());
        let is_kept = match &message.word {
            Word::Promise(ballot, accepted) => {
                Some(*ballot) <= promised
                    && accepted.as_ref().map(|(b, _)| *b) <= voted.map(|(b, _)| *b)
            }
            Word::Accepted(ballot) => voted.is_some_and(|(b, _)| b >= ballot),
            Word::Decided(_)
            | Word::Here
            | Word::Ask
            | Word::Prepare(_)
            | Word::Accept(..)
            | Word::Beaten(..)
            | Word::Wish(_) => true,
        };
        assert!(is_kept, "seed {seed}: {message:?} is not on disk: {record:?}");
    }

    /// The newest view that is decided in a cluster.
    pub(crate) fn newest(&self, cluster: u64) -> Option<&Arc<NotesView>> {
        let all = self.decided.iter().filter(|((of, _), _)| of.0 == cluster);
        all.max_by_key(|((_, id), _)| *id).map(|(_, view)| view)
    }

    /// How many generations there were.
    pub(crate) fn generations(&self) -> usize {
        let all: BTreeSet<Generation> = self.decided.keys().map(|(_, id)| id.generation).collect();
        all.len()
    }
}
