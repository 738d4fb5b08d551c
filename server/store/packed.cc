#include "store/packed.h"

namespace ebbtide {
namespace {

constexpr std::size_t kListpackHead = 6, kZiplistHead = 10, kZipmapHead = 1, kIntsetHead = 8, kEnd = 1;
constexpr char kEndByte = '\xff';
constexpr std::uint64_t kUnknownCount = 0xffff, kUnknownZipmapCount = 254;
/// From this length on, a length takes five bytes: this byte, and four bytes of the number.
constexpr unsigned kLongLength = 254;

/// Takes the length of an entry of a ziplist or zipmap.
std::optional<std::uint64_t> take_entry_length(RdbSource& source) {
  const auto first = source.take_byte();
  if (!first || *first > kLongLength) return std::nullopt;
  return *first < kLongLength ? *first : source.take_little(4);
}

/// Takes the low byte of a length whose high bits stand in the byte before it.
std::optional<std::uint64_t> take_low_byte(RdbSource& source, unsigned high) {
  const auto low = source.take_byte();
  if (!low) return std::nullopt;
  return high << 8 | *low;
}

/// Takes the end of a listpack's entry: the length of the entry's data in groups of seven bits, the highest group first. All
/// groups but the first have their high bit set, so that readers can start from the end.
bool take_back_length(RdbSource& source, std::uint64_t length) {
  const std::size_t bytes = length <= 127 ? 1 : length < 16383 ? 2 : length < 2097151 ? 3 : length < 268435455 ? 4 : 5;
  const auto taken = source.take(bytes);
  if (!taken) return false;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>((*taken)[i]);
    if ((byte >= 0x80) != (i > 0)) return false;
    value = value << 7 | (byte & 0x7fu);
  }
  return value == length;
}

}  // namespace

PackedReader::PackedReader(PackedForm form, Bytes packed) : form_(form), source_({}) { open_ = open(packed); }

bool PackedReader::open(Bytes packed) {
  RdbSource head(packed);
  std::size_t head_bytes = kIntsetHead, end_bytes = kEnd;
  switch (form_) {
    case PackedForm::kListpack:
      head_bytes = kListpackHead;
      if (head.take_little(4) != packed.size()) return false;
      count_ = head.take_little(2).value_or(0);
      break;
    case PackedForm::kZiplist:
      head_bytes = kZiplistHead;
      if (head.take_little(4) != packed.size()) return false;
      last_ = head.take_little(4).value_or(0);
      count_ = head.take_little(2).value_or(0);
      break;
    case PackedForm::kZipmap:
      head_bytes = kZipmapHead;
      count_ = head.take_byte().value_or(0);
      break;
    case PackedForm::kIntset:
      end_bytes = 0;
      width_ = head.take_little(4).value_or(0);
      count_ = head.take_little(4).value_or(0);
      if (width_ != 2 && width_ != 4 && width_ != 8) return false;
      break;
  }
  if (packed.size() < head_bytes + end_bytes || (end_bytes != 0 && packed.back() != kEndByte)) return false;
  whole_ = packed.size() - head_bytes - end_bytes;
  source_ = RdbSource(packed.substr(head_bytes, whole_));
  return form_ != PackedForm::kIntset || count_ * width_ == whole_;
}

bool PackedReader::next(PackedItem* item) {
  if (!open_) return false;
  if (source_.left() == 0) return end();
  ++seen_;
  switch (form_) {
    case PackedForm::kListpack:
      return open_ = next_of_listpack(item);
    case PackedForm::kZiplist:
      return open_ = next_of_ziplist(item);
    case PackedForm::kZipmap:
      return open_ = next_of_zipmap(item);
    case PackedForm::kIntset:
      return open_ = next_of_intset(item);
  }
  return false;
}

