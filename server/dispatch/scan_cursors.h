// SCAN's cursors: small decimal numbers that stand for the key to go on from.
//
// A cursor is an id into a bounded table of resume keys. An id is never given twice: it joins a random number drawn at start (the
// upper bits) with a counter, so that a cursor from before a restart, or one that was evicted, is met by an error and never by
// another scan's place. Ids stay below 2^53, which clients that read numbers as doubles parse too.
//
// Eviction: a scan leaves one cursor behind at each call, and asks for an old one again only if a reply got lost. So cursors that
// have been used go first, the least recently used in front; a fast scan cannot push out a slow one's place.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// Thread-safe.
class ScanCursors {
 public:
  static constexpr std::size_t kMaxCursors = 65536;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

  /// `seed`: random, drawn at start.
  explicit ScanCursors(std::uint64_t seed, std::size_t max_cursors = kMaxCursors, std::size_t max_bytes = kMaxBytes);

  /// A new cursor, never 0, for going on at `resume_key` (an engine key).
  std::uint64_t add(DatabaseId database, std::string resume_key);
  /// The resume key of a cursor; nullopt if it is unknown or of another database.
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
  void evict();

  const std::uint64_t epoch_;
  const std::size_t max_cursors_, max_bytes_;

  mutable std::mutex mutex_;
  // Guarded by mutex_. Oldest in front.
  List fresh_, used_;
  std::unordered_map<std::uint64_t, List::iterator> by_id_;
  std::uint64_t counter_ = 0;
  std::size_t bytes_ = 0;
};

/// A cursor as a client gives it. Redis reads cursors with strtoul: nothing at all is 0, a sign is allowed.
Result<std::uint64_t> parse_scan_cursor(Bytes text);

/// Where a scan goes on: "" for cursor 0; an error for one that is not known.
Result<std::string> resume_scan(ScanCursors& cursors, DatabaseId database, std::uint64_t cursor);

}  // namespace ebbtide
