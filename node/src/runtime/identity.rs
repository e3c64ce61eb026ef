//! Who a node is, across its lives: a key pair, a count of starts, the name of its disk, and what it holds
//! of the view log, in the data directory.
//!
//! The node's name follows from its public key, so nobody can take it without the key. The count grows
//! by one at every start and is on disk before anybody hears of it: that is how the others tell a node
//! that has started again from one that was slow.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use libp2p::PeerId;
use libp2p::identity::Keypair;
use membership::view_log::{DiskId, Record};
use membership::{NodeId, Run};
use xxhash_rust::xxh3::xxh3_64;

use super::RunError;
use crate::core::{Assignment, Offsets};

/// A node's identity, and its hold on the data directory.
pub(super) struct Identity {
    pub(super) keypair: Keypair,
    pub(super) run: Run,
    /// The data directory, however often the node starts.
    pub(super) disk: DiskId,
    /// The newest view that it knew, and what it had promised.
    pub(super) record: Option<Record<Assignment>>,
    /// Where partitions had come to that it read.
    pub(super) offsets: Option<Offsets>,
    /// What a request that changes something has to bring.
    pub(super) token: String,
    /// Held for as long as the node lives: two nodes with one identity would undo each other.
    _lock: File,
}

impl Identity {
    /// Opens a data directory, making it and the identity if they are not there.
    pub(super) fn open(folder: &Path) -> Result<Self, RunError> {
        fs::create_dir_all(folder).map_err(|error| RunError::disk(folder, &error))?;
        let lock = lock(&folder.join("lock"))?;
        let keypair = keypair(&folder.join("identity.key"))?;
        let run = next_run(folder)?;
        let disk = disk(&folder.join("disk"))?;
        let record = read_record(&record_file(folder))?;
        let offsets = read_offsets(&offsets_file(folder))?;
        let token = token(&folder.join(TOKEN_FILE))?;
        Ok(Self { keypair, run, disk, record, offsets, token, _lock: lock })
    }

    pub(super) fn peer(&self) -> PeerId {
        self.keypair.public().to_peer_id()
    }

    pub(super) fn node(&self) -> NodeId {
        node_of(&self.peer())
    }
}

/// The name of the node with a public key.
pub(super) fn node_of(peer: &PeerId) -> NodeId {
    NodeId(xxh3_64(&peer.to_bytes()))
}

fn lock(path: &Path) -> Result<File, RunError> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(|error| RunError::disk(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(RunError::InUse(path.parent().unwrap_or(path).to_owned()))
        }
        Err(fs::TryLockError::Error(error)) => Err(RunError::disk(path, &error)),
    }
}

fn keypair(path: &Path) -> Result<Keypair, RunError> {
    if path.exists() {
        let bytes = fs::read(path).map_err(|error| RunError::disk(path, &error))?;
        return Keypair::from_protobuf_encoding(&bytes)
            .map_err(|error| RunError::Disk(path.to_owned(), format!("no key: {error}")));
    }
    let keypair = Keypair::generate_ed25519();
    let bytes = keypair.to_protobuf_encoding().expect("an ed25519 key can be encoded");
    write_synced(path, &bytes)?;
    Ok(keypair)
}

/// The file in the data directory with the token for requests that change something. Whoever may read it
/// may have the node leave.
pub const TOKEN_FILE: &str = "admin.token";

fn token(path: &Path) -> Result<String, RunError> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().len() >= 32 => Ok(text.trim().to_owned()),
        Ok(_) => Err(RunError::Disk(path.to_owned(), "no token of 32 letters".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let token = format!("{:032x}", rand::random::<u128>());
            write_synced(path, format!("{token}\n").as_bytes())?;
            Ok(token)
        }
        Err(error) => Err(RunError::disk(path, &error)),
    }
}

/// Where the record of the view log is.
pub(super) fn record_file(folder: &Path) -> PathBuf {
    folder.join("view")
}

fn read_record(path: &Path) -> Result<Option<Record<Assignment>>, RunError> {
    match fs::read(path) {
        Ok(bytes) => {
            let record = Record::from_bytes(&bytes);
            record.map(Some).map_err(|error| RunError::Disk(path.to_owned(), error.to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::disk(path, &error)),
    }
}

/// Where it is written where partitions have come to.
pub(super) fn offsets_file(folder: &Path) -> PathBuf {
    folder.join("offsets")
}

fn read_offsets(path: &Path) -> Result<Option<Offsets>, RunError> {
    match fs::read(path) {
        Ok(bytes) => {
            let (checksum, body) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            if u64::from_le_bytes(*checksum) != xxh3_64(body) {
                let why = "its checksum is wrong: the partitions that it names cannot be read on";
                return Err(RunError::Disk(path.to_owned(), why.to_owned()));
            }
            let offsets = routing::codec::decode(body);
            offsets.map(Some).map_err(|error| RunError::Disk(path.to_owned(), error.to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::disk(path, &error)),
    }
}

/// As they are written, with a checksum in front.
pub(super) fn offsets_bytes(offsets: &Offsets) -> Vec<u8> {
    let mut body = Vec::new();
    routing::codec::encode(offsets, &mut body).expect("they are plain data, and bounded");
    let mut bytes = xxh3_64(&body).to_le_bytes().to_vec();
    bytes.append(&mut body);
    bytes
}

fn disk(path: &Path) -> Result<DiskId, RunError> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let number = u64::from_str_radix(text.trim(), 16);
            number
                .map(DiskId)
                .map_err(|_| RunError::Disk(path.to_owned(), "no name of a disk".to_owned()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let disk = DiskId(rand::random());
            write_synced(path, format!("{disk}\n").as_bytes())?;
            Ok(disk)
        }
        Err(error) => Err(RunError::disk(path, &error)),
    }
}

fn next_run(folder: &Path) -> Result<Run, RunError> {
    let path = folder.join("run");
    let before = match File::open(&path) {
        Ok(mut file) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|error| RunError::disk(&path, &error))?;
            let run: Result<u64, _> = text.trim().parse();
            run.map_err(|_| RunError::Disk(path.clone(), "no count of starts".to_owned()))?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(RunError::disk(&path, &error)),
    };
    let run = before + 1;
    write_synced(&path, format!("{run}\n").as_bytes())?;
    Ok(Run(run))
}

/// Replaces a file whole: after a crash it is the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let staged = PathBuf::from(format!("{}.new", path.display()));
    let mut options = OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&staged)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&staged, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// The same before the node runs.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    replace(path, bytes).map_err(|error| RunError::disk(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_the_same_in_its_next_life_and_alone_in_its_directory() {
        let folder = std::env::temp_dir().join(format!("starling-identity-{}", std::process::id()));
        let first = Identity::open(&folder).unwrap();
        assert!(matches!(Identity::open(&folder), Err(RunError::InUse(_))));
        let (node, run) = (first.node(), first.run);
        drop(first);
        let second = Identity::open(&folder).unwrap();
        assert_eq!((second.node(), second.run), (node, Run(run.0 + 1)));
        drop(second);
        fs::write(folder.join("run"), "many").unwrap();
        let refused = Identity::open(&folder).err().unwrap().to_string();
        assert!(refused.contains("run: no count of starts"), "{refused}");
        fs::remove_dir_all(folder).unwrap();
    }
}
