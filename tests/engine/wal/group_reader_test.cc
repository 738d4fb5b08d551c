// Tests that the reader returns the operations of a long group one by one, as its batches have them.
#include "wal/group_reader.h"

#include <engine/write_batch.h>
#include <catch2/catch.hpp>

#include "base/coding.h"
#include "base/random.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string group_of(const std::vector<WriteBatch>& batches) {
  std::string out;
  for (const WriteBatch& batch : batches) {
    put_u32(&out, static_cast<std::uint32_t>(batch.payload_bytes()));
    std::vector<Bytes> parts;
    batch.append_payload(&parts);
    for (const Bytes part : parts) out += part;
  }
  return out;
}

WriteBatch random_batch(SeqNum seq, Random& random, int operations) {
  WriteBatch batch;
  for (int i = 0; i < operations; ++i) {
    const std::string key = "key" + std::to_string(i) + std::string(random.uniform(100) == 0 ? 1'000'000 : 3, 'k');
    switch (random.uniform(5)) {
      case 0:
        batch.del(1, key);
        break;
      case 1:
        batch.delete_range(2, "a" + key, "b");
        break;
      case 2:
        batch.delete_stamps(3, 5, 9);
        break;
      default:
        batch.put(static_cast<DatabaseId>(random.uniform(4)), key, std::string(random.uniform(20) == 0 ? 700'000 : 3000, 'v'),
                  {.stamp = random.uniform(3),
                   .expiry = random.uniform(2),
                   .kind = random.one_in(3) ? EntryKind::kCompact : EntryKind::kValue,
                   .debt = random.one_in(3)});
    }
  }
  batch.set_header(seq, 1000 + seq, 0);
  return batch;
}

/// Returns a payload in parts of a file, as pieces are, and a part in memory.
LogPayload payload_of(MemoryFileSystem& fs, const std::string& bytes, std::size_t part) {
  if (fs.exists("payload")) REQUIRE(fs.unlink("payload").is_ok());
  auto out = fs.create("payload");
  REQUIRE((*out)->append("before" + bytes).is_ok());
  REQUIRE((*out)->close().is_ok());
  std::shared_ptr<const RandomAccessFile> in = std::move(fs.open("payload")).value();
  LogPayload payload;
  payload.add(bytes.substr(0, 10));
  for (std::size_t at = 10; at < bytes.size(); at += part) payload.add(in, 6 + at, std::min(part, bytes.size() - at));
  return payload;
}

Status read_to_end(const LogPayload& payload) {
  GroupReader group(payload);
  GroupReader::Batch batch;
  WriteBatch::Op op;
  for (;;) {
    TRY_ASSIGN(has_batch, group.next_batch(&batch));
    if (!has_batch) return Status::ok();
    for (;;) {
      TRY_ASSIGN(has_op, group.next_op(&op));
      if (!has_op) break;
    }
  }
}

TEST_CASE("group of batches is longer than the reader's window: each operation is read as it was written", "[group_reader]") {
  Random random(3);
  std::vector<WriteBatch> batches;
  batches.push_back(random_batch(1, random, 400));
  batches.push_back(random_batch(401, random, 1));
  batches.push_back(random_batch(402, random, 300));
  const std::string bytes = group_of(batches);
  REQUIRE(bytes.size() > (std::size_t{9} << 20));
  MemoryFileSystem fs;
  const std::size_t part = GENERATE(1'000'000, 131'000, 100'000'000);
  const LogPayload payload = payload_of(fs, bytes, part);
  REQUIRE(payload.size() == bytes.size());
  GroupReader group(payload);
  int wrong = 0;
  for (const WriteBatch& expected : batches) {
    GroupReader::Batch batch;
    const auto has_batch = group.next_batch(&batch);
    REQUIRE((has_batch.is_ok() && *has_batch));
    CHECK(batch.first_seq == expected.first_seq());
    CHECK(batch.time == expected.time());
    CHECK(batch.count == expected.count());
    std::size_t cursor = 0;
    WriteBatch::Op want, have;
    while (expected.next_op(&cursor, &want)) {
      const auto has_op = group.next_op(&have);
      REQUIRE((has_op.is_ok() && *has_op));
      const bool same = have.kind == want.kind && have.tree == want.tree && have.key == want.key && have.end == want.end &&
                        have.value == want.value && have.stamp == want.stamp && have.expiry == want.expiry &&
                        have.value_kind == want.value_kind && have.debt == want.debt && have.lo == want.lo &&
                        have.hi == want.hi && (have.shared != nullptr) == (want.value.size() > kLargeValueBytes);
      wrong += same ? 0 : 1;
    }
    const auto more = group.next_op(&have);
    REQUIRE(more.is_ok());
    CHECK_FALSE(*more);
  }
  GroupReader::Batch none;
  CHECK_FALSE(*group.next_batch(&none));
  CHECK(wrong == 0);
}

TEST_CASE("group is truncated, or one of its lengths is changed: reading returns kCorruption, and stays within the group",
          "[group_reader]") {
  Random random(4);
  std::vector<WriteBatch> batches;
  batches.push_back(random_batch(1, random, 3));
  batches.push_back(random_batch(4, random, 3));
  const std::string bytes = group_of(batches);
  MemoryFileSystem fs;
  REQUIRE(read_to_end(payload_of(fs, bytes, 4000)).is_ok());
  for (std::size_t cut = 1; cut < bytes.size(); cut += bytes.size() / 97 + 1) {
    INFO("cut at " << cut);
    CHECK(read_to_end(payload_of(fs, bytes.substr(0, cut), 4000)).code() == Code::kCorruption);
  }
  std::string changed = bytes;
  changed[28] ^= 1;  // the number of operations: the fourth field of the header's 32 bytes, after the length
  CHECK(read_to_end(payload_of(fs, changed, 4000)).code() == Code::kCorruption);
  changed = bytes;
  changed[3] = '\x7f';  // the length of the first batch
  CHECK(read_to_end(payload_of(fs, changed, 4000)).code() == Code::kCorruption);
  for (std::size_t at = 0; at < 200; ++at) {
    changed = bytes;
    changed[at] ^= 0x55;
    (void)read_to_end(payload_of(fs, changed, 4000));  // this must not crash; the reader cannot notice a changed key or value
  }
}

}  // namespace TEST_FILE
