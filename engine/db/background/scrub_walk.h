// Decides which table the scrub reads next, and when: a walk over all tables takes a configured interval.
//
// A walk visits tables in the order of their data file numbers. So it stores only one number, and merges do not disturb it. After
// each table the walk rests for interval * (bytes of the table / bytes of all tables). So reads are spread evenly, and a walk
// takes the interval for any size of data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// The position of a walk. Not thread-safe.
class ScrubWalk {
 public:
  /// `random` chooses the start of the first walk. Otherwise a server that is restarted more often than once per interval would
  /// only ever read the first tables.
  explicit ScrubWalk(std::uint64_t random) : random_(random) {}

  struct Table {
    std::uint64_t number = 0;  ///< number of the data file
    std::uint64_t bytes = 0;   ///< bytes of data and metadata file
  };

  /// True if it is time to read a table, for walks of `interval` > 0 ms. The first table is due a minute after the start or a
  /// change of the interval.
  [[nodiscard]] bool due(Millis now, Millis interval) {
    if (interval != interval_) next_at_ = now + kFirstRest;
    interval_ = interval;
    return now >= next_at_;
  }
  /// Returns the next table, or null at the end of the walk or if there are no tables. Call it if due(). `tables`: all current
  /// tables, in any order.
  const Table* next(const std::vector<Table>& tables, Millis now) {
    const Table* found = nullptr;
    std::uint64_t total = 0, highest = 0;
    for (const Table& table : tables) {
      total += table.bytes;
      highest = std::max(highest, table.number);
    }
    if (!begun_ && !tables.empty()) position_ = random_ % (highest + 1);
    begun_ |= !tables.empty();
    for (const Table& table : tables) {
      if (table.number > position_ && (found == nullptr || table.number < found->number)) found = &table;
    }
    if (found == nullptr) {
      position_ = 0;
      next_at_ = now + (tables.empty() ? kFirstRest : 0);  // the last table's rest is over, so the next walk begins at once
      return nullptr;
    }
    position_ = found->number;
    const double share = static_cast<double>(found->bytes) / static_cast<double>(std::max<std::uint64_t>(total, 1));
    next_at_ = now + std::max<Millis>(1, static_cast<Millis>(share * static_cast<double>(interval_)));
    return found;
  }

 private:
  static constexpr Millis kFirstRest = 60'000;
  const std::uint64_t random_;
  bool begun_ = false;
  std::uint64_t position_ = 0;  ///< data file number of the last table that was read; 0: the walk begins
  Millis interval_ = 0, next_at_ = 0;
};

}  // namespace ebbtide