bool PackedReader::end() {
  switch (form_) {
    case PackedForm::kListpack:
      sound_ = count_ == kUnknownCount || count_ == seen_;
      break;
    case PackedForm::kZiplist:
      sound_ = (count_ == kUnknownCount || count_ == seen_) && (seen_ == 0 || place_ == last_);
      break;
    case PackedForm::kZipmap:
      sound_ = seen_ % 2 == 0 && (count_ == kUnknownZipmapCount || count_ == seen_ / 2);
      break;
    case PackedForm::kIntset:
      sound_ = true;  // open() has checked the length
      break;
  }
  return false;
}

bool PackedReader::take_string(std::optional<std::uint64_t> length, PackedItem* item) {
  const auto text = length ? source_.take(*length) : std::nullopt;
  if (!text) return false;
  *item = {.text = *text, .number = std::nullopt};
  return true;
}

bool PackedReader::take_integer(std::size_t bytes, PackedItem* item) {
  const auto taken = source_.take(bytes);
  if (!taken) return false;
  *item = {.text = {}, .number = load_little_signed(*taken)};
  return true;
}

bool PackedReader::next_of_listpack(PackedItem* item) {
  const std::size_t before = source_.left();
  const unsigned first = *source_.take_byte();
  bool taken = false;
  if (first < 0x80) {  // 0xxxxxxx: 0 to 127
    *item = {.text = {}, .number = first};
    taken = true;
  } else if (first < 0xc0) {  // 10xxxxxx: a string of up to 63 bytes
    taken = take_string(first & 0x3f, item);
  } else if (first < 0xe0) {  // 110xxxxx + 1 byte: an integer of 13 bits
    if (const auto bits = take_low_byte(source_, first & 0x1f)) {
      constexpr std::int64_t kSign = 1 << 12;
      *item = {.text = {}, .number = (static_cast<std::int64_t>(*bits) ^ kSign) - kSign};
      taken = true;
    }
  } else if (first < 0xf0) {  // 1110xxxx + 1 byte: a string of up to 4095 bytes
    taken = take_string(take_low_byte(source_, first & 0x0f), item);
  } else if (first == 0xf0) {
    taken = take_string(source_.take_little(4), item);
  } else if (first <= 0xf4) {
    taken = take_integer(first == 0xf4 ? 8 : first - 0xf1 + 2, item);
  }
  return taken && take_back_length(source_, before - source_.left());
}

bool PackedReader::next_of_ziplist(PackedItem* item) {
  const std::size_t before = source_.left();
  if (take_entry_length(source_) != before_) return false;
  const auto first = source_.take_byte();
  if (!first) return false;
  bool taken = false;
  if (*first < 0x40) {  // 00xxxxxx: a string of up to 63 bytes
    taken = take_string(*first, item);
  } else if (*first < 0x80) {  // 01xxxxxx + 1 byte: up to 16383 bytes
    taken = take_string(take_low_byte(source_, *first & 0x3f), item);
  } else if (*first < 0xc0) {
    taken = take_string(source_.take_big(4), item);
  } else if (*first == 0xc0 || *first == 0xd0 || *first == 0xe0) {
    taken = take_integer(std::size_t{2} << ((*first - 0xc0) >> 4), item);
  } else if (*first == 0xf0 || *first == 0xfe) {
    taken = take_integer(*first == 0xf0 ? 3 : 1, item);
  } else if (*first > 0xf0 && *first < 0xfe) {  // 1111xxxx: 0 to 12, plus 1
    *item = {.text = {}, .number = (*first & 0x0f) - 1};
    taken = true;
  }
  place_ = kZiplistHead + whole_ - before;
  before_ = before - source_.left();
  return taken;
}

bool PackedReader::next_of_zipmap(PackedItem* item) {
  const auto length = take_entry_length(source_);
  if (!length) return false;
  if (seen_ % 2 == 1) return take_string(length, item);  // a field
  const auto free = source_.take_byte();
  return free && take_string(length, item) && source_.take(*free);
}

bool PackedReader::next_of_intset(PackedItem* item) {
  if (!take_integer(width_, item)) return false;
  if (largest_ && *item->number <= *largest_) return false;
  largest_ = item->number;
  return true;
}

}  // namespace ebbtide
