// SCAN's cursors: decimal numbers that stand for the key at which a scan continues.
//
// A cursor is an id in a table of resume keys, whose size is limited. No id is used twice: its upper bits are a random number
// drawn at start, its lower bits a counter. So SCAN replies with an error to an evicted cursor, or one from before a restart, and
// never continues another scan.
//
// A client uses a cursor twice only if a reply was lost. So cursors that were used are evicted first, the least recently used
// before the others. Then unused cursors follow, oldest first. A fast scan cannot evict the cursor of a slow one.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <engine/result.h>
#include <engine/types.h>
#include "dispatch/stepped_charge.h"

namespace ebbtide {

/// Thread-safe.
class ScanCursors {
 public:
  static constexpr std::size_t kMaxCursors = 65536;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  /// The cursors take at most 1 / kBudgetPart of the memory budget.
  static constexpr std::uint64_t kBudgetPart = 32;

  /// `seed`: a random number drawn at start.
  explicit ScanCursors(std::uint64_t seed, std::size_t max_cursors = kMaxCursors, std::size_t max_bytes = kMaxBytes);

  /// Charges the memory of the cursors. The functions of `memory` are set once, before use.
  SteppedCharge memory;
  /// Sets the size of the memory budget, in bytes.
  void set_budget(std::uint64_t bytes);

  /// Returns a new cursor, never 0, that continues at `resume_key`, an engine key.
  std::uint64_t add(DatabaseId database, std::string resume_key);
  /// Returns the resume key of a cursor; nullopt if the cursor is unknown or belongs to another database.
  std::optional<std::string> find(DatabaseId database, std::uint64_t cursor);
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::uint64_t id;
    DatabaseId database;
    std::string key;
    bool used = false;
  };
  using List = std::list<Entry>;
  void evict();  // the caller holds mutex_

  const std::uint64_t epoch_;
  const std::size_t max_cursors_, largest_bytes_;

  mutable std::mutex mutex_;
  // The members below are guarded by mutex_. In both lists the oldest cursor is first.
  List fresh_, used_;
  std::unordered_map<std::uint64_t, List::iterator> by_id_;
  std::uint64_t counter_ = 0;
  std::size_t bytes_ = 0;  // memory of the cursors, which `memory` charges
  std::size_t max_bytes_;
};

/// Parses a cursor as Redis does, with strtoul: an empty text is 0, and a sign is allowed.
Result<std::uint64_t> parse_scan_cursor(Bytes text);

/// Returns the key at which a scan continues: "" for cursor 0. Fails if the cursor is unknown.
Result<std::string> resume_scan(ScanCursors& cursors, DatabaseId database, std::uint64_t cursor);

}  // namespace ebbtide
