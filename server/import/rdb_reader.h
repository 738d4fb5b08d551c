// Reads an RDB file of Redis or Valkey entry by entry. A value is not decoded: its bytes are those of a DUMP payload.
//
//   file    "REDIS", version (4 digits), then markers and entries, then 0xff and a CRC of 8 bytes.
//   marker  0xfe database | 0xfb sizes | 0xfa aux field | 0xf5 function library | 0xf7 data of a module | 0xf4 slot.
//   entry   [0xfd seconds | 0xfc milliseconds]  [0xf8 idle time | 0xf9 frequency]  type  key  value
//
// The CRC is that of all bytes before it; 0 means that there is none.
//
// Values of streams and of most modules are skipped: the server does not have these types, but the reader can find their ends.
// Sources: Redis's rdb.h and rdb.c, 2.4 to 7.4.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "import/input_file.h"

namespace ebbtide {

/// A key of an RDB file, with its value.
struct RdbEntry {
  std::uint64_t database = 0;
  std::string key;
  std::optional<std::int64_t> expiry_ms;  ///< Unix time
  unsigned type = 0;                      ///< the type byte
  std::string value;                      ///< the bytes of the value, as in the file
  std::uint64_t offset = 0;               ///< offset in the file at which the entry begins
};

/// Returns the name of a type byte: "string", "hash", "stream", ...
[[nodiscard]] std::string rdb_type_name(unsigned type);
/// Returns true if the server's RESTORE takes values of the type: the types of Redis 7.2 without streams and modules, and hashes
/// with expiring fields.
[[nodiscard]] bool rdb_type_is_supported(unsigned type);
/// Returns the payload for RESTORE of a value: type, value, version (that of Redis 7.4 at most) and CRC.
[[nodiscard]] std::string rdb_payload(const RdbEntry& entry, unsigned version);

/// Reads one file. Not thread-safe.
class RdbReader {
 public:
  /// Gets the name and offset of everything in the file except keys, such as "function library".
  using OnOther = std::function<void(const std::string& what, std::uint64_t offset)>;

  RdbReader(InputFile& input, OnOther other) : input_(input), other_(std::move(other)) {}

  /// Reads the header of the file. kInvalidArgument: it is not an RDB file.
  Status begin();
  /// Reads the next entry. Returns false at the end of the file. kCorruption: the file is damaged; the message has the offset.
  /// kUnsupported: the type of a value is unknown, so its end cannot be found.
  Result<bool> next(RdbEntry* entry);

  [[nodiscard]] unsigned version() const { return version_; }

 private:
  struct Length {
    std::uint64_t value = 0;
    bool is_encoding = false;  // `value` is the encoding of a string: 0 to 2 an integer, 3 LZF
  };
  [[nodiscard]] Status damaged(const std::string& what) const;
  Result<unsigned> byte(std::string* raw);
  Result<Length> length_or_encoding(std::string* raw);
  Result<std::uint64_t> length(std::string* raw);
  Status lengths(std::uint64_t count, std::string* raw);
  Status string(std::string* raw);
  Status strings(std::uint64_t count, std::string* raw);
  Result<std::string> text();
  Status score_text(std::string* raw);
  Status value(RdbEntry* entry);
  Status stream(unsigned type, std::string* raw);
  Status module_parts(std::string* raw);
  Result<bool> marker(unsigned code);
  Status check_end();

  InputFile& input_;
  const OnOther other_;
  unsigned version_ = 0;
  std::uint64_t database_ = 0;
  std::uint64_t entry_offset_ = 0;
};

}  // namespace ebbtide
