#include "store/dump_collections.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "store/collection/compact.h"
#include "store/dump.h"
#include "store/numbers.h"
#include "store/packed.h"
#include "store/rdb.h"

namespace ebbtide {
namespace {

/// The types of RDB files. The numbers are Redis's.
enum Type : unsigned char {
  kString = 0,
  kList = 1,
  kSet = 2,
  kTextScores = 3,
  kHash = 4,
  kScores = 5,
  kOldModule = 6,
  kModule = 7,
  kHashZipmap = 9,
  kListZiplist = 10,
  kSetIntset = 11,
  kSortedSetZiplist = 12,
  kHashZiplist = 13,
  kZiplists = 14,
  kStream = 15,
  kHashListpack = 16,
  kSortedSetListpack = 17,
  kListpacks = 18,
  kStream2 = 19,
  kSetListpack = 20,
  kStream3 = 21,
  kExpiringAbsolute = 22,
  kExpiringListpackBare = 23,
  kExpiring = 24,
  kExpiringListpack = 25,
  kOldFunction = 246,
  kFunction = 245
};

enum class Layout : std::uint8_t { kStrings, kPacked, kParts };

struct Form {
  Type type;
  CollectionType collection;
  Layout layout;
  PackedForm packed = PackedForm::kListpack;
  bool expires = false;      ///< fields have expiries
  bool has_soonest = false;  ///< the value begins with the soonest expiry
};

constexpr Form kForms[] = {
    {kList, CollectionType::kList, Layout::kStrings},
    {kSet, CollectionType::kSet, Layout::kStrings},
    {kTextScores, CollectionType::kSortedSet, Layout::kStrings},
    {kHash, CollectionType::kHash, Layout::kStrings},
    {kScores, CollectionType::kSortedSet, Layout::kStrings},
    {kHashZipmap, CollectionType::kHash, Layout::kPacked, PackedForm::kZipmap},
    {kListZiplist, CollectionType::kList, Layout::kPacked, PackedForm::kZiplist},
    {kSetIntset, CollectionType::kSet, Layout::kPacked, PackedForm::kIntset},
    {kSortedSetZiplist, CollectionType::kSortedSet, Layout::kPacked, PackedForm::kZiplist},
    {kHashZiplist, CollectionType::kHash, Layout::kPacked, PackedForm::kZiplist},
    {kZiplists, CollectionType::kList, Layout::kParts, PackedForm::kZiplist},
    {kHashListpack, CollectionType::kHash, Layout::kPacked},
    {kSortedSetListpack, CollectionType::kSortedSet, Layout::kPacked},
    {kListpacks, CollectionType::kList, Layout::kParts},
    {kSetListpack, CollectionType::kSet, Layout::kPacked},
    {kExpiringAbsolute, CollectionType::kHash, Layout::kStrings, PackedForm::kListpack, true, false},
    {kExpiringListpackBare, CollectionType::kHash, Layout::kPacked, PackedForm::kListpack, true, false},
    {kExpiring, CollectionType::kHash, Layout::kStrings, PackedForm::kListpack, true, true},
    {kExpiringListpack, CollectionType::kHash, Layout::kPacked, PackedForm::kListpack, true, true},
};

const Form* form_of(unsigned char type) {
  const auto* found = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return form.type == type; });
  return found == std::end(kForms) ? nullptr : found;
}

Status bad_format() { return Status::invalid_argument("ERR Bad data format"); }

// --- writing

void append_score(std::string* out, double score) { append_little(out, std::bit_cast<std::uint64_t>(score), sizeof(score)); }

void append_element(std::string* out, Bytes item) { append_rdb_string(out, item); }
void append_element(std::string* out, const HashField& field) {
  append_rdb_string(out, field.field);
  append_rdb_string(out, field.value);
}
void append_element(std::string* out, const ScoredMember& member) {
  append_rdb_string(out, member.member);
  append_score(out, member.score);
}

template <typename Element>
Result<std::string> dump_as(Type type, Bytes collection, CollectionType expected) {
  TRY_ASSIGN(reader, CompactReader::open(collection, expected));
  std::string out;
  out.reserve(most_dump_bytes(collection.size()));
  out.push_back(static_cast<char>(type));
  append_rdb_length(&out, reader.count());
  for (Element element{}; reader.next(&element);) append_element(&out, element);
  TRY(reader.status());
  end_dump(&out);
  return out;
}

