// Sequence numbers, file numbers, times, and other small value types of the engine's interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// Engine-wide sequence number of an operation. 0 is before the first operation.
using SeqNum = std::uint64_t;
inline constexpr SeqNum kMaxSeqNum = (SeqNum{1} << 56) - 1;

/// Number of a file in the data directory. Never reused, whatever the kind of file. 0 is no file.
using FileNum = std::uint64_t;
inline constexpr FileNum kNoFile = 0;

/// Identity of a tree, the physical data of a database. SWAPDB and FLUSHDB change the tree to which a database maps, never a
/// tree's id. 0 is no tree.
using TreeId = std::uint32_t;
inline constexpr TreeId kNoTree = 0;

/// The number of a database, 0 to Settings::databases - 1, or the number of an index tree (index_tree()).
using DatabaseId = std::uint32_t;
inline constexpr DatabaseId kMaxDatabases = 1024;

/// A database may have index trees beside its primary tree, with the indexes 1 to kMaxIndexTrees. Batches, views and settings
/// name an index tree like a database, by the number that index_tree() returns (decision 0063).
inline constexpr std::uint32_t kMaxIndexTrees = 16;
[[nodiscard]] constexpr DatabaseId index_tree(DatabaseId database, std::uint32_t index) {
  return index * kMaxDatabases + database;
}
[[nodiscard]] constexpr bool is_index_tree(DatabaseId number) { return number >= kMaxDatabases; }
/// Returns the database of an index tree's number; for a database's number, returns `number` itself.
[[nodiscard]] constexpr DatabaseId owner_of(DatabaseId number) { return number % kMaxDatabases; }
/// Returns the index of an index tree; 0 for a database's number.
[[nodiscard]] constexpr std::uint32_t index_number(DatabaseId number) { return number / kMaxDatabases; }

/// Identity of a sorted run inside its tree. A run keeps its id when merges add tables to the run. 0 is no run.
using RunId = std::uint64_t;

/// Milliseconds of engine time: Unix time that never goes back, even over restarts (engine/docs/decisions/0002-engine-time.md). 0
/// is "none" wherever a time is optional.
using Millis = std::uint64_t;

/// The delete key D: a 63-bit unsigned number that an entry may carry beside its sort key. Users see it as the stamp.
using DeleteKey = std::uint64_t;
inline constexpr DeleteKey kMaxDeleteKey = (DeleteKey{1} << 63) - 1;
/// The end of all delete keys, as an exclusive upper bound.
inline constexpr DeleteKey kDeleteKeyEnd = kMaxDeleteKey + 1;
/// "No stamp"; used in memory, not in files. No range of delete keys contains it, not even an open-ended range.
inline constexpr DeleteKey kNoStamp = std::numeric_limits<DeleteKey>::max();

/// The kind of an entry. The numbers are part of the file formats.
enum class EntryKind : std::uint8_t {
  kCompact = 0,    ///< a whole small collection; the engine does not interpret its value
  kTombstone = 1,  ///< the key was deleted
  kValue = 2,      ///< a plain value
  kHeader = 3,     ///< the header of a large collection; the keys of its elements begin with the header's key
};

/// Returns true if an entry of this kind is a collection: a put that replaces it by a plain value deletes the collection's items.
[[nodiscard]] constexpr bool is_collection(EntryKind kind) { return kind == EntryKind::kCompact || kind == EntryKind::kHeader; }

/// The source of the delete keys of a tree's values. Fixed for the life of a tree. The numbers are part of the file formats.
enum class StampMode : std::uint8_t {
  kWriteTime = 0,   ///< engine time of the write
  kExpireTime = 1,  ///< the expiry; a value without expiry has no delete key
  kExplicit = 2,    ///< the stamp given in the write; a write without a stamp has no delete key
  /// The stamp given in the write, else the engine time of the write. Only for index trees: an index entry gets the delete key of
  /// the key that it indexes. If both are written in one batch, that is the batch's time; otherwise the write gives the stamp.
  kGiven = 3,
};
inline constexpr StampMode kLastStampMode = StampMode::kGiven;

/// A range of keys, `start` included, `end` not. An empty `end` means "no upper bound".
struct KeyRange {
  std::string start;
  std::string end;

  [[nodiscard]] bool contains(Bytes key) const { return key >= Bytes(start) && (end.empty() || key < Bytes(end)); }
  bool operator==(const KeyRange&) const = default;
};

struct LookupState;  // read_view.h

/// A key and its hash, computed once per command (hash_key in read_view.h).
struct LookupKey {
  Bytes key;
  std::uint64_t hash = 0;
  LookupState* state = nullptr;  ///< for the results of the stages of a prefetch; may be null
};

/// Upper limits in bytes of a key and of a value. kMaxKeyBytes limits engine keys (escaped user keys).
inline constexpr std::size_t kMaxKeyBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxValueBytes = std::size_t{512} << 20;
/// A value longer than this lies in blocks of its own beside the pages of its table.
inline constexpr std::size_t kLargeValueBytes = std::size_t{64} << 10;

}  // namespace ebbtide
