// Tests of what the watch notices about the files of log and manifest, the directory and its lock, and the names of tables.
#include "db/background/file_watch.h"

#include <catch2/catch.hpp>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/file_names.h"
#include "io/interposed_fs.h"
#include "io/memory_fs.h"
#include "support/files.h"
#include "version/manifest.h"
#include "wal/log_writer.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr FileNum kOld = 2, kCurrent = 3, kManifest = 5;
constexpr Millis kSecond = 1000, kMinute = 60 * kSecond;
using Lost = std::vector<std::pair<FileNum, std::string>>;

// A log of two segments, a manifest and CURRENT. Work that is submitted runs when the test calls run().
struct Bed {
  MemoryFileSystem fs;
  SimulatedClock clock;
  std::unique_ptr<LogWriter> old, current;
  std::unique_ptr<ManifestWriter> manifest;
  FileNum names_manifest = kManifest;  // the manifest that the database uses

  bool healthy = true, closing = false;
  Result<std::string> renewed = std::string();
  Status directory;
  std::set<std::string> tables;
  std::optional<std::set<std::string>> tables_later;  // the result of table_files() from the second call on
  Lost log_lost, manifest_damaged;
  std::vector<std::string> manifest_lost, directory_lost, log;
  std::vector<std::function<void()>> submitted;

  FileWatch watch{
      {.fs = &fs,
       .dir = "db",
       .clock = &clock,
       .healthy = [this] { return healthy; },
       .renew_lock = [this] { return renewed; },
       .check_directory = [this] { return directory; },
       .directory_lost = [this](const Status& why) { directory_lost.emplace_back(why.message()); },
       .segments = [this] { return segments(); },
       .log_lost = [this](FileNum file, const Status& why) { log_lost.emplace_back(file, why.message()); },
       .with_manifest =
           [this](const std::function<Status(FileNum, std::uint64_t)>& check) { return check(names_manifest, manifest->size()); },
       .manifest_lost = [this](const Status& why) { manifest_lost.emplace_back(why.message()); },
       .manifest_damaged = [this](FileNum file, const Status& why) { manifest_damaged.emplace_back(file, why.message()); },
       .table_files = [this] { return std::exchange(tables, tables_later.value_or(tables)); },
       .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
       .closing = [this] { return closing; },
       .log = [this](Severity, const std::string& text) { log.push_back(text); }}};

  Bed() {
    REQUIRE(fs.create_dir("db").is_ok());
    old = LogWriter::create(fs, "db", kOld).value();
    current = LogWriter::create(fs, "db", kCurrent).value();
    manifest = ManifestWriter::create(fs, "db", kManifest, std::string(1000, 's')).value();
    REQUIRE(write_current(fs, "db", kManifest).is_ok());
    append(*old, 1000);
    append(*current, 1000);
    clock.advance(kMinute);
    watch.tick();
    REQUIRE(is_quiet());
  }
  static void append(LogWriter& writer, std::size_t bytes) {
    const std::string payload(bytes, 'p');
    const LogRecord record{payload};
    REQUIRE(writer.append({&record, 1}).is_ok());
  }
  std::vector<LogSegment> segments() {
    return {{.file = kOld, .bytes = old->size()}, {.file = kCurrent, .bytes = current->size(), .open = open_}};
  }
  [[nodiscard]] bool is_quiet() const {
    return log_lost.empty() && manifest_lost.empty() && manifest_damaged.empty() && directory_lost.empty() && log.empty();
  }
  void tick(Millis ms = kSecond) {
    clock.advance(ms);
    watch.tick();
  }
  void run() {
    for (const auto& work : std::exchange(submitted, {})) work();
  }

 private:
  const std::shared_ptr<int> open_ = std::make_shared<int>();
};

std::string path_of(FileNum segment) { return "db/" + log_file_name(segment); }
const std::string kManifestPath = "db/" + manifest_file_name(kManifest);

