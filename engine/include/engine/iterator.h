// Iterates over the visible keys of a database in order, forward and backward.
#pragma once

#include <cstdint>

#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

struct IteratorOptions {
  KeyRange bounds;  ///< files, tiles and pages outside are never read
  std::uint64_t max_steps =
      0;  ///< versions and tombstones it may pass over per call to seek/next/prev before it pauses; 0 = no limit
};

/// Positions on keys that exist in its view: no tombstones, nothing covered, nothing expired. Not thread-safe; one per thread.
/// Holds a leased view: when that is revoked, it becomes invalid with kRevoked.
class Iterator {
 public:
  virtual ~Iterator() = default;

  virtual void seek_to_first() = 0;
  virtual void seek_to_last() = 0;
  /// The first key >= target.
  virtual void seek(Bytes target) = 0;
  /// The last key < target.
  virtual void seek_before(Bytes target) = 0;
  virtual void next() = 0;
  virtual void prev() = 0;

  [[nodiscard]] virtual bool valid() const = 0;
  /// True if the last move stopped after max_steps. Then valid() is false and status() is ok. Go on with seek(resume_key())
  /// forward, or seek_before(resume_key()) backward.
  [[nodiscard]] virtual bool paused() const = 0;
  [[nodiscard]] virtual Bytes resume_key() const = 0;

  /// Valid until the iterator moves.
  [[nodiscard]] virtual Bytes key() const = 0;
  /// Reads a large value from disk on first use. Empty if that fails; then status() has the error.
  [[nodiscard]] virtual Bytes value() = 0;
  [[nodiscard]] virtual EntryKind kind() const = 0;
  [[nodiscard]] virtual Millis expiry() const = 0;
  [[nodiscard]] virtual DeleteKey stamp() const = 0;
  [[nodiscard]] virtual SeqNum seq() const = 0;

  /// Number of versions and tombstones that all moves so far have passed over. Keys that a move stopped at do not count.
  [[nodiscard]] virtual std::uint64_t steps() const = 0;
  /// Ok at the end of the range too. An error ends the walk.
  [[nodiscard]] virtual Status status() const = 0;
};

}  // namespace ebbtide