Result<std::string> dump_expiring_hash(Bytes collection) {
  TRY_ASSIGN(hash, decode_hash(collection));
  Millis soonest = ~Millis{0};
  for (const HashField& field : hash) {
    if (field.expiry != 0) soonest = std::min(soonest, field.expiry);
  }
  std::string out;
  out.reserve(most_dump_bytes(collection.size()));
  out.push_back(static_cast<char>(kExpiring));
  append_little(&out, soonest, sizeof(soonest));
  append_rdb_length(&out, hash.size());
  for (const HashField& field : hash) {
    append_rdb_length(&out, field.expiry == 0 ? 0 : field.expiry - soonest + 1);
    append_element(&out, field);
  }
  end_dump(&out, kFieldExpiryRdbVersion);
  return out;
}

// --- reading

/// The most memory of an item without its bytes: its view and score in vectors that have just doubled, and its element in the
/// decoded collection.
constexpr std::uint64_t kItemMemory = 80;
/// The most memory of a text without its bytes: its std::string, and the digits of a long number or the allocator's rounding.
constexpr std::uint64_t kTextMemory = 2 * sizeof(std::string);
/// Memory is reserved in steps of this many bytes.
constexpr std::uint64_t kReserveStep = std::uint64_t{256} << 10;
/// The most bytes of a collection's unpacked strings. Redis's packed forms take at most 10 bytes more than a compact collection
/// for each item, and 11 for each part. So every collection within the size limits fits.
constexpr std::uint64_t kMaxUnpackedBytes = 2 * kMaxBuiltBytes;

bool has_duplicates(std::vector<Bytes> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) != names.end();
}

/// Collects the items of a collection: members, elements, or fields and values in turn.
class Loader {
 public:
  Loader(const Form& form, const ReserveMemory& reserve) : form_(form), reserve_(reserve) {}

  Status load(RdbSource source);
  /// Returns the collection's bytes. Must be the last call.
  Result<std::string> encoded();

 private:
  Status load_strings(RdbSource& source);
  Status load_string(RdbSource& source);
  Status load_packed(RdbSource& source);
  Status load_parts(RdbSource& source);
  Status add(Bytes item);
  Status add_score(std::optional<double> score);
  Status add_expiry(std::optional<std::uint64_t> expiry);
  [[nodiscard]] std::optional<std::uint64_t> take_expiry(RdbSource& source) const;
  /// Returns the text of a stored string. It lives as long as the loader.
  Status text_of(const RdbString& stored, Bytes* text);
  Status text_of(const PackedItem& item, Bytes* text);
  Bytes keep(std::string text) { return texts_.emplace_back(std::move(text)); }
  Status grow(std::uint64_t bytes);
  template <typename Elements, typename Encode>
  Result<std::string> finish(const Elements& elements, Encode encode_elements);

  [[nodiscard]] std::size_t items_per_element() const { return form_.collection == CollectionType::kHash ? 2 : 1; }
  /// Returns true if the next item of the packed form is the expiry of the last field.
  [[nodiscard]] bool expiry_is_next() const { return form_.expires && items_.size() == 2 * (expiries_.size() + 1); }
  [[nodiscard]] bool has_scores() const { return form_.collection == CollectionType::kSortedSet; }

  const Form& form_;
  const ReserveMemory& reserve_;
  std::uint64_t needed_ = 0, reserved_ = kLargeValueBytes;
  std::uint64_t unpacked_ = 0;       // bytes of texts_
  std::uint64_t least_encoded_ = 0;  // the fewest bytes that the items can take when encoded
  Millis soonest_ = 0;
  std::deque<std::string> texts_;
  std::vector<Bytes> items_;
  std::vector<double> scores_;    // the scores of the items, if the collection has scores
  std::vector<Millis> expiries_;  // the expiries of the fields, if the form has them
};

Status Loader::grow(std::uint64_t bytes) {
  needed_ += bytes;
  if (needed_ <= reserved_) return Status::ok();
  const std::uint64_t more = std::max(kReserveStep, needed_ - reserved_);
  TRY(reserve_(more));
  reserved_ += more;
  return Status::ok();
}

Status Loader::text_of(const RdbString& stored, Bytes* text) {
  if (stored.form == RdbString::Form::kPlain) {
    *text = stored.bytes;
    return Status::ok();
  }
  unpacked_ += stored.length;
  if (unpacked_ > kMaxUnpackedBytes) return check_built_size(0, unpacked_);
  TRY(grow(kTextMemory + stored.length));
  auto unpacked = unpack(stored);
  if (!unpacked) return bad_format();
  *text = keep(std::move(*unpacked));
  return Status::ok();
}

