// Indexes over records: what an index is, the keys of its entries, and the operations that keep it right.
//
// An index has a tree of its own beside its database's primary tree (index_tree() in engine/types.h). The tree has one entry for each
// record: the indexed value, then the record's key. So entries are in the order of the values, and of the keys for equal values.
//
//   entry  = value, escaped: 0x00 becomes 0x00 0xff;  0x00 0x02;  key of the record       ->  ""
//
// 0x00 0x02 sorts before every longer value, and no key of a record contains it (engine/docs/formats.md, "Keys"). A number is 8 bytes
// whose order is that of the numbers. The entry has the record's stamp and expiry, so each delete that takes the record by one of
// them takes the entry, too.
//
// While an index is built, its tree also has one entry that says how far the build is: 0x00 0x03, then the key of a record. It has that
// record's stamp and expiry, and is deleted when the record changes. So it keeps no name longer than the record's deadline.
//
// Definitions are entries of a tree as well: the catalog, which is the index tree with the number kCatalog. This code knows neither
// records nor where an indexed value comes from; the server does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <engine/options.h>
#include <engine/result.h>
#include <engine/types.h>
#include <engine/write_batch.h>

namespace ebbtide {

/// The index that is a database's catalog. The others, from 1 on, are indexes.
inline constexpr std::uint32_t kCatalog = kMaxIndexTrees;
inline constexpr std::uint32_t kMostIndexes = kMaxIndexTrees - 1;
/// The longest value that is indexed. Longer ones would make keys that slow down every search.
inline constexpr std::size_t kMostIndexedBytes = 1024;

/// How the value of an entry is made from a record. The numbers are part of the file formats.
enum class IndexKind : std::uint8_t {
  kText = 0,    ///< a field's bytes, ordered by memcmp
  kNumber = 1,  ///< a field that is a number, as ordered_number()
  // Two fields that are a place. The key of the entry is that of place_key() (engine/spatial.h).
  kHilbertPlace = 2,
  kZOrderPlace = 3,
  kSimplePlace = 4,
};
inline constexpr IndexKind kLastIndexKind = IndexKind::kSimplePlace;

/// Why a record has no entry in an index. Also an index of SkippedRecords.
enum class SkipReason : std::uint8_t { kOtherType, kNoField, kTooLong, kNotNumber, kNotPlace };
inline constexpr std::size_t kSkipReasons = 5;
/// Numbers of records without an entry, by SkipReason.
using SkippedRecords = std::array<std::uint64_t, kSkipReasons>;

struct IndexDefinition {
  std::string name;
  std::uint32_t index = 0;  ///< its tree is index_tree(database, index)
  std::string prefix;       ///< the engine keys of its records begin with it
  std::string source;       ///< what of a record is indexed; the engine does not look at it
  IndexKind kind = IndexKind::kText;
  /// While the index is being built: records whose keys are not below this may lack entries. None: the index is complete. encode()
  /// keeps only whether there is one.
  std::optional<std::string> building_from;
  /// The record in the key of the index tree's build_position_key(); "": there is no such entry. encode() leaves it out.
  std::string position;
  /// Grows with each build: a reader that sees the same number before and after it has read entries has read those of one build.
  std::uint64_t builds = 0;
  SkippedRecords skipped{};              ///< by the latest build so far
  std::optional<PolicySettings> policy;  ///< the merge policy of its tree; none: that of the database

  /// Returns the range that has the keys of all records, and of their elements.
  [[nodiscard]] KeyRange records() const;
  [[nodiscard]] DatabaseId tree(DatabaseId database) const { return index_tree(database, index); }
  /// Returns the value of the definition's entry in the catalog. Its key is the name.
  [[nodiscard]] std::string encode() const;
  /// An index that is being built begins with the first record: `building_from` is "". Returns kCorruption if the bytes are no
  /// definition.
  static Result<IndexDefinition> decode(Bytes name, Bytes value);
  bool operator==(const IndexDefinition&) const = default;
};

/// Returns the bytes of a number in the order of IndexKind::kNumber, with -0 as 0. `number` is not NaN.
std::string ordered_number(double number);
double number_of(Bytes ordered);

/// A record's entry in an index.
struct IndexEntry {
  std::string key;
  Millis expiry = 0;  ///< the record's value expires then; 0: never
  DeleteKey stamp =
      kNoStamp;  ///< the record's; none for a record that the same batch writes, if the stamp is the time of the write
};

/// Returns the key of a record's entry; nullopt if the value or the key is too long. `value`: of the index's order.
std::optional<std::string> index_entry_key(Bytes value, Bytes record_key);
/// Returns the range of all entries with values from `low` to `high`. An end that is not `inclusive` leaves its value out; nullopt is
/// an open end.
struct IndexBound {
  std::string value;
  bool inclusive = true;
};
KeyRange index_range(const std::optional<IndexBound>& low, const std::optional<IndexBound>& high);
/// Splits the key of an entry. Returns false if it is none.
bool split_index_entry(Bytes entry_key, std::string* value, Bytes* record_key);

/// Returns the key of the entry that says that a build has reached this record; nullopt if it is too long.
std::optional<std::string> build_position_key(Bytes record_key);
/// Returns the range of all such entries.
KeyRange build_positions();
/// Returns the record's key. `key` is one of build_position_key().
Bytes build_position_of(Bytes key);

/// Adds the operations that turn a record's entry `before` into `after`. Both may be absent. If the batch only deletes, it still does: an
/// HDEL must succeed on a full disk. `grows`: the entry is new data, which a full disk refuses.
void change_index_entry(WriteBatch* batch, DatabaseId tree, const std::optional<IndexEntry>& before,
                        const std::optional<IndexEntry>& after, bool grows = false);

}  // namespace ebbtide
