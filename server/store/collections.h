// Collections on the engine. A small one is one entry of kind kCompact (collection/compact.h). A large one has a header of kind
// kHeader, and an entry for each element (collection/large.h).
//
// All puts of collections are in this file, because a put may delete. A put that drops an element, or overwrites a collection,
// has a delete debt: the dropped bytes must leave the files by the delete deadline. A put that adds or changes elements has none.
// Removing the last element deletes the key. While the disk is full, only puts that drop elements are accepted.
#pragma once

#include <optional>
#include <string>

#include <engine/charged_value.h>
#include <engine/read_view.h>
#include <engine/result.h>
#include <engine/write_batch.h>

#include "store/collection/compact.h"
#include "store/collection/large.h"
#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

/// Returns WRONGTYPE unless the entry is a collection of that type.
Status check_collection(const Found& found, CollectionType type);

/// Returns the encoding that Redis would use for a newly built collection: "listpack", "hashtable", "intset", "skiplist" or
/// "quicklist". kCorruption if the bytes are damaged.
Result<Bytes> collection_encoding(Bytes value);

/// Returns Redis's encoding for a collection of that type that is too large for a packed encoding.
Bytes large_encoding(CollectionType type);
/// Returns false if a collection of this many elements is too large for Redis's packed encodings.
bool may_be_packed(CollectionType type, std::uint64_t elements);

/// Returns the expiry that commands gave the key of a located entry; 0: none. The entry itself may expire earlier
/// (LargeHeader::entry_expiry).
Millis key_expiry(const Found& found);

/// The effect of a put on the elements of the old collection.
enum class Change : std::uint8_t {
  kKeeps,   ///< all remain; some may have another value, score or position
  kRemoves  ///< at least one was removed
};

/// The collections of a database, for one attempt of one command. Not thread-safe. Keys are engine keys (key_codec.h).
class Collections {
 public:
  /// `pending` has earlier writes of the surrounding transaction; may be null.
  Collections(const ReadView& view, WriteBatch& batch, ReadCounts& counts, const PendingWrites* pending)
      : view_(view), batch_(batch), pending_(pending), strings_(view, batch, counts, pending) {}

  /// For commands that only read: finds a collection, but reads no byte of a large one; call read() for that. Fails with
  /// WRONGTYPE for a string, or like Strings::locate().
  Status locate(const LookupKey& key, std::optional<Found>* found);
  /// Like locate(), for a command that writes: the batch notes that the command relies on the entry's expiry (Strings).
  Status locate_for_update(const LookupKey& key, std::optional<Found>* found);
  /// Reads the bytes of a located collection. WRONGTYPE if it is of another type.
  Status read(CollectionType type, Found* found) const;

  /// Replaces a collection, or creates it. Keeps the expiry and stamp of `old`, which may be large. `charge`: as in
  /// Strings::modify.
  void modify(const LookupKey& key, const std::optional<Found>& old, std::string value, Change change, MemoryCharge* charge);
  /// Sets the key to a new collection with the expiry and stamp of `options`. `old`: the key's entry, of any type.
  void replace(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge,
               const WriteBatch::PutOptions& options);
  /// Like modify(), for a large collection: replaces or creates its header. If `old` is a small collection, it becomes large. If
  /// the header begins a new generation, deletes the elements of the old one.
  void put_header(const LookupKey& key, const std::optional<Found>& old, const LargeHeader& header, Change change);
  /// Like replace(), for a large collection: deletes the key's old value, and writes the header. The caller then writes the
  /// elements.
  void replace_header(const LookupKey& key, const std::optional<Found>& old, const LargeHeader& header,
                      const WriteBatch::PutOptions& options);
  /// Returns a writer for the elements of a collection.
  ElementWriter elements(const LookupKey& key, Generation generation, Change change = Change::kKeeps) {
    return {batch_, view_.database(), key.key, generation, change == Change::kRemoves};
  }
  /// Returns the generation for a collection that this command creates under `key`. It is higher than all earlier generations of
  /// the key.
  [[nodiscard]] Generation next_generation() const;
  /// Reads an element of a large collection; nullopt if it is absent. `element_key`: a key from ElementKeys. Errors are those of
  /// Strings::get.
  Status read_element(const std::string& element_key, std::optional<Found>* found);
  /// Deletes an existing collection with all its elements.
  void remove(const LookupKey& key, const Found& old) { strings_.remove(key, old); }

 private:
  void put(const LookupKey& key, std::string value, WriteBatch::PutOptions options, MemoryCharge* charge);

  const ReadView& view_;
  WriteBatch& batch_;
  const PendingWrites* const pending_;
  Strings strings_;
};

}  // namespace ebbtide