TEST_CASE("another program changes a segment: within a second the segment is reported lost, with the kind of change") {
  const auto [how, message] = GENERATE(table<std::string, std::string>({{"removed", " was removed while"},
                                                                        {"directory", " was replaced while"},
                                                                        {"cut", " was truncated to 20 of "},
                                                                        {"head", " was changed in its first 4 bytes while"},
                                                                        {"tail", "was truncated, or was changed at "}}));
  Bed bed;
  const std::string path = path_of(kOld);
  const std::size_t size = bed.old->size();
  if (how == "removed" || how == "directory") REQUIRE(bed.fs.unlink(path).is_ok());
  if (how == "directory") REQUIRE(bed.fs.create_dir(path).is_ok());
  if (how == "cut") REQUIRE(bed.fs.truncate(path, 20).is_ok());
  if (how == "head") flip(bed.fs, path, 0);
  if (how == "tail") flip(bed.fs, path, size - 1);
  bed.tick(kSecond - 1);
  CHECK(bed.log_lost.empty());
  bed.tick(1);
  REQUIRE(bed.log_lost.size() == 1);
  CHECK(bed.log_lost.front().first == kOld);
  CHECK(bed.log_lost.front().second.find(path) == 0);
  CHECK(bed.log_lost.front().second.find(message) != std::string::npos);
  CHECK(bed.manifest_lost.empty());
}

TEST_CASE("database appends to its segment: only bytes from before the last check are compared, so nothing is reported") {
  Bed bed;
  for (int i = 0; i < 5; ++i) {
    Bed::append(*bed.current, 100);
    bed.tick();
  }
  CHECK(bed.is_quiet());
  // The file was truncated and has grown again: it has its old size, but other bytes at the noted offset.
  std::string bytes = read_file(bed.fs, path_of(kCurrent)).value();
  Bed::append(*bed.current, 500);
  for (std::size_t i = 0; i < 10; ++i) bytes[bytes.size() - 1 - i] = '\0';
  rewrite(bed.fs, path_of(kCurrent), bytes + std::string(600, 'p'));
  bed.tick();
  REQUIRE(bed.log_lost.size() == 1);
  CHECK(bed.log_lost.front().first == kCurrent);
}

TEST_CASE("manifest or CURRENT is changed: the manifest is reported lost") {
  const std::string how =
      GENERATE("manifest removed", "manifest cut", "CURRENT removed", "CURRENT of another", "CURRENT damaged");
  Bed bed;
  const std::string current = "db/" + std::string(kCurrentFileName);
  if (how == "manifest removed") REQUIRE(bed.fs.unlink(kManifestPath).is_ok());
  if (how == "manifest cut") REQUIRE(bed.fs.truncate(kManifestPath, 10).is_ok());
  if (how == "CURRENT removed") REQUIRE(bed.fs.unlink(current).is_ok());
  if (how == "CURRENT of another") REQUIRE(write_current(bed.fs, "db", kManifest + 1).is_ok());
  if (how == "CURRENT damaged") flip(bed.fs, current, 3);
  bed.tick();
  INFO(how);
  REQUIRE(bed.manifest_lost.size() == 1);
  CHECK(bed.manifest_lost.front().find(how.starts_with("manifest") ? kManifestPath : current) == 0);
  CHECK(bed.log_lost.empty());
}

TEST_CASE("database is healing a failure: no file is checked until the healing has ended") {
  Bed bed;
  bed.healthy = false;
  REQUIRE(bed.fs.unlink(path_of(kOld)).is_ok());
  bed.tick();
  CHECK(bed.is_quiet());
  bed.healthy = true;
  bed.tick();
  CHECK(bed.log_lost.size() == 1);
}

TEST_CASE("directory is lost: this is reported, and its files are not checked") {
  Bed bed;
  bed.directory = Status::io_error("moved away");
  REQUIRE(bed.fs.unlink(path_of(kOld)).is_ok());
  bed.tick();
  CHECK(bed.directory_lost == std::vector<std::string>{"moved away"});
  CHECK((bed.log_lost.empty() && !bed.watch.check_now()));
}

