//! Where events leave the system.
//!
//! A sink takes events of any type, by the names of their fields. What it writes to is the runtime's
//! business; this module knows the door and nothing behind it.

use membership::NodeId;

use crate::topology::Params;
use crate::{Rows, SpoutError};

/// One open sink: an instance of a prototype whose type was registered as a sink.
pub trait Sink: Send {
    /// Writes some events. May block: that is how a slow sink slows its spouts.
    ///
    /// # Errors
    /// None of the events is sure to be written; they are dropped and counted.
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError>;

    /// Makes what was written visible; called when there is nothing else to do.
    ///
    /// # Errors
    /// Events of earlier calls may not be written.
    fn flush(&mut self) -> Result<(), SpoutError> {
        Ok(())
    }
}

/// What a sink is opened with.
#[derive(Clone, Copy, Debug)]
pub struct SinkPlace<'a> {
    /// The name of the prototype.
    pub name: &'a str,
    /// The parameters of the topology.
    pub params: &'a Params,
    /// The node.
    pub node: NodeId,
    /// The container on it.
    pub container: u16,
    /// The number of this instance, if they are numbered.
    pub task: Option<u32>,
    /// Whether there is this one in the whole cluster.
    pub is_alone: bool,
}

/// Opens a sink; one function per registered type.
pub type OpenSink = dyn Fn(SinkPlace<'_>) -> Result<Box<dyn Sink>, SpoutError> + Send + Sync;
