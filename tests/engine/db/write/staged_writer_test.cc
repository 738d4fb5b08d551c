// Tests that a staged batch becomes a memtable of each of its trees, at one position in the order of writes.
#include "db/write/staged_writer.h"

#include <catch2/catch.hpp>

#include "base/oldest.h"
#include "engine/db/write/commit_bed.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

using Texts = std::vector<std::string>;

WriteBatch puts(DatabaseId database, int n, const std::string& value = "v") {
  WriteBatch batch;
  for (int i = 0; i < n; ++i) batch.put(database, "k" + std::to_string(i), value);
  return batch;
}

void write(CommitBed& bed, DatabaseId database, const std::string& key, const std::string& value) {
  WriteBatch batch;
  batch.put(database, key, value);
  REQUIRE(bed.pipeline.commit(batch).is_ok());
}

DatabaseId first_database(const WriteBatch& batch) {
  std::size_t cursor = 0;
  WriteBatch::Op op;
  REQUIRE(batch.next_op(&cursor, &op));
  return op.tree;
}

TEST_CASE("staged batch is committed: its writes are newer than those before the commit, and older than later ones") {
  CommitBed bed;
  write(bed, 0, "k1", "old");  // seq 2, after the tree's seq
  StagedParts staged;
  REQUIRE(bed.staged.stage(puts(0, 10), nullptr, &staged).is_ok());
  write(bed, 0, "k2", "meanwhile");
  CHECK(bed.get(0, "k1") == "old");
  CHECK(bed.staged.commit(&staged).is_ok());
  CHECK((staged.committed && staged.batch.first_seq() == 4 && bed.published.visible_seq() == 13));
  CHECK((bed.get(0, "k1") == "v" && bed.get(0, "k2") == "v"));
  write(bed, 0, "k1", "new");
  CHECK(bed.get(0, "k1") == "new");
  CHECK(bed.logged() == Texts{"1..1 1", "2..2 1", "3..3 1", "4..13 1", "14..14 1"});
}

TEST_CASE("staged batch is committed or destroyed: the memory charged for it is released") {
  CommitBed bed;
  {
    StagedParts staged;
    REQUIRE(bed.staged.stage(puts(0, 10), nullptr, &staged).is_ok());
    CHECK((staged.charged > 0 && bed.account->charged() == staged.charged));
  }
  CHECK(bed.account->charged() == 0);
  StagedParts staged;
  REQUIRE(bed.staged.stage(puts(0, 10), nullptr, &staged).is_ok());
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK(bed.account->charged() == 0);
}

TEST_CASE("memory budget has no room for a batch: stage() refuses the batch") {
  CommitBed bed;
  bed.account->set_limit(100, 0);
  StagedParts staged;
  CHECK(bed.staged.stage(puts(0, 10), nullptr, &staged).code() == Code::kOutOfMemory);
  CHECK(bed.logged().empty());
}

TEST_CASE("database is emptied after a batch was staged: the commit writes to the database's new tree") {
  CommitBed bed;
  StagedParts staged;
  REQUIRE(bed.staged.stage(puts(0, 3), nullptr, &staged).is_ok());
  REQUIRE(bed.tree(0)->id == 1);
  WriteBatch flush;
  write(bed, 0, "x", "y");
  flush.flush_database(0);
  REQUIRE(bed.pipeline.commit(flush).is_ok());
  REQUIRE(bed.tree(0)->id == 2);
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK((bed.get(0, "k0") == "v" && bed.get(0, "x") == "(none)"));
  CHECK(bed.logged().back() == "4..6 2");
}

TEST_CASE("database has no tree when its batch is staged: staging makes one") {
  CommitBed bed;
  WriteBatch batch = puts(0, 2);
  batch.put(3, "k0", "third");
  StagedParts staged;
  REQUIRE(bed.staged.stage(std::move(batch), nullptr, &staged).is_ok());
  CHECK((bed.published.visible_seq() == 2 && bed.mappings == 2));
  CHECK(bed.published.tree(3) == bed.tree(3).get());
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK((bed.get(0, "k0") == "v" && bed.get(3, "k0") == "third"));
}

