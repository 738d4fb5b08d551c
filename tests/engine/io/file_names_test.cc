#include "io/file_names.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <set>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

struct Parsed {
  bool ours = false;
  FileKind kind = FileKind::kTemporary;
  FileNum file = 77;
};

Parsed parse(Bytes name) {
  Parsed parsed;
  parsed.ours = parse_file_name(name, &parsed.kind, &parsed.file);
  return parsed;
}

void require_round_trip(const std::string& name, FileKind kind, FileNum file) {
  INFO(name);
  const Parsed parsed = parse(name);
  REQUIRE(parsed.ours);
  REQUIRE(parsed.kind == kind);
  REQUIRE(parsed.file == file);
}

TEST_CASE("file name is made from a number: the number has at least six digits, padded with zeros") {
  REQUIRE(data_file_name(1) == "000001.data");
  REQUIRE(metadata_file_name(42) == "000042.meta");
  REQUIRE(log_file_name(999'999) == "999999.wal");
  REQUIRE(log_file_name(1'000'000) == "1000000.wal");
  REQUIRE(manifest_file_name(7) == "MANIFEST-000007");
}

TEST_CASE("file name is parsed: a name made of the parsed kind and number is the same") {
  Random random(1);
  std::vector<FileNum> numbers{1, 9, 10, 999'999, 1'000'000, kMaxFileNum};
  for (int i = 0; i < 1000; ++i) numbers.push_back(1 + (random.next() >> random.uniform(62)) / 4);
  for (const FileNum file : numbers) {
    require_round_trip(data_file_name(file), FileKind::kData, file);
    require_round_trip(metadata_file_name(file), FileKind::kMetadata, file);
    require_round_trip(log_file_name(file), FileKind::kLog, file);
    require_round_trip(manifest_file_name(file), FileKind::kManifest, file);
    require_round_trip(data_file_name(file) + ".tmp", FileKind::kTemporary, kNoFile);
  }
  require_round_trip("CURRENT", FileKind::kCurrent, kNoFile);
  require_round_trip("LOCK", FileKind::kLock, kNoFile);
  require_round_trip("RESERVE", FileKind::kReserve, kNoFile);
  require_round_trip("CURRENT.tmp", FileKind::kTemporary, kNoFile);
}

TEST_CASE("file name has another spelling, such as more zeros: it is not recognized") {
  for (const char* name : {"",
                           "000000.data",
                           "00001.data",
                           "0000001.data",
                           "-00001.data",
                           "+00001.wal",
                           " 000001.wal",
                           "000001.wal ",
                           "000001",
                           "000001.",
                           "000001.log",
                           "000001.DATA",
                           "000001x.data",
                           "x000001.data",
                           "18446744073709551616.wal",
                           "MANIFEST-",
                           "MANIFEST-1",
                           "MANIFEST-000000",
                           "MANIFEST-000001.data",
                           "MANIFEST000001",
                           "current",
                           "CURRENT2",
                           "LOCK.",
                           ".tmp",
                           "tmp",
                           "wal",
                           ".wal"}) {
    INFO(name);
    const Parsed parsed = parse(name);
    REQUIRE_FALSE(parsed.ours);
    REQUIRE(parsed.file == 77);  // parsed.file must be unchanged
  }
  REQUIRE_FALSE(parse(Bytes("000001\0.wal", 11)).ours);
}

TEST_CASE("one character of a file name is changed: parsing refuses the name, or it names another file") {
  const std::string name = manifest_file_name(123'456);
  std::set<FileNum> seen{123'456};
  for (std::size_t at = 0; at < name.size(); ++at) {
    for (int c = 0; c < 256; ++c) {
      std::string changed = name;
      if (changed[at] == static_cast<char>(c)) continue;
      changed[at] = static_cast<char>(c);
      const Parsed parsed = parse(changed);
      if (!parsed.ours) continue;
      REQUIRE(manifest_file_name(parsed.file) == changed);
      REQUIRE(seen.insert(parsed.file).second);
    }
  }
  REQUIRE(seen.size() == 1 + 6 * 9);
}

TEST_CASE("paths are joined and split: slashes at the joint or at the end do not matter") {
  REQUIRE(join_path("data", "LOCK") == "data/LOCK");
  REQUIRE(join_path("data/", "LOCK") == "data/LOCK");
  REQUIRE(join_path("", "LOCK") == "LOCK");
  REQUIRE(join_path("/", "LOCK") == "/LOCK");
  REQUIRE(parent_path("data/LOCK") == "data");
  REQUIRE(parent_path("a/b/c") == "a/b");
  REQUIRE(parent_path("a/b/") == "a");
  REQUIRE(parent_path("a//b") == "a");
  REQUIRE(parent_path("data") == ".");
  REQUIRE(parent_path("/data") == "/");
  REQUIRE(parent_path("/") == "/");
}

TEST_CASE("path is spelled with ./, // or / at its end: lies_within() gives the same result") {
  for (const char* inside : {"data", "data/copy", "./data//copy", "data/./copy/", "data/"}) {
    INFO(inside);
    REQUIRE(lies_within(inside, "./data/"));
  }
  for (const char* outside : {"data2", "dat", "other/data", "/data", "./data2/x"}) {
    INFO(outside);
    REQUIRE_FALSE(lies_within(outside, "data"));
  }
  REQUIRE(lies_within("/a/b", "/"));
  REQUIRE(lies_within("a", "."));
  REQUIRE_FALSE(lies_within("/a", "."));
  // A checkpoint inside the data directory would keep deleted data there, so it is refused, however its path is spelled.
  const std::string here = std::filesystem::current_path().string();
  REQUIRE(lies_within(here + "/backup", "."));
  REQUIRE(lies_within(here + "/data/backup", "data"));
  REQUIRE(lies_within("data/backup", here + "/data"));
  REQUIRE(lies_within("other/../data/backup", "data"));
  REQUIRE_FALSE(lies_within("data/../backup", "data"));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
