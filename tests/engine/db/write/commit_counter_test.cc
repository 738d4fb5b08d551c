// Tests that commits are counted, and that memory is measured after commits that add much.
#include "db/write/commit_counter.h"

#include <catch2/catch.hpp>

#include "engine/db/write/commit_bed.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

/// A 64th of the budget, a power of two. After a thread has committed so many bytes, the memory is measured.
constexpr std::size_t kStep = CommitBed::kBudget / CommitCounter::kMeasuredPart;

WriteBatch put(std::size_t bytes) {
  WriteBatch batch;
  batch.put(0, "k", std::string(bytes, 'v'));
  return batch;
}

TEST_CASE("batches are counted: commits, operations, deletes by stamp and bytes of users are added up") {
  CommitBed bed;
  WriteBatch batch = put(100);
  batch.delete_stamps(0, 1, 2);
  bed.counter.count(batch);
  const ThreadCounters& mine = bed.counters.mine();
  CHECK((mine.commits == 1 && mine.operations == 2 && mine.secondary_deletes == 1));
  CHECK(mine.user_bytes == batch.payload_bytes() - WriteBatch::kHeaderBytes);
}

TEST_CASE("commits add bytes: memory is measured about once for each 64th of the budget") {
  CommitBed bed;
  const WriteBatch batch = put(kStep / 8);
  for (int i = 0; i < 7; ++i) bed.counter.count(batch);
  CHECK(bed.measured == 0);
  for (int i = 0; i < 33; ++i) bed.counter.count(batch);
  CHECK((bed.measured >= 2 && bed.measured <= 5));
  CHECK(bed.relieved == 0);
}

TEST_CASE("no tick has come for over 200 ms: a commit flushes memtables that use too much memory") {
  CommitBed bed;
  const WriteBatch batch = put(3 * kStep);
  bed.clock.advance(200);
  bed.counter.count(batch);
  CHECK((bed.measured == 1 && bed.relieved == 0));
  bed.clock.advance(1);
  bed.counter.count(batch);
  CHECK((bed.measured == 2 && bed.relieved == 1));
  bed.counter.note_tick();
  bed.counter.count(batch);
  CHECK((bed.measured == 3 && bed.relieved == 1));
}

TEST_CASE("batch writes to several databases: puts and deletes are counted for each database") {
  CommitBed bed;
  WriteBatch batch;
  batch.put(0, "k", "v");
  batch.put(2, "k", "v");
  batch.del(0, "k");
  batch.delete_range(3, "a", "b");
  batch.delete_stamps(3, 1, 2);
  batch.flush_database(4);
  batch.put(2, "l", "v");
  bed.counter.count(batch);
  bed.counter.count(batch);
  const OperationCounts expected[] = {
      {.writes = 4, .deletes = 2}, {}, {.writes = 4}, {.writes = 2, .deletes = 2, .stamp_deletes = 2}, {}};
  for (DatabaseId database = 0; database < std::size(expected); ++database)
    CHECK(bed.counters.operations(database) == expected[database]);
  batch.clear();
  bed.counter.count(batch);
  CHECK(bed.counters.operations(0).writes == 4);
}

TEST_CASE("put deletes a part of the old value: it counts as a write and as a delete") {
  CommitBed bed;
  WriteBatch batch;
  batch.put(0, "k", "v", {.debt = true});
  batch.delete_stamps(1, 1, 2);
  batch.put(1, "k", "v");
  batch.delete_stamps(1, 3, 4);
  bed.counter.count(batch);
  CHECK(bed.counters.operations(0) == OperationCounts{.writes = 1, .deletes = 1});
  CHECK(bed.counters.operations(1) == OperationCounts{.writes = 1, .stamp_deletes = 2});
  CHECK(batch.first_database() == 0);
}

}  // namespace TEST_FILE