TEST_CASE("staged batch has deletes: they cover older entries, and the log segment's notes list deletes of that time") {
  CommitBed bed;
  write(bed, 0, "k1", "old");
  WriteBatch batch = puts(0, 1);
  batch.put(0, "k3", "before the range");
  batch.delete_range(0, "k1", "k4");
  batch.put(0, "k2", "after the range");
  batch.delete_stamps(0, 5, 10);
  StagedParts staged;
  REQUIRE(bed.staged.stage(std::move(batch), nullptr, &staged).is_ok());
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK((bed.get(0, "k1").empty() && bed.get(0, "k3").empty() && bed.get(0, "k2") == "after the range"));
  CHECK(bed.tree(0)->recorded->load());
  CHECK(bed.log.segments().back().notes.front().oldest_delete == CommitBed::kNow);
}

TEST_CASE("staged batch has a put with a delete debt: its log segment's notes list a delete") {
  const std::size_t bytes = GENERATE(10, 100'000);  // a few large values are inserted by the commit
  CommitBed bed;
  write(bed, 0, "k0", "old");
  CHECK(bed.log.segments().back().notes.front().oldest_delete == 0);
  WriteBatch batch;
  batch.put(0, "k0", std::string(bytes, 'x'), {.kind = EntryKind::kCompact, .debt = true});
  StagedParts staged;
  REQUIRE(bed.staged.stage(std::move(batch), nullptr, &staged).is_ok());
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK(bed.log.segments().back().notes.front().oldest_delete == CommitBed::kNow);
  Millis oldest = 0;
  for (const auto& memtable : bed.trees.view_of(*bed.tree(0))->memtables) keep_oldest(&oldest, memtable->oldest_birth());
  CHECK(oldest == CommitBed::kNow);
}

TEST_CASE("staged value expires before its commit: its log segment's notes list a delete, born at the commit") {
  CommitBed bed;
  WriteBatch batch = puts(0, 3);
  batch.put(0, "k3", "v", {.expiry = CommitBed::kNow - 5});
  StagedParts staged;
  REQUIRE(bed.staged.stage(std::move(batch), nullptr, &staged).is_ok());
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK(bed.get(0, "k3").empty());
  CHECK(bed.log.segments().back().notes.front().oldest_delete == CommitBed::kNow);
}

TEST_CASE("staged batch has few large values: it gets no memtable of its own") {
  CommitBed bed;
  WriteBatch batch;
  batch.put_shared(0, "k0", std::make_shared<const std::string>(std::string(100'000, 'x')), {});
  StagedParts staged;
  REQUIRE(bed.staged.stage(std::move(batch), nullptr, &staged).is_ok());
  REQUIRE(bed.staged.commit(&staged).is_ok());
  CHECK(bed.get(0, "k0").size() == 100'000);
  CHECK(bed.trees.view_of(*bed.tree(0))->memtables.size() == 1);
}

TEST_CASE("large batch is passed to commit_now(): it is staged and committed, with or without waiting for the device") {
  CommitBed bed;
  for (const bool may_wait : {true, false}) {
    const DatabaseId database = may_wait ? 0 : 1;
    WriteBatch batch = puts(database, 100);
    REQUIRE(bed.staged.commit_now(batch, may_wait).is_ok());
    CHECK(bed.get(database, "k99") == "v");
    CHECK(bed.published.visible_seq() == batch.last_seq());
  }
  CHECK(bed.logged() == Texts{"1..1 1", "2..101 1", "102..102 2", "103..202 2"});
}

TEST_CASE("commit_now() fails: the batch is unchanged") {
  CommitBed bed;
  write(bed, 3, "x", "y");
  WriteBatch batch = puts(3, 10);
  batch.rely_on_expiry(CommitBed::kNow - 1);
  for (const bool may_wait : {true, false}) {
    CHECK(bed.staged.commit_now(batch, may_wait).code() == Code::kRetry);
    CHECK(first_database(batch) == 3);
  }
  bed.writable = Status::read_only("the disk failed");
  CHECK(bed.staged.commit_now(batch, true).code() == Code::kReadOnly);
  CHECK(first_database(batch) == 3);
  batch.flush_database(0);
  CHECK(bed.staged.commit_now(batch, true).code() == Code::kUnsupported);
  CHECK(bed.published.visible_seq() == 2);
}

TEST_CASE("staging is stopped: it leaves no charge and no pieces behind") {
  CommitBed bed;
  const std::atomic<bool> stop{true};
  StagedParts staged;
  CHECK(bed.staged.stage(puts(0, 10), &stop, &staged).code() == Code::kAborted);
  staged.release();
  CHECK((bed.account->charged() == 0 && bed.log.pending_piece_bytes() == 0));
}

}  // namespace TEST_FILE
