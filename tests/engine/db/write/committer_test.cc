// Tests of which batches are refused or delayed, and of the path that the others take.
#include "db/write/committer.h"

#include <catch2/catch.hpp>

#include "engine/db/write/commit_bed.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

WriteBatch put(const std::string& key, const std::string& value = "v") {
  WriteBatch batch;
  batch.put(0, key, value);
  return batch;
}
WriteBatch del(const std::string& key) {
  WriteBatch batch;
  batch.del(0, key);
  return batch;
}

Status try_commit(CommitBed& bed, WriteBatch batch, std::uint32_t* wait_ms = nullptr) {
  std::uint32_t wait = 0;
  return bed.committer.try_commit(batch, false, wait_ms == nullptr ? &wait : wait_ms);
}

/// Sets the pressure that `runs` runs above the limit cause.
void press(CommitBed& bed, int runs) {
  bed.runs = runs;
  bed.writes.measure();
}

TEST_CASE("batch is empty: it is committed at once, even with a failed log and a full disk") {
  CommitBed bed;
  bed.log_failed = bed.disk_full = true;
  WriteBatch batch;
  CHECK(bed.committer.commit(batch).is_ok());
  CHECK(try_commit(bed, {}).is_ok());
  CHECK(bed.counters.mine().commits == 0);
}

TEST_CASE("batch is committed: it is visible, logged and counted") {
  CommitBed bed;
  WriteBatch batch = put("a");
  REQUIRE(bed.committer.commit(batch).is_ok());
  REQUIRE(try_commit(bed, put("b")).is_ok());
  CHECK((bed.get(0, "a") == "v" && bed.get(0, "b") == "v"));
  CHECK(bed.counters.mine().commits == 2);
  CHECK(bed.logged() == std::vector<std::string>{"1..1 1", "2..2 1", "3..3 1"});
}

TEST_CASE("batch is refused for several reasons: the first applies, in the order invalid, log, read-only, disk") {
  CommitBed bed;
  bed.disk_full = true;
  CHECK(try_commit(bed, put("a")).code() == Code::kNoSpace);
  CHECK(try_commit(bed, del("a")).is_ok());  // a delete adds no data
  bed.writable = Status::read_only("a flush failed");
  CHECK(try_commit(bed, put("a")).to_string() == bed.writable.to_string());
  bed.log_failed = true;
  const Status failed = try_commit(bed, put("a"));
  CHECK((failed.code() == Code::kReadOnly && failed.to_string().find("the log failed") != std::string::npos));
  CHECK(try_commit(bed, put(std::string(kMaxKeyBytes + 1, 'k'))).code() == Code::kInvalidArgument);
  CHECK(bed.get(0, "a").empty());
  CHECK(bed.counters.mine().commits == 1);
}

TEST_CASE("writes are delayed: try_commit() returns the time to wait, and commit() waits") {
  CommitBed bed;
  press(bed, 110);
  std::uint32_t wait_ms = 0;
  CHECK(try_commit(bed, put("a"), &wait_ms).code() == Code::kBusy);
  CHECK((wait_ms > 0 && bed.get(0, "a") == "(no tree)"));
  WriteBatch batch = put("a");
  CHECK(bed.committer.commit(batch).is_ok());
  CHECK((bed.tasks == 1 && bed.get(0, "a") == "v"));
}

TEST_CASE("batch is refused and writes are delayed: try_commit() returns the refusal without a time to wait") {
  CommitBed bed;
  press(bed, 110);
  bed.disk_full = true;
  std::uint32_t wait_ms = 7;
  CHECK(try_commit(bed, put("a"), &wait_ms).code() == Code::kNoSpace);
  CHECK(wait_ms == 0);
}

TEST_CASE("large batch is committed: it gets a memtable of its own, unless it empties a database") {
  CommitBed bed;
  const auto frozen_after = [&](bool flushes) {
    WriteBatch batch;
    if (flushes) batch.flush_database(1);
    for (std::uint32_t i = 0; i < StagedBatch::kLeastOperations; ++i) batch.put(0, std::to_string(i), "v");
    const std::size_t before = bed.tree(0) == nullptr ? 0 : bed.tree(0)->frozen.size();
    REQUIRE(try_commit(bed, std::move(batch)).is_ok());
    CHECK(bed.get(0, "8191") == "v");
    return bed.tree(0)->frozen.size() - before;
  };
  CHECK(frozen_after(false) == 1);
  CHECK(frozen_after(true) == 0);
  CHECK(bed.counters.mine().commits == 2);
}

TEST_CASE("commit of a staged batch is tried: it is refused or delayed like any other") {
  CommitBed bed;
  bed.disk_full = true;
  StagedParts refused, staged;
  CHECK(bed.committer.stage(put("a"), nullptr, &refused).code() == Code::kNoSpace);
  bed.disk_full = false;
  REQUIRE(bed.committer.stage(put("a"), nullptr, &staged).is_ok());
  press(bed, 110);
  std::uint32_t wait_ms = 0;
  CHECK(bed.committer.try_commit(&staged, false, &wait_ms).code() == Code::kBusy);
  CHECK((wait_ms > 0 && !staged.committed));
  press(bed, 0);
  bed.writable = Status::read_only("a flush failed");
  CHECK(bed.committer.commit(&staged).code() == Code::kReadOnly);
  bed.writable = Status::ok();
  CHECK(bed.committer.try_commit(&staged, false, &wait_ms).is_ok());
  CHECK((staged.committed && bed.get(0, "a") == "v" && bed.counters.mine().commits == 1));
}

}  // namespace TEST_FILE
