#include "store/collection/large.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace ebbtide {
namespace {

constexpr int kCountBits = 7;
/// Up to this many removed elements of a list get a tombstone each; more get one range tombstone.
constexpr std::uint64_t kFewTombstones = 16;
/// Flags in the header's second byte.
constexpr std::uint8_t kHasFieldExpiries = 1, kHasBounds = 0x40, kCountsDead = 0x80;
/// The most bytes of a bound: the score, and enough of the member for most queues in which all members have one score.
constexpr std::size_t kMaxBoundBytes = 64;
constexpr std::size_t kOrderedBytes = sizeof(double), kPositionBytes = sizeof(std::uint64_t), kExpiryPrefixBytes = sizeof(Millis);

void append_big_endian(std::string* out, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(number >> shift & 0xff));
}

std::uint64_t read_big_endian(Bytes in) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(number); ++i) number = number << 8 | static_cast<unsigned char>(in[i]);
  return number;
}

void append_count(std::string* out, std::uint64_t number) {
  for (; number >= 0x80; number >>= kCountBits) out->push_back(static_cast<char>(number | 0x80));
  out->push_back(static_cast<char>(number));
}

void append_bound(std::string* out, const std::string& bound) {
  out->push_back(static_cast<char>(bound.size()));
  out->append(bound);
}

bool take_bound(Bytes* in, std::string* bound) {
  if (in->empty()) return false;
  const auto size = static_cast<unsigned char>(in->front());
  if (size < kOrderedBytes || size > kMaxBoundBytes || in->size() <= size) return false;
  bound->assign(in->substr(1, size));
  in->remove_prefix(1 + size);
  return true;
}

bool take_count(Bytes* in, std::uint64_t* number) {
  *number = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += kCountBits) {
    const auto byte = static_cast<unsigned char>(in->front());
    in->remove_prefix(1);
    *number |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

Status damaged(const char* what) { return Status::corruption(std::string("header of a collection: ") + what); }

Status take_expiries(Bytes* in, LargeHeader* header) {
  FieldExpiries expiries;
  if (!take_count(in, &expiries.persistent) || expiries.persistent >= header->count) {
    return damaged("the number of fields without an expiry is damaged");
  }
  if (in->size() < 3 * kExpiryPrefixBytes) return damaged("the expiries are damaged");
  expiries.soonest = read_big_endian(*in);
  expiries.latest = read_big_endian(in->substr(kExpiryPrefixBytes));
  expiries.key_expiry = read_big_endian(in->substr(2 * kExpiryPrefixBytes));
  in->remove_prefix(3 * kExpiryPrefixBytes);
  if (expiries.soonest == 0 || (expiries.latest == 0) != (expiries.persistent != 0)) return damaged("an expiry is missing");
  header->expiries = expiries;
  return Status::ok();
}

bool name_before(const HashField& a, const HashField& b) { return a.field < b.field; }
bool member_before(const ScoredMember& a, const ScoredMember& b) { return a.member < b.member; }

/// Walks over two ascending sequences. Calls removed(a) for elements of the first only, added(b) for elements of the second only,
/// and both(a, b) for elements of both.
template <typename Element, typename Before, typename Removed, typename Added, typename Both>
void compare(const std::vector<Element>& first, const std::vector<Element>& second, Before before, Removed removed, Added added,
             Both both) {
  auto a = first.begin();
  auto b = second.begin();
  while (a != first.end() || b != second.end()) {
    if (b == second.end() || (a != first.end() && before(*a, *b))) {
      removed(*a++);
    } else if (a == first.end() || before(*b, *a)) {
      added(*b++);
    } else {
      both(*a++, *b++);
    }
  }
}

}  // namespace

std::string LargeHeader::encode() const {
  const int flags = (dead + dead_below + dead_above != 0 ? kCountsDead : 0) | (lowest.empty() ? 0 : kHasBounds) |
                    (expiries ? kHasFieldExpiries : 0);
  std::string out = header_start(static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(flags), generation);
  append_count(&out, count);
  if (type == CollectionType::kList) {
    append_big_endian(&out, first);
    append_big_endian(&out, last);
  }
  if (dead + dead_below + dead_above != 0) {
    append_count(&out, dead);
    append_count(&out, dead_below);
    append_count(&out, dead_above);
  }
  if (!lowest.empty()) {
    append_bound(&out, lowest);
    append_bound(&out, highest);
  }
  if (expiries) {
    append_count(&out, expiries->persistent);
    append_big_endian(&out, expiries->soonest);
    append_big_endian(&out, expiries->latest);
    append_big_endian(&out, expiries->key_expiry);
  }
  return out;
}

