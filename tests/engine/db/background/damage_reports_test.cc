// Tests of which read error of a file is kept, and when files are checked again.
#include "db/background/damage_reports.h"

#include <catch2/catch.hpp>

#include <utility>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST_CASE("read errors of files are reported: take() returns the first error of each file, and then nothing") {
  DamageReports reports;
  CHECK_FALSE(reports.pending());
  reports.report(3, Status::corruption("first"));
  reports.report(3, Status::corruption("second"));
  reports.report(5, Status::io_error("device"));
  CHECK(reports.pending());
  const auto taken = reports.take();
  REQUIRE(taken.size() == 2);
  CHECK((taken.at(3).message() == "first" && taken.at(5).message() == "device"));
  CHECK_FALSE(reports.pending());
  CHECK(reports.take().empty());
}

TEST_CASE("damage is reported after an error of the device: take() returns the damage, also after further errors") {
  DamageReports reports;
  reports.report(3, Status::io_error("device"));
  reports.report(3, Status::corruption("damage"));
  reports.report(3, Status::io_error("device again"));
  CHECK(reports.take().at(3).message() == "damage");
}

TEST_CASE("file was read without an error: the earlier report about it is dropped") {
  DamageReports reports;
  reports.report(3, Status::io_error("device"));
  reports.report(5, Status::io_error("device"));
  reports.forget(3);
  const auto taken = reports.take();
  CHECK((taken.size() == 1 && taken.count(5) == 1));
}

TEST_CASE("file is checked again and again: each wait is twice as long as the last, up to the longest wait") {
  FileChecks checks;
  checks.add(3, 0, 10 * kSecond);
  CHECK_FALSE(checks.next(10 * kSecond - 1, 30 * kSecond));
  CHECK(checks.next(10 * kSecond, 30 * kSecond) == FileNum{3});
  CHECK_FALSE(checks.next(30 * kSecond - 1, 30 * kSecond));
  CHECK(checks.next(30 * kSecond, 30 * kSecond) == FileNum{3});
  CHECK_FALSE(checks.next(60 * kSecond - 1, 30 * kSecond));
  CHECK(checks.next(60 * kSecond, 30 * kSecond) == FileNum{3});
}

TEST_CASE("several files are due for a check: the one that has been due for longest comes first") {
  FileChecks checks;
  checks.add(3, 0, 20 * kSecond);
  checks.add(5, 0, 10 * kSecond);
  CHECK(checks.next(25 * kSecond, 99 * kSecond) == FileNum{5});
  CHECK(checks.next(25 * kSecond, 99 * kSecond) == FileNum{3});
  CHECK_FALSE(checks.next(25 * kSecond, 99 * kSecond));
}

TEST_CASE("file is added again: its check time and its number of failures are kept until it is removed") {
  FileChecks checks;
  checks.add(3, 0, 10 * kSecond);
  CHECK((checks.failed(3) == 1 && checks.failed(3) == 2));
  checks.add(3, 100 * kSecond, 10 * kSecond);
  CHECK(checks.next(10 * kSecond, 99 * kSecond) == FileNum{3});
  CHECK(checks.failed(3) == 3);
  checks.remove(3);
  CHECK(checks.failed(3) == 0);
  CHECK_FALSE(checks.next(500 * kSecond, 99 * kSecond));
}

}  // namespace TEST_FILE
