// Gathers what the pressure on writes depends on (pressure.h): memtables, runs and pending merges of all trees.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/trees/tree.h"
#include "db/write/pressure.h"

namespace ebbtide {

/// One caller at a time, since a tree's bytes of pending merges are stored in Tree::debt.
class LoadMeter {
 public:
  struct Env {
    std::uint64_t memtable_size = 0;
    std::function<std::vector<TreeLoad>()> loads;  ///< of all live trees
    std::function<std::uint64_t()> empty_memtable_bytes;
    std::function<std::uint64_t()> memory_budget;
    std::function<std::uint64_t()> charged_bytes;      ///< to the memory account
    std::function<double()> merge_bytes_per_ms;        ///< measured; 0 = unknown
    std::function<std::uint32_t()> deadline_permille;  ///< part of that rate which delete deadlines need
    std::function<bool()> compactions_paused;
  };

  explicit LoadMeter(Env env) : env_(std::move(env)) {}

  [[nodiscard]] WriteLoad measure();

 private:
  const Tree::Debt& debt_of(const TreeLoad& load);
  /// Bytes of memtables that no tree has any more, but that readers, or the epoch, still hold. Charged values are left out.
  std::uint64_t left_bytes(const std::vector<TreeLoad>& loads);

  const Env env_;
  std::vector<std::weak_ptr<const MemTable>> seen_;  ///< of earlier measurements, as far as they were in memory
};

}  // namespace ebbtide