Result<LargeHeader> LargeHeader::decode(Bytes value) {
  LargeHeader header;
  const auto type = collection_type_of(value);
  const auto generation = header_generation(value);
  if (!type || !generation) return damaged("the type or the generation is damaged");
  const auto flags = static_cast<std::uint8_t>(value[1]);
  if ((flags & ~(kCountsDead | kHasBounds | kHasFieldExpiries)) != 0) return damaged("unknown flags");
  header.type = *type;
  header.generation = *generation;
  value.remove_prefix(kHeaderStartBytes);
  if (!take_count(&value, &header.count) || header.count == 0) return damaged("the number of elements is damaged");
  if (header.type == CollectionType::kList) {
    if (value.size() < 2 * kPositionBytes) return damaged("the positions are damaged");
    header.first = read_big_endian(value);
    header.last = read_big_endian(value.substr(kPositionBytes));
    if (header.last - header.first != (header.count - 1) * kPositionStep)
      return damaged("the positions of its first and last element do not match its number of elements");
    value.remove_prefix(2 * kPositionBytes);
  }
  if ((flags & kCountsDead) != 0) {
    for (std::uint64_t* number : {&header.dead, &header.dead_below, &header.dead_above}) {
      if (!take_count(&value, number)) return damaged("the number of dead elements is damaged");
    }
  }
  if ((flags & kHasBounds) != 0) {
    if (header.type != CollectionType::kSortedSet || !take_bound(&value, &header.lowest) ||
        !take_bound(&value, &header.highest) || header.highest < header.lowest) {
      return damaged("the bounds are damaged");
    }
  }
  if ((flags & kHasFieldExpiries) != 0) {
    if (header.type != CollectionType::kHash) return damaged("unknown flags");
    TRY(take_expiries(&value, &header));
  }
  return value.empty() ? Result<LargeHeader>(std::move(header)) : damaged("bytes behind its end");
}

std::optional<LargeHeader::Start> LargeHeader::start_of(Bytes value) {
  const auto generation = header_generation(value);
  if (!generation) return std::nullopt;
  value.remove_prefix(kHeaderStartBytes);
  Start start{.generation = *generation};
  return take_count(&value, &start.count) ? std::optional(start) : std::nullopt;
}

ElementClass ordered_class(CollectionType type) {
  switch (type) {
    case CollectionType::kHash:
      return ElementClass::kField;
    case CollectionType::kSet:
      return ElementClass::kMember;
    case CollectionType::kSortedSet:
      return ElementClass::kScore;
    case CollectionType::kList:
      break;
  }
  return ElementClass::kPosition;
}

ElementClass named_class(CollectionType type) {
  return type == CollectionType::kSortedSet ? ElementClass::kMember : ordered_class(type);
}

// Negative scores: inverts all bits, so that a larger magnitude sorts first. Others: sets the sign bit, so that they sort after
// the negative ones.
std::string ordered_score(double score) {
  const auto bits = std::bit_cast<std::uint64_t>(score == 0 ? 0.0 : score);
  std::string out;
  append_big_endian(&out, std::signbit(score) && score != 0 ? ~bits : bits | std::uint64_t{1} << 63);
  return out;
}

std::optional<ScoredMember> scored_member_of(Bytes name) {
  if (name.size() < kOrderedBytes) return std::nullopt;
  const std::uint64_t bits = read_big_endian(name);
  const bool positive = bits >> 63 != 0;
  const auto score = std::bit_cast<double>(positive ? bits & ~(std::uint64_t{1} << 63) : ~bits);
  if (std::isnan(score)) return std::nullopt;
  return ScoredMember{score, name.substr(kOrderedBytes)};
}

std::string scored_name(const ScoredMember& member) { return ordered_score(member.score).append(member.member); }

std::string bound_of(Bytes name) { return std::string(name.substr(0, kMaxBoundBytes)); }

// Returns a key after every name that `bound` may stand for. A bound of kMaxBoundBytes may be a shortened name, so the result must be
// after all names that begin with it: the last byte below 0xff is incremented. A bound begins with a score, and no score is all 0xff,
// so there is such a byte.
std::string behind_bound(std::string bound) {
  if (bound.size() < kMaxBoundBytes) {
    bound.push_back('\0');
    return bound;
  }
  while (static_cast<unsigned char>(bound.back()) == 0xff) bound.pop_back();
  ++bound.back();
  return bound;
}

std::string score_bytes(double score) {
  std::string out(kOrderedBytes, '\0');
  std::memcpy(out.data(), &score, kOrderedBytes);
  return out;
}

std::optional<double> score_of(Bytes value) {
  double score = 0;
  if (value.size() != kOrderedBytes) return std::nullopt;
  std::memcpy(&score, value.data(), kOrderedBytes);
  return std::isnan(score) ? std::nullopt : std::optional(score);
}

std::string position_name(std::uint64_t position) {
  std::string out;
  append_big_endian(&out, position);
  return out;
}

std::string expiry_name(Millis expiry, Bytes field) {
  std::string out;
  out.reserve(kExpiryPrefixBytes + field.size());
  append_big_endian(&out, expiry);
  return out.append(field);
}

std::optional<HashField> expiring_field_of(Bytes name) {
  if (name.size() < kExpiryPrefixBytes) return std::nullopt;
  return HashField{.field = name.substr(kExpiryPrefixBytes), .value = {}, .expiry = read_big_endian(name)};
}

