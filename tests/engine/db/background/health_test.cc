// Tests that a failure makes the database read-only until an attempt to recover succeeds.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "db/background/health.h"

namespace TEST_FILE {

using namespace ebbtide;

struct Bed {
  SimulatedClock clock;
  FlushGate gate;
  bool reserve = false, closing = false;
  Status outcome = Status::ok();  // result of recover()
  Status directory = Status::ok();
  int tries = 0;
  std::vector<std::function<void()>> submitted;
  std::vector<std::string> calls;  // changed, healed, and lines of the log
  Health health{{.clock = &clock,
                 .gate = &gate,
                 .now = [this] { return clock.wall_ms(); },
                 .give_up_reserve = [this] { return std::exchange(reserve, false); },
                 .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                 .closing = [this] { return closing; },
                 .check_directory = [this] { return directory; },
                 .recover =
                     [this] {
                       ++tries;
                       CHECK_FALSE(health.is_ok());  // writes are refused until recovery has succeeded
                       return outcome;
                     },
                 .changed = [this] { calls.push_back(health.is_ok() ? "changed to ok" : "changed to read-only"); },
                 .healed = [this] { calls.emplace_back("healed"); },
                 .log = [this](Severity, const std::string& text) { calls.push_back(text); }}};

  void tick() {
    health.tick();
    for (const auto& work : std::exchange(submitted, {})) work();
  }
  void pass(std::uint64_t ms) { clock.advance(ms); }
};

TEST_CASE("background job fails: the database is read-only, and log line and write error name the job") {
  Bed bed;
  CHECK((bed.health.is_ok() && !bed.health.read_only() && bed.health.write_status().is_ok()));
  bed.health.failed(Status::io_error("device gone"), "flush");
  CHECK((!bed.health.is_ok() && bed.health.read_only()));
  CHECK(bed.health.error().code() == Code::kIoError);
  CHECK(bed.health.write_status().code() == Code::kReadOnly);
  CHECK(bed.health.write_status().to_string().find("flush") != std::string::npos);
  REQUIRE(bed.calls.size() == 2);
  CHECK(bed.calls[0] == "changed to read-only");
  CHECK(bed.calls[1].starts_with("read-only: flush: "));
}

TEST_CASE("read-only database fails again: the first failure remains the reason, and the second is not logged") {
  Bed bed;
  bed.health.failed(Status::io_error("first"), "flush");
  bed.health.failed(Status::io_error("second"), "log");
  CHECK(bed.health.error().to_string().find("first") != std::string::npos);
  CHECK(bed.calls.size() == 2);
}

TEST_CASE("database has failed: recovery is tried after two seconds, and then every two seconds until it succeeds") {
  Bed bed;
  bed.outcome = Status::io_error("still gone");
  bed.health.failed(Status::io_error("gone"), "flush");
  bed.pass(1999);
  bed.tick();
  CHECK(bed.tries == 0);
  bed.pass(1);
  bed.tick();
  bed.tick();
  CHECK(bed.tries == 1);
  bed.pass(2000);
  bed.tick();
  CHECK((bed.tries == 2 && bed.health.read_only()));
  bed.calls.clear();
  bed.outcome = Status::ok();
  bed.pass(2000);
  bed.tick();
  CHECK((bed.health.is_ok() && bed.health.write_status().is_ok()));
  CHECK(bed.calls == std::vector<std::string>{"changed to ok", "writes are accepted again", "healed"});
  bed.pass(2000);
  bed.tick();
  CHECK(bed.tries == 3);
}

TEST_CASE("recovery fails: each kind of error is logged once, and a cancelled attempt is not logged") {
  Bed bed;
  bed.health.failed(Status::io_error("gone"), "flush");
  bed.calls.clear();
  for (const Status& status : {Status::io_error("a"), Status::io_error("b"), Status::aborted("c"), Status::no_space("d")}) {
    bed.outcome = status;
    bed.pass(2000);
    bed.tick();
  }
  REQUIRE(bed.calls.size() == 2);
  CHECK(bed.calls[0] == "still read-only: " + Status::io_error("a").to_string());
  CHECK(bed.calls[1] == "still read-only: " + Status::no_space("d").to_string());
}

TEST_CASE("recovery fails: its error becomes the reason for read-only, unless it is damage or a cancelled attempt") {
  Bed bed;
  bed.health.failed(Status::io_error("gone"), "flush");
  for (const auto& [outcome, reason] : std::vector<std::pair<Status, std::string>>{{Status::aborted("a"), "flush: gone"},
                                                                                   {Status::corruption("b"), "flush: gone"},
                                                                                   {Status::no_space("c"), "c"},
                                                                                   {Status::io_error("d"), "d"}}) {
    bed.outcome = outcome;
    bed.pass(2000);
    bed.tick();
    CHECK(bed.health.error().message() == reason);
  }
  CHECK(bed.tries == 4);
}

TEST_CASE("directory is lost: any failure is reported as the lost directory, and recovery waits until it is back") {
  Bed bed;
  bed.directory = Status::io_error("data was moved");
  bed.health.failed(Status::not_found("create 7.data"), "flush");
  CHECK(bed.health.error().to_string() == "I/O error: data directory: data was moved");
  CHECK(bed.calls == std::vector<std::string>{"changed to read-only", "read-only: data directory: I/O error: data was moved"});
  for (int i = 0; i < 3; ++i) {
    bed.pass(2000);
    bed.tick();
  }
  CHECK((bed.tries == 0 && bed.health.read_only() && bed.calls.size() == 2));
  bed.directory = Status::ok();
  bed.pass(2000);
  bed.tick();
  CHECK((bed.tries == 1 && bed.health.is_ok()));
}

TEST_CASE("directory is lost while the disk is full: the lost directory is the reason for read-only until it is back") {
  Bed bed;
  bed.outcome = Status::no_space("full");
  bed.health.failed(Status::no_space("full"), "flush");
  bed.tick();
  bed.directory = Status::io_error("data was moved");
  bed.pass(2000);
  bed.tick();
  CHECK(bed.health.error().to_string() == "I/O error: data directory: data was moved");
  CHECK(bed.calls.back() == "still read-only: I/O error: data directory: data was moved");
  bed.directory = Status::ok();
  bed.pass(2000);
  bed.tick();
  CHECK((bed.tries == 2 && bed.health.error().to_string() == "no space: full"));
}

TEST_CASE("disk is full: recovery is tried on the next tick, and again at once after the reserve file is removed") {
  Bed bed;
  bed.outcome = Status::no_space("full");
  bed.health.failed(Status::no_space("full"), "flush");
  bed.tick();
  CHECK(bed.tries == 1);
  bed.tick();
  CHECK(bed.tries == 1);
  bed.reserve = true;
  bed.health.failed(Status::no_space("full"), "log");
  bed.tick();
  CHECK(bed.tries == 2);
}

TEST_CASE("failure is corruption, or the database is closing: recovery is not tried") {
  Bed bed;
  bed.health.failed(Status::corruption("bad"), "compaction");
  bed.pass(10'000);
  bed.tick();
  CHECK(bed.tries == 0);

  Bed other;
  other.health.failed(Status::io_error("gone"), "flush");
  other.pass(2000);
  other.health.tick();
  other.closing = true;
  for (const auto& work : std::exchange(other.submitted, {})) work();
  other.pass(2000);
  other.tick();
  CHECK((other.tries == 0 && other.health.read_only()));
}

TEST_CASE("database was healed after a recovery attempt was queued: the attempt does nothing") {
  Bed bed;
  bed.health.failed(Status::io_error("gone"), "flush");
  bed.pass(2000);
  bed.health.tick();
  bed.pass(2000);
  bed.health.tick();
  REQUIRE(bed.submitted.size() == 2);
  for (const auto& work : std::exchange(bed.submitted, {})) work();
  CHECK((bed.tries == 1 && bed.health.is_ok()));
}

TEST_CASE("disk has no space for a write: disk_refused_at() returns the time of the refusal") {
  Bed bed;
  bed.pass(5000);
  bed.health.note_refusal(Status::corruption("bad"));
  CHECK(bed.health.disk_refused_at() == 0);
  bed.health.note_refusal(Status::no_space("full"));
  CHECK(bed.health.disk_refused_at() == bed.clock.wall_ms());
}

}  // namespace TEST_FILE
