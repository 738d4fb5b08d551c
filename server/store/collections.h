// Collections on the engine: one entry of kind kCompact per key (collection/compact.h).
//
// All puts of collections are here, because they may delete: a put that drops an element, or overwrites a collection, has a debt,
// so that what it dropped leaves the files by the delete deadline. A put that adds or changes elements has none. The last element
// takes its key along: an empty collection is a deleted key. Only a put that drops elements goes on while the disk is full.
#pragma once

#include <optional>
#include <string>

#include <engine/charged_value.h>
#include <engine/read_view.h>
#include <engine/result.h>
#include <engine/write_batch.h>

#include "store/collection/compact.h"
#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

/// Returns WRONGTYPE, unless the bytes are a collection of that type.
Status check_collection(const Found& found, CollectionType type);

/// Returns the encoding that Redis would use for a newly built collection: "listpack", "hashtable", "intset", "skiplist" or
/// "quicklist". kCorruption if the bytes are damaged.
Result<Bytes> collection_encoding(Bytes value);

/// The effect of a put on the elements that the collection had.
enum class Change : std::uint8_t {
  kKeeps,   ///< all are still there; some may have another value, score or place
  kRemoves  ///< at least one is gone
};

/// The collections of a database, for one run of one command. Not thread-safe. Keys are engine keys (key_codec.h).
class Collections {
 public:
  /// `pending` has earlier writes of the surrounding transaction; may be null.
  Collections(const ReadView& view, WriteBatch& batch, ReadCounts& counts, const PendingWrites* pending)
      : view_(view), batch_(batch), strings_(view, batch, counts, pending) {}

  /// Looks for a collection, and reads no byte of a large one: read() follows. WRONGTYPE for a string, or an error as of
  /// Strings::locate. For commands that only read.
  Status locate(const LookupKey& key, std::optional<Found>* found);
  /// Like locate(), for a command that writes: it relies on the entry's expiry.
  Status locate_for_update(const LookupKey& key, std::optional<Found>* found);
  /// Reads the bytes of a located collection. WRONGTYPE if it is of another type.
  Status read(CollectionType type, Found* found) const;

  /// Replaces a collection, or creates it: keeps expiry and stamp of `old`. `charge` as in Strings::modify.
  void modify(const LookupKey& key, const std::optional<Found>& old, std::string value, Change change, MemoryCharge* charge);
  /// Sets the key to a new collection without stamp. `old`: the key's entry, of any type. `expiry` is absolute, in ms; 0 = never.
  void replace(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge, Millis expiry = 0);
  /// Deletes a collection that exists.
  void remove(const LookupKey& key) { strings_.remove(key); }

 private:
  void put(const LookupKey& key, std::string value, WriteBatch::PutOptions options, MemoryCharge* charge);

  const ReadView& view_;
  WriteBatch& batch_;
  Strings strings_;
};

}  // namespace ebbtide
