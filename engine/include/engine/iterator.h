// Iterates over the visible keys of a database in order, forward and backward.
#pragma once

#include <cstdint>

#include <engine/points.h>
#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

struct IteratorOptions {
  KeyRange bounds;  ///< the iterator reads no file, tile or page outside the bounds
  /// Number of versions and tombstones that one move (a seek, next() or prev()) may skip before it pauses. 0: no limit.
  std::uint64_t max_steps = 0;
  /// True: the iterator also shows the elements of large collections. False: it shows only a collection's header, and skips all
  /// elements in one step.
  bool elements = false;
  /// True: the iterator never waits for the disk, if its view is a pass view of ReadMode::kResident. It adds a missing page to
  /// the view's MissSet, and becomes invalid with status kNotResident. Its results are valid while the PassGuard is held.
  bool resident = false;
  /// Most pages of a table that a resident iterator adds to the MissSet at once. After a missing page, the iterator adds
  /// following pages that are not in memory, too, so that one fetch reads them all.
  std::uint32_t pages_at_once = 1;
  /// If not null, the iterator skips tables and tiles whose bounds of points do not meet the filter's shape. It shows all
  /// existing keys whose points are in the shape. It may also show keys outside the shape, even deleted ones, so the caller must
  /// test the point of each key. The filter must live as long as the iterator.
  const PointFilter* points = nullptr;
};

/// Iterates over the keys that exist in its view, without deleted and expired keys. Not thread-safe: one thread per
/// iterator. An iterator holds a leased view, unless it is resident. When the view is revoked, the iterator becomes invalid
/// with status kRevoked.
class Iterator {
 public:
  virtual ~Iterator() = default;

  virtual void seek_to_first() = 0;
  virtual void seek_to_last() = 0;
  /// Moves to the first key >= target. Without such a key, and after each move past the end, the iterator is invalid.
  virtual void seek(Bytes target) = 0;
  /// Moves to the last key < target.
  virtual void seek_before(Bytes target) = 0;
  virtual void next() = 0;
  virtual void prev() = 0;

  [[nodiscard]] virtual bool valid() const = 0;
  /// True if the last move stopped after max_steps. Then valid() is false and status() is ok. Continue with seek(resume_key())
  /// forward, or with seek_before(resume_key()) backward.
  [[nodiscard]] virtual bool paused() const = 0;
  [[nodiscard]] virtual Bytes resume_key() const = 0;

  /// Returns the current key; valid until the iterator moves.
  [[nodiscard]] virtual Bytes key() const = 0;
  /// Returns the current value; valid until the iterator moves. The first call for a large value reads it from disk. If the read
  /// fails, the result is empty and status() returns the error.
  [[nodiscard]] virtual Bytes value() = 0;
  [[nodiscard]] virtual EntryKind kind() const = 0;
  [[nodiscard]] virtual Millis expiry() const = 0;
  [[nodiscard]] virtual DeleteKey stamp() const = 0;
  [[nodiscard]] virtual SeqNum seq() const = 0;

  /// Returns the number of versions and tombstones that all moves so far have skipped. The keys at which a move stopped are not
  /// counted.
  [[nodiscard]] virtual std::uint64_t steps() const = 0;
  /// Returns ok also at the end of the range. After an error the iterator stays invalid.
  [[nodiscard]] virtual Status status() const = 0;
};

}  // namespace ebbtide
