#include <engine/options.h>

#include <cmath>

namespace ebbtide {
namespace {

template <typename T>
Status in_range(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return Status::ok();
  return Status::invalid_argument(std::string(name) + " is " + std::to_string(value) + ", but must be from " +
                                  std::to_string(low) + " to " + std::to_string(high));
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace

Status validate(const TreeSettings& s) {
  TRY(in_range<std::uint64_t>("tree.memtable_size", s.memtable_size, 16 << 10, 16384 * kMiB));
  TRY(in_range<std::uint64_t>("tree.file_size", s.file_size, 64 << 10, 4096 * kMiB));
  TRY(in_range<std::uint64_t>("tree.page_size", s.page_size, 1 << 10, 64 << 10));
  TRY(in_range<std::uint64_t>("tree.pages_per_tile", s.pages_per_tile, 0, 64));
  if (s.points_at != kNoPoints) TRY(in_range<std::uint64_t>("tree.points_at", s.points_at, 0, 64));
  if (s.delete_deadline != 0) {
    TRY(in_range<std::uint64_t>("tree.deletes.deadline in ms", s.delete_deadline, 1000, 3650ull * 24 * 3600 * 1000));
  }
  if (s.delete_io_budget != 0) {
    TRY(in_range<std::uint64_t>("tree.deletes.io_budget", s.delete_io_budget, 16 << 10, 65536 * kMiB));
  }
  if (std::isnan(s.filter_bits_per_key)) return Status::invalid_argument("tree.filters.bits_per_key is not a number");
  TRY(in_range<double>("tree.filters.bits_per_key", s.filter_bits_per_key, 0, 32));
  if (s.filter_memory != 0) TRY(in_range<std::uint64_t>("tree.filters.memory", s.filter_memory, 64 << 10, 1024 * 1024 * kMiB));
  return Status::ok();
}

Status validate(const Settings& s) {
  if (s.dir.empty()) return Status::invalid_argument("storage.dir is empty");
  TRY(in_range<std::uint64_t>("server.databases", s.databases, 1, kMaxDatabases));
  TRY(in_range<std::uint64_t>("storage.memory_budget", s.memory_budget, 4 * kMiB, std::uint64_t{1} << 46));
  TRY(in_range<std::uint64_t>("storage.wal_segment_size", s.wal_segment_size, 64 << 10, 4096 * kMiB));
  TRY(in_range<std::uint64_t>("background threads", s.background_threads, 1, 256));
  TRY(in_range<std::uint64_t>("fetch threads", s.fetch_threads, 1, 256));
  TRY(in_range<std::uint64_t>("open files", s.max_open_files, 0, std::uint64_t{1} << 30));
  TRY(validate(s.tree));
  for (const auto& [database, tree] : s.overrides) {
    if (owner_of(database) >= s.databases || index_number(database) > kMaxIndexTrees) {
      return Status::invalid_argument("databases." + std::to_string(database) + ": there are only " +
                                      std::to_string(s.databases) + " databases");
    }
    TRY(validate(tree).with_context("databases." + std::to_string(database)));
  }
  return Status::ok();
}

}  // namespace ebbtide
