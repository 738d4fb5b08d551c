// The bytes of a small collection: a hash, set, sorted set or list as one entry of the engine.
//
//   type u8, flags u8 (0), count varint, elements         numbers are little endian
//   hash        field, value                              in the order in which fields were added
//   set         member                                    ascending, without duplicates
//   sorted set  score f64, member                         ascending by score, then by member
//   list        element                                   from head to tail
//
// Each field, value, member and element is a varint with its length, then its bytes. A collection has at least one element: an
// empty one has no entry. Members are unique, scores are never NaN, and -0 is stored as 0, as in Redis's small encoding. Readers
// check all of this but the uniqueness of fields and scored members, so damaged bytes give an error, never wrong memory accesses.
//
// A write rewrites the whole entry, so the size is limited: kMaxCompactBytes and kMaxCompactElements. A larger collection has
// another form (large.h). In memory, this form also holds the elements that a command has read of a large collection: any number,
// even none. Only in memory a hash may have the flag 1: then each value is followed by the field's expiry, u64, 0 for none. A
// stored hash with such fields is large.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// The type of a collection. The numbers are part of the format.
enum class CollectionType : std::uint8_t { kHash = 1, kSet = 2, kSortedSet = 3, kList = 4 };

/// The largest collection that commands write in this form. Rewriting it takes about 10 us, as much as two or three writes of
/// single elements. Reading it whole is several times as fast as reading its elements one by one (decision 0060). An earlier
/// version wrote larger collections in this form. They are still read, and become large at the next write that adds or changes an
/// element.
inline constexpr std::size_t kMaxCompactBytes = 2048;
inline constexpr std::size_t kMaxCompactElements = 128;

/// Returns the type's name in the reply of TYPE: "hash", "set", "zset", "list".
Bytes collection_name(CollectionType type);
/// Returns the type in the first byte of a collection's bytes; nullopt if that byte is damaged.
std::optional<CollectionType> collection_type_of(Bytes value);

struct HashField {
  Bytes field, value;
  Millis expiry = 0;  ///< absolute engine time; 0: the field never expires
};
struct ScoredMember {
  double score = 0;
  Bytes member;
};

/// Returns true if `a` comes before `b` in a sorted set.
inline bool is_before(const ScoredMember& a, const ScoredMember& b) {
  return a.score != b.score ? a.score < b.score : a.member < b.member;
}

/// Decoded collections. Their views point into the bytes that were decoded, or into a command's arguments.
using Hash = std::vector<HashField>;
using Set = std::vector<Bytes>;  ///< ascending
using SortedSet = std::vector<ScoredMember>;
using List = std::vector<Bytes>;

/// Reads a collection's elements in order, without copies or allocations:
///   TRY_ASSIGN(reader, CompactReader::open(value, CollectionType::kSet));
///   for (Bytes member; reader.next(&member);) ...
///   TRY(reader.status());
/// The bytes must outlive the reader.
class CompactReader {
 public:
  /// Fails with kCorruption if the head is damaged or has another type.
  static Result<CompactReader> open(Bytes value, CollectionType type);

  /// Returns the number of elements.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Returns true if fields of the hash may have expiries.
  [[nodiscard]] bool has_expiries() const { return expiries_; }
  /// Reads the next element of a set or list. Returns false at the end, and where the bytes are damaged (status()).
  bool next(Bytes* item) { return begin_element() && take_item(item); }
  bool next(HashField* out) {
    return begin_element() && take_item(&out->field) && take_item(&out->value) && (!expiries_ || take_expiry(&out->expiry));
  }
  /// Skips elements of a sorted set while their scores are below `score`; faster than next() for each. Stops where the bytes are
  /// damaged; the following next() returns false.
  void skip_below(double score);
  bool next(ScoredMember* out) { return begin_element() && take_score(&out->score) && take_item(&out->member); }
  /// Returns OK, or kCorruption with the kind of the damage and its offset. Bytes after the last element are damage, too.
  [[nodiscard]] Status status() const;

 private:
  CompactReader(Bytes whole, Bytes rest, std::size_t count, bool expiries)
      : whole_(whole), rest_(rest), count_(count), left_(count), expiries_(expiries) {}
  bool begin_element();
  bool take_item(Bytes* item);
  bool take_score(double* score);
  bool take_expiry(Millis* expiry);
  bool fail(const char* what);

  Bytes whole_, rest_;
  std::size_t count_, left_;
  bool expiries_;
  const char* damage_ = nullptr;
};

/// Return all elements. kCorruption says what is damaged, and where.
Result<Hash> decode_hash(Bytes value);
Result<Set> decode_set(Bytes value);
Result<SortedSet> decode_sorted_set(Bytes value);
Result<List> decode_list(Bytes value);

/// Returns true if a field has an expiry.
bool has_expiries(const Hash& hash);
/// Return the number of bytes that encode() returns.
std::size_t encoded_bytes(const Hash& hash);
std::size_t encoded_bytes(const SortedSet& members);
/// Like encoded_bytes() of a hash, for a set or list.
std::size_t encoded_bytes(const std::vector<Bytes>& items);
/// Returns true if a collection of this size may have the form of one entry.
inline bool fits_compact(std::size_t elements, std::size_t bytes) {
  return elements <= kMaxCompactElements && bytes <= kMaxCompactBytes;
}

/// The largest collection that one command such as RESTORE or SUNIONSTORE builds. It is limited since its batch is written as a
/// whole.
inline constexpr std::size_t kMaxBuiltBytes = std::size_t{64} << 20, kMaxBuiltElements = std::size_t{1} << 20;
/// Returns an error reply that names the limit if one command may not build a collection of this size.
Status check_built_size(std::size_t elements, std::size_t bytes);

/// Builds the bytes of a collection whose number of elements is not known in advance.
class CompactBuilder {
 public:
  /// `expiries`: fields of the hash may have expiries.
  explicit CompactBuilder(CollectionType type, bool expiries = false);
  void add(Bytes item);
  void add(const HashField& field);
  void add(const ScoredMember& member);
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return out_.size(); }
  /// Returns the bytes of the collection. Must be the last call.
  [[nodiscard]] std::string take();

 private:
  const CollectionType type_;
  const bool expiries_;
  std::size_t count_ = 0;
  std::string out_;
};

/// Return the collection's bytes. The elements must be in the order of the type; scores must not be NaN.
std::string encode(const Hash& hash);
std::string encode(const SortedSet& members);
/// Like encode() of a hash, for a set or list.
std::string encode(CollectionType type, const std::vector<Bytes>& items);

}  // namespace ebbtide
