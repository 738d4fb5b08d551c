// Indexes over records (keys of the primary tree and their values): the definition of an index, the keys of its entries, and the
// operations that keep them up to date.
//
// An index has a tree of its own beside its database's primary tree (index_tree() in engine/types.h). The tree has one entry for
// each record. The entry's key is the indexed value, then the record's key; so entries with equal values are in the order of the
// records' keys.
//
//   entry  = value, escaped: 0x00 becomes 0x00 0xff;  0x00 0x02;  key of the record       ->  ""
//
// Because of the end mark 0x00 0x02, a value sorts before every longer value that begins with it. No key of a record contains the
// mark (engine/docs/formats.md, "Keys"). A number is encoded as 8 bytes that have the order of the numbers. The entry has the
// record's stamp and expiry. So an expiry, or a delete by stamp, that removes the record also removes the entry.
//
// While an index is built, its tree also has one entry with the position of the build: 0x00 0x03, then the key of a record. The
// entry has that record's stamp and expiry, and is deleted when the record changes. So a deleted record's key leaves this entry
// by the record's deadline.
//
// Definitions are also entries of a tree, the catalog: the index tree with the number kCatalog. This code does not know how a
// value is computed from a record; the server does.
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

/// The number of a database's catalog among its index trees. The smaller numbers, from 1 on, are indexes.
inline constexpr std::uint32_t kCatalog = kMaxIndexTrees;
inline constexpr std::uint32_t kMostIndexes = kMaxIndexTrees - 1;
/// The longest value that is indexed. Longer values would make long keys, which slow down every search.
inline constexpr std::size_t kMostIndexedBytes = 1024;

/// Determines how the value of an entry is made from a record. The numbers are part of the file formats.
enum class IndexKind : std::uint8_t {
  kText = 0,    ///< a field's bytes, ordered by memcmp
  kNumber = 1,  ///< a field that is a number, encoded by ordered_number()
  // Two fields that are a place: longitude and latitude. place_key() (engine/spatial.h) makes the key of the entry.
  kHilbertPlace = 2,
  kZOrderPlace = 3,
  kSimplePlace = 4,
};
inline constexpr IndexKind kLastIndexKind = IndexKind::kSimplePlace;

/// The reason why a record has no entry in an index. Also a position in SkippedRecords.
enum class SkipReason : std::uint8_t { kOtherType, kNoField, kTooLong, kNotNumber, kNotPlace };
inline constexpr std::size_t kSkipReasons = 5;
/// For each SkipReason, how many records have no entry for that reason.
using SkippedRecords = std::array<std::uint64_t, kSkipReasons>;

struct IndexDefinition {
  std::string name;
  std::uint32_t index = 0;  ///< the index's tree is index_tree(database, index)
  std::string prefix;       ///< the engine keys of all indexed records begin with this prefix
  std::string source;       ///< the part of a record that is indexed; only the server interprets it
  IndexKind kind = IndexKind::kText;
  /// While the index is being built: records with this key or a later one may have no entry yet. No value: the index is complete.
  /// encode() stores only whether there is a value.
  std::optional<std::string> building_from;
  /// The key of the record that the build has reached, from the entry with a build_position_key(); "": there is no such entry.
  /// encode() leaves it out.
  std::string position;
  /// Grows with each build. If a reader of entries sees the same number before and after, all its entries are of one build.
  std::uint64_t builds = 0;
  SkippedRecords skipped{};              ///< records that the latest build has skipped so far
  std::optional<PolicySettings> policy;  ///< the merge policy of the index's tree; no value: the database's policy

  /// Returns the range with the keys of all records that may be indexed, and of their elements.
  [[nodiscard]] KeyRange records() const;
  [[nodiscard]] DatabaseId tree(DatabaseId database) const { return index_tree(database, index); }
  /// Returns the value of the definition's entry in the catalog; the entry's key is the index's name.
  [[nodiscard]] std::string encode() const;
  /// Returns the definition that encode() turned into `value`. If the index was being built, `building_from` is "": the build
  /// begins with the first record again. Returns kCorruption if the bytes are not a definition.
  static Result<IndexDefinition> decode(Bytes name, Bytes value);
  bool operator==(const IndexDefinition&) const = default;
};

/// Returns the 8 bytes by which IndexKind::kNumber orders a number; -0 counts as 0. `number` is not NaN. number_of() is the
/// reverse.
std::string ordered_number(double number);
double number_of(Bytes ordered);

/// A record's entry in an index.
struct IndexEntry {
  std::string key;
  Millis expiry = 0;  ///< expiry of the record's value; 0: never
  DeleteKey stamp =
      kNoStamp;  ///< the record's stamp; kNoStamp if the same batch writes the record, and the stamp is the time of the write
};

/// Returns the key of a record's entry; nullopt if the value or the key is too long. `value`: the indexed value, encoded so that
/// memcmp gives the index's order.
std::optional<std::string> index_entry_key(Bytes value, Bytes record_key);
/// An end of a range of values. If it is not `inclusive`, the range does not contain `value`.
struct IndexBound {
  std::string value;
  bool inclusive = true;
};
/// Returns the key range of all entries with values from `low` to `high`; nullopt = no bound.
KeyRange index_range(const std::optional<IndexBound>& low, const std::optional<IndexBound>& high);
/// Splits the key of an entry into the value and the record's key. Returns false if `entry_key` is not the key of an entry.
bool split_index_entry(Bytes entry_key, std::string* value, Bytes* record_key);

/// Returns the key of the entry that stores a build's position, the record with `record_key`; nullopt if the key is too long.
std::optional<std::string> build_position_key(Bytes record_key);
/// Returns the range that contains every build_position_key().
KeyRange build_positions();
/// Returns the record's key from `key`, a result of build_position_key().
Bytes build_position_of(Bytes key);

/// Adds the operations that turn a record's entry `before` into `after`. Both may be absent. `grows`: true if the new entry
/// counts as added data, which a full disk refuses. If false, a batch that adds no data stays so, since an HDEL must succeed on a
/// full disk.
void change_index_entry(WriteBatch* batch, DatabaseId tree, const std::optional<IndexEntry>& before,
                        const std::optional<IndexEntry>& after, bool grows = false);

}  // namespace ebbtide
