#include "store/collection/compact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ebbtide {
namespace {

constexpr std::size_t kScoreBytes = sizeof(double), kExpiryBytes = sizeof(Millis);
constexpr char kHasExpiries = 1;
constexpr int kVarintBits = 7;

std::size_t varint_length(std::uint64_t number) {
  return number == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(number)) + kVarintBits - 1) / kVarintBits;
}

std::size_t item_length(Bytes item) { return varint_length(item.size()) + item.size(); }

std::size_t head_length(std::size_t count) { return 2 + varint_length(count); }

void append_varint(std::string* out, std::uint64_t number) {
  for (; number >= 0x80; number >>= kVarintBits) out->push_back(static_cast<char>(number | 0x80));
  out->push_back(static_cast<char>(number));
}

void append_item(std::string* out, Bytes item) {
  append_varint(out, item.size());
  out->append(item);
}

/// Takes a varint from the front. Returns false if it is incomplete, longer than necessary, or larger than 32 bits.
bool take_varint(Bytes* in, std::size_t* number) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 5 * kVarintBits; shift += kVarintBits) {
    if (in->empty()) return false;
    const auto byte = static_cast<unsigned char>(in->front());
    in->remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte >= 0x80) continue;
    if ((byte == 0 && shift > 0) || value > 0xffffffffu) return false;
    *number = static_cast<std::size_t>(value);
    return true;
  }
  return false;
}

void append_expiry(std::string* out, Millis expiry) {
  char bytes[kExpiryBytes];
  std::memcpy(bytes, &expiry, kExpiryBytes);
  out->append(bytes, kExpiryBytes);
}

std::string begin(CollectionType type, bool expiries, std::size_t count, std::size_t bytes) {
  std::string out;
  out.reserve(bytes);
  out.push_back(static_cast<char>(type));
  out.push_back(expiries ? kHasExpiries : '\0');
  append_varint(&out, count);
  return out;
}

Status damaged(const char* what, std::size_t offset) {
  return Status::corruption("collection: byte " + std::to_string(offset) + ": " + what);
}

/// The fewest bytes of an element.
std::size_t least_bytes(CollectionType type) {
  return type == CollectionType::kHash ? 2 : type == CollectionType::kSortedSet ? kScoreBytes + 1 : 1;
}

template <typename Element>
Result<std::vector<Element>> decode(Bytes value, CollectionType type) {
  TRY_ASSIGN(reader, CompactReader::open(value, type));
  std::vector<Element> elements;
  elements.reserve(reader.count());
  for (Element element; reader.next(&element);) elements.push_back(element);
  TRY(reader.status());
  return elements;
}

}  // namespace

Bytes collection_name(CollectionType type) {
  switch (type) {
    case CollectionType::kHash:
      return "hash";
    case CollectionType::kSet:
      return "set";
    case CollectionType::kSortedSet:
      return "zset";
    case CollectionType::kList:
      return "list";
  }
  return "none";
}

std::optional<CollectionType> collection_type_of(Bytes value) {
  const unsigned first = value.empty() ? 0 : static_cast<unsigned char>(value.front());
  if (first < static_cast<unsigned>(CollectionType::kHash) || first > static_cast<unsigned>(CollectionType::kList)) {
    return std::nullopt;
  }
  return static_cast<CollectionType>(first);
}

Result<CompactReader> CompactReader::open(Bytes value, CollectionType type) {
  if (value.size() < 2) return damaged("the head is truncated", value.size());
  if (collection_type_of(value) != type) return damaged("another type", 0);
  const bool expiries = value[1] == kHasExpiries && type == CollectionType::kHash;
  if (value[1] != 0 && !expiries) return damaged("unknown flags", 1);
  Bytes rest = value.substr(2);
  std::size_t count = 0;
  if (!take_varint(&rest, &count)) return damaged("the number of elements is damaged", 2);
  if (count > rest.size() / least_bytes(type)) return damaged("more elements than bytes", 2);
  return CompactReader(value, rest, count, expiries);
}

bool CompactReader::fail(const char* what) {
  if (damage_ == nullptr) damage_ = what;
  left_ = 0;
  return false;
}

bool CompactReader::begin_element() {
  if (left_ == 0) return false;
  --left_;
  return true;
}

bool CompactReader::take_item(Bytes* item) {
  std::size_t length = 0;
  if (!take_varint(&rest_, &length)) return fail("a length is damaged");
  if (length > rest_.size()) return fail("an item is cut off");
  *item = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return true;
}

void CompactReader::skip_below(double score) {
  const char* at = rest_.data();
  const char* const end = at + rest_.size();
  while (left_ != 0 && static_cast<std::size_t>(end - at) > kScoreBytes) {
    double each = 0;
    std::memcpy(&each, at, kScoreBytes);
    const auto length = static_cast<unsigned char>(at[kScoreBytes]);
    if (!(each < score)) break;
    if (length < 0x80) [[likely]] {
      if (static_cast<std::size_t>(end - at) < kScoreBytes + 1 + length) break;
      at += kScoreBytes + 1 + length;
      --left_;
      continue;
    }
    rest_ = Bytes(at, static_cast<std::size_t>(end - at));
    ScoredMember skipped;
    if (!next(&skipped)) return;
    at = rest_.data();
  }
  rest_ = Bytes(at, static_cast<std::size_t>(end - at));
}

