// Tests of the order in which a checkpoint makes its files: an unfinished checkpoint must not open.
#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/admin/checkpoint.h"
#include "engine/db/background/tables.h"
#include "version/manifest.h"
#include "version/version_set.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A database of one table and two log segments, the second of which has 9 bytes so far.
struct Bed {
  TreeFixture files{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  Mutex link_mutex;
  LeaseRegistry leases;
  LogPins pins;
  std::shared_ptr<TreeView> view = std::make_shared<TreeView>();
  std::unique_ptr<VersionSet> versions;
  bool closing = false;
  int pinned = 0;
  std::vector<SeqNum> synced;
  Status sync_status = Status::ok();
  std::function<void(const CheckpointState&)> when_taken = [](const CheckpointState&) {};
  CheckpointEnv env{.fs = &files.fs,
                    .dir = "db",
                    .link_mutex = &link_mutex,
                    .visible_seq = [] { return SeqNum{42}; },
                    .now = [] { return Millis{1000}; },
                    .wait_synced =
                        [this](SeqNum seq) {
                          synced.push_back(seq);
                          return sync_status;
                        },
                    .take = [this](SeqNum seq) { return take(seq); },
                    .unpin =
                        [this](const std::shared_ptr<LogPin>& pin) {
                          pins.unpin(pin);
                          --pinned;
                        },
                    .closing = [this] { return closing; }};

  Bed() {
    Source source;
    source.entries = {entry("a", ++files.context.visible_seq)};
    files.flush(source);
    view->tables = open_tables(files, &sink);
    versions = VersionSet::create(files.fs, "db").value();
    write("db/" + log_file_name(500), "a whole segment");
    write("db/" + log_file_name(501), "some more is written later");
  }
  void write(const std::string& path, const std::string& text) {
    auto file = std::move(files.fs.create(path)).value();
    REQUIRE((file->append(text).is_ok() && file->sync().is_ok() && file->close().is_ok()));
  }
  Result<CheckpointState> take(SeqNum seq) {
    CheckpointState state;
    state.manifest = 600;
    state.record = versions->snapshot_record();
    state.trees.push_back(leases.lease(view, seq, 1000));
    LogSegment first, second;
    first.file = 500;
    first.bytes = 15;
    second.file = 501;
    second.bytes = 9;
    state.segments = {first, second};
    state.log_pin = pins.pin(500, 501);
    ++pinned;
    when_taken(state);
    return state;
  }
  std::set<std::string> names() {
    auto list = files.fs.list("copy");
    return list.is_ok() ? std::set<std::string>(list->begin(), list->end()) : std::set<std::string>{};
  }
  std::string read(const std::string& path) {
    const auto size = files.fs.file_size(path);
    REQUIRE(size.is_ok());
    std::string text(static_cast<std::size_t>(*size), 0);
    REQUIRE((*files.fs.open(path))->read(0, text.size(), text.data()).is_ok());
    return text;
  }
};

TEST_CASE("checkpoint is made: it has the tables, the log as far as it is written, and a manifest") {
  Bed bed;
  const auto report = make_checkpoint(bed.env, "copy");
  REQUIRE(report.is_ok());
  CHECK((report->seq == 42 && report->time == 1000 && bed.synced == std::vector<SeqNum>{42}));
  const FileMeta& table = *bed.files.version->runs.front().files.front();
  CHECK(bed.names() == std::set<std::string>{data_file_name(table.data_file), metadata_file_name(table.metadata_file),
                                             log_file_name(500), log_file_name(501), manifest_file_name(600),
                                             std::string(kCurrentFileName)});
  CHECK(bed.read("copy/" + log_file_name(500)) == "a whole segment");
  CHECK(bed.read("copy/" + log_file_name(501)) == "some more");
  CHECK((report->files == 4 && report->bytes_copied == 9 && report->damaged == 0));
  CHECK(report->bytes == 15 + 9 + table.data_bytes + table.metadata_bytes);
  CHECK((bed.pinned == 0 && bed.leases.count() == 0));
  CHECK(VersionSet::open(bed.files.fs, "copy").is_ok());
}

TEST_CASE("checkpoint's target is not empty, or is in the data directory: the checkpoint is refused") {
  Bed bed;
  CHECK(make_checkpoint(bed.env, "").status().code() == Code::kInvalidArgument);
  CHECK(make_checkpoint(bed.env, "db/copy").status().code() == Code::kInvalidArgument);
  REQUIRE(bed.files.fs.create_dir("copy").is_ok());
  bed.write("copy/other", "x");
  CHECK(make_checkpoint(bed.env, "copy").status().code() == Code::kExists);
  CHECK(bed.names() == std::set<std::string>{"other"});
  CHECK(bed.synced.empty());
}

TEST_CASE("checkpoint fails: it removes its files and its directory, and unpins the log") {
  Bed bed;
  bed.when_taken = [&](const CheckpointState&) { bed.files.fs.inject({.ops = ops_of(FileOp::kSyncDir)}); };
  CHECK_FALSE(make_checkpoint(bed.env, "copy").is_ok());
  CHECK((bed.names().empty() && !bed.files.fs.exists("copy")));
  CHECK((bed.pinned == 0 && bed.leases.count() == 0));

  Bed other;
  other.sync_status = Status::io_error("log");
  CHECK(make_checkpoint(other.env, "copy").status().code() == Code::kIoError);
  CHECK((other.names().empty() && other.pinned == 0));
}

TEST_CASE("checkpoint's lease or pin is revoked, or the database closes: the checkpoint fails") {
  Bed bed;
  bed.when_taken = [&](const CheckpointState& state) { state.log_pin->revoke(); };
  CHECK(make_checkpoint(bed.env, "copy").status().code() == Code::kRevoked);
  bed.when_taken = [&](const CheckpointState& state) { state.trees[0]->revoke(); };
  CHECK(make_checkpoint(bed.env, "copy").status().code() == Code::kRevoked);
  bed.when_taken = [&](const CheckpointState&) { bed.closing = true; };
  CHECK(make_checkpoint(bed.env, "copy").status().code() == Code::kAborted);
  CHECK((bed.names().empty() && bed.pinned == 0));
}

TEST_CASE("file cannot be linked: the checkpoint copies it") {
  Bed bed;
  bed.when_taken = [&](const CheckpointState&) { bed.files.fs.inject({.ops = ops_of(FileOp::kLink), .sticky = true}); };
  const auto report = make_checkpoint(bed.env, "copy");
  REQUIRE(report.is_ok());
  CHECK(report->bytes_copied == report->bytes);
  CHECK(bed.read("copy/" + log_file_name(500)) == "a whole segment");
}

TEST_CASE("table is damaged: the checkpoint takes those of the table's files that exist, and counts the table as damaged") {
  Bed bed;
  const FileMetaPtr table = bed.files.version->runs.front().files.front();
  TreeEdit edit;
  edit.tree = 1;
  edit.quarantined.emplace_back(table->data_file, "damaged");
  bed.files.install(edit);
  bed.view->tables = open_tables(bed.files, &bed.sink);
  REQUIRE(bed.files.fs.unlink("db/" + data_file_name(table->data_file)).is_ok());
  const auto report = make_checkpoint(bed.env, "copy");
  REQUIRE(report.is_ok());
  CHECK(report->damaged == 1);
  CHECK(bed.names().count(metadata_file_name(table->metadata_file)) == 1);
}

}  // namespace TEST_FILE
