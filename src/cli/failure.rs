//! Why a command did not succeed: a message for a person, an exit code for a script.

use std::fmt;
use std::process::ExitCode;

/// What the exit code of a command says; scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Exit {
    /// It did not work out.
    Failure = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The cluster refused the node.
    Refused = 69,
    /// A bug of ours or of the application.
    Bug = 70,
    /// A file or a setting is wrong.
    Config = 78,
}

/// Why a command did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    /// Empty if everything has been said already.
    message: String,
}

impl Failure {
    /// A failure with a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { code: exit as u8, message: message.into() }
    }

    /// A failure of which everything has been said already.
    pub fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// A failure with an exit code that somebody else decided on.
    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What the process exits with.
    pub fn exit_code(&self) -> ExitCode {
        self.code.into()
    }

    /// Whether there is anything left to say.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
