// The form of a large collection: a header under its key, and an entry of its own for each element (engine/collection_keys.h).
//
//   header     type u8, flags u8, generation u64 (big endian), count varint
//              of a list: its first and its last position, u64
//              flag 0x80: dead, dead_below, dead_above varint
//              flag 0x40, sorted sets: lowest, highest; each a length u8, then bytes
//              flag 1, hashes: FieldExpiries: persistent varint, soonest, latest and key expiry, u64 (big endian)
//   key of an element = key, two marks, generation, class u8, name
//
//   hash        'f' field            -> value; the field's expiry is that of the entry; and, if it has one,
//               'x' expiry field     -> ""          the expiry in 8 bytes (big endian), and as the entry's expiry
//   set         'm' member           -> ""
//   sorted set  'm' member           -> score f64, and
//               's' score member     -> ""          the score in 8 bytes whose order is that of the scores
//   list        'l' position u64     -> element     big endian; positions are kPositionStep apart
//
// A command reads and writes only the header and the elements that it names, so its work does not grow with the collection.
// Elements are not keys that clients see; the header counts them.
//
// A field that expires is an entry that expires: it is absent for readers, and the engine purges it by the delete deadline. The
// header is not rewritten then, so its count includes expired fields until a write counts again (put_changes,
// commands/large_access.h). The elements 'x' make this count cheap: they list the fields with an expiry in the order of their
// expiries, without values.
//
// A removed element is a tombstone until merges drop it, and walks skip tombstones. So the header of a sorted set names its first
// and its last member, and walks begin there. Headers count dead elements, so that commands rewrite a collection when most of it
// is dead (commands/large_upkeep.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/collection_keys.h>
#include <engine/result.h>
#include <engine/write_batch.h>

#include "store/collection/compact.h"

namespace ebbtide {

/// The facts that a header stores about fields of a hash that expire. A hash without such fields has no FieldExpiries.
struct FieldExpiries {
  std::uint64_t persistent = 0;  ///< number of fields that never expire
  Millis soonest = 0;            ///< no field expires before this time, so the header's count is exact until then
  Millis latest = 0;             ///< the last expiry of a field, if `persistent` is 0; otherwise 0
  Millis key_expiry = 0;         ///< the expiry that commands gave the key; 0: none
};

struct LargeHeader {
  CollectionType type = CollectionType::kHash;
  Generation generation = 0;
  std::uint64_t count = 0;
  std::uint64_t first = 0, last = 0;  ///< positions of a list's first and last element
  std::optional<FieldExpiries> expiries{};
  /// Approximate numbers of elements that were removed since the generation began. For a sorted set: within its bounds, below
  /// them, and above them. Other collections have no bounds, and use `dead` only.
  std::uint64_t dead = 0, dead_below = 0, dead_above = 0;
  /// For a sorted set: bound_of() of the names of its first and last element of class kScore; empty if unknown.
  std::string lowest{}, highest{};

  /// Returns true if `count` may include expired fields.
  [[nodiscard]] bool counts_expired(Millis now) const { return expiries && expiries->soonest <= now; }
  /// Returns the expiry of the header's entry. `key_expiry`: the expiry that commands gave the key; 0: none. A hash expires with
  /// its last field.
  [[nodiscard]] Millis entry_expiry(Millis key_expiry) const {
    if (!expiries || expiries->persistent != 0) return key_expiry;
    return key_expiry == 0 || expiries->latest < key_expiry ? expiries->latest : key_expiry;
  }
  [[nodiscard]] std::string encode() const;
  /// Decodes the value of a header. kCorruption if the bytes are not a header.
  static Result<LargeHeader> decode(Bytes value);
  /// The first fields of a header.
  struct Start {
    Generation generation = 0;
    std::uint64_t count = 0;
  };
  /// Like decode(), for the first fields only; allocates nothing. Returns nullopt if the bytes are not a header.
  static std::optional<Start> start_of(Bytes value);
};

enum class ElementClass : char { kField = 'f', kExpiry = 'x', kMember = 'm', kScore = 's', kPosition = 'l' };

/// The first element of a new list has position kFirstPosition. Positions are kPositionStep apart.
inline constexpr std::uint64_t kFirstPosition = std::uint64_t{1} << 63, kPositionStep = std::uint64_t{1} << 20;

/// Returns the class whose order of names is the order of replies: fields, members, members by score, or positions.
ElementClass ordered_class(CollectionType type);
/// Returns the class in which an element can be looked up by its name.
ElementClass named_class(CollectionType type);

/// Builds the keys of one collection's elements.
class ElementKeys {
 public:
  /// `key`: the engine key of the collection.
  ElementKeys(Bytes key, Generation generation) : start_(element_range(key, generation).start) {}

  /// Returns the key of an element; valid until the next call.
  [[nodiscard]] const std::string& of(ElementClass which, Bytes name) {
    key_.assign(start_).push_back(static_cast<char>(which));
    key_.append(name);
    return key_;
  }
  /// Returns the range of all elements of a class.
  [[nodiscard]] KeyRange range(ElementClass which) const {
    return {start_ + static_cast<char>(which), start_ + static_cast<char>(static_cast<char>(which) + 1)};
  }
  /// Returns the name that is part of an element's key.
  [[nodiscard]] Bytes name_of(Bytes element_key) const { return element_key.substr(start_.size() + 1); }
  /// Returns the length of an element's key without the element's name.
  [[nodiscard]] std::size_t overhead() const { return start_.size() + 1; }

