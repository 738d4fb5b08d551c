// A checkpoint: another directory that opens as the database was at one moment, made while the database runs.
//
//   1. The log is synced past everything visible.
//   2. The state is recorded under the manifest's mutex (CheckpointEnv::take). That is memory only.
//   3. The log follows: finished segments are linked, and the current one's bytes so far are copied. The tables follow, as links.
//      Where a link cannot be made (another file system) it is a copy. Flushes and merges go on meanwhile. A pin that would make
//      a delete miss its deadline is revoked, and the checkpoint fails.
//   4. The directory is synced. Only then does it get a manifest and CURRENT: an unfinished checkpoint has none, and does not open.
//
// The files of a quarantined table are linked, too, if they exist. The table stays quarantined: the checkpoint refuses the same
// reads. CheckpointReport::damaged says so; such a checkpoint replaces no backup from before the damage.
//
// A link costs no space until the database removes the file. Files of tables and finished segments are never written again. A hole is
// punched only into a file with a single name. So links are as good as copies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/stats.h>
#include "base/mutex.h"
#include "db/purge/log_pins.h"
#include "db/trees/lease_registry.h"
#include "io/file_system.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// The database at one moment.
struct CheckpointState {
  FileNum manifest = kNoFile;                 ///< an unused number
  std::string record;                         ///< the manifest's state as one record (VersionSet::snapshot_record)
  std::vector<std::shared_ptr<Lease>> trees;  ///< pin the tables that the record names
  std::vector<LogSegment> segments;           ///< that the record needs, oldest first, each with its bytes so far; never empty
  std::shared_ptr<LogPin> log_pin;            ///< of these segments
};

struct CheckpointEnv {
  FileSystem* fs = nullptr;
  std::string dir;              ///< of the database
  Mutex* link_mutex = nullptr;  ///< held while data files are linked or punched: a file with a second name keeps its bytes
  std::function<SeqNum()> visible_seq;
  std::function<Millis()> now;  ///< engine time
  std::function<Status(SeqNum)> wait_synced;
  std::function<Result<CheckpointState>(SeqNum visible_seq)> take;
  std::function<void(const std::shared_ptr<LogPin>&)> unpin;
  std::function<bool()> closing;
};

/// Makes a checkpoint in `target`, a new or empty directory outside of the database's. An error removes what was made. kRevoked: it took
/// so long that deleted data would have outlived its deadline. kAborted: the database closes.
Result<CheckpointReport> make_checkpoint(const CheckpointEnv& env, const std::string& target);

}  // namespace ebbtide
