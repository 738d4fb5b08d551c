// The functions of the database's components that the commit pipeline (write/commit_pipeline.h) and the committer
// (write/committer.h) call.
#pragma once

#include <memory>
#include <span>

#include "db/background/disk_watch.h"
#include "db/background/health.h"
#include "db/background/manifest_editor.h"
#include "db/engine_time.h"
#include "db/trees/tree_registry.h"
#include "db/write/inserts.h"
#include "db/write/tree_placer.h"
#include "wal/group_commit.h"

namespace ebbtide {

/// The pipeline holds the commit mutex when it calls these functions, except insert(). The thread-safety analysis cannot see
/// that.
struct CommitEnv {
  const EngineTime& time;
  Health& health;
  DiskWatch& disk;
  TreeRegistry& trees;
  TreePlacer& placer;
  ManifestEditor& manifest;
  const std::unique_ptr<GroupCommit>& log_owner;  ///< the log; null until the database opens

  // --- called by the committer
  bool log_failed() { return log_owner->failed(); }
  Status log_status() { return log_owner->status(); }
  bool read_only() { return health.read_only(); }
  Status write_status() { return health.write_status(); }
  bool disk_full() { return disk.full(log_owner->bytes_written()); }

  // --- called by the commit pipeline
  Status writable() { return health.read_only() ? health.write_status() : Status::ok(); }
  Millis now() { return time.now(); }
  Millis stamped(Millis now) { return time.stamped(now); }
  TreeId tree_of(DatabaseId database) NO_THREAD_SAFETY_ANALYSIS {
    const Tree* tree = trees.mapped(database).get();
    return tree == nullptr ? kNoTree : tree->id;
  }
  TreeId place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time_of_batch,
               Inserts* inserts) NO_THREAD_SAFETY_ANALYSIS {
    return placer.place(batch, at, op, time_of_batch, inserts);
  }
  void change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time_of_batch, Inserts* inserts,
                      LogNotes* notes) NO_THREAD_SAFETY_ANALYSIS {
    placer.change_mapping(batch, at, op, time_of_batch, inserts, notes);
  }
  void mapping_changed(SeqNum last) NO_THREAD_SAFETY_ANALYSIS {
    trees.note_mapping(last);
    manifest.schedule_mapping();
  }
  void sequenced(TreeId tree, SeqNum first, SeqNum last) NO_THREAD_SAFETY_ANALYSIS { trees.mark_active(tree, first, last); }
  void log(const WriteBatch& batch, std::span<const LogNote> notes) { log_owner->enqueue(batch, notes); }
  void insert(const Inserts::Target& target, const WriteBatch::Op& op, SeqNum seq, Millis time_of_batch) {
    insert_operation(*target.memtable, op, seq, time_of_batch, target.stamp);
  }
};

}  // namespace ebbtide
