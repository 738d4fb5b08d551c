// Tests of the format versions of a directory: of the kept fixtures, and of a directory from a newer program.
#include "tools/inspect_versions.h"

#include <catch2/catch.hpp>

#include "base/coding.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "version/version_set.h"

namespace ebbtide {
namespace TEST_FILE {

const std::string kKept = EBBTIDE_TEST_DIR "/../db/testdata/";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns a fixture in memory.
std::unique_ptr<MemoryFileSystem> kept(const std::string& name) {
  auto fs = std::make_unique<MemoryFileSystem>();
  REQUIRE(fs->create_dir("db").is_ok());
  const std::vector<std::string> files = *posix_file_system()->list(kKept + name);
  for (const std::string& file : files) {
    auto out = fs->create(join_path("db", file));
    REQUIRE((*out)->append(*read_file(*posix_file_system(), join_path(kKept + name, file))).is_ok());
  }
  return fs;
}

void set_version(FileSystem& fs, const std::string& path, std::uint32_t version) {
  std::string bytes = *read_file(fs, path);
  store_fixed<std::uint32_t>(bytes.data() + 4, version);
  REQUIRE(fs.unlink(path).is_ok());
  REQUIRE((*fs.create(path))->append(bytes).is_ok());
}

TEST_CASE("kept directories of format 1 are inspected: their formats are printed, with the release that opens them",
          "[tools][versions]") {
  for (const char* name : {"format_1", "format_1_deletes"}) {
    INFO(name);
    const Inspection found = inspect_versions(*posix_file_system(), kKept + name);
    for (const std::string& error : found.errors) FAIL_CHECK(error);
    CHECK(has(found.text, "manifest format 1: 1 files\n"));
    CHECK(has(found.text, "log format "));
    CHECK(has(found.text, "table format 1: "));
    CHECK(has(found.text, "Opens with 0.1.0 and later.\n"));
  }
}

TEST_CASE("kept directory has compact entries: its tables have format 2, and its log has format 3", "[tools][versions]") {
  const Inspection found = inspect_versions(*posix_file_system(), kKept + "format_2_collections");
  for (const std::string& error : found.errors) FAIL_CHECK(error);
  CHECK(has(found.text, "log format 3: "));
  CHECK(has(found.text, "table format 2: "));
  CHECK(has(found.text, "Opens with 0.1.0 and later.\n"));
}

TEST_CASE("file has a newer format: the error names its version and the newest that this program opens", "[tools][versions]") {
  for (const char* file : {"000003.data", "000004.meta", "000002.wal", "MANIFEST-000001"}) {
    INFO(file);
    const auto fs = kept("format_1");
    set_version(*fs, join_path("db", file), 9);
    const Inspection found = inspect_versions(*fs, "db");
    REQUIRE(found.errors.size() == 1);
    CHECK(has(found.errors[0], file));
    CHECK(has(found.errors[0], "format 9, but this program opens formats up to "));
    CHECK(has(found.text, "No released version opens all of these files.\n"));
  }
}

TEST_CASE("manifest names the version that wrote it: inspect prints the version, with odd bytes escaped", "[tools][versions]") {
  MemoryFileSystem fs;
  REQUIRE(fs.create_dir("db").is_ok());
  REQUIRE(VersionSet::create(fs, "db").is_ok());
  const std::string text = inspect_versions(fs, "db").text;
  CHECK((has(text, "Written by \"") && !has(text, "Written by \"\"")));

  VersionEdit edit = snapshot(VersionState());
  edit.writer = "9\x1b[0m";
  std::string record;
  edit.encode(&record);
  REQUIRE(ManifestWriter::create(fs, "db", 70, record).is_ok());
  REQUIRE(write_current(fs, "db", 70).is_ok());
  CHECK(has(inspect_versions(fs, "db").text, "Written by \"9\\x1b[0m\".\n"));
}

TEST_CASE("manifest is from before the field `writer`, or damaged: inspect prints that the writer is unknown",
          "[tools][versions]") {
  const std::string unknown = "The manifest does not say which version wrote it.\n";
  const auto fs = kept("format_1");
  CHECK(has(inspect_versions(*fs, "db").text, unknown));
  REQUIRE(fs->unlink("db/CURRENT").is_ok());
  REQUIRE((*fs->create("db/CURRENT"))->append("nothing").is_ok());
  CHECK(has(inspect_versions(*fs, "db").text, unknown));
}

TEST_CASE("WORKLOAD has a newer format, or is cut: inspect warns only, since the database opens without it",
          "[tools][versions]") {
  for (const std::string& content : {std::string("EBWL\x09\0\0\0", 8), std::string("EB")}) {
    const auto fs = kept("format_1");
    REQUIRE((*fs->create("db/WORKLOAD"))->append(content).is_ok());
    const Inspection found = inspect_versions(*fs, "db");
    CHECK(found.errors.empty());
    REQUIRE(found.warnings.size() == 1);
    CHECK(has(found.warnings[0], "WORKLOAD"));
    CHECK(has(found.text, "Opens with 0.1.0 and later.\n"));
  }
}

TEST_CASE("directory has no database: `inspect versions`, which lists file formats, returns an error", "[tools][versions]") {
  MemoryFileSystem fs;
  REQUIRE(fs.create_dir("db").is_ok());
  CHECK(has(inspect_versions(fs, "db").errors.at(0), "has no CURRENT"));
  CHECK_FALSE(inspect_versions(fs, "none").errors.empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
