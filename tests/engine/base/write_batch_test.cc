#include <engine/write_batch.h>
#include <catch2/catch.hpp>

#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string payload(const WriteBatch& batch) {
  std::vector<Bytes> pieces;
  batch.append_payload(&pieces);
  std::string out;
  for (Bytes piece : pieces) out.append(piece);
  return out;
}

WriteBatch sample() {
  WriteBatch batch;
  batch.put(3, "plain", "value");
  batch.put(3, "all", "v", {77, 1234567});
  batch.put_shared(0, "large", std::make_shared<const std::string>(kLargeValueBytes + 5, 'L'), {kNoStamp, 99});
  batch.del(1, "gone");
  batch.put(1, "", "");
  batch.delete_range(2, "a", "");
  batch.flush_database(4);
  batch.swap_databases(5, 6);
  batch.create_tree(7, 70, StampMode::kExpireTime);
  batch.delete_stamps(3, 5, kDeleteKeyEnd);
  batch.put(3, "small set", "members", {.stamp = 78, .expiry = 55, .kind = EntryKind::kCompact, .debt = true});
  batch.put(3, "no set any more", "v", {.debt = true});
  batch.put(3, "large set", "members", {.expiry = 60, .kind = EntryKind::kHeader});
  batch.delete_range(2, "b", "c", 4000);
  batch.put(3, "member", "", {.element = true});
  batch.del(3, "member gone", true);
  batch.set_header(100, 5000, 42);
  return batch;
}

TEST_CASE("write batch refers to values instead of copying them: it reads back as written") {
  const WriteBatch batch = sample();
  const std::string bytes = payload(batch);
  CHECK(bytes.size() == batch.payload_bytes());
  auto parsed = WriteBatch::parse(bytes);
  REQUIRE(parsed.is_ok());
  CHECK(parsed->first_seq() == 100);
  CHECK(parsed->last_seq() == 115);
  CHECK(parsed->time() == 5000);
  CHECK(parsed->replication_id() == 42);
  std::size_t a = 0, b = 0;
  WriteBatch::Op left, right;
  int count = 0;
  while (batch.next_op(&a, &left)) {
    REQUIRE(parsed->next_op(&b, &right));
    CHECK(left.kind == right.kind);
    CHECK(left.value_kind == (left.key == "small set"   ? EntryKind::kCompact
                              : left.key == "large set" ? EntryKind::kHeader
                                                        : EntryKind::kValue));
    CHECK(left.birth == (left.key == "b" ? 4000 : 0));
    CHECK(left.birth == right.birth);
    CHECK(left.element == left.key.starts_with("member"));
    CHECK(left.element == right.element);
    CHECK(left.value_kind == right.value_kind);
    CHECK(left.debt == left.key.starts_with("small") + left.key.starts_with("no set"));
    CHECK(left.debt == right.debt);
    CHECK(left.tree == right.tree);
    CHECK(left.key == right.key);
    CHECK(left.end == right.end);
    CHECK(left.value == right.value);
    CHECK(left.stamp == right.stamp);
    CHECK(left.expiry == right.expiry);
    CHECK(left.lo == right.lo);
    CHECK(left.hi == right.hi);
    CHECK(left.mode == right.mode);
    CHECK((left.shared != nullptr) == (left.value.size() > kLargeValueBytes));
    CHECK(right.shared == nullptr);
    ++count;
  }
  CHECK_FALSE(parsed->next_op(&b, &right));
  CHECK(count == 16);
}

TEST_CASE("empty range is deleted: the batch gets no operation") {
  WriteBatch batch;
  batch.delete_range(0, "b", "b");
  batch.delete_range(0, "c", "b");
  batch.delete_stamps(0, 5, 5);
  batch.delete_stamps(0, 6, 5);
  CHECK(batch.empty());
  batch.delete_range(0, "b", "");
  CHECK(batch.count() == 1);
  batch.clear();
  CHECK(batch.empty());
  CHECK(payload(batch) == payload(WriteBatch()));
}

