// Reads the packed forms of small collections in RDB files: all elements one after another in one string.
//
//   listpack   length u32, count u16, entries, 0xff           entry: data, length of the data from its end (1 to 5 bytes)
//   ziplist    length u32, last u32, count u16, entries, 0xff  entry: length of the entry before (1 or 5 bytes), data
//   zipmap     count u8, entries, 0xff                         entry: length, field, length, free u8, value, free bytes
//   intset     width u32 (2, 4 or 8), count u32, integers      ascending, without duplicates
//
// Numbers are little endian. `length` is that of the whole form, `last` the offset of its last entry. A count of 65535 (in a
// zipmap: 254) means that the number is unknown. The data of a listpack or ziplist begins with a byte that says whether a string
// follows or an integer, and how long it is.
//
// Redis 7 writes listpacks and intsets, Redis 3.2 to 6 ziplists, Redis 2.4 zipmaps. Everything that Redis checks with
// sanitize-dump-payload is checked here: each length against the bytes that are left, each pair of lengths that must agree, and
// the counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <engine/bytes.h>

#include "store/rdb.h"

namespace ebbtide {

enum class PackedForm : std::uint8_t { kListpack, kZiplist, kZipmap, kIntset };

/// A string, or an integer that stands for its decimal text.
struct PackedItem {
  Bytes text;
  std::optional<std::int64_t> number;
};

/// Reads the items in order, without copies or allocations:
///   PackedReader reader(PackedForm::kListpack, bytes);
///   for (PackedItem item; reader.next(&item);) ...
///   if (!reader.is_sound()) ...
/// A zipmap's items are field, value, field, value ... The bytes must outlive the reader and its items.
class PackedReader {
 public:
  PackedReader(PackedForm form, Bytes packed);

  /// Returns false at the end, and where the form is damaged (is_sound()).
  bool next(PackedItem* item);
  /// Call it after next() has returned false. Returns true if the whole form was well-formed, even if it had no items.
  [[nodiscard]] bool is_sound() const { return sound_; }

 private:
  bool open(Bytes packed);
  bool next_of_listpack(PackedItem* item);
  bool next_of_ziplist(PackedItem* item);
  bool next_of_zipmap(PackedItem* item);
  bool next_of_intset(PackedItem* item);
  bool take_string(std::optional<std::uint64_t> length, PackedItem* item);
  bool take_integer(std::size_t bytes, PackedItem* item);
  /// Checks the counts once no bytes are left, and sets sound_ if they are right. Returns false.
  bool end();

  const PackedForm form_;
  RdbSource source_;                     // the entries that are left
  std::size_t whole_ = 0;                // bytes of all entries
  std::uint64_t count_ = 0;              // number of items according to the head
  std::uint64_t seen_ = 0;               // items read so far
  std::uint64_t last_ = 0;               // of a ziplist: the offset of the last entry according to the head
  std::uint64_t place_ = 0;              // of a ziplist: the offset of the previous entry
  std::uint64_t before_ = 0;             // of a ziplist: the length of the previous entry
  std::uint64_t width_ = 0;              // of an intset: bytes of an integer
  std::optional<std::int64_t> largest_;  // of an intset: the largest integer so far
  bool open_ = false, sound_ = false;
};

}  // namespace ebbtide
