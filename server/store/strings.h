// Redis strings on the engine: one main entry of kind kValue per key.
//
// Reads use the view, writes go to the batch, so a read after a write of the same command returns the old value. Replacing a
// value clears its stamp and, unless asked otherwise, its expiry; modifying it keeps both. An expiry on which a write relies is
// noted in the batch, so that the commit fails with kRetry once it has passed.
#pragma once

#include <optional>
#include <string>

#include <engine/charged_value.h>
#include <engine/read_view.h>
#include <engine/result.h>
#include <engine/write_batch.h>

#include "store/pending_writes.h"

namespace ebbtide {

/// The error for a key of another type. Its message is a whole error reply with its code, which dispatch sends unchanged.
Status wrong_type();
/// The longest value, and the error for a longer one.
inline constexpr std::size_t kMaxStringBytes = kMaxValueBytes;
Status string_too_long();

/// The type's name in the reply of TYPE.
Bytes type_name(EntryKind kind);

/// The encoding that Redis would use for a newly set value: "int", "embstr" or "raw".
Bytes string_encoding(const Found& found);

/// Counts of a run's reads.
struct ReadCounts {
  std::uint64_t hits = 0, misses = 0;  ///< of the keyspace, as Redis counts them: look-ups of commands that only read
  /// Of SCAN: keys and versions that it looked at.
  std::optional<std::uint64_t> scan_steps = std::nullopt;
};

/// For one run of one command. Not thread-safe. Keys are engine keys (key_codec.h).
class Strings {
 public:
  /// `pending`: earlier writes of the surrounding transaction; may be null.
  Strings(const ReadView& view, WriteBatch& batch, ReadCounts& counts, const PendingWrites* pending)
      : view_(view), batch_(batch), counts_(counts), pending_(pending) {}

  /// The string at `key`, or nullopt. WRONGTYPE, kNotResident, or an error of the engine's. The value is valid as long as the
  /// view (and, if set, Found::pin). For commands that only read: no expiry is noted, hits and misses are counted.
  Status get(const LookupKey& key, std::optional<Found>* found);
  /// Like get(), for any type of entry.
  Status get_any(const LookupKey& key, std::optional<Found>* found);
  /// Like get() and get_any(), for a command that writes: they note the expiry on which it relies.
  Status get_for_update(const LookupKey& key, std::optional<Found>* found);
  Status get_any_for_update(const LookupKey& key, std::optional<Found>* found);

  /// Like the four above, but they read no byte of a large value (ReadView::locate): for commands that do not need the value, or
  /// only a part of it.
  Status locate(const LookupKey& key, std::optional<Found>* found);
  Status locate_any(const LookupKey& key, std::optional<Found>* found);
  Status locate_for_update(const LookupKey& key, std::optional<Found>* found);
  Status locate_any_for_update(const LookupKey& key, std::optional<Found>* found);
  /// Reads the value of a located entry, unless it was read already.
  Status read(Found* found) const { return view_.read(found); }
  /// Reads bytes of a located entry's value; the range must be inside it.
  Status read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const {
    return view_.read_part(found, offset, length, part);
  }

  /// The stamp mode of this database.
  [[nodiscard]] StampMode stamp_mode() const;

  /// Sets the key to `value`, replacing any entry. `expiry` is absolute, 0 = never. `shared`, if set, has the same bytes as
  /// `value`. `stamp` is used in mode explicit only; without one the new value has no stamp.
  void set(const LookupKey& key, Bytes value, Millis expiry = 0, SharedValue shared = nullptr, DeleteKey stamp = kNoStamp);
  /// Replaces the value of a located entry, or creates one; keeps the old expiry and stamp. A large value is not copied and takes
  /// its part of `charge`, under which it was built.
  void modify(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge);
  /// Sets the key to the value and expiry of `source`, an entry of another key or database, replacing any entry. It keeps its
  /// stamp if both databases have explicit stamps (`source_mode` is the source's mode); otherwise this database's mode decides.
  void put_copy(const LookupKey& key, const Found& source, StampMode source_mode);
  /// Changes the expiry (0 = never) of an entry whose value was read; keeps value and stamp.
  void set_expiry(const LookupKey& key, const Found& old, Millis expiry);
  /// Deletes an entry that exists.
  void remove(const LookupKey& key);

 private:
  enum class Want : std::uint8_t { kPlace, kValue };
  Status find(const LookupKey& key, Want want, std::optional<Found>* found) const;
  Status find_to_read(const LookupKey& key, Want want, std::optional<Found>* found);
  Status find_for_update(const LookupKey& key, Want want, std::optional<Found>* found);
  void put(const LookupKey& key, const Found& value, const WriteBatch::PutOptions& options);
  [[nodiscard]] DeleteKey kept_stamp(const Found& old) const {
    return stamp_mode() == StampMode::kExplicit ? old.stamp : kNoStamp;
  }

  const ReadView& view_;
  WriteBatch& batch_;
  ReadCounts& counts_;
  const PendingWrites* const pending_;
};

}  // namespace ebbtide
