//! Keyed instances that move: written here, taken in there.

use routing::{Batch, Event, codec};

use super::{KeyColumn, Keyed, Long};
use crate::chunk::{ChunkWriter, CommitWriter, Copied};
use crate::host::{Pass, contain};
use crate::instances::{Copying, Instances, Remove};
use crate::trigger::Pulse;
use crate::units::Scope;
use crate::{KeyRef, Pe};

impl<P: Pe, K: KeyColumn, M: Pulse> Keyed<P, K, M>
where
    Instances<P, K, M>: Remove<P, K, M> + Long<P, K>,
{
    /// Notes the instances that a batch has touched, for the copies under way.
    pub(super) fn note<E: Event>(&mut self, batch: &Batch<E>) {
        let rows = batch.group(0, usize::MAX);
        for at in 0..rows.len() {
            self.instances.note(batch.hashes[rows.row(at)]);
        }
    }

    /// Writes more of a copy; whether this pass has nothing more.
    pub(super) fn write_copy(&mut self, handoff: u64, pass: Pass, chunk: &mut ChunkWriter) -> bool {
        let copies = &self.instances.copies;
        let Some(at) = copies.iter().position(|copy| copy.handoff == handoff) else { return true };
        let mut copy = self.instances.copies.swap_remove(at);
        let is_done = match pass {
            Pass::Ahead => self.write_in_order(&mut copy, chunk),
            Pass::Again => {
                let noted = &mut copy.noted;
                copy.round.get_or_insert_with(|| std::mem::take(noted));
                self.write_noted(&mut copy, chunk)
            }
            Pass::Rest => {
                let is_through = self.write_in_order(&mut copy, chunk);
                let noted = std::mem::take(&mut copy.noted);
                copy.round.get_or_insert_default().extend(noted);
                is_through && self.write_noted(&mut copy, chunk)
            }
        };
        self.instances.copies.push(copy);
        is_done
    }

    /// Writes instances as they lie. What was noted is written later, so not now.
    fn write_in_order(&mut self, copy: &mut Copying, chunk: &mut ChunkWriter) -> bool {
        while copy.cursor < self.instances.len() {
            if !chunk.has_room() {
                return false;
            }
            let hash = self.instances.at(copy.cursor).key.hash();
            if copy.units.has_key(hash) && !copy.noted.contains(&hash) {
                self.write_at(copy.cursor, chunk);
            }
            copy.cursor += 1;
        }
        true
    }

    fn write_noted(&mut self, copy: &mut Copying, chunk: &mut ChunkWriter) -> bool {
        let round = copy.round.as_mut().expect("a round has begun");
        while let Some(&hash) = round.first() {
            if !chunk.has_room() {
                return false;
            }
            round.pop_first();
            chunk.key_gone(hash);
            for position in self.instances.positions(hash) {
                self.write_at(position, chunk);
            }
        }
        true
    }

    fn write_at(&mut self, position: usize, chunk: &mut ChunkWriter) {
        self.instances.at(position).key.unpack(self.instances.long(), &mut self.scratch);
        let instance = self.instances.at(position);
        instance.pe.window_clock(chunk.now());
        chunk.keyed(&self.scratch, instance.pulse.events(), &instance.pe);
    }

    /// Writes what has changed since it was committed.
    pub(super) fn write_changes(&mut self, commit: &mut CommitWriter) {
        for hash in self.instances.changes.take_gone() {
            commit.key_gone(hash);
            // Of other keys with the same hash.
            for position in self.instances.positions(hash) {
                self.instances.changes.touch(position);
            }
        }
        for position in self.instances.changes.take_touched(self.instances.len()) {
            let key = self.instances.at(position as usize).key;
            key.unpack(self.instances.long(), &mut self.scratch);
            let instance = self.instances.at(position as usize);
            instance.pe.window_clock(commit.now());
            commit.keyed(key.hash(), &self.scratch, instance.pulse.events(), &instance.pe);
        }
    }

    /// Writes instances as they lie. Who moves from behind a position to before it is noted as changed.
    pub(super) fn write_instances(
        &mut self,
        mut at: usize,
        units: Scope<'_>,
        chunk: &mut ChunkWriter,
    ) -> Option<usize> {
        while at < self.instances.len() {
            if !chunk.has_room() {
                return Some(at);
            }
            if units.has_key(self.instances.at(at).key.hash()) {
                self.write_at(at, chunk);
            }
            at += 1;
        }
        None
    }

    /// Takes in an instance, or that it is gone.
    pub(super) fn take_in(
        &mut self,
        copied: Copied<'_>,
        now: membership::Time,
    ) -> Result<(), String> {
        match copied {
            Copied::Keyed { key, events, state } => {
                if !KeyRef::of_key(key, &self.desk.plan.kinds).is_whole() {
                    return Err(format!("a key of {} that is none", self.desk.plan.name));
                }
                let pe = contain(|| codec::decode::<P>(state));
                let pe =
                    pe.map_err(|panic| format!("{} panicked: {}", self.desk.plan.name, panic.0))?;
                let mut pe =
                    pe.map_err(|error| format!("a state of {}: {error}", self.desk.plan.name))?;
                pe.window_clock(now);
                let wake = pe.window_deadline();
                let (pulse, due) = M::arrived(events, now, self.trigger, wake);
                let key = self.place(key, pe, pulse);
                due.into_iter().for_each(|at| self.due.push(at, key));
            }
            Copied::KeyGone(hash) => {
                let positions = self.instances.positions(hash);
                let keys = positions.into_iter().map(|at| self.instances.at(at).key);
                let keys: Vec<_> = keys.collect();
                keys.into_iter().for_each(|key| self.drop_quietly(key));
            }
            Copied::Task { .. } | Copied::TaskGone(_) | Copied::Unwritable => {
                return Err(format!("{} has keyed instances", self.desk.plan.name));
            }
        }
        Ok(())
    }

    /// Where the instance of a key is, by its canonical bytes, which are whole.
    pub(super) fn position_of_key(&self, bytes: &[u8]) -> Option<usize> {
        let key = K::pack(bytes);
        let known = self.instances.find(key.hash(), key);
        known.or_else(|| self.instances.find_long(key, bytes))
    }

    /// Files an instance, in the place of one that is there.
    fn place(&mut self, bytes: &[u8], pe: P, pulse: M) -> K {
        let position = match self.position_of_key(bytes) {
            Some(position) => {
                let instance = self.instances.at(position);
                let before = std::mem::replace(&mut instance.pe, pe);
                let _ = contain(|| drop(before));
                position
            }
            None => {
                let key = self.instances.keep(K::pack(bytes), bytes);
                self.instances.insert(key.hash(), key, pe)
            }
        };
        let instance = self.instances.at(position);
        instance.pulse = pulse;
        instance.key
    }
}
