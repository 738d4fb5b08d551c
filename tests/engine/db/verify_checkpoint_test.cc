// Tests of the verification of a whole checkpoint, which names damaged and missing files.
#include <engine/verify_checkpoint.h>

#include "engine/db/harness.h"
#include "io/file_names.h"
#include "support/files.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr auto kGoOn = [](std::uint64_t) { return true; };

/// Makes a checkpoint in "copy" with tables and operations that only the log has. The manifest relies on later operations of
/// another database.
void make_checkpoint(Harness& h) {
  h.open();
  for (int i = 0; i < 500; ++i) h.put(0, key_of(i), std::string(200, 'v'));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  for (int i = 0; i < 20; ++i) h.put(1, key_of(i), "in the log");
  h.put(0, "later", "1");
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->checkpoint("copy").is_ok());
}

std::vector<std::string> in_copy(Harness& h, const std::string& suffix) {
  std::vector<std::string> paths = h.paths(suffix);
  std::erase_if(paths, [](const std::string& path) { return !path.starts_with("copy/"); });
  return paths;
}

TEST_CASE("checkpoint is complete: its verification reads every table and log segment, and finds no error") {
  Harness h;
  make_checkpoint(h);
  std::uint64_t paid = 0;
  const auto report = verify_checkpoint(h.files.get(), "copy", [&](std::uint64_t bytes) {
    paid += bytes;
    return true;
  });
  REQUIRE(report.is_ok());
  for (const std::string& error : report->errors) FAIL_CHECK(error);
  CHECK(report->files == in_copy(h, ".data").size() + in_copy(h, ".wal").size());
  CHECK(report->entries >= 501);
  std::uint64_t bytes = 0;
  for (const std::string& path : in_copy(h, ".data")) bytes += *h.files->file_size(path);
  CHECK(paid > bytes / 2);
}

TEST_CASE("file of a checkpoint is damaged, truncated or missing: the error names it") {
  Harness h;
  make_checkpoint(h);
  for (const char* suffix : {".data", ".meta", ".wal"}) {
    const std::string path = in_copy(h, suffix).back(), bytes = *read_file(*h.files, path);
    const std::size_t at = suffix == std::string(".wal") ? bytes.find("in the log") : bytes.size() / 3;
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    for (const char* how : {"flipped", "cut", "missing"}) {
      INFO(path << " " << how);
      if (how == std::string("flipped")) rewrite(*h.files, path, flipped);
      if (how == std::string("cut")) rewrite(*h.files, path, bytes.substr(0, at));
      if (how == std::string("missing")) REQUIRE(h.files->unlink(path).is_ok());
      const auto report = verify_checkpoint(h.files.get(), "copy", kGoOn);
      INFO(report.status().to_string());
      REQUIRE(report.is_ok());
      REQUIRE_FALSE(report->errors.empty());
      CHECK(report->errors.front().find(path.substr(path.find('/') + 1)) != std::string::npos);
    }
    rewrite(*h.files, path, bytes);
    CHECK(verify_checkpoint(h.files.get(), "copy", kGoOn)->errors.empty());
  }
}

TEST_CASE("checkpoint has a log segment older than the manifest needs: verification does not read it") {
  Harness h;
  make_checkpoint(h);
  const auto before = verify_checkpoint(h.files.get(), "copy", kGoOn);
  REQUIRE(before.is_ok());
  rewrite(*h.files, join_path("copy", log_file_name(1)), *read_file(*h.files, in_copy(h, ".wal").front()));
  const auto report = verify_checkpoint(h.files.get(), "copy", kGoOn);
  REQUIRE(report.is_ok());
  for (const std::string& error : report->errors) FAIL_CHECK(error);
  CHECK(report->files == before->files);
}

TEST_CASE("verification is stopped, or the directory has no checkpoint: it returns an error") {
  Harness h;
  make_checkpoint(h);
  int asked = 0;
  REQUIRE(verify_checkpoint(h.files.get(), "copy", [&](std::uint64_t) { return ++asked > 0; }).is_ok());
  REQUIRE(asked > 3);
  for (int last = 1; last <= asked; ++last) {
    int n = 0;
    CHECK(verify_checkpoint(h.files.get(), "copy", [&](std::uint64_t) { return ++n < last; }).status().code() == Code::kAborted);
    CHECK(n == last);
  }
  CHECK_FALSE(verify_checkpoint(h.files.get(), "nowhere", kGoOn).is_ok());
}

}  // namespace TEST_FILE
