// Tests of what a copy knows of its target, with a file and without.
#include "import/known_keys.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <vector>

namespace ebbtide {
namespace TEST_FILE {

using Hashes = KnownKeys::Hashes;

/// A path that is removed at the end.
struct File {
  const std::string path = (std::filesystem::temp_directory_path() / ("known_keys_" + std::to_string(::getpid()))).string();
  ~File() { std::filesystem::remove(path); }
};

KnownKeys opened(Result<KnownKeys>&& keys) {
  REQUIRE(keys.is_ok());
  return std::move(*keys);
}

void note(KnownKeys& keys, const std::vector<Hashes>& hashes) { REQUIRE(keys.note(hashes).is_ok()); }

TEST_CASE("copy pass is over: its keys and values are known, and a key missing in the next pass is reported as gone") {
  KnownKeys keys = opened(KnownKeys::create(""));
  note(keys, {{5, 50}, {3, 30}});
  CHECK_FALSE(keys.has({5, 50}));
  keys.end_notes();
  CHECK_FALSE(keys.any_gone());
  CHECK(keys.next_pass() == 2);
  CHECK(keys.has({5, 50}));
  CHECK_FALSE(keys.has({5, 51}));
  CHECK_FALSE(keys.has({4, 50}));
  note(keys, {{4, 40}, {3, 31}});
  keys.end_notes();
  CHECK(keys.any_gone());
  CHECK(keys.is_gone(5));
  CHECK_FALSE(keys.is_gone(3));
  CHECK_FALSE(keys.is_gone(4));
  CHECK_FALSE(keys.is_gone(9));
  CHECK(keys.next_pass() == 2);
  CHECK(keys.has({3, 31}));
}

TEST_CASE("copy pass reads a key twice with different values: the key counts once, and its value is unknown") {
  KnownKeys keys = opened(KnownKeys::create(""));
  note(keys, {{1, 10}, {2, 20}, {1, 11}, {2, 20}, {1, 10}});
  keys.end_notes();
  CHECK(keys.next_pass() == 2);
  CHECK_FALSE(keys.has({1, 10}));
  CHECK_FALSE(keys.has({1, 11}));
  CHECK(keys.has({2, 20}));
}

TEST_CASE("first copy pass is interrupted: keys before the saved position are known, later keys have an unknown value") {
  const File file;
  std::uint64_t recorded = 0;
  {
    KnownKeys keys = opened(KnownKeys::create(file.path));
    note(keys, {{1, 10}, {2, 20}});
    recorded = keys.to();
    note(keys, {{2, 21}, {3, 30}});
  }
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) + 7);  // the file now ends with a part of a note
  KnownKeys keys = opened(KnownKeys::resume(file.path, 0, recorded));
  CHECK(keys.has({1, 10}));
  CHECK_FALSE(keys.has({2, 20}));
  CHECK_FALSE(keys.has({2, 21}));
  CHECK_FALSE(keys.has({3, 30}));
  note(keys, {{1, 10}});
  keys.end_notes();
  CHECK(keys.is_gone(2));
  CHECK(keys.is_gone(3));
  CHECK(keys.to() == 5 * sizeof(Hashes));
}

TEST_CASE("later copy pass is interrupted twice: keys of the previous pass and of all its attempts are known") {
  const File file;
  std::uint64_t from = 0, to = 0;
  {
    KnownKeys keys = opened(KnownKeys::create(file.path));
    note(keys, {{7, 70}});
    keys.end_notes();
    keys.next_pass();
    note(keys, {{1, 10}, {2, 20}});
    keys.end_notes();
    keys.next_pass();
    from = keys.from();
    note(keys, {{1, 11}});
    to = keys.to();
  }
  CHECK(from == sizeof(Hashes));
  {
    KnownKeys keys = opened(KnownKeys::resume(file.path, from, to));
    CHECK(keys.has({1, 11}));
    CHECK(keys.has({2, 20}));
    note(keys, {{1, 11}, {4, 40}});
    CHECK(keys.from() == from);
    to = keys.to();
  }
  KnownKeys keys = opened(KnownKeys::resume(file.path, from, to));
  CHECK(keys.has({1, 11}));
  CHECK(keys.has({2, 20}));
  CHECK(keys.has({4, 40}));
  note(keys, {{1, 11}});
  keys.end_notes();
  CHECK(keys.is_gone(2));
  CHECK(keys.is_gone(4));
  CHECK_FALSE(keys.is_gone(7));  // of a pass before the last
  CHECK(keys.next_pass() == 1);
  CHECK(keys.from() == to);
}

TEST_CASE("file of known keys is shorter than the saved position: resuming fails, and the error has the file's size") {
  const File file;
  CHECK(KnownKeys::resume(file.path, 0, 0).status().message().find(file.path) != std::string::npos);
  {
    KnownKeys keys = opened(KnownKeys::create(file.path));
    note(keys, {{1, 10}});
  }
  CHECK(KnownKeys::resume(file.path, 0, 32).status().message().find("has 16 bytes") != std::string::npos);
  CHECK_FALSE(KnownKeys::resume(file.path, 16, 0).is_ok());
  CHECK(KnownKeys::resume(file.path, 16, 16).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