 private:
  const std::string start_;
  std::string key_;
};

/// Returns 8 bytes that sort like the scores.
std::string ordered_score(double score);
/// Returns the score and member in the name of an element of class kScore.
std::optional<ScoredMember> scored_member_of(Bytes name);
/// Returns the name of an element of class kScore.
std::string scored_name(const ScoredMember& member);

/// bound_of() shortens a name to the length that a header stores. If low = bound_of(n) and high = behind_bound(low), then low <=
/// n < high.
std::string bound_of(Bytes name);
std::string behind_bound(std::string bound);

/// Returns the value of an element of class kMember in a sorted set.
std::string score_bytes(double score);
std::optional<double> score_of(Bytes value);
std::string position_name(std::uint64_t position);
/// Returns the name of an element of class kExpiry, or, without a field, the start of all names with this expiry.
std::string expiry_name(Millis expiry, Bytes field = {});
/// Returns true if an engine key is that of an element of class kExpiry.
bool is_field_expiry(Bytes key);
/// Returns the expiry and the field in the name of an element of class kExpiry.
std::optional<HashField> expiring_field_of(Bytes name);

/// Writes elements of one collection to a batch. Callers must check the names before (LargeChecks).
class ElementWriter {
 public:
  /// `shrinks`: PutOptions::shrinks for the elements that put() and add() write.
  ElementWriter(WriteBatch& batch, DatabaseId database, Bytes key, Generation generation, bool shrinks = false)
      : batch_(batch), database_(database), keys_(key, generation), options_{.shrinks = shrinks, .element = true} {}

  void put(ElementClass which, Bytes name, Bytes value, Millis expiry = 0) {
    WriteBatch::PutOptions options = options_;
    options.expiry = expiry;
    batch_.put(database_, keys_.of(which, name), value, options);
  }
  /// Like put(), for a name that another element has. This deletes that element, whose bytes must leave the files. `shrinks`:
  /// PutOptions::shrinks.
  void replace(ElementClass which, Bytes name, Bytes value, bool shrinks) {
    batch_.put(database_, keys_.of(which, name), value, {.debt = true, .shrinks = shrinks, .element = true});
  }
  void remove(ElementClass which, Bytes name) { batch_.del(database_, keys_.of(which, name), true); }
  /// Deletes the elements of a class whose names are in [first, end).
  void remove_range(ElementClass which, Bytes first, Bytes end) {
    const std::string start = keys_.of(which, first);
    batch_.delete_range(database_, start, keys_.of(which, end));
  }
  /// Deletes the elements of a list at `count` positions from `first` on.
  void remove_positions(std::uint64_t first, std::uint64_t count);
  void add(const HashField& field) {
    put(ElementClass::kField, field.field, field.value, field.expiry);
    if (field.expiry != 0) put(ElementClass::kExpiry, expiry_name(field.expiry, field.field), {}, field.expiry);
  }
  void add(const ScoredMember& member) {
    put(ElementClass::kMember, member.member, score_bytes(member.score));
    put(ElementClass::kScore, scored_name(member), {});
  }
  void add(Bytes member) { put(ElementClass::kMember, member, {}); }
  void remove(const HashField& field) {
    remove(ElementClass::kField, field.field);
    remove_expiry(field);
  }
  void remove_expiry(const HashField& field) {
    if (field.expiry != 0) remove(ElementClass::kExpiry, expiry_name(field.expiry, field.field));
  }
  void remove(const ScoredMember& member) {
    remove(ElementClass::kMember, member.member);
    remove(ElementClass::kScore, scored_name(member));
  }

 private:
  WriteBatch& batch_;
  const DatabaseId database_;
  ElementKeys keys_;
  const WriteBatch::PutOptions options_;
};

/// Write the difference between two states of some elements of a collection. The elements of `before` must be in the collection;
/// elements that are only in `after` must not be.
void write_changes(ElementWriter& to, Hash before, Hash after);
void write_changes(ElementWriter& to, const Set& before, const Set& after);
void write_changes(ElementWriter& to, SortedSet before, SortedSet after);

/// The difference between two states of a list.
struct ListDifference {
  std::size_t same_at_head = 0, same_at_tail = 0;  ///< elements that are equal at the head, and at the tail
  /// True if elements at the head get new positions; false if those at the tail do. If the number of elements is equal, no
  /// position changes.
  bool moves_head = false;

  /// Finds the longest equal head and tail. If the number of elements differs, the shorter of the two gets new positions.
  static ListDifference of(const List& before, const List& after);
  /// Returns the number of elements that must be written.
  [[nodiscard]] std::size_t written(std::size_t after) const { return after - (moves_head ? same_at_tail : same_at_head); }
};
/// Writes the change of a list from `before` to `after`, which must not be empty. Sets the positions in `header`, but not its
/// count. Elements that are removed or get new positions leave the files by the delete deadline.
void write_changes(ElementWriter& to, const List& before, const List& after, const ListDifference& difference,
                   LargeHeader* header);

/// Return the length of the longest element name, as it stands in keys.
std::size_t longest_name(const Hash& hash);
std::size_t longest_name(const SortedSet& members);
/// Like longest_name() of a hash, for a set.
std::size_t longest_name(const Set& set);

/// If a range delete deletes exactly one collection, its key and its elements: returns the collection's engine key. If it deletes
/// only elements: returns an empty key. Returns nullopt for other ranges.
std::optional<Bytes> collection_of_range(Bytes start, Bytes end);

}  // namespace ebbtide
