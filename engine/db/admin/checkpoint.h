// Makes a checkpoint while the database runs: another directory that opens as the database was at one moment.
//
//   1. The log is synced up to the visible seq.
//   2. The state is recorded in memory, under the manifest's mutex (CheckpointEnv::take).
//   3. Finished log segments are linked, and the bytes of the current segment are copied. Then tables are linked. If a link is
//      not possible (another file system), the file is copied. Flushes and merges continue meanwhile. A pin that would make a
//      delete miss its deadline is revoked, and then the checkpoint fails.
//   4. The directory is synced. Only then are a manifest and CURRENT written, so an unfinished checkpoint does not open.
//
// The files of a quarantined table are linked, too, if they exist. The table is also quarantined in the checkpoint, which returns
// errors for the same reads. CheckpointReport::damaged counts such tables; a checkpoint with damage must not replace a backup
// from before the damage.
//
// A link takes no space until the database removes the file. Files of tables and finished segments are never written again. A
// hole is punched only into a file with a single name. So links are as good as copies.
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

/// The state of the database that a checkpoint copies.
struct CheckpointState {
  FileNum manifest = kNoFile;                 ///< number for the checkpoint's manifest; no other file has it
  std::string record;                         ///< the manifest's state as one record (VersionSet::snapshot_record)
  std::vector<std::shared_ptr<Lease>> trees;  ///< leases that pin the tables that the record names
  /// The segments that the record needs, oldest first, each with its bytes so far. Never empty.
  std::vector<LogSegment> segments;
  std::shared_ptr<LogPin> log_pin;  ///< pins these segments
};

struct CheckpointEnv {
  FileSystem* fs = nullptr;
  std::string dir;  ///< the data directory of the database
  /// Held while data files are linked or punched, since a file with a second name must keep its bytes.
  Mutex* link_mutex = nullptr;
  std::function<SeqNum()> visible_seq;
  std::function<Millis()> now;  ///< engine time
  std::function<Status(SeqNum)> wait_synced;
  std::function<Result<CheckpointState>(SeqNum visible_seq)> take;
  std::function<void(const std::shared_ptr<LogPin>&)> unpin;
  std::function<bool()> closing;
};

/// Makes a checkpoint in `target`, a new or empty directory outside the data directory. After an error, removes its new files.
/// kRevoked: the checkpoint took so long that deleted data would have outlived its deadline. kAborted: the database closes.
Result<CheckpointReport> make_checkpoint(const CheckpointEnv& env, const std::string& target);

}  // namespace ebbtide
