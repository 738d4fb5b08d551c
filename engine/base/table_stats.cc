#include "base/table_stats.h"

#include "base/coding.h"
#include "base/oldest.h"

namespace ebbtide {
namespace {

// Format of encode(): integers as varints, flags, bounds, then the numbers of collections, headers, elements and their
// tombstones, then the bounds of points, if they are known. New fields are added at the end; the length prefix covers them, so
// readers skip fields that they do not know.
constexpr std::uint64_t kExclusive = 1;
constexpr std::uint64_t kUnbounded = 2;

}  // namespace

void TableStats::add_entry(const Entry& entry) {
  if (entries == 0 && range_tombstones == 0) {
    smallest.assign(entry.key);
    largest.assign(entry.key);
  } else {
    if (entry.key < Bytes(smallest)) smallest.assign(entry.key);
    // An exclusive end that is equal to this key becomes an inclusive bound.
    if (!unbounded && entry.key >= Bytes(largest)) {
      largest.assign(entry.key);
      largest_exclusive = false;
    }
  }
  ++entries;
  key_bytes += entry.key.size();
  value_bytes += entry.value_length();
  min_seq = std::min(min_seq, entry.seq);
  max_seq = std::max(max_seq, entry.seq);
  if (entry.debt != 0) {
    ++debts;
    keep_oldest(&oldest_debt, entry.debt);
  }
  elements += entry.element ? 1 : 0;
  if (entry.is_tombstone()) {
    ++tombstones;
    element_tombstones += entry.element ? 1 : 0;
    keep_oldest(&oldest_tombstone, entry.birth());
    return;
  }
  if (is_collection(entry.kind)) ++collections;
  if (entry.kind == EntryKind::kHeader) ++headers;
  if (entry.is_large() || entry.value.size() > kLargeValueBytes) ++large_values;
  if (entry.delete_key == kNoStamp) {
    unstamped += entry.element ? 0 : 1;
  } else {
    min_delete_key = std::min(min_delete_key, entry.delete_key);
    max_delete_key = std::max(max_delete_key, entry.delete_key);
  }
  if (entry.expiry != 0) {
    if (min_expiry == 0 || entry.expiry < min_expiry) min_expiry = entry.expiry;
    max_expiry = std::max(max_expiry, entry.expiry);
  }
}

void TableStats::add_range_tombstone(const RangeTombstone& tombstone) {
  const bool none = entries == 0 && range_tombstones == 0;
  if (none || Bytes(tombstone.start) < Bytes(smallest)) smallest = tombstone.start;
  if (tombstone.end.empty()) {
    unbounded = true;
    largest_exclusive = false;
    largest.clear();
  } else if (!unbounded && (none || Bytes(tombstone.end) > Bytes(largest))) {
    largest = tombstone.end;
    largest_exclusive = true;
  }
  ++range_tombstones;
  min_seq = std::min(min_seq, tombstone.seq);
  max_seq = std::max(max_seq, tombstone.seq);
  keep_oldest(&oldest_range_tombstone, tombstone.birth);
}

Millis TableStats::oldest_obligation() const {
  Millis oldest = oldest_tombstone;
  keep_oldest(&oldest, oldest_range_tombstone);
  keep_oldest(&oldest, oldest_debt);
  return oldest;
}

bool TableStats::overlaps(const KeyRange& range) const {
  if (entries == 0 && range_tombstones == 0) return false;
  if (!range.end.empty() && Bytes(smallest) >= Bytes(range.end)) return false;
  return !ends_before(range.start);
}

void TableStats::encode(std::string* out) const {
  std::string body;
  for (const std::uint64_t v : {entries, tombstones, range_tombstones, debts, key_bytes, value_bytes, large_values, unstamped,
                                min_seq, max_seq, min_delete_key, max_delete_key, min_expiry, max_expiry, oldest_tombstone,
                                oldest_range_tombstone, oldest_debt, applied_seq}) {
    put_varint(&body, v);
  }
  put_varint(&body, (largest_exclusive ? kExclusive : 0) | (unbounded ? kUnbounded : 0));
  put_bytes(&body, smallest);
  put_bytes(&body, largest);
  put_varint(&body, collections);
  put_varint(&body, headers);
  put_varint(&body, elements);
  put_varint(&body, element_tombstones);
  if (points_at != kNoPoints) {
    for (const std::uint32_t v : {points_at + 1, points.min_x, points.max_x, points.min_y, points.max_y}) put_varint(&body, v);
  }
  put_bytes(out, body);
}

Result<TableStats> TableStats::decode(Bytes* in) {
  TableStats s;
  Bytes body;
  if (!get_bytes(in, &body)) return Status::corruption("table stats: too short");
  for (std::uint64_t* v :
       {&s.entries, &s.tombstones, &s.range_tombstones, &s.debts, &s.key_bytes, &s.value_bytes, &s.large_values, &s.unstamped,
        &s.min_seq, &s.max_seq, &s.min_delete_key, &s.max_delete_key, &s.min_expiry, &s.max_expiry, &s.oldest_tombstone,
        &s.oldest_range_tombstone, &s.oldest_debt, &s.applied_seq}) {
    if (!get_varint(&body, v)) return Status::corruption("table stats: too short");
  }
  std::uint64_t flags = 0;
  if (!get_varint(&body, &flags) || !get_string(&body, &s.smallest) || !get_string(&body, &s.largest)) {
    return Status::corruption("table stats: too short");
  }
  for (std::uint64_t* v :
       {&s.collections, &s.headers, &s.elements, &s.element_tombstones}) {  // tables of early versions do not have these
    if (!body.empty() && !get_varint(&body, v)) return Status::corruption("table stats: too short");
  }
  std::uint32_t after_points_at = 0;  // later versions write 0 if they need a placeholder before further fields
  if (!body.empty() && !get_varint32(&body, &after_points_at)) return Status::corruption("table stats: too short");
  if (after_points_at != 0) {
    s.points_at = after_points_at - 1;
    for (std::uint32_t* v : {&s.points.min_x, &s.points.max_x, &s.points.min_y, &s.points.max_y}) {
      if (!get_varint32(&body, v)) return Status::corruption("table stats: too short");
    }
  }
  if (std::max({s.min_seq, s.max_seq, s.applied_seq}) > kMaxSeqNum) {
    return Status::corruption("table stats: sequence number " + std::to_string(std::max({s.min_seq, s.max_seq, s.applied_seq})) +
                              " exceeds the maximum");
  }
  s.largest_exclusive = (flags & kExclusive) != 0;
  s.unbounded = (flags & kUnbounded) != 0;
  return s;
}

}  // namespace ebbtide
