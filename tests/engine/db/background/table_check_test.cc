// Tests of which faults of a table are found: in memory, on the drive, and in its entry in the manifest.
#include "db/background/table_check.h"

#include <catch2/catch.hpp>

#include <string>

#include "engine/db/background/tables.h"
#include "io/file_names.h"
#include "support/files.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A table of eight pages.
struct Bed {
  TreeFixture tree{1};
  TableCheck check;
  FileMetaPtr meta;

  Bed() {
    Source source;
    for (int i = 0; i < 8; ++i) source.entries.push_back(entry("k" + std::to_string(i), ++tree.context.visible_seq));
    tree.context.settings.file_size = 1 << 20;
    tree.context.settings.pages_per_tile = 1;
    tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
    tree.flush(source);
    meta = tree.version->runs.front().files.front();
  }
  std::vector<Status> errors(const FileMeta& of, const std::function<bool()>& stopped = {}) {
    return errors_of_table(*tree.env.open_table(*meta).value(), of, stopped, &check);
  }
  std::vector<Status> on_drive() { return errors_on_drive(tree.fs, "db", *meta, {}, &check); }
  [[nodiscard]] std::string path(bool data) const {
    return "db/" + (data ? data_file_name(meta->data_file) : metadata_file_name(meta->metadata_file));
  }
};

TEST_CASE("table is intact: table check returns no errors, and counts its pages and entries") {
  Bed bed;
  CHECK(bed.errors(*bed.meta).empty());
  CHECK(bed.check.entries == 8);
  CHECK(bed.check.pages >= 8);
  const std::uint64_t pages = bed.check.pages;
  CHECK(bed.on_drive().empty());
  CHECK(bed.check.entries == 16);
  CHECK(bed.check.pages == 2 * pages);
}

TEST_CASE("manifest and table disagree about properties: the check reports corruption of the table") {
  Bed bed;
  FileMeta other = *bed.meta;
  other.stats.entries += 1;
  const auto errors = bed.errors(other);
  REQUIRE(errors.size() == 1);
  CHECK(errors.front().code() == Code::kCorruption);
  CHECK(errors.front().message().find("properties differ from the manifest's") != std::string::npos);
}

TEST_CASE("page is damaged on the drive: the check finds it, although the pages in memory are intact") {
  Bed bed;
  const auto open = bed.tree.env.open_table(*bed.meta).value();
  REQUIRE(errors_of_table(*open, *bed.meta, {}, &bed.check).empty());
  flip(bed.tree.memory, bed.path(true), 100);
  const auto errors = bed.on_drive();
  REQUIRE(errors.size() == 1);
  CHECK(errors.front().code() == Code::kCorruption);
}

TEST_CASE("check of a table is stopped: it returns the errors found so far") {
  Bed bed;
  int asked = 0;
  CHECK(bed.errors(*bed.meta, [&] { return ++asked > 2; }).empty());
  CHECK(bed.check.entries < 8);
}

TEST_CASE("file of a table is missing: find_files() names the file, and a check of all bytes also reports it") {
  Bed bed;
  CHECK(find_files(bed.tree.fs, "db", *bed.meta).is_ok());
  const bool data = GENERATE(true, false);
  REQUIRE(bed.tree.memory.unlink(bed.path(data)).is_ok());
  const Status missing = find_files(bed.tree.fs, "db", *bed.meta);
  CHECK((missing.code() == Code::kCorruption && missing.message() == bed.path(data) + ": is missing"));
  const auto errors = bed.on_drive();
  REQUIRE(errors.size() == 1);
  CHECK(errors.front().code() == Code::kCorruption);
  CHECK(errors.front().message().find("a file is missing") == 0);
}

TEST_CASE("drive returns an error during the check: the error is not reported as damage") {
  Bed bed;
  bed.tree.fs.inject({.ops = ops_of(FileOp::kStat), .sticky = true});
  CHECK(find_files(bed.tree.fs, "db", *bed.meta).code() == Code::kIoError);
  CHECK(as_damage(Status::io_error("device")).code() == Code::kIoError);
  CHECK(as_damage(Status::ok()).is_ok());
}

}  // namespace TEST_FILE