Status Loader::text_of(const PackedItem& item, Bytes* text) {
  *text = item.text;
  if (!item.number) return Status::ok();
  TRY(grow(kTextMemory));
  *text = keep(to_text(*item.number));
  return Status::ok();
}

Status Loader::add(Bytes item) {
  least_encoded_ += 1 + item.size();
  const std::size_t elements = items_.size() / items_per_element() + 1;
  if (elements > kMaxBuiltElements || least_encoded_ > kMaxBuiltBytes) return check_built_size(elements, least_encoded_);
  TRY(grow(kItemMemory));
  items_.push_back(item);
  return Status::ok();
}

Status Loader::add_score(std::optional<double> score) {
  if (!score || std::isnan(*score)) return bad_format();
  scores_.push_back(*score);
  return Status::ok();
}

Status Loader::add_expiry(std::optional<std::uint64_t> expiry) {
  constexpr Millis kLatest = (Millis{1} << 48) - 1;  // the latest expiry that Redis accepts
  if (!expiry || *expiry > kLatest) return bad_format();
  TRY(grow(3 * sizeof(Millis)));  // while the vector grows, both its buffers exist
  expiries_.push_back(*expiry);
  return Status::ok();
}

Status Loader::load_string(RdbSource& source) {
  const auto stored = source.take_string();
  if (!stored) return bad_format();
  Bytes text;
  TRY(text_of(*stored, &text));
  return add(text);
}

/// Parses the text of a score in a packed form. As in Redis, at most 127 bytes of it.
std::optional<double> parse_score(Bytes text) {
  constexpr std::size_t kMaxText = 127;
  return text.size() <= kMaxText ? parse_double(text) : std::nullopt;
}

/// Takes a score of type kTextScores: a length and decimal text, or one byte for an infinity or NaN.
std::optional<double> take_text_score(RdbSource& source) {
  constexpr unsigned kNegativeInfinity = 255, kInfinity = 254, kNan = 253;
  const auto length = source.take_byte();
  if (!length || *length == kNan) return std::nullopt;
  if (*length >= kInfinity) return *length == kNegativeInfinity ? -HUGE_VAL : HUGE_VAL;
  const auto text = source.take(*length);
  return text ? parse_double(*text) : std::nullopt;
}

std::optional<double> take_score(RdbSource& source) {
  const auto bits = source.take_little(sizeof(double));
  if (!bits) return std::nullopt;
  return std::bit_cast<double>(*bits);
}

/// Takes the expiry of a field; nullopt if it is damaged.
std::optional<std::uint64_t> Loader::take_expiry(RdbSource& source) const {
  auto expiry = source.take_length();
  if (!expiry || *expiry == 0 || !form_.has_soonest) return expiry;
  if (__builtin_add_overflow(*expiry - 1, soonest_, &*expiry)) return std::nullopt;
  return expiry;
}

Status Loader::load_strings(RdbSource& source) {
  const auto count = source.take_length();
  // An element takes at least one byte.
  if (!count || *count > source.left()) return bad_format();
  if (*count > kMaxBuiltElements) return check_built_size(*count, 0);
  for (std::uint64_t i = 0; i < *count; ++i) {
    if (form_.expires) TRY(add_expiry(take_expiry(source)));
    for (std::size_t item = 0; item < items_per_element(); ++item) TRY(load_string(source));
    if (has_scores()) TRY(add_score(form_.type == kScores ? take_score(source) : take_text_score(source)));
  }
  return Status::ok();
}

Status Loader::load_packed(RdbSource& source) {
  const auto stored = source.take_string();
  if (!stored) return bad_format();
  Bytes packed;
  TRY(text_of(*stored, &packed));
  PackedReader reader(form_.packed, packed);
  for (PackedItem item; reader.next(&item);) {
    if (expiry_is_next()) {
      if (!item.number || *item.number < 0) return bad_format();
      TRY(add_expiry(static_cast<std::uint64_t>(*item.number)));
      continue;
    }
    if (has_scores() && scores_.size() < items_.size()) {
      TRY(add_score(item.number ? static_cast<double>(*item.number) : parse_score(item.text)));
      continue;
    }
    Bytes text;
    TRY(text_of(item, &text));
    TRY(add(text));
  }
  return reader.is_sound() ? Status::ok() : bad_format();
}

Status Loader::load_parts(RdbSource& source) {
  constexpr std::uint64_t kElement = 1, kPackedPart = 2;
  const auto count = source.take_length();
  if (!count || *count > source.left()) return bad_format();
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto kind = form_.type == kListpacks ? source.take_length() : kPackedPart;
    if (kind == kElement) {
      TRY(load_string(source));
      if (items_.back().empty()) return bad_format();
    } else if (kind == kPackedPart) {
      TRY(load_packed(source));
    } else {
      return bad_format();
    }
  }
  return Status::ok();
}