TEST_CASE("tree numbers are set in a batch: reading its operations returns these tree numbers") {
  WriteBatch batch;
  batch.put(1, "k", "v");
  batch.flush_database(2);
  std::size_t cursor = 0;
  WriteBatch::Op op;
  REQUIRE(batch.next_op(&cursor, &op));
  batch.set_op_tree(0, 11);
  const std::size_t second = cursor;
  REQUIRE(batch.next_op(&cursor, &op));
  batch.set_flush_trees(second, 22, StampMode::kExplicit, 21);
  cursor = 0;
  REQUIRE(batch.next_op(&cursor, &op));
  CHECK(op.tree == 11);
  CHECK(op.value == "v");
  REQUIRE(batch.next_op(&cursor, &op));
  CHECK(op.tree == 22);
  CHECK(op.lo == 2);
  CHECK(op.hi == 21);
  CHECK(op.mode == StampMode::kExplicit);
}

TEST_CASE("batch relies on the expiries of several keys: relied_expiry() returns the earliest of them") {
  WriteBatch batch;
  CHECK(batch.relied_expiry() == 0);
  batch.rely_on_expiry(0);
  batch.rely_on_expiry(50);
  batch.rely_on_expiry(70);
  batch.rely_on_expiry(30);
  CHECK(batch.relied_expiry() == 30);
}

TEST_CASE("stamp range is empty or goes beyond the last stamp: reading the batch fails") {
  WriteBatch batch;
  batch.delete_stamps(0, 5, kDeleteKeyEnd);
  const std::string good = payload(batch);
  REQUIRE(WriteBatch::parse(good).is_ok());
  const auto with_end = [&](std::uint64_t hi) {
    std::string bytes = good;
    for (std::size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = static_cast<char>(hi >> (8 * i));
    return WriteBatch::parse(bytes).is_ok();
  };
  CHECK(with_end(6));
  CHECK_FALSE(with_end(5));
  CHECK_FALSE(with_end(kDeleteKeyEnd + 1));
  CHECK_FALSE(with_end(kNoStamp));
}

TEST_CASE("batch has an unknown flag, or one its operation may not have: reading it fails") {
  WriteBatch batch;
  batch.put(0, "k", "v");
  const auto reads = [&](OpKind kind, unsigned flags) {
    std::string bytes = payload(batch);
    bytes[WriteBatch::kHeaderBytes] = static_cast<char>(kind);
    bytes[WriteBatch::kHeaderBytes + 1] = static_cast<char>(flags);
    return WriteBatch::parse(bytes).is_ok();
  };
  CHECK(reads(OpKind::kPut, 0));
  CHECK(reads(OpKind::kPut, WriteBatch::kHasDebt | WriteBatch::kIsCompact));
  CHECK(reads(OpKind::kPut, WriteBatch::kIsElement));
  CHECK_FALSE(reads(OpKind::kPut, 32));
  CHECK(reads(OpKind::kHeader, WriteBatch::kHasDebt));
  CHECK_FALSE(reads(OpKind::kHeader, WriteBatch::kIsCompact));
  CHECK_FALSE(reads(OpKind::kHeader, WriteBatch::kIsElement));
  CHECK_FALSE(reads(OpKind::kTombstone, WriteBatch::kHasDebt));
}

TEST_CASE("batch bytes are malformed: parsing or reading them fails without a crash") {
  const std::string good = payload(sample());
  for (std::size_t cut = 0; cut < 200; ++cut) CHECK_FALSE(WriteBatch::parse(good.substr(0, cut)).is_ok());
  Random random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good.substr(0, 400);
    for (int flips = 0; flips < 3; ++flips) bad[random.uniform(bad.size())] = static_cast<char>(random.next());
    auto parsed = WriteBatch::parse(bad);
    if (!parsed.is_ok()) continue;
    std::size_t cursor = 0;
    WriteBatch::Op op;
    while (parsed->next_op(&cursor, &op)) {
    }
  }
}

TEST_CASE("batch would exceed the largest sequence number: it is refused") {
  WriteBatch batch;
  for (int i = 0; i < 10; ++i) batch.del(0, "k");
  for (const SeqNum first : {kMaxSeqNum - 10, kMaxSeqNum - 9, kMaxSeqNum, ~SeqNum{0}}) {
    batch.set_header(first, 0, 0);
    std::vector<Bytes> pieces;
    batch.append_payload(&pieces);
    std::string payload;
    for (const Bytes piece : pieces) payload.append(piece);
    CHECK(WriteBatch::parse(payload).is_ok() == (first == kMaxSeqNum - 10));
  }
}

}  // namespace TEST_FILE
