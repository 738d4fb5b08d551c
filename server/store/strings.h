// Redis strings on the engine: one main entry of kind kValue per key.
//
// Reads use the view and writes go to the batch, so a read after a write of the same command returns the old value. Replacing a
// value clears its stamp and, by default, its expiry; modifying a value keeps both. If a write relies on an expiry, the batch
// notes the expiry, so that the commit fails with kRetry once it has passed.
#pragma once

#include <optional>
#include <string>

#include <engine/charged_value.h>
#include <engine/read_view.h>
#include <engine/result.h>
#include <engine/write_batch.h>

#include "store/pending_writes.h"

namespace ebbtide {

/// Returns the error for a key of another type: a whole error reply with its code, which dispatch sends unchanged.
Status wrong_type();
/// The length of the longest value, and the error for a longer value.
inline constexpr std::size_t kMaxStringBytes = kMaxValueBytes;
Status string_too_long();

/// Deletes the elements of a large collection, of every generation. `birth`: engine time of the delete; 0 = now.
void delete_elements(WriteBatch& batch, DatabaseId database, Bytes key, Millis birth = 0);

/// Returns the type's name in the reply of TYPE. `value`: the entry's value or its first byte, which has the type of a
/// collection.
Bytes type_name(EntryKind kind, Bytes value);

/// Returns the encoding that Redis would use for a newly set value: "int", "embstr" or "raw".
Bytes string_encoding(const Found& found);

/// Counts of the reads of one attempt.
struct ReadCounts {
  /// How many keys read-only commands have found, and how many they have not: Redis's keyspace hits and misses.
  std::uint64_t hits = 0, misses = 0;
  /// How many keys and versions SCAN has read; nullopt for other commands.
  std::optional<std::uint64_t> scan_steps = std::nullopt;
};

/// The strings of a database, for one attempt of one command. Not thread-safe. Keys are engine keys (key_codec.h).
class Strings {
 public:
  /// `pending` has earlier writes of the surrounding transaction; may be null.
  Strings(const ReadView& view, WriteBatch& batch, ReadCounts& counts, const PendingWrites* pending)
      : view_(view), batch_(batch), counts_(counts), pending_(pending) {}

  /// For commands that only read: reads the string at `key`; nullopt if the key is absent. Fails with WRONGTYPE, kNotResident, or
  /// an error of the engine. The value is valid as long as the view, and, if it is set, Found::pin. The batch does not note the
  /// entry's expiry. Counts hits and misses.
  Status get(const LookupKey& key, std::optional<Found>* found);
  /// Like get(), for any type of entry.
  Status get_any(const LookupKey& key, std::optional<Found>* found);
  /// Like get() and get_any(), for commands that write: note the expiry on which the command relies.
  Status get_for_update(const LookupKey& key, std::optional<Found>* found);
  Status get_any_for_update(const LookupKey& key, std::optional<Found>* found);

  /// Like get(), get_any() and their forms for updates, without reading a large value (ReadView::locate): for commands that do
  /// not need the value, or only a part of it.
  Status locate(const LookupKey& key, std::optional<Found>* found);
  Status locate_any(const LookupKey& key, std::optional<Found>* found);
  Status locate_for_update(const LookupKey& key, std::optional<Found>* found);
  Status locate_any_for_update(const LookupKey& key, std::optional<Found>* found);
  /// Reads the value of a located entry, unless it was read already.
  Status read(Found* found) const { return view_.read(found); }
  /// Reads bytes of a located entry's value. The range must be inside the value.
  Status read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const {
    return view_.read_part(found, offset, length, part);
  }

  /// Returns the stamp mode of this database.
  [[nodiscard]] StampMode stamp_mode() const;

  /// Returns the type's name of a located entry for the reply of TYPE. Reads one byte of a large value.
  Status type_of(const Found& found, Bytes* name) const;

  /// Sets the key to `value`, which replaces an entry of any type. `expiry` is absolute, in ms; 0 = never. `shared`, if set, has
  /// the same bytes as `value`. `stamp` is used only in stamp mode explicit; without it the new value has no stamp. Fails only if
  /// the key has to be looked up (replaces_collection).
  Status set(const LookupKey& key, Bytes value, Millis expiry = 0, SharedValue shared = nullptr, DeleteKey stamp = kNoStamp);
  /// Replaces the value of a located entry, or creates an entry; keeps the old expiry and stamp. A large value is not copied, and
  /// takes over its part of `charge`, to which its memory was charged.
  void modify(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge);
  /// Sets the key to the value and expiry of `source`, an entry of another key or database. It replaces an entry of any type. If
  /// both databases have explicit stamps (`source_mode` is the source's mode), the new entry keeps the stamp of `source`;
  /// otherwise this database's mode decides. Fails like set().
  Status put_copy(const LookupKey& key, const Found& source, StampMode source_mode);
  /// Changes the expiry (in ms, 0 = never) of an entry whose value was read. Keeps value and stamp.
  void set_expiry(const LookupKey& key, const Found& old, Millis expiry);
  /// Deletes the key's entry and, of a large collection, all elements. The caller must have found the entry, since this always
  /// writes a tombstone.
  void remove(const LookupKey& key, const Found& old);

 private:
  enum class Want : std::uint8_t { kPlace, kValue };
  /// Sets `*collection` to true if the key has a collection. Overwriting it deletes elements, so the put must have a delete debt.
  /// Of a large collection, deletes the elements. Looks the key up only in a database that may have collections; then fails like
  /// locate_any().
  Status replaces_collection(const LookupKey& key, bool* collection);
  /// Deletes the elements that remain of a large collection that has expired (Found::died), although its key is absent.
  void bury(const LookupKey& key, const Found& absent);
  Status find(const LookupKey& key, Want want, std::optional<Found>* found, bool for_update = false);
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
