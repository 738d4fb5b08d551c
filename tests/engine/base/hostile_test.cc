// Numbers that no program of ours writes, under checksums that are right.
#include <catch2/catch.hpp>

#include <engine/write_batch.h>
#include "base/table_stats.h"

namespace ebbtide {
namespace {

TEST_CASE("table stats with sequence numbers past the largest there is are refused") {
  for (const bool newest : {true, false}) {
    TableStats stats;
    Entry entry;
    entry.key = "k";
    entry.seq = 7;
    stats.add_entry(entry);
    (newest ? stats.max_seq : stats.applied_seq) = kMaxSeqNum;
    std::string bytes;
    stats.encode(&bytes);
    Bytes in = bytes;
    CHECK(TableStats::decode(&in).is_ok());
    (newest ? stats.max_seq : stats.applied_seq) = kMaxSeqNum + 1;
    bytes.clear();
    stats.encode(&bytes);
    in = bytes;
    CHECK(TableStats::decode(&in).status().code() == Code::kCorruption);
  }
}

TEST_CASE("a batch whose last sequence number would be past the largest there is is refused") {
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

}  // namespace
}  // namespace ebbtide
