// Tests that the scrub reads one table at a time and reports damage, and that verify reads all tables of a view.
#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "db/background/scrubber.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr TreeId kTree = 1;
constexpr Millis kHour = 3'600'000;

// A tree of two tables, files 1 and 3. A read of a file returns its errors in `damage`.
struct Bed {
  TreeFixture tree{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  LeaseRegistry leases;
  Millis now = 1'000'000;
  bool closing = false, gone = false;
  std::function<void()> while_reading = [] {};
  std::map<FileNum, std::string> damage;
  std::vector<FileNum> read, reported, whole;
  std::vector<std::string> errors;
  int taken = 0;
  std::vector<std::function<void()>> submitted;
  std::shared_ptr<TreeView> view = std::make_shared<TreeView>();
  Scrubber scrubber{
      {.now = [this] { return now; },
       .lease = [this](TreeId) { return gone ? nullptr : leases.lease(view, 2, now); },
       .read = [this](const FileMeta& meta, const std::function<bool()>&, TableCheck* check) { return find(meta, check); },
       .find_files = [this](const FileMeta& meta) { return find_files(tree.fs, "db", meta); },
       .report_damage =
           [this](FileNum file, const std::vector<Status>& found) {
             if (!found.empty()) reported.push_back(file);
           },
       .take_damage =
           [this] {
             ++taken;
             return Status::ok();
           },
       .found_whole =
           [this](FileNum file) {
             whole.push_back(file);
             return Status::ok();
           },
       .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
       .closing = [this] { return closing; },
       .report_error = [this](const std::string& text) { errors.push_back(text); }},
      0};

  Bed() {
    Source a, b;
    a.entries = {entry("a", 1)};
    b.entries = {entry("b", 2)};
    for (const Source* source : {&a, &b}) {
      ++tree.context.visible_seq;
      tree.flush(*source);
    }
    view->tree = kTree;
    open();
    scrubber.set_interval(kHour);
  }
  void open() { view->tables = open_tables(tree, &sink); }
  std::vector<Status> find(const FileMeta& meta, TableCheck* check) {
    read.push_back(meta.data_file);
    check->pages += 1;
    while_reading();
    const auto at = damage.find(meta.data_file);
    return at == damage.end() ? std::vector<Status>{} : std::vector<Status>{Status::corruption(at->second)};
  }
  void tick() {
    scrubber.tick({{kTree, view->tables}});
    for (const auto& work : std::exchange(submitted, {})) work();
  }
  // Runs for an hour and a half, with a tick a minute.
  void live() {
    for (int minute = 0; minute < 90; ++minute) {
      now += 60'000;
      tick();
    }
  }
  [[nodiscard]] FileNum file(std::size_t run) const { return tree.version->runs.at(run).files.front()->data_file; }
  void quarantine(FileNum number) {
    TreeEdit edit;
    edit.tree = kTree;
    edit.quarantined.emplace_back(number, "damaged");
    tree.install(edit);
    open();
  }
};

TEST_CASE("interval has passed: the scrub has read every table and counted its bytes") {
  Bed bed;
  bed.live();
  CHECK(std::set<FileNum>(bed.read.begin(), bed.read.end()) == std::set<FileNum>{bed.file(0), bed.file(1)});
  CHECK((bed.errors.empty() && bed.scrubber.errors() == 0));
  CHECK(bed.scrubber.bytes_read() > 2 * 800);
}

TEST_CASE("interval is 0, or the database closes: the scrub reads nothing") {
  Bed bed;
  bed.scrubber.set_interval(0);
  bed.live();
  bed.scrubber.set_interval(kHour);
  bed.closing = true;
  bed.live();
  CHECK(bed.read.empty());
}

TEST_CASE("several tables are due: the scrub submits one read at a time") {
  Bed bed;
  bed.now += 60'000;
  bed.scrubber.tick({{kTree, bed.view->tables}});
  for (int minute = 0; minute < 180; ++minute) {
    bed.now += 60'000;
    bed.scrubber.tick({{kTree, bed.view->tables}});
  }
  CHECK(bed.submitted.size() == 1);
}

TEST_CASE("scrub finds damage: the damage is reported, logged and counted") {
  Bed bed;
  bed.damage[bed.file(0)] = "bad page";
  bed.live();
  REQUIRE_FALSE(bed.errors.empty());
  CHECK(bed.errors.front() == "scrub: corruption: bad page");
  CHECK(bed.reported.front() == bed.file(0));
  CHECK(bed.scrubber.errors() == bed.errors.size());
}

TEST_CASE("lease of a table is revoked while the scrub reads the table: errors of the read are ignored") {
  Bed bed;
  bed.damage[bed.file(0)] = bed.damage[bed.file(1)] = "gone";
  bed.while_reading = [&] { bed.leases.revoke_if([](const TreeView&) { return true; }); };
  bed.live();
  CHECK_FALSE(bed.read.empty());
  CHECK((bed.errors.empty() && bed.reported.empty() && bed.scrubber.bytes_read() == 0));
}

TEST_CASE("table's tree was dropped, or the table was merged: the scrub does not read the table") {
  Bed bed;
  bed.gone = true;
  bed.live();
  bed.gone = false;
  const auto before = bed.view->tables;
  auto after = std::make_shared<TablesView>();
  after->version = before->version;
  bed.view->tables = after;
  for (int minute = 0; minute < 90; ++minute) {
    bed.now += 60'000;
    bed.scrubber.tick({{kTree, before}});
    for (const auto& work : std::exchange(bed.submitted, {})) work();
  }
  CHECK(bed.read.empty());
}

TEST_CASE("table is quarantined: the scrub skips it, and reads the other tables") {
  Bed bed;
  bed.quarantine(bed.file(0));
  bed.live();
  CHECK(std::set<FileNum>(bed.read.begin(), bed.read.end()) == std::set<FileNum>{bed.file(1)});
}

TEST_CASE("verify runs: it checks all tables of the view, and reads quarantined ones from the drive") {
  Bed bed;
  bed.quarantine(bed.file(0));
  const auto lease = bed.leases.lease(bed.view, 2, bed.now);
  const auto report = bed.scrubber.verify(*lease);
  REQUIRE(report.is_ok());
  CHECK((report->files == 2 && report->errors.empty() && report->bytes > 2 * 800));
  CHECK(bed.read == std::vector<FileNum>{bed.file(0)});
  CHECK((bed.whole == bed.read && bed.taken == 1));  // the file has no error, so its quarantine ends

  bed.whole.clear();
  bed.damage[bed.file(0)] = "bad page";
  CHECK(bed.scrubber.verify(*lease)->errors == std::vector<std::string>{"corruption: bad page"});
  CHECK(bed.errors == std::vector<std::string>{"verify: corruption: bad page"});
  CHECK((bed.whole.empty() && bed.reported == std::vector<FileNum>{bed.file(0)}));
}

TEST_CASE("file of an open table is missing: verify reports it, though the open file can still be read") {
  Bed bed;
  const FileMeta& meta = *bed.tree.version->runs.at(0).files.front();
  const bool data = GENERATE(true, false);
  const std::string path = "db/" + (data ? data_file_name(meta.data_file) : metadata_file_name(meta.metadata_file));
  REQUIRE(bed.tree.memory.unlink(path).is_ok());
  const auto report = bed.scrubber.verify(*bed.leases.lease(bed.view, 2, bed.now));
  REQUIRE(report.is_ok());
  CHECK(report->errors == std::vector<std::string>{"corruption: " + path + ": is missing"});
  CHECK(bed.reported == std::vector<FileNum>{meta.data_file});
}

TEST_CASE("lease of verify is revoked, or the database closes: verify returns an error") {
  Bed bed;
  bed.quarantine(bed.file(0));
  const auto lease = bed.leases.lease(bed.view, 2, bed.now);
  bed.while_reading = [&] { bed.closing = true; };
  CHECK(bed.scrubber.verify(*lease).status().code() == Code::kAborted);
  bed.closing = false;
  bed.while_reading = [&] { lease->revoke(); };
  CHECK(bed.scrubber.verify(*lease).status().code() == Code::kRevoked);
}

}  // namespace TEST_FILE
