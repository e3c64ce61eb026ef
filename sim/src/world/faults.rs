//! What goes wrong in a world, and how it ends.
//!
//! A fault that has nobody to befall is left out: the machine is down already, or too few would be left
//! to go on. Whoever applies them does not know what must hold.

use std::time::Duration;

use membership::view_log::{DiskId, Seat};

use node::Input;

use super::{Due, Missed, Rule, Undo, World};
use crate::disk::Disk;
use crate::fault::{Deed, Fault};
use crate::flaw::Flaw;
use crate::process::Process;

/// The most machines that join in a run.
const MACHINES_MAX: usize = 12;

/// How long after the one before it a machine is started again, when all were down.
const LATER: Duration = Duration::from_millis(150);

/// The fewest that stay when one leaves.
const STAY: usize = 3;

impl World {
    /// Lets a fault happen; whether it could.
    pub(crate) fn befall(&mut self, fault: &Fault) -> bool {
        let is_applied = self.apply(&fault.deed, fault.lasts);
        if is_applied {
            self.counts.faults += 1;
            self.line(&format!("fault: {}", fault.to_string().trim_start()));
        }
        is_applied
    }

    fn apply(&mut self, deed: &Deed, lasts: Duration) -> bool {
        match deed {
            Deed::Crash(machine, is_quiet) => {
                if !self.is_up(*machine) {
                    return false;
                }
                self.crash(*machine, *is_quiet);
                self.machines[*machine].is_due = true;
                self.later(lasts, Undo::Start(*machine));
            }
            Deed::Wipe(machine) => {
                if !self.is_up(*machine) || !self.may_lose(*machine) {
                    return false;
                }
                self.crash(*machine, false);
                let disk = DiskId(self.names.number());
                let lies = self.terms.flaw == Some(Flaw::Fsync);
                self.machines[*machine].disk = Disk::blank(disk, lies);
                self.machines[*machine].is_due = true;
                self.later(lasts, Undo::Start(*machine));
            }
            Deed::Pause(machine) => {
                if !self.is_up(*machine) || self.machines[*machine].backlog.is_some() {
                    return false;
                }
                self.machines[*machine].backlog = Some(Vec::new());
                self.later(lasts, Undo::Resume(*machine));
            }
            Deed::Cut(from, to, is_both) => {
                if from == to {
                    return false;
                }
                self.rule(Rule::Cut(*from, *to), lasts);
                if *is_both {
                    self.rule(Rule::Cut(*to, *from), lasts);
                }
            }
            Deed::Partition(sides) => {
                if sides.iter().all(|side| *side == sides[0]) {
                    return false;
                }
                self.rule(Rule::Partition(sides.clone()), lasts);
            }
            Deed::Loss(percent) => self.rule(Rule::Loss(*percent), lasts),
            Deed::Duplicate(percent) => self.rule(Rule::Duplicate(*percent), lasts),
            Deed::Reorder(percent) => self.rule(Rule::Reorder(*percent), lasts),
            Deed::Link(from, to) => {
                if from == to || !self.is_up(*from) || !self.is_up(*to) {
                    return false;
                }
                let (from, to) = (self.machines[*from].node, self.machines[*to].node);
                self.break_link(from, to);
            }
            Deed::Join => {
                if self.machines.len() >= MACHINES_MAX {
                    return false;
                }
                let seeds = self.machines.iter().map(|machine| machine.node).collect();
                let machine = self.add(2, seeds);
                self.boot(machine, false);
            }
            Deed::Leave(machine) => {
                let stays = |&other: &usize| {
                    let at = &self.machines[other];
                    other != *machine && (at.is_up() || at.is_due) && !at.is_leaving
                };
                let staying = (0..self.machines.len()).filter(stays).count();
                let at = self.machines.get(*machine);
                let is_there =
                    at.is_some_and(|at| at.is_up() && at.backlog.is_none() && !at.is_leaving);
                if !is_there || staying < STAY {
                    return false;
                }
                self.dismiss(*machine);
            }
            Deed::SlowDisk(machine, by) => {
                let Some(at) = self.machines.get_mut(*machine) else { return false };
                at.disk.slower = *by;
                self.later(lasts, Undo::Disk(*machine));
            }
            Deed::Blackout => {
                for machine in 0..self.machines.len() {
                    if self.is_up(machine) {
                        self.crash(machine, false);
                        self.machines[machine].is_due = true;
                        let turn = u32::try_from(machine).expect("few machines");
                        self.later(lasts + turn * LATER, Undo::Start(machine));
                    }
                }
            }
            Deed::Rot(machine) => {
                if !self.is_up(*machine) || !self.all_is_kept_twice() {
                    return false;
                }
                self.crash(*machine, false);
                self.machines[*machine].is_due = true;
                self.later(lasts, Undo::Start(*machine));
                return self.machines[*machine].disk.journal.rot(&mut self.disks);
            }
            Deed::FullDisk(machine) => {
                let Some(at) = self.machines.get_mut(*machine) else { return false };
                at.disk.is_full = true;
                self.later(lasts, Undo::Full(*machine));
            }
        }
        true
    }

