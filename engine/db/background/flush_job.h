// Writes frozen memtables of a tree as tables. The edit that names them is committed by the caller.
//
// The entries of all memtables are merged; survivors become one run of level 0 (compaction/executor.h, flush_to_run()). The edit
// also says how large a full memtable flushes, from which capacities of levels follow, and, for static schedules, that one more
// flush counts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <engine/status.h>
#include "base/mutex.h"
#include "compaction/executor.h"
#include "db/background/table_installer.h"
#include "db/trees/tree.h"
#include "version/version_edit.h"

namespace ebbtide {

/// Tables of one or more trees before their edit is committed.
struct BuiltFlush {
  struct Of {
    TreePtr tree;
    std::size_t memtables = 0;  ///< how many of its oldest frozen ones
    std::vector<FileMeta> outputs;
  };
  VersionEdit edit;
  SeqNum relies_on = 0;  ///< the log must be durable up to it before the edit is
  TableInstaller::OpenedTables opened;
  std::vector<Of> of;
};

/// Of so many full memtables: how much of their room these have used, summed. `empty_bytes`: what an empty memtable takes, which is
/// not room. A memtable slightly beyond its room counts as one: memory comes in blocks, so a small memtable (4 KiB of 16) can be a
/// third beyond with its last entry, and K-LSM would take two flushes for three. One far beyond is that of a staged batch: it
/// counts as many as it would have filled.
[[nodiscard]] double full_memtables(const std::vector<FrozenMemTable>& frozen, std::uint64_t memtable_size,
                                    std::uint64_t empty_bytes);

/// One flush at a time: the caller holds the flush mutex.
class FlushJob {
 public:
  struct Env {
    Mutex* state_mutex = nullptr;  ///< guards trees, as db/trees/tree.h has it
    const TableInstaller* installer = nullptr;
    std::uint64_t memtable_size = 0;
    std::function<std::uint64_t()> empty_memtable_bytes;
    std::function<void(SeqNum)> await_visible;  ///< until every operation up to it is in its memtable
    std::function<SeqNum()> visible_seq;
    std::function<TreeSettings(const Tree&)> settings;  ///< for new tables; the state mutex is held
    /// CompactionContext::filters after a flush of so many entries.
    std::function<std::map<RunId, std::vector<double>>(const Tree&, const TablesView&, std::uint64_t entries)> filters;
  };

  explicit FlushJob(Env env) : env_(std::move(env)) {}

  /// Builds tables of the `most` oldest frozen memtables of the tree and adds them to `built`. Nothing if it has none or is gone.
  Status build(const TreePtr& tree, std::size_t most, Millis now, BuiltFlush* built) EXCLUDES(*env_.state_mutex);

  [[nodiscard]] std::uint64_t flushes() const { return flushes_; }      ///< since the start
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_; }  ///< since the start

 private:
  [[nodiscard]] std::uint64_t count_flush(const Policy& policy, double full, const Version& version,
                                          std::uint64_t file_size) const;

  const Env env_;
  std::atomic<std::uint64_t> flushes_{0}, bytes_{0};
};

}  // namespace ebbtide
