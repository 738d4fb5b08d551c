// Tests of the history of the workload: how it ages, and its file format.
#include "db/admin/workload_history.h"

#include <catch2/catch.hpp>

#include "base/checksum.h"
#include "base/coding.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kWindow = WorkloadHistory::kWindow, kHour = WorkloadHistory::kHour, kWeek = WorkloadHistory::kKept;
constexpr Millis kNow = 500'000 * kHour;  // in the year 2027

WorkloadHistory sample() {
  WorkloadHistory history;
  history.add(0, {kNow - 2 * kWindow, kWindow, {1, 2, 3, 4, 50}});
  history.add(0, {kNow - kWindow, kWindow, {10, 20, 30, 40, 500, 6, 7}});
  history.add(15, {kNow - kWindow, 999, {0, 0, 0, 1, 0}});
  return history;
}

/// Replaces the checksum by the right one.
std::string signed_again(std::string file) {
  file.resize(file.size() - 8);
  put_u64(&file, block_checksum(file, kNoFile, 0));
  return file;
}

TEST_CASE("window has no operations: it is not stored") {
  WorkloadHistory history;
  history.add(2, {kNow, kWindow, {}});
  CHECK(history == WorkloadHistory());
  CHECK(history.windows(2).empty());
  history.add(2, {kNow, kWindow, {.stamp_deletes = 1}});
  CHECK(history.windows(2).size() == 1);
}

TEST_CASE("windows are older than a day: those of an hour are merged, and after a week they are dropped") {
  WorkloadHistory history;
  history.add(0, {kNow - kWeek - 2 * kHour, kHour, {1000, 0, 0, 0, 0}});
  const Millis old = kNow - 30 * kHour;
  for (int i = 0; i < 120; ++i) history.add(0, {old + i * kWindow, kWindow, {1, 0, 0, 2, 0}});
  history.add(0, {kNow - kHour, kWindow, {0, 5, 0, 0, 0}});
  history.add(0, {kNow - kHour + kWindow, kWindow, {0, 6, 0, 0, 0}});
  history.age(kNow);
  CHECK(history.windows(0) == std::vector<WorkloadWindow>{{old, kHour, {60, 0, 0, 120, 0}},
                                                          {old + kHour, kHour, {60, 0, 0, 120, 0}},
                                                          {kNow - kHour, kWindow, {0, 5, 0, 0, 0}},
                                                          {kNow - kHour + kWindow, kWindow, {0, 6, 0, 0, 0}}});
  const WorkloadHistory before = history;
  history.age(kNow);
  CHECK(history == before);
  history.age(kNow + 2 * kWeek);
  CHECK(history == WorkloadHistory());
}

TEST_CASE("databases have many windows: the oldest beyond the limit are dropped, and each database keeps an equal share") {
  WorkloadHistory history;
  constexpr std::size_t kDatabases = 128, kShare = WorkloadHistory::kMostWindows / kDatabases;
  for (DatabaseId database = 0; database < kDatabases; ++database) {
    for (std::size_t i = 0; i < kShare + 5; ++i) history.add(database, {kNow - kHour + i, 1, {1, 0, 0, 0, 0}});
  }
  history.age(kNow);
  for (DatabaseId database = 0; database < kDatabases; ++database) {
    REQUIRE(history.windows(database).size() == kShare);
    REQUIRE(history.windows(database).front().start == kNow - kHour + 5);
  }
}

TEST_CASE("workload history is encoded: decoding it returns the same history") {
  for (const WorkloadHistory& history : {sample(), WorkloadHistory()}) {
    const auto back = WorkloadHistory::decode(history.encode());
    REQUIRE(back.is_ok());
    CHECK(*back == history);
  }
}

TEST_CASE("history file is of version 1: its windows are read with no deletes") {
  std::string file;
  put_u32(&file, WorkloadHistory::kMagic);
  put_u32(&file, 1);
  for (const std::uint64_t number : {1, 3, 1}) put_varint(&file, number);  // one database, number 3, one window
  for (const std::uint64_t number : {kNow, kWindow, Millis{1}, Millis{2}, Millis{3}, Millis{4}, Millis{50}})
    put_varint(&file, number);
  put_u64(&file, block_checksum(file, kNoFile, 0));
  const auto read = WorkloadHistory::decode(file);
  REQUIRE(read.is_ok());
  CHECK(read->windows(3) == std::vector<WorkloadWindow>{{kNow, kWindow, {1, 2, 3, 4, 50}}});
}

TEST_CASE("any bit of the history file is wrong, or its end is missing: reading it fails") {
  const std::string file = sample().encode();
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    CAPTURE(bit);
    REQUIRE_FALSE(WorkloadHistory::decode(damaged).is_ok());
  }
  for (std::size_t length = 0; length < file.size(); ++length)
    REQUIRE(WorkloadHistory::decode(file.substr(0, length)).status().code() == Code::kCorruption);
}

TEST_CASE("history file has malformed content with a correct checksum: decoding does not crash") {
  const std::string file = sample().encode();
  for (std::size_t at = 8; at + 8 < file.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      std::string wrong = file;
      wrong[at] = static_cast<char>(wrong[at] ^ change);
      const auto read = WorkloadHistory::decode(signed_again(wrong));  // must not crash; some changes give another history
      if (read.is_ok()) REQUIRE(read->encode().size() >= 16);
    }
  }
  std::string longer = file;
  longer.insert(longer.size() - 8, 1, 'x');
  CHECK(WorkloadHistory::decode(signed_again(longer)).status().to_string().find("malformed") != std::string::npos);
}

TEST_CASE("newer version wrote the history file: the error names both format versions") {
  std::string file = sample().encode();
  file[4] = 3;
  const Status status = WorkloadHistory::decode(signed_again(file)).status();
  CHECK(status.code() == Code::kUnsupported);
  CHECK(status.to_string().find("version 3, and this program reads up to version 2") != std::string::npos);
}

}  // namespace TEST_FILE
