//! Keyed instances that move: written here, taken in there.

use routing::{Batch, Event};

use super::{KeyColumn, Keyed, Long};
use crate::chunk::{ChunkWriter, CommitWriter, Copied};
use crate::host::{Pass, Reached, contain};
use crate::instances::{Copying, Instances, Mark, Remove, Sleeper};
use crate::trigger::Pulse;
use crate::units::Scope;
use crate::{KeyRef, Pe, look};

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
        if !self.write_dormant(&mut copy.mark, |hash| copy.units.has_key(hash), chunk) {
            return false;
        }
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
            self.dormant.of_hash(hash).into_iter().for_each(|sleeper| chunk.dormant(sleeper));
        }
        true
    }

    /// Writes what is dormant, from a mark on; whether that was all.
    fn write_dormant(
        &self,
        mark: &mut Mark,
        is_wanted: impl Fn(u64) -> bool,
        chunk: &mut ChunkWriter,
    ) -> bool {
        while let Some((sleeper, next)) = self.dormant.next(*mark) {
            if !chunk.has_room() {
                return false;
            }
            if is_wanted(sleeper.hash) {
                chunk.dormant(sleeper);
            }
            *mark = next;
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
            self.dormant.of_hash(hash).into_iter().for_each(|sleeper| commit.dormant(sleeper));
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
        mut from: Reached,
        units: Scope<'_>,
        chunk: &mut ChunkWriter,
    ) -> Option<Reached> {
        // First those that may become instances meanwhile: behind all others, so none is left out.
        if !self.write_dormant(&mut from.mark, |hash| units.has_key(hash), chunk) {
            return Some(from);
        }
        while from.position < self.instances.len() {
            if !chunk.has_room() {
                return Some(from);
            }
            if units.has_key(self.instances.at(from.position).key.hash()) {
                self.write_at(from.position, chunk);
            }
            from.position += 1;
        }
        None
    }

    /// Takes in an instance, or that it is gone.
    pub(super) fn take_in(
        &mut self,
        copied: Copied<'_>,
        now: membership::Time,
        is_lazy: bool,
    ) -> Result<(), String> {
        match copied {
            Copied::Keyed { key, events, state } => {
                if !KeyRef::of_key(key, &self.desk.plan.kinds).is_whole() {
                    return Err(format!("a key of {} that is none", self.desk.plan.name));
                }
                let hash = K::pack(key).hash();
                if is_lazy && self.may_sleep() && self.position_of_key(key).is_none() {
                    self.dormant.put(Sleeper { hash, key, state });
                    return Ok(());
                }
                let pe = look::decoded::<P>(state);
                let mut pe =
                    pe.map_err(|error| format!("a state of {}: {error}", self.desk.plan.name))?;
                self.dormant.remove(hash, key);
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
                self.dormant.remove_hash(hash);
            }
            Copied::Task { .. } | Copied::TaskGone(_) | Copied::Unwritable => {
                return Err(format!("{} has keyed instances", self.desk.plan.name));
            }
        }
        Ok(())
    }

    /// Whether instances need not be there before events ask for them: nothing calls them but events.
    fn may_sleep(&self) -> bool {
        let plan = &self.desk.plan;
        !M::BEATS && !P::IS_WINDOWED && plan.timer.is_none() && plan.memory.is_none()
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