bool is_field_expiry(Bytes key) {
  constexpr std::size_t kMarkBytes = 2;
  const std::size_t main = main_key_of(key).size(), class_at = main + kMarkBytes + sizeof(Generation);
  return main < key.size() && class_at < key.size() && key[class_at] == static_cast<char>(ElementClass::kExpiry);
}

void ElementWriter::remove_positions(std::uint64_t first, std::uint64_t count) {
  if (count > kFewTombstones) {
    remove_range(ElementClass::kPosition, position_name(first), position_name(first + count * kPositionStep));
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) remove(ElementClass::kPosition, position_name(first + i * kPositionStep));
}

void write_changes(ElementWriter& to, Hash before, Hash after) {
  std::sort(before.begin(), before.end(), name_before);
  std::sort(after.begin(), after.end(), name_before);
  compare(
      before, after, name_before, [&](const HashField& old) { to.remove(old); }, [&](const HashField& fresh) { to.add(fresh); },
      [&](const HashField& old, const HashField& fresh) {
        if (old.value == fresh.value && old.expiry == fresh.expiry) return;
        if (old.expiry != fresh.expiry) to.remove_expiry(old);
        to.add(fresh);
      });
}

void write_changes(ElementWriter& to, const Set& before, const Set& after) {
  compare(
      before, after, std::less<Bytes>(), [&](Bytes old) { to.remove(ElementClass::kMember, old); },
      [&](Bytes fresh) { to.put(ElementClass::kMember, fresh, {}); }, [](Bytes, Bytes) {});
}

void write_changes(ElementWriter& to, SortedSet before, SortedSet after) {
  std::sort(before.begin(), before.end(), member_before);
  std::sort(after.begin(), after.end(), member_before);
  compare(
      before, after, member_before, [&](const ScoredMember& old) { to.remove(old); },
      [&](const ScoredMember& fresh) { to.add(fresh); },
      [&](const ScoredMember& old, const ScoredMember& fresh) {
        if (old.score == fresh.score) return;
        to.remove(ElementClass::kScore, scored_name(old));
        to.add(fresh);
      });
}

ListDifference ListDifference::of(const List& before, const List& after) {
  ListDifference d;
  const std::size_t most = std::min(before.size(), after.size());
  while (d.same_at_head < most && before[d.same_at_head] == after[d.same_at_head]) ++d.same_at_head;
  while (d.same_at_head + d.same_at_tail < most &&
         before[before.size() - 1 - d.same_at_tail] == after[after.size() - 1 - d.same_at_tail]) {
    ++d.same_at_tail;
  }
  // If the number of elements is equal, no element moves.
  d.moves_head = before.size() != after.size() && d.same_at_head < d.same_at_tail;
  return d;
}

// Writing another element at a position is a delete of the old element, with a delete debt. The old element may have moved to
// another position, and be deleted there later. Without the debt, no deadline would apply to its old version at this position.
void write_changes(ElementWriter& to, const List& before, const List& after, const ListDifference& difference,
                   LargeHeader* header) {
  const std::uint64_t old_first = header->first, old_last = header->last;
  const bool shrinks = after.size() < before.size();
  const std::uint64_t length = (after.size() - 1) * kPositionStep;
  difference.moves_head ? header->first = header->last - length : header->last = header->first + length;
  std::size_t begin = difference.same_at_head, end = after.size();
  if (difference.moves_head) {
    begin = 0;
    end = after.size() - difference.same_at_tail;
  } else if (before.size() == after.size()) {
    end -= difference.same_at_tail;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t position = header->first + i * kPositionStep;
    const std::string name = position_name(position);
    const bool occupied = position - old_first <= old_last - old_first;
    occupied ? to.replace(ElementClass::kPosition, name, after[i], shrinks) : to.put(ElementClass::kPosition, name, after[i]);
  }
  if (!shrinks) return;
  const std::uint64_t removed = before.size() - after.size();
  const std::uint64_t from = difference.moves_head ? old_first : header->last + kPositionStep;
  to.remove_positions(from, removed);
}

std::size_t longest_name(const Hash& hash) {
  std::size_t longest = 0;
  for (const HashField& field : hash) {
    longest = std::max(longest, field.field.size() + (field.expiry == 0 ? 0 : kExpiryPrefixBytes));
  }
  return longest;
}

std::size_t longest_name(const SortedSet& members) {
  std::size_t longest = 0;
  for (const ScoredMember& member : members) longest = std::max(longest, member.member.size() + kOrderedBytes);
  return longest;
}

std::size_t longest_name(const Set& set) {
  std::size_t longest = 0;
  for (const Bytes member : set) longest = std::max(longest, member.size());
  return longest;
}

std::optional<Bytes> collection_of_range(Bytes start, Bytes end) {
  if (end.empty()) return std::nullopt;
  const Bytes key = main_key_of(start);
  if (main_key_of(end) == key && end != key) return Bytes();
  if (end != Bytes(element_range(key).end)) return std::nullopt;
  return key.size() == start.size() ? std::optional(key) : std::optional(Bytes());
}

}  // namespace ebbtide
