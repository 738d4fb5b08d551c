// Tests of the reader of RDB files: what it finds, and that no bytes make it crash, or take more memory than the file has.
#include "import/rdb_reader.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "import/rdb_writer.h"
#include "store/collection/compact.h"
#include "store/dump.h"
#include "store/dump_collections.h"
#include "store/rdb.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string with_crc(std::string file) {
  file.push_back('\xff');
  append_little(&file, crc64(file), 8);
  return file;
}

struct ReadFile {
  std::vector<RdbEntry> entries;
  std::vector<std::string> others;
  Status status;
};

ReadFile read_file(const std::string& bytes) {
  ReadFile out;
  const auto input = InputFile::of(bytes);
  RdbReader reader(*input, [&](const std::string& what, std::uint64_t) { out.others.push_back(what); });
  out.status = reader.begin();
  for (RdbEntry entry; out.status.is_ok();) {
    const auto more = reader.next(&entry);
    out.status = more.status();
    if (!more.is_ok() || !*more) break;
    out.entries.push_back(entry);
  }
  return out;
}

Bytes bytes_of(const char* text, std::size_t size) { return {text, size}; }
#define RAW(text) bytes_of(text, sizeof(text) - 1)

constexpr Millis kFieldExpiry = 4'000'000'000'000;

/// A file with each kind of marker, and with values of several types, of which the stream and the module are skipped.
std::string sample() {
  std::string file(RAW("REDIS0011"));
  file +=
      RAW("\xfa\x01"
          "a"
          "\x01"
          "b");  // aux field
  file +=
      RAW("\xf5\x03"
          "lua");                                       // function library
  file += RAW("\xfe\x02\xfb\x05\x01\xf4\x01\x02\x03");  // database 2, sizes, slot
  file += RAW("\x00\x01k\x03one");                      // string
  file +=
      RAW("\xfc\x10\x27\x00\x00\x00\x00\x00\x00\xf9\x07\x00\x02"
          "k2\xc0\x2a");  // expiry 10,000 ms, frequency, integer 42
  file +=
      RAW("\xfd\x0a\x00\x00\x00\xf8\x05\x01\x02"
          "l1\x02\x01"
          "a\x01"
          "b");  // expiry 10 s, idle time, list
  file +=
      RAW("\x03\x01z\x02\x01m\x03"
          "1.5\x01n\xfe");  // sorted set with scores as text, one infinite
  file +=
      RAW("\x07\x01q\x81\x00\x00\x00\x00\x00\x00\x00\x01\x02\x05\x03"
          "1234\x05\x02xy\x00");                                  // module with three parts
  file += RAW("\x0f\x01s\x00\x01\x02\x03\x01\x01g\x01\x02\x01");  // stream without entries, one group, one pending entry
  file += std::string(24, 'p') +
          std::string(RAW("\x01\x01\x01"
                          "c")) +
          std::string(8, 't') + std::string(RAW("\x01")) + std::string(16, 'i');
  // Hashes with two fields, one of which expires at kFieldExpiry. Type 24 counts that from the soonest expiry, which is 1.
  const std::string soonest(RAW("\x00\x40\x94\x52\xa3\x03\x00\x00"));
  const std::string listpack(RAW(
      "\x1f\x1f\x00\x00\x00\x06\x00\x81k\x02\x81v\x02\xf4\x00\x40\x94\x52\xa3\x03\x00\x00\x09\x81n\x02\x81w\x02\x00\x01\xff"));
  file += RAW("\x16\x03h22\x02\x81\x00\x00\x03\xa3\x52\x94\x40\x00\x01k\x01v\x00\x01n\x01w");
  file += std::string(RAW("\x17\x03h23")) + listpack;
  file += std::string(RAW("\x18\x03h24")) + soonest + std::string(RAW("\x02\x01\x01k\x01v\x00\x01n\x01w"));
  file += std::string(RAW("\x19\x03h25")) + soonest + listpack;
  return with_crc(file);
}

