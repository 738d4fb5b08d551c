#include <engine/index.h>

#include <bit>
#include <utility>

#include "base/coding.h"

namespace ebbtide {
namespace {

constexpr char kZero = '\0', kEscaped = '\xff', kEnd = '\x02';
/// Greater than kEnd and less than kEscaped. So a value, kZero and kAfterEnd sort after all entries of the value, and before
/// entries of longer values that begin with it. A key that begins with kZero and kAfterEnd is the position of a build.
constexpr char kAfterEnd = '\x03';
constexpr std::size_t kMarkBytes = 2;

void append_escaped(Bytes value, std::string* out) {
  for (const char c : value) {
    out->push_back(c);
    if (c == kZero) out->push_back(kEscaped);
  }
}

std::string bound_key(const IndexBound& bound, bool after) {
  std::string key;
  append_escaped(bound.value, &key);
  key += kZero;
  key += after ? kAfterEnd : kEnd;
  return key;
}

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

}  // namespace

// Positive numbers get the sign bit, so that they sort after negative ones, whose bits are inverted.
std::string ordered_number(double number) {
  const auto bits = std::bit_cast<std::uint64_t>(number == 0 ? 0.0 : number);
  const std::uint64_t ordered = (bits & kSign) != 0 ? ~bits : bits | kSign;
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(ordered >> shift & 0xff));
  return out;
}

double number_of(Bytes ordered) {
  std::uint64_t bits = 0;
  for (const char c : ordered) bits = bits << 8 | static_cast<unsigned char>(c);
  return std::bit_cast<double>((bits & kSign) != 0 ? bits & ~kSign : ~bits);
}

std::optional<std::string> index_entry_key(Bytes value, Bytes record_key) {
  if (value.size() > kMostIndexedBytes) return std::nullopt;
  std::string key;
  key.reserve(value.size() + 2 + record_key.size());
  append_escaped(value, &key);
  key += kZero;
  key += kEnd;
  key += record_key;
  if (key.size() > kMaxKeyBytes) return std::nullopt;
  return key;
}

KeyRange index_range(const std::optional<IndexBound>& low, const std::optional<IndexBound>& high) {
  KeyRange range;
  if (low) range.start = bound_key(*low, !low->inclusive);
  if (high) range.end = bound_key(*high, high->inclusive);
  return range;
}

bool split_index_entry(Bytes entry_key, std::string* value, Bytes* record_key) {
  value->clear();
  for (std::size_t i = 0; i + 1 < entry_key.size(); ++i) {
    value->push_back(entry_key[i]);
    if (entry_key[i] != kZero) continue;
    const char next = entry_key[++i];
    if (next == kEscaped) continue;
    value->pop_back();
    *record_key = entry_key.substr(i + 1);
    return next == kEnd;
  }
  return false;
}

std::optional<std::string> build_position_key(Bytes record_key) {
  if (kMarkBytes + record_key.size() > kMaxKeyBytes) return std::nullopt;
  std::string key{kZero, kAfterEnd};
  key += record_key;
  return key;
}

KeyRange build_positions() {
  constexpr char kAfterMark = kAfterEnd + 1;
  return {std::string{kZero, kAfterEnd}, std::string{kZero, kAfterMark}};
}

Bytes build_position_of(Bytes key) { return key.substr(kMarkBytes); }

// If both entries have the same key, the put replaces the old entry, so no tombstone is needed.
void change_index_entry(WriteBatch* batch, DatabaseId tree, const std::optional<IndexEntry>& before,
                        const std::optional<IndexEntry>& after, bool grows) {
  if (before && (!after || after->key != before->key)) batch->del(tree, before->key);
  if (!after) return;
  const bool shrinks = !grows && !batch->adds_data();
  batch->put(tree, after->key, "", {.stamp = after->stamp, .expiry = after->expiry, .shrinks = shrinks});
}

}  // namespace ebbtide
