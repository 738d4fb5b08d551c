// Collects the inputs of the pressure on writes (pressure.h): memtables, runs and pending merges of all trees.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/trees/tree.h"
#include "db/write/pressure.h"

namespace ebbtide {

/// Measures the load. One caller at a time, since measure() stores each tree's compaction debt in Tree::debt without a lock.
class LoadMeter {
 public:
  struct Env {
    std::function<std::uint64_t()> memtable_size;  ///< returns the largest memtable_size of all databases
    std::function<std::vector<TreeLoad>()> loads;  ///< returns the state of all live trees
    std::function<std::uint64_t()> empty_memtable_bytes;
    std::function<std::uint64_t()> memory_budget;
    std::function<std::uint64_t()> charged_bytes;  ///< returns the bytes charged to the memory account
    std::function<double()> merge_bytes_per_ms;    ///< returns the measured rate of merges; 0 = unknown
    /// Returns the fraction of the measured merge rate that delete deadlines need, in thousandths.
    std::function<std::uint32_t()> deadline_permille;
    std::function<bool()> compactions_paused;
    std::function<std::uint64_t()> index_bytes{};  ///< indexes and filters in memory; null: 0
  };

  explicit LoadMeter(Env env) : env_(std::move(env)) {}

  [[nodiscard]] WriteLoad measure();

 private:
  const Tree::Debt& debt_of(const TreeLoad& load);
  /// Returns the bytes of memtables that belong to no tree any more, but that readers or the epoch still hold. Charged values are
  /// not included.
  std::uint64_t left_bytes(const std::vector<TreeLoad>& loads);

  const Env env_;
  std::vector<std::weak_ptr<const MemTable>> seen_;  ///< memtables of earlier measurements that were still in memory
};

}  // namespace ebbtide
