//! An application: everything a program registers before it hands over control.
//!
//! Types are known to the compiler and files know names; an [`App`] is where each type gets the name
//! that a topology file calls it by. It runs nothing itself: the commands do, with what is registered.

use std::process::ExitCode;

use node::runtime::Program;
use pe::storm::Bolt;
use pe::topology::{Catalog, Diagnostic, Plan, Topology};
use pe::{KeyRef, Pe, Spout, Windowed};

use crate::cli;

/// What an application consists of, and its `main`.
#[derive(Debug)]
pub struct App {
    name: &'static str,
    program: Program,
}

impl App {
    /// An application with nothing but the spouts and sinks that every application has. The command
    /// line shows the name.
    pub fn new(name: &'static str) -> Self {
        Self { name, program: Program::default() }
    }

    /// Registers a type of PE under the name that topology files have for it. A name that is taken
    /// means the new type from now on.
    #[must_use]
    pub fn pe<P: Pe>(mut self, name: &str) -> Self {
        self.program.registry = self.program.registry.pe::<P>(name);
        self
    }

    /// Registers a type that is given windows of events, under the name that topology files have for it.
    /// A name that is taken means the new type from now on.
    #[must_use]
    pub fn windowed<W: Windowed>(mut self, name: &str) -> Self {
        self.program.registry = self.program.registry.windowed::<W>(name);
        self
    }

    /// Registers a type of bolt under the name that topology files have for it: see [`crate::storm`]. A name that
    /// is taken means the new type from now on.
    #[must_use]
    pub fn bolt<B: Bolt>(mut self, name: &str) -> Self {
        self.program.registry = self.program.registry.bolt::<B>(name);
        self
    }

    /// Registers a type of spout in Storm's words under the name that topology files have for it: see
    /// [`crate::storm`]. A name that is taken means the new type from now on.
    #[must_use]
    pub fn storm_spout<S: crate::storm::Spout>(mut self, name: &str) -> Self {
        self.program.registry = self.program.registry.storm_spout::<S>(name);
        self
    }

    /// Registers a type of spout under the name that topology files have for it. A name that is taken
    /// means the new type from now on.
    #[must_use]
    pub fn spout<S: Spout>(mut self, name: &str) -> Self {
        self.program.registry = self.program.registry.spout::<S>(name);
        self
    }

    /// Registers a grouping under the name that topology files have for it: a function of an event's key and the
    /// number of tasks that says which of them gets the event. See [`pe::Registry::grouping`].
    ///
    /// # Panics
    /// The name is one that every topology has, such as `shuffle`.
    #[must_use]
    pub fn grouping<F>(mut self, name: &str, choose: F) -> Self
    where
        F: Fn(KeyRef<'_>, u32) -> u32 + Send + Sync + 'static,
    {
        self.program.registry = self.program.registry.grouping(name, choose);
        self
    }

    /// Parses the command line and does what it says; give the result back from `main`.
    ///
    /// Ends the process itself when the command line is wrong or asks for help.
    pub fn main(self) -> ExitCode {
        cli::main(self)
    }

    /// The name it was given.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The names a topology may use as types.
    pub fn catalog(&self) -> Catalog {
        self.program.registry.catalog()
    }

    /// Reads a topology and holds it against what is registered; all that is wrong with it, in the
    /// order of the text.
    pub fn plan(&self, topology: &str) -> Result<Plan, Vec<Diagnostic>> {
        Topology::parse(topology)?.plan(&self.catalog())
    }

    /// What was registered, for a runtime.
    pub(crate) fn into_program(self) -> Program {
        self.program
    }
}