TEST_CASE("RDB file has every kind of marker: all keys are found, with database, expiry and raw value") {
  const ReadFile read = read_file(sample());
  INFO(read.status.to_string());
  REQUIRE(read.status.is_ok());
  REQUIRE(read.entries.size() == 10);
  CHECK(read.others == std::vector<std::string>{"function library"});
  for (const RdbEntry& entry : read.entries) CHECK(entry.database == 2);
  CHECK((read.entries[0].key == "k" && read.entries[0].value == "\x03one" && !read.entries[0].expiry_ms));
  CHECK((read.entries[1].key == "k2" && read.entries[1].expiry_ms == 10'000));
  CHECK((read.entries[2].key == "l1" && read.entries[2].expiry_ms == 10'000 && read.entries[2].type == 1));
  CHECK((read.entries[3].key == "z" && rdb_type_name(read.entries[3].type) == "sorted set"));
  CHECK((read.entries[4].key == "q" && !rdb_type_is_supported(read.entries[4].type)));
  CHECK((read.entries[5].key == "s" && rdb_type_name(read.entries[5].type) == "stream"));
}

TEST_CASE("entry of an RDB file becomes a payload of RESTORE: the payload has the same value") {
  const ReadFile read = read_file(sample());
  REQUIRE(read.entries.size() == 10);
  const std::string payload = rdb_payload(read.entries[1], 99);
  CHECK(dump_is_sound(payload));
  CHECK(load_string(payload) == "42");
}

TEST_CASE("RDB file has hashes with expiring fields, in each of their four forms: their payloads give the same hash") {
  const ReadFile read = read_file(sample());
  REQUIRE(read.entries.size() == 10);
  for (std::size_t i = 6; i < 10; ++i) {
    const RdbEntry& entry = read.entries[i];
    INFO(entry.type);
    CHECK((entry.type == 16 + i && entry.key == "h" + std::to_string(entry.type) && rdb_type_is_supported(entry.type)));
    CHECK(rdb_type_name(entry.type) == "hash with expiring fields");
    const auto hash = load_collection(rdb_payload(entry, 12), [](std::uint64_t) { return Status::ok(); });
    REQUIRE(hash.is_ok());
    CHECK(*hash == encode(Hash{{"k", "v", kFieldExpiry}, {"n", "w"}}));
  }
}

TEST_CASE("RDB file ends early, at any byte: the error names the byte") {
  const std::string file = sample();
  for (std::size_t length = 0; length < file.size(); ++length) {
    const ReadFile read = read_file(file.substr(0, length));
    INFO(length);
    REQUIRE_FALSE(read.status.is_ok());
    if (length >= 9) CHECK(read.status.message().find("ends at byte " + std::to_string(length)) != Bytes::npos);
  }
}

TEST_CASE("any bit of an RDB file is changed: reading fails, by the checksum at the latest") {
  const std::string file = sample();
  for (std::size_t at = 9; at < file.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      INFO(at << " bit " << bit);
      CHECK_FALSE(read_file(changed).status.is_ok());
    }
  }
}

TEST_CASE("RDB file claims a string longer than the file: reading fails before memory is allocated") {
  std::string file(RAW("REDIS0009"));
  file += RAW("\x00\x01k\x81\x7f\xff\xff\xff\xff\xff\xff\xff");  // a string of nearly 2^63 bytes
  CHECK(read_file(file).status.code() == Code::kCorruption);
}

TEST_CASE("file is no RDB file, or of an unknown version: the error says so") {
  CHECK(read_file("").status.code() == Code::kInvalidArgument);
  CHECK(read_file("*1\r\n$4\r\nPING\r\n").status.code() == Code::kInvalidArgument);
  CHECK(read_file("REDIS00x1").status.code() == Code::kInvalidArgument);
  CHECK(read_file("REDIS0099").status.code() == Code::kUnsupported);
}

TEST_CASE("RDB file has a value of an unknown type: reading stops, since the value's end cannot be found") {
  std::string file(RAW("REDIS0011"));
  file += RAW("\x63\x01k\x01v");
  const ReadFile read = read_file(with_crc(file));
  CHECK(read.status.code() == Code::kUnsupported);
  CHECK(read.status.message().find("unknown type 99") != Bytes::npos);
}

TEST_CASE("RDB file has the checksum 0: the checksum is not compared") {
  std::string file(RAW("REDIS0011"));
  file += RAW("\x00\x01k\x01v\xff");
  CHECK(read_file(file + std::string(8, '\0')).entries.size() == 1);
  CHECK(read_file(file + std::string(8, 'x')).status.code() == Code::kCorruption);
}

}  // namespace TEST_FILE
