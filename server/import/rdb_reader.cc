#include "import/rdb_reader.h"

#include <algorithm>
#include <iterator>

#include "import/report.h"
#include "store/dump.h"
#include "store/rdb.h"

namespace ebbtide {
namespace {

constexpr unsigned kNewestKnownVersion = 12;                        // that of Redis 7.4
constexpr std::uint64_t kMostStringBytes = std::uint64_t{4} << 30;  // Redis allows 512 MiB unless it is configured for more

enum Marker : unsigned {
  kSlotInfo = 0xf4,
  kFunctionLibrary = 0xf5,
  kFunctionOfCandidate = 0xf6,
  kModuleData = 0xf7,
  kIdleTime = 0xf8,
  kFrequency = 0xf9,
  kAuxField = 0xfa,
  kSizes = 0xfb,
  kMilliseconds = 0xfc,
  kSeconds = 0xfd,
  kDatabase = 0xfe,
  kEnd = 0xff
};

enum Type : unsigned {
  kString = 0,
  kList = 1,
  kSet = 2,
  kSortedSetText = 3,
  kHash = 4,
  kSortedSet = 5,
  kOldModule = 6,
  kModule = 7,
  kZipmap = 9,
  kZiplist = 10,
  kIntset = 11,
  kSortedSetZiplist = 12,
  kHashZiplist = 13,
  kQuicklist = 14,
  kStream = 15,
  kHashListpack = 16,
  kSortedSetListpack = 17,
  kQuicklist2 = 18,
  kStream2 = 19,
  kSetListpack = 20,
  kStream3 = 21,
  kHashExpiringOld = 22,
  kHashListpackExpiringOld = 23,
  kHashExpiring = 24,
  kHashListpackExpiring = 25,
};

constexpr const char* kTypeNames[] = {"string",
                                      "list",
                                      "set",
                                      "sorted set",
                                      "hash",
                                      "sorted set",
                                      "module",
                                      "module",
                                      "type 8",
                                      "hash",
                                      "list",
                                      "set",
                                      "sorted set",
                                      "hash",
                                      "list",
                                      "stream",
                                      "hash",
                                      "sorted set",
                                      "list",
                                      "stream",
                                      "set",
                                      "stream",
                                      "hash with expiring fields",
                                      "hash with expiring fields",
                                      "hash with expiring fields",
                                      "hash with expiring fields"};

}  // namespace

std::string rdb_type_name(unsigned type) {
  return type < std::size(kTypeNames) ? kTypeNames[type] : "type " + std::to_string(type);
}

bool rdb_type_is_supported(unsigned type) {
  if (type >= kHashExpiringOld && type <= kHashListpackExpiring) return true;
  return type <= kSetListpack && type != kOldModule && type != kModule && type != 8 && type != kStream && type != kStream2;
}

std::string rdb_payload(const RdbEntry& entry, unsigned version) {
  std::string payload;
  payload.reserve(1 + entry.value.size() + 10);
  payload.push_back(static_cast<char>(entry.type));
  payload += entry.value;
  append_little(&payload, std::min(version, kNewestRdbVersion), 2);
  append_little(&payload, crc64(payload), 8);
  return payload;
}

Status RdbReader::damaged(const std::string& what) const {
  return Status::corruption(input_.name() + ", entry at byte " + std::to_string(entry_offset_) + ": " + what + ", before byte " +
                            std::to_string(input_.offset()));
}

Status RdbReader::begin() {
  std::string magic;
  const Status status = input_.take(9, &magic);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (status.code() == Code::kIoError) return status;
  if (!status.is_ok() || magic.compare(0, 5, "REDIS") != 0 || !std::all_of(magic.begin() + 5, magic.end(), is_digit)) {
    return Status::invalid_argument(input_.name() + " is no RDB file: it does not begin with REDIS and four digits");
  }
  version_ = static_cast<unsigned>(std::stoul(magic.substr(5)));
  if (version_ == 0 || version_ > kNewestKnownVersion) {
    return Status::unsupported(input_.name() + " has RDB version " + std::to_string(version_) + "; versions 1 to " +
                               std::to_string(kNewestKnownVersion) + " are known (Redis 7.4)");
  }
  return Status::ok();
}

Result<unsigned> RdbReader::byte(std::string* raw) {
  TRY(input_.take(1, raw));
  return static_cast<unsigned>(static_cast<unsigned char>(raw->back()));
}

Result<RdbReader::Length> RdbReader::length_or_encoding(std::string* raw) {
  TRY_ASSIGN(first, byte(raw));
  switch (first >> 6) {
    case 0:
      return Length{first & 0x3f};
    case 1: {
      TRY_ASSIGN(second, byte(raw));
      return Length{(first & 0x3f) << 8 | second};
    }
    case 2: {
      if (first != 0x80 && first != 0x81) return damaged("a length begins with byte " + std::to_string(first));
      std::uint64_t value = 0;
      for (int i = first == 0x80 ? 4 : 8; i > 0; --i) {
        TRY_ASSIGN(next, byte(raw));
        value = value << 8 | next;
      }
      return Length{value};
    }
    default:
      return Length{first & 0x3f, true};
  }
}

Result<std::uint64_t> RdbReader::length(std::string* raw) {
  TRY_ASSIGN(found, length_or_encoding(raw));
  if (found.is_encoding) return damaged("a string encoding stands where a length is expected");
  return found.value;
}

Status RdbReader::lengths(std::uint64_t count, std::string* raw) {
  for (; count > 0; --count) TRY(length(raw).status());
  return Status::ok();
}

Status RdbReader::string(std::string* raw) {
  TRY_ASSIGN(found, length_or_encoding(raw));
  if (!found.is_encoding && found.value > kMostStringBytes) {
    return damaged("a string has " + std::to_string(found.value) + " bytes; at most " + std::to_string(kMostStringBytes) +
                   " are possible");
  }
  if (!found.is_encoding) return input_.take(found.value, raw);
  if (found.value < 3) return input_.take(std::uint64_t{1} << found.value, raw);
  if (found.value > 3) return damaged("a string has the unknown encoding " + std::to_string(found.value));
  TRY_ASSIGN(compressed, length(raw));
  if (compressed > kMostStringBytes) return damaged("a compressed string has " + std::to_string(compressed) + " bytes");
  TRY(length(raw).status());
  return input_.take(compressed, raw);
}

Status RdbReader::strings(std::uint64_t count, std::string* raw) {
  for (; count > 0; --count) TRY(string(raw));
  return Status::ok();
}

Result<std::string> RdbReader::text() {
  std::string raw;
  TRY(string(&raw));
  const auto stored = RdbSource(raw).take_string();
  auto unpacked = stored ? unpack(*stored) : std::nullopt;
  if (!unpacked) return damaged("a key cannot be unpacked");
  return std::move(*unpacked);
}

Status RdbReader::score_text(std::string* raw) {
  constexpr unsigned kNotANumber = 253;  // 254 and 255 are the infinities
  TRY_ASSIGN(bytes, byte(raw));
  return bytes >= kNotANumber ? Status::ok() : input_.take(bytes, raw);
}

Status RdbReader::value(RdbEntry* entry) {
  std::string* const raw = &entry->value;
  switch (entry->type) {
    case kString:
    case kZipmap:
    case kZiplist:
    case kIntset:
    case kSortedSetZiplist:
    case kHashZiplist:
    case kHashListpack:
    case kSortedSetListpack:
    case kSetListpack:
      return string(raw);
    case kList:
    case kSet:
    case kQuicklist: {
      TRY_ASSIGN(count, length(raw));
      return strings(count, raw);
    }
    case kHash: {
      TRY_ASSIGN(count, length(raw));
      for (; count > 0; --count) TRY(strings(2, raw));
      return Status::ok();
    }
    case kSortedSetText:
    case kSortedSet: {
      TRY_ASSIGN(count, length(raw));
      for (; count > 0; --count) {
        TRY(string(raw));
        TRY(entry->type == kSortedSet ? input_.take(8, raw) : score_text(raw));
      }
      return Status::ok();
    }
    case kQuicklist2: {
      TRY_ASSIGN(count, length(raw));
      for (; count > 0; --count) {
        TRY(length(raw).status());
        TRY(string(raw));
      }
      return Status::ok();
    }
    case kStream:
    case kStream2:
    case kStream3:
      return stream(entry->type, raw);
    case kModule:
      TRY(length(raw).status());
      return module_parts(raw);
    case kHashExpiring:
    case kHashExpiringOld: {
      if (entry->type == kHashExpiring) TRY(input_.take(8, raw));
      TRY_ASSIGN(count, length(raw));
      for (; count > 0; --count) {
        TRY(length(raw).status());
        TRY(strings(2, raw));
      }
      return Status::ok();
    }
    case kHashListpackExpiring:
    case kHashListpackExpiringOld:
      if (entry->type == kHashListpackExpiring) TRY(input_.take(8, raw));
      return string(raw);
    default:
      return Status::unsupported(input_.name() + ", entry at byte " + std::to_string(entry->offset) + ": the key " +
                                 printable(entry->key) + " has the unknown " + rdb_type_name(entry->type) +
                                 ", whose end cannot be found");
  }
}

/// Reads a stream to its end: its parts, last id, counters, and consumer groups.
Status RdbReader::stream(unsigned type, std::string* raw) {
  constexpr std::uint64_t kIdBytes = 16, kTimeBytes = 8;
  TRY_ASSIGN(parts, length(raw));
  for (; parts > 0; --parts) TRY(strings(2, raw));
  TRY(lengths(type == kStream ? 3 : 8, raw));
  TRY_ASSIGN(groups, length(raw));
  for (; groups > 0; --groups) {
    TRY(string(raw));
    TRY(lengths(type == kStream ? 2 : 3, raw));
    TRY_ASSIGN(pending, length(raw));
    for (; pending > 0; --pending) {
      TRY(input_.take(kIdBytes + kTimeBytes, raw));
      TRY(length(raw).status());
    }
    TRY_ASSIGN(consumers, length(raw));
    for (; consumers > 0; --consumers) {
      TRY(string(raw));
      TRY(input_.take(type == kStream3 ? 2 * kTimeBytes : kTimeBytes, raw));
      TRY_ASSIGN(own, length(raw));
      for (; own > 0; --own) TRY(input_.take(kIdBytes, raw));
    }
  }
  return Status::ok();
}

/// Reads the parts of a module's value, each of which has its type, up to the end mark.
Status RdbReader::module_parts(std::string* raw) {
  for (;;) {
    TRY_ASSIGN(part, length(raw));
    switch (part) {
      case 0:
        return Status::ok();
      case 1:  // integers
      case 2:
        TRY(length(raw).status());
        break;
      case 3:
        TRY(input_.take(4, raw));
        break;
      case 4:
        TRY(input_.take(8, raw));
        break;
      case 5:
        TRY(string(raw));
        break;
      default:
        return damaged("module data contain an unknown part: " + std::to_string(part));
    }
  }
}

/// Reads the data of a marker, such as an aux field (rdb_reader.h). Returns false if `code` is not a marker.
Result<bool> RdbReader::marker(unsigned code) {
  std::string raw;
  switch (code) {
    case kDatabase: {
      TRY_ASSIGN(database, length(&raw));
      database_ = database;
      return true;
    }
    case kSizes:
      TRY(lengths(2, &raw));
      return true;
    case kSlotInfo:
      TRY(lengths(3, &raw));
      return true;
    case kAuxField:
      TRY(strings(2, &raw));
      return true;
    case kFunctionLibrary:
      TRY(string(&raw));
      other_("function library", entry_offset_);
      return true;
    case kModuleData:
      TRY(lengths(3, &raw));  // the module's id, and the moment of loading
      TRY(module_parts(&raw));
      other_("data of a module", entry_offset_);
      return true;
    case kFunctionOfCandidate:
      return damaged("functions in the form of a release candidate of Redis 7.0");
    default:
      return false;
  }
}

Status RdbReader::check_end() {
  constexpr unsigned kFirstWithCrc = 5;
  if (version_ < kFirstWithCrc) return Status::ok();
  const std::uint64_t computed = input_.crc();
  std::string stored;
  TRY(input_.take(8, &stored));
  const std::uint64_t crc = load_little(stored);
  if (crc == 0 || crc == computed) return Status::ok();
  return Status::corruption(input_.name() + ": the checksum at byte " + std::to_string(input_.offset() - 8) +
                            " does not match the file, which is damaged");
}

Result<bool> RdbReader::next(RdbEntry* entry) {
  *entry = {};
  entry->offset = entry_offset_ = input_.offset();
  for (;;) {
    std::string raw;
    TRY_ASSIGN(code, byte(&raw));
    switch (code) {
      case kEnd:
        TRY(check_end());
        return false;
      case kSeconds:
        TRY(input_.take(4, &raw));
        entry->expiry_ms = load_little_signed(Bytes(raw).substr(1)) * 1000;
        continue;
      case kMilliseconds:
        TRY(input_.take(8, &raw));
        entry->expiry_ms = load_little_signed(Bytes(raw).substr(1));
        continue;
      case kIdleTime:
        TRY(length(&raw).status());
        continue;
      case kFrequency:
        TRY(input_.take(1, &raw));
        continue;
      default:
        break;
    }
    TRY_ASSIGN(is_marker, marker(code));
    if (is_marker) {
      entry->offset = entry_offset_ = input_.offset();
      continue;
    }
    entry->type = code;
    entry->database = database_;
    TRY_ASSIGN(key, text());
    entry->key = std::move(key);
    if (code == kOldModule) {
      return Status::unsupported(
          input_.name() + ", entry at byte " + std::to_string(entry->offset) + ": the key " + printable(entry->key) +
          " has a module value in the format of Redis 4.0's release candidates, whose end cannot be found");
    }
    TRY(value(entry));
    return true;
  }
}

}  // namespace ebbtide
