// Which table is read and checked next, and when: a slow walk over all tables, once in a given time.
//
// Tables are taken in the order of the numbers of their data files, so that a walk needs to remember one number, whatever merges do
// to the tables meanwhile. After a table it rests for that part of the interval which the table is of all bytes: reading is spread
// evenly, and a walk takes the interval whatever the data grows to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Not thread-safe.
class ScrubWalk {
 public:
  /// `random` says where the first walk begins: if each began with the first table, a server that is restarted more often than the
  /// interval would read only those.
  explicit ScrubWalk(std::uint64_t random) : random_(random) {}

  struct Table {
    std::uint64_t number = 0;  ///< of its data file
    std::uint64_t bytes = 0;   ///< of its files
  };

  /// Whether it is time for a table, when a walk is to take `interval`, which is more than 0. A while after the start, and after
  /// the interval was changed, for the first time.
  [[nodiscard]] bool due(Millis now, Millis interval) {
    if (interval != interval_) next_at_ = now + kFirstRest;
    interval_ = interval;
    return now >= next_at_;
  }
  /// Once it is due: the next of `tables`, in any order, which are all that there are now; null when the walk has ended, or there
  /// are none.
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
      next_at_ = now + (tables.empty() ? kFirstRest : 0);  // after the last table it has rested
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
  std::uint64_t position_ = 0;  ///< number of the last table; 0: before the first
  Millis interval_ = 0, next_at_ = 0;
};

}  // namespace ebbtide
