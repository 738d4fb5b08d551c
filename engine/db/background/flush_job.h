// Writes frozen memtables of a tree as tables. The caller commits the edit that names them.
//
// The job merges the entries of all memtables; survivors become one run of level 0 (compaction/executor.h, flush_to_run()). The
// edit also has the measured size of a flushed full memtable, which determines the capacities of levels. For static schedules the
// edit counts one more flush.
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

/// The tables that flushes have built for one or more trees, and the edit that will name them.
struct BuiltFlush {
  struct Of {
    TreePtr tree;
    std::size_t memtables = 0;  ///< how many of the tree's oldest frozen memtables were flushed
    std::vector<FileMeta> outputs;
  };
  VersionEdit edit;
  SeqNum relies_on = 0;  ///< the log must be durable up to this seq before the edit is committed
  TableInstaller::OpenedTables opened;
  std::vector<Of> of;
};

/// Returns how many full memtables the entries of `frozen` would fill. Each memtable adds its used part, at most 1: memory is
/// allocated in blocks, so a small memtable can be a third too large, and K-LSM would count two flushes as three. A memtable of
/// twice `memtable_size` or more has a staged batch; it adds its whole size. `empty_bytes`: size of an empty memtable, which is
/// subtracted from both sizes.
[[nodiscard]] double full_memtables(const std::vector<FrozenMemTable>& frozen, std::uint64_t memtable_size,
                                    std::uint64_t empty_bytes);

/// Flushes memtables. One flush of a tree at a time; flushes of different trees may run side by side.
class FlushJob {
 public:
  struct Env {
    Mutex* state_mutex = nullptr;  ///< guards trees (db/trees/tree.h)
    const TableInstaller* installer = nullptr;
    std::function<std::uint64_t()> empty_memtable_bytes;
    std::function<void(SeqNum)> await_visible;  ///< waits until every operation up to the seq is in its memtable
    std::function<SeqNum()> visible_seq;
    std::function<TreeSettings(const Tree&)> settings;  ///< returns the settings for new tables; called with the state mutex held
    /// Returns CompactionContext::filters for a flush of `entries` entries.
    std::function<std::map<RunId, std::vector<double>>(const Tree&, const TablesView&, std::uint64_t entries)> filters;
  };

  explicit FlushJob(Env env) : env_(std::move(env)) {}

  /// Builds tables of the `most` oldest frozen memtables of the tree and adds them to `built`. No effect if the tree has no
  /// frozen memtable or was dropped.
  Status build(const TreePtr& tree, std::size_t most, Millis now, BuiltFlush* built) EXCLUDES(*env_.state_mutex);

  [[nodiscard]] std::uint64_t flushes() const { return flushes_; }      ///< number of flushes since the start
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_; }  ///< bytes of tables written since the start

 private:
  [[nodiscard]] std::uint64_t count_flush(const Policy& policy, double full, const Version& version,
                                          const TreeSettings& settings) const;

  const Env env_;
  std::atomic<std::uint64_t> flushes_{0}, bytes_{0};
};

}  // namespace ebbtide