bool CompactReader::take_score(double* score) {
  if (rest_.size() < kScoreBytes) return fail("a score is cut off");
  std::memcpy(score, rest_.data(), kScoreBytes);
  if (std::isnan(*score)) return fail("a score is not a number");
  rest_.remove_prefix(kScoreBytes);
  return true;
}

bool CompactReader::take_expiry(Millis* expiry) {
  if (rest_.size() < kExpiryBytes) return fail("an expiry is cut off");
  std::memcpy(expiry, rest_.data(), kExpiryBytes);
  rest_.remove_prefix(kExpiryBytes);
  return true;
}

Status CompactReader::status() const {
  if (damage_ != nullptr) return damaged(damage_, whole_.size() - rest_.size());
  if (left_ == 0 && !rest_.empty()) return damaged("bytes behind the last element", whole_.size() - rest_.size());
  return Status::ok();
}

Result<Hash> decode_hash(Bytes value) { return decode<HashField>(value, CollectionType::kHash); }
Result<List> decode_list(Bytes value) { return decode<Bytes>(value, CollectionType::kList); }

Result<Set> decode_set(Bytes value) {
  TRY_ASSIGN(set, decode<Bytes>(value, CollectionType::kSet));
  for (std::size_t i = 1; i < set.size(); ++i) {
    if (set[i - 1] >= set[i]) return damaged("members are not in order", static_cast<std::size_t>(set[i].data() - value.data()));
  }
  return set;
}

Result<SortedSet> decode_sorted_set(Bytes value) {
  TRY_ASSIGN(members, decode<ScoredMember>(value, CollectionType::kSortedSet));
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (is_before(members[i - 1], members[i])) continue;
    return damaged("members are not in order", static_cast<std::size_t>(members[i].member.data() - value.data()));
  }
  return members;
}

bool has_expiries(const Hash& hash) {
  return std::any_of(hash.begin(), hash.end(), [](const HashField& field) { return field.expiry != 0; });
}

std::size_t encoded_bytes(const Hash& hash) {
  std::size_t bytes = head_length(hash.size()) + (has_expiries(hash) ? kExpiryBytes * hash.size() : 0);
  for (const HashField& field : hash) bytes += item_length(field.field) + item_length(field.value);
  return bytes;
}

std::size_t encoded_bytes(const SortedSet& members) {
  std::size_t bytes = head_length(members.size());
  for (const ScoredMember& member : members) bytes += kScoreBytes + item_length(member.member);
  return bytes;
}

std::size_t encoded_bytes(const std::vector<Bytes>& items) {
  std::size_t bytes = head_length(items.size());
  for (const Bytes item : items) bytes += item_length(item);
  return bytes;
}

Status check_built_size(std::size_t elements, std::size_t bytes) {
  if (elements > kMaxBuiltElements) {
    return Status::invalid_argument("ERR one command cannot build a collection of " + std::to_string(elements) +
                                    " elements: " + std::to_string(kMaxBuiltElements) + " elements are allowed");
  }
  if (bytes > kMaxBuiltBytes) {
    return Status::invalid_argument("ERR one command cannot build a collection of " + std::to_string(bytes) +
                                    " bytes: " + std::to_string(kMaxBuiltBytes) + " bytes are allowed");
  }
  return Status::ok();
}

CompactBuilder::CompactBuilder(CollectionType type, bool expiries)
    : type_(type), expiries_(expiries), out_(head_length(~std::uint32_t{0}), '\0') {}

void CompactBuilder::add(Bytes item) {
  ++count_;
  append_item(&out_, item);
}

void CompactBuilder::add(const HashField& field) {
  add(field.field);
  append_item(&out_, field.value);
  if (expiries_) append_expiry(&out_, field.expiry);
}

void CompactBuilder::add(const ScoredMember& member) {
  char score[kScoreBytes];
  std::memcpy(score, &member.score, kScoreBytes);
  out_.append(score, kScoreBytes);
  add(member.member);
}

// The constructor has reserved room for the longest head. This writes the head, and removes the unused room.
std::string CompactBuilder::take() {
  out_.replace(0, head_length(~std::uint32_t{0}), begin(type_, expiries_, count_, 0));
  return std::move(out_);
}

std::string encode(const Hash& hash) {
  const bool expiries = has_expiries(hash);
  std::string out = begin(CollectionType::kHash, expiries, hash.size(), encoded_bytes(hash));
  for (const HashField& field : hash) {
    append_item(&out, field.field);
    append_item(&out, field.value);
    if (expiries) append_expiry(&out, field.expiry);
  }
  return out;
}

std::string encode(const SortedSet& members) {
  std::string out = begin(CollectionType::kSortedSet, false, members.size(), encoded_bytes(members));
  for (const ScoredMember& member : members) {
    const double score = member.score == 0 ? 0.0 : member.score;  // -0 is stored as 0, as in Redis
    char bytes[kScoreBytes];
    std::memcpy(bytes, &score, kScoreBytes);
    out.append(bytes, kScoreBytes);
    append_item(&out, member.member);
  }
  return out;
}

std::string encode(CollectionType type, const std::vector<Bytes>& items) {
  std::string out = begin(type, false, items.size(), encoded_bytes(items));
  for (const Bytes item : items) append_item(&out, item);
  return out;
}

}  // namespace ebbtide