    fn is_up(&self, machine: usize) -> bool {
        self.machines.get(machine).is_some_and(|at| at.is_up())
    }

    /// Whether what is on one disk is on another as well, and nothing is on its way.
    fn all_is_kept_twice(&self) -> bool {
        let Some(view) = self.referee.newest() else { return false };
        let are_up = self.machines.iter().all(|at| at.is_up() || at.has_left);
        let (head, body) = (&view.head, &view.body);
        // Of a life that the view does not name yet, nobody knows what its disk has.
        let is_known = |seat: &Seat| {
            let process = self.machines[self.by_node[&seat.node()]].process.as_ref();
            process.is_some_and(|process| process.log() == seat.log)
        };
        are_up
            && head.seats.iter().all(is_known)
            && head.seats.len() > 1
            && body.thin(head) == 0
            && body.moving() == 0
    }

    /// Whether a disk can be lost without a majority of the voters being lost for good.
    fn may_lose(&self, machine: usize) -> bool {
        let Some(view) = self.referee.newest() else { return false };
        let is_there = |disk: &DiskId| {
            let holders = self.machines.iter().enumerate().filter(|(_, at)| at.disk.id == *disk);
            holders.filter(|(at, machine_at)| *at != machine && !machine_at.has_left).count() > 0
        };
        let left = view.head.voters.iter().filter(|disk| is_there(disk)).count();
        // One more than it takes, since the voters may just be about to change.
        left > view.head.majority() || left == view.head.voters.len() && left > 1
    }

    fn rule(&mut self, rule: Rule, lasts: Duration) {
        let rule = self.network.rule(rule);
        self.later(lasts, Undo::Lift(rule));
    }

    fn later(&mut self, lasts: Duration, undo: Undo) {
        let at = self.now + lasts;
        self.queue(at, Due::Undo(undo));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Start(machine) => {
                if !self.is_up(machine) && self.machines[machine].is_due {
                    self.counts.restarts += 1;
                    let seeds = self.machines.iter().map(|at| at.node);
                    let own = self.machines[machine].node;
                    self.machines[machine].seeds = seeds.filter(|node| *node != own).collect();
                    self.boot(machine, false);
                }
            }
            Undo::Resume(machine) => {
                let Some(backlog) = self.machines[machine].backlog.take() else { return };
                self.note(machine, "goes on");
                for missed in backlog {
                    let (from, letter) = match missed {
                        Missed::Letter(from, letter) => (from, letter),
                        Missed::Synced(stamp) => {
                            self.persisted(machine, stamp);
                            continue;
                        }
                        Missed::Journaled => {
                            self.step(machine, Process::journaled);
                            continue;
                        }
                        Missed::Kept => {
                            self.step(machine, |process, step, out| {
                                process.step(step, Input::Kept, out);
                            });
                            continue;
                        }
                    };
                    if self.terms.is_detailed {
                        let whom = self.by_node[&from];
                        self.note(machine, &format!("hears {} of n{whom}", letter.kind()));
                    }
                    self.step(machine, |process, step, out| {
                        process.receive(step, from, letter, out);
                    });
                }
                self.machines[machine].scheduled = None;
                self.schedule(machine);
            }
            Undo::Lift(rule) => self.network.lift(rule),
            Undo::Disk(machine) => self.machines[machine].disk.slower = Duration::ZERO,
            Undo::Full(machine) => self.machines[machine].disk.is_full = false,
        }
    }

    /// Ends all faults at once.
    pub(crate) fn heal(&mut self) {
        self.line("all is healed");
        self.network.heal();
        for machine in 0..self.machines.len() {
            self.undo(Undo::Start(machine));
            self.undo(Undo::Resume(machine));
            self.undo(Undo::Disk(machine));
            self.undo(Undo::Full(machine));
        }
    }
}
