// Redis strings on the engine: one main entry of kind kValue a key.
//
// Reads go to the view, writes to the batch; neither is remembered here, so a read after a write of the same command sees the old
// value. Replacing a value clears its stamp and, unless asked otherwise, its expiry; modifying it keeps both.
// An expiry on which a write relies is noted in the batch, so that the commit fails with kRetry once it has passed.
#pragma once

#include <optional>
#include <string>

#include <engine/charged_value.h>
#include <engine/read_view.h>
#include <engine/result.h>
#include <engine/write_batch.h>

#include "store/pending_writes.h"

namespace ebbtide {

/// The error for a command of another type; dispatch sends a kInvalidArgument message that starts with a code as it is.
Status wrong_type();
/// Longest value, and the error beyond it.
inline constexpr std::size_t kMaxStringBytes = kMaxValueBytes;
Status string_too_long();

/// The type's name as TYPE gives it.
Bytes type_name(EntryKind kind);

/// How Redis would keep a value that was just set: "int", "embstr" or "raw".
Bytes string_encoding(const Found& found);

/// What a run of a command has read.
struct ReadCounts {
  std::uint64_t hits = 0, misses = 0;  ///< of the keyspace, as Redis counts them: look-ups of commands that only read
  /// Of SCAN: keys and versions that it looked at.
  std::optional<std::uint64_t> scan_steps = std::nullopt;
};

/// For one run of one command. Not thread-safe. Keys are engine keys (key_codec.h).
class Strings {
 public:
  /// `pending`: what the transaction around it has written before, or null.
  Strings(const ReadView& view, WriteBatch& batch, ReadCounts& counts, const PendingWrites* pending)
      : view_(view), batch_(batch), counts_(counts), pending_(pending) {}

  /// The string at `key`, or nullopt. WRONGTYPE, kNotResident, or an error of the engine's. The value is valid as long as the
  /// view (and, if set, Found::pin). For commands that only read: no expiry is noted, hits and misses are counted.
  Status get(const LookupKey& key, std::optional<Found>* found);
  /// As get, any type of entry.
  Status get_any(const LookupKey& key, std::optional<Found>* found);
  /// As get, get_any for a command that writes: notes the expiry it relies on.
  Status get_for_update(const LookupKey& key, std::optional<Found>* found);
  Status get_any_for_update(const LookupKey& key, std::optional<Found>* found);

  /// As get, get_any, get_for_update, get_any_for_update, but no byte of a large value is read (ReadView::locate): for commands
  /// that need to know of the key alone, or a part of the value.
  Status locate(const LookupKey& key, std::optional<Found>* found);
  Status locate_any(const LookupKey& key, std::optional<Found>* found);
  Status locate_for_update(const LookupKey& key, std::optional<Found>* found);
  Status locate_any_for_update(const LookupKey& key, std::optional<Found>* found);
  /// Reads the value of a located entry, unless it is at hand.
  Status read(Found* found) const { return view_.read(found); }
  /// Bytes of a located entry's value, which lie within it.
  Status read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const {
    return view_.read_part(found, offset, length, part);
  }

  /// Where the stamps of this database come from.
  [[nodiscard]] StampMode stamp_mode() const;

  /// Replaces whatever is there. `expiry` is absolute, 0 = never. `shared`, if set, holds the value already. `stamp` counts where
  /// the mode is explicit: what replaces a value clears its stamp.
  void set(const LookupKey& key, Bytes value, Millis expiry = 0, SharedValue shared = nullptr, DeleteKey stamp = kNoStamp);
  /// A new value for an entry that was located, or for none; keeps expiry and stamp of the old one. A large value is not copied:
  /// it takes its part of `charge`, under which it was built.
  void modify(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge);
  /// What was read at another key, or in another database, with its expiry, in place of whatever is there. It keeps its stamp
  /// where both databases, that of the source in `source_mode`, let clients say it; else the mode of this one gives it another.
  void put_copy(const LookupKey& key, const Found& source, StampMode source_mode);
  /// A new expiry (0 = never) for an entry whose value was read; value and stamp stay.
  void set_expiry(const LookupKey& key, const Found& old, Millis expiry);
  /// Deletes an entry that was read.
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