TEST_CASE("LOCK was removed and made again, or another process holds it: each is logged once") {
  Bed bed;
  bed.renewed = std::string("LOCK was removed");
  bed.tick();
  bed.renewed = Status::busy("another process has LOCK");
  bed.tick();
  bed.tick();
  REQUIRE(bed.log.size() == 2);
  CHECK(bed.log[0] == "LOCK was removed");
  CHECK(bed.log[1].find("another process has LOCK") != std::string::npos);
  CHECK(bed.directory_lost.empty());
  bed.directory = Status::busy("another process may use the directory");
  bed.tick();
  CHECK(bed.directory_lost.size() == 1);
}

TEST_CASE("middle byte of log or manifest changes: the next of the 30 full reads per scrub interval finds it") {
  Bed bed;
  bed.watch.set_scrub_interval(30 * kMinute);
  const bool manifest = GENERATE(false, true);
  flip(bed.fs, manifest ? kManifestPath : path_of(kOld), 500);
  for (int second = 0; second < 58; ++second) bed.tick();
  bed.run();
  CHECK((bed.log_lost.empty() && bed.manifest_damaged.empty()));
  bed.tick(2 * kSecond);
  REQUIRE(bed.submitted.size() == 1);
  bed.run();
  const Lost& found = manifest ? bed.manifest_damaged : bed.log_lost;
  REQUIRE(found.size() == 1);
  CHECK(found.front().first == (manifest ? kManifest : kOld));
}

TEST_CASE("scrub interval is 0: files of log and manifest are not read as a whole") {
  Bed bed;
  flip(bed.fs, path_of(kOld), 500);
  for (int minute = 0; minute < 100; ++minute) {
    bed.tick(kMinute);
    bed.run();
  }
  CHECK(bed.is_quiet());
}

TEST_CASE("database closes: the manifest is read as a whole at once, and damage in its middle is reported") {
  Bed bed;
  CHECK(bed.watch.check_now());
  flip(bed.fs, kManifestPath, 500);
  CHECK_FALSE(bed.watch.check_now());
  REQUIRE(bed.manifest_damaged.size() == 1);
  CHECK(bed.manifest_damaged.front().first == kManifest);
  CHECK(bed.manifest_damaged.front().second.find(kManifestPath) == 0);
}

TEST_CASE("file of a table was removed from the directory: this is logged once") {
  Bed bed;
  const std::string name = data_file_name(7);
  rewrite(bed.fs, "db/" + name, "table");
  bed.tables = {name};
  bed.tick(kMinute);
  bed.run();
  CHECK(bed.log.empty());
  REQUIRE(bed.fs.unlink("db/" + name).is_ok());
  for (int minute = 0; minute < 3; ++minute) {
    bed.tick(kMinute);
    bed.run();
  }
  REQUIRE(bed.log.size() == 1);
  CHECK(bed.log.front().find("db/" + name + " was removed") == 0);
}

TEST_CASE("merge replaces a table while the directory is listed: the table's file is not reported as removed") {
  Bed bed;
  bed.tables = {data_file_name(7)};
  bed.tables_later.emplace();
  bed.tick(kMinute);
  bed.run();
  CHECK(bed.log.empty());
}

TEST_CASE("scrub of log and manifest is pending: no second one is submitted") {
  Bed bed;
  bed.watch.set_scrub_interval(30 * kSecond);
  bed.tick();
  REQUIRE(bed.submitted.size() == 1);
  for (int second = 0; second < 5; ++second) bed.tick();
  CHECK(bed.submitted.size() == 1);  // a scrub was due at each of the five ticks
  flip(bed.fs, path_of(kOld), 500);
  bed.closing = true;
  bed.run();
  CHECK(bed.log_lost.empty());
  bed.closing = false;
  bed.tick();
  CHECK(bed.submitted.size() == 1);
}

}  // namespace TEST_FILE