Status Loader::load(RdbSource source) {
  if (form_.has_soonest) {
    const auto soonest = source.take_little(sizeof(soonest_));
    if (!soonest) return bad_format();
    soonest_ = *soonest;
  }
  switch (form_.layout) {
    case Layout::kStrings:
      TRY(load_strings(source));
      break;
    case Layout::kPacked:
      TRY(load_packed(source));
      break;
    case Layout::kParts:
      TRY(load_parts(source));
      break;
  }
  return source.left() == 0 && !items_.empty() ? Status::ok() : bad_format();
}

template <typename Elements, typename Encode>
Result<std::string> Loader::finish(const Elements& elements, Encode encode_elements) {
  const std::size_t bytes = encoded_bytes(elements);
  TRY(check_built_size(elements.size(), bytes));
  TRY(reserve_(bytes));
  return encode_elements();
}

Result<std::string> Loader::encoded() {
  switch (form_.collection) {
    case CollectionType::kList:
      return finish(items_, [&] { return encode(CollectionType::kList, items_); });
    case CollectionType::kSet:
      std::sort(items_.begin(), items_.end());
      if (std::adjacent_find(items_.begin(), items_.end()) != items_.end()) return bad_format();
      return finish(items_, [&] { return encode(CollectionType::kSet, items_); });
    case CollectionType::kHash: {
      if (items_.size() % 2 != 0 || (form_.expires && 2 * expiries_.size() != items_.size())) return bad_format();
      Hash hash;
      std::vector<Bytes> names;
      hash.reserve(items_.size() / 2);
      names.reserve(items_.size() / 2);
      for (std::size_t i = 0; i < items_.size(); i += 2) {
        hash.push_back({items_[i], items_[i + 1], form_.expires ? expiries_[i / 2] : 0});
        names.push_back(items_[i]);
      }
      if (has_duplicates(std::move(names))) return bad_format();
      return finish(hash, [&] { return encode(hash); });
    }
    case CollectionType::kSortedSet: {
      if (scores_.size() != items_.size() || has_duplicates(items_)) return bad_format();
      SortedSet members;
      members.reserve(items_.size());
      for (std::size_t i = 0; i < items_.size(); ++i) members.push_back({scores_[i], items_[i]});
      std::sort(members.begin(), members.end(), is_before);
      return finish(members, [&] { return encode(members); });
    }
  }
  return bad_format();
}

}  // namespace

std::uint64_t most_dump_bytes(std::uint64_t bytes) {
  // A length takes one byte more than in a compact collection from 64 bytes on, and two from 16 KiB on. An expiry takes up to
  // nine bytes, and its field at least ten.
  return bytes + bytes / 10 + 2 * kDumpOverheadBytes;
}

Result<std::string> dump_collection(Bytes collection) {
  const auto type = collection_type_of(collection);
  if (!type) return Status::corruption("collection: byte 0: unknown type");
  switch (*type) {
    case CollectionType::kHash: {
      TRY_ASSIGN(reader, CompactReader::open(collection, *type));
      return reader.has_expiries() ? dump_expiring_hash(collection) : dump_as<HashField>(kHash, collection, *type);
    }
    case CollectionType::kSet:
      return dump_as<Bytes>(kSet, collection, *type);
    case CollectionType::kSortedSet:
      return dump_as<ScoredMember>(kScores, collection, *type);
    case CollectionType::kList:
      return dump_as<Bytes>(kList, collection, *type);
  }
  return bad_format();
}

DumpedType dumped_type(Bytes payload) {
  const auto type = RdbSource(dump_body(payload)).take_byte();
  if (!type) return DumpedType::kUnknown;
  if (*type == kString) return DumpedType::kString;
  if (form_of(*type) != nullptr) return DumpedType::kCollection;
  for (const Type each : {kOldModule, kModule, kStream, kStream2, kStream3, kOldFunction, kFunction}) {
    if (*type == each) return DumpedType::kUnsupported;
  }
  return DumpedType::kUnknown;
}

Result<std::string> load_collection(Bytes payload, const ReserveMemory& reserve) {
  RdbSource source(dump_body(payload));
  const auto type = source.take_byte();
  const Form* form = type ? form_of(*type) : nullptr;
  if (form == nullptr) return bad_format();
  Loader loader(*form, reserve);
  TRY(loader.load(source));
  return loader.encoded();
}

}  // namespace ebbtide
