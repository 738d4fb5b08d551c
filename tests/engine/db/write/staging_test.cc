// Tests of how the operations of a large batch are divided among memtables and the operations that its commit inserts.
#include "db/write/staging.h"

#include <catch2/catch.hpp>

#include <string>

#include "base/hash.h"

namespace TEST_FILE {

using namespace ebbtide;

WriteBatch puts(DatabaseId database, int n) {
  WriteBatch batch;
  for (int i = 0; i < n; ++i) batch.put(database, "k" + std::to_string(i), "v");
  return batch;
}

// Returns the value of the entry with this index in the batch, or of an earlier entry of the same key; "(none)" if there is none.
std::string get(const StagedEntries::Part& part, const std::string& key, SeqNum index) {
  Entry entry;
  if (!part.memtable->get({key, hash_key(key)}, index, &entry)) return "(none)";
  return entry.is_tombstone() ? "" : std::string(entry.value);
}

TEST_CASE("staged batch writes to several databases: each gets a memtable with the operations' indexes as seqs") {
  WriteBatch batch;
  batch.put(3, "a", "first");
  batch.put(1, "a", "other");
  batch.put(3, "a", "second");
  batch.del(3, "b");
  const StagedEntries staged = stage_entries(batch, nullptr).value();
  REQUIRE(staged.parts.size() == 2);
  CHECK((staged.parts[0].database == 3 && staged.parts[0].named == 3 && staged.parts[1].database == 1));
  CHECK((get(staged.parts[0], "a", 9) == "second" && get(staged.parts[0], "a", 1) == "first"));
  CHECK((get(staged.parts[0], "b", 9).empty() && get(staged.parts[0], "b", 2) == "(none)"));
  CHECK((get(staged.parts[1], "a", 9) == "other" && get(staged.parts[1], "b", 9) == "(none)"));
  CHECK(staged.later.empty());
}

TEST_CASE("staged batch has range tombstones and deletes by stamp: the commit inserts them, each at its index in the batch") {
  WriteBatch batch = puts(0, 2);
  batch.delete_range(0, "a", "c", 700);
  batch.put(0, "k9", "v");
  batch.delete_stamps(0, 5, 10);
  batch.delete_range(0, "x", "z", 900);
  const StagedEntries staged = stage_entries(batch, nullptr).value();
  REQUIRE(staged.later.size() == 3);
  const std::uint32_t places[] = {2, 4, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(staged.later[i].index == places[i]);
    std::size_t cursor = staged.later[i].cursor;
    WriteBatch::Op op;
    REQUIRE(batch.next_op(&cursor, &op));
    CHECK(op.kind == (i == 1 ? OpKind::kSecondaryDelete : OpKind::kRangeTombstone));
  }
  const StagedEntries::Part& part = staged.parts.front();
  CHECK((part.records == 1 && part.deletes && part.oldest_birth == 700));
  CHECK((get(part, "k9", 3) == "v" && get(part, "a", 9) == "(none)"));
}

TEST_CASE("batch is staged: each database's part has its smallest expiry, and whether it deletes anything") {
  WriteBatch batch;
  batch.put(0, "a", "v", {.expiry = 900});
  batch.put(0, "b", "v", {.expiry = 800});
  batch.put(0, "c", "v");
  batch.put(1, "a", "v", {.kind = EntryKind::kCompact, .debt = true});
  batch.del(2, "a");
  const StagedEntries staged = stage_entries(batch, nullptr).value();
  REQUIRE(staged.parts.size() == 3);
  CHECK((staged.parts[0].min_expiry == 800 && !staged.parts[0].deletes));
  CHECK((staged.parts[1].min_expiry == 0 && staged.parts[1].deletes));
  CHECK(staged.parts[2].deletes);
}

TEST_CASE("batch has at most 64 operations, some with large values: the commit inserts them, without a staged memtable") {
  const int others = GENERATE(63, 64);
  WriteBatch batch = puts(0, others);
  batch.put_shared(0, "large", std::make_shared<const std::string>(std::string(100'000, 'x')), {});
  const StagedEntries staged = stage_entries(batch, nullptr).value();
  const bool few = others == 63;
  CHECK(staged.later.size() == (few ? 64 : 0));
  CHECK((staged.parts.front().memtable == nullptr) == few);
  CHECK((staged.memory_bytes() > (64 << 10)) == !few);
}

TEST_CASE("batch empties or swaps databases: stage_entries() refuses it") {
  WriteBatch flush = puts(0, 2), swap = puts(0, 2);
  flush.flush_database(0);
  swap.swap_databases(0, 1);
  CHECK(stage_entries(flush, nullptr).status().code() == Code::kUnsupported);
  CHECK(stage_entries(swap, nullptr).status().code() == Code::kUnsupported);
}

TEST_CASE("stop flag is set: stage_entries() returns kAborted") {
  std::atomic<bool> stop{true};
  CHECK(stage_entries(puts(0, 2000), &stop).status().code() == Code::kAborted);
  stop = false;
  CHECK(stage_entries(puts(0, 2000), &stop).is_ok());
}

TEST_CASE("memory of a batch is estimated: the estimate is an upper bound, and leaves out shared values") {
  const WriteBatch small = puts(0, 5000);
  CHECK(staged_bytes_expected(small) > 5000 * (96 + 4));
  WriteBatch large = puts(0, 5000);
  large.put_shared(0, "large", std::make_shared<const std::string>(std::string(1'000'000, 'x')), {});
  CHECK(staged_bytes_expected(large) < staged_bytes_expected(small) + 1000);
}

TEST_CASE("entry is made of a staged operation: its tombstone or delete debt has no birth until the commit") {
  WriteBatch batch;
  batch.put(0, "a", "v", {.stamp = 7, .expiry = 900, .kind = EntryKind::kCompact, .debt = true});
  batch.del(0, "b");
  batch.delete_range(0, "c", "d");
  std::size_t cursor = 0;
  WriteBatch::Op op;
  Entry put, tombstone, none;
  REQUIRE(batch.next_op(&cursor, &op));
  REQUIRE(operation_entry(op, 11, &put));
  CHECK((put.key == "a" && put.value == "v" && put.seq == 11 && put.delete_key == 7 && put.expiry == 900));
  CHECK((put.kind == EntryKind::kCompact && put.debt == kUnbornDebt));
  REQUIRE(batch.next_op(&cursor, &op));
  REQUIRE(operation_entry(op, 12, &tombstone));
  CHECK((tombstone.is_tombstone() && tombstone.key == "b" && tombstone.seq == 12 && tombstone.delete_key == 0));
  REQUIRE(batch.next_op(&cursor, &op));
  CHECK_FALSE(operation_entry(op, 13, &none));
}

TEST_CASE("staged parts are released and destroyed: their charge is released once") {
  const auto account = std::make_shared<MemoryAccount>();
  account->charge(MemoryAccount::Kind::kCommands, 100);
  {
    StagedParts parts;
    parts.account = account;
    parts.charged = 70;
    parts.release();
    CHECK(account->charged() == 30);
  }
  CHECK(account->charged() == 30);
}

}  // namespace TEST_FILE
