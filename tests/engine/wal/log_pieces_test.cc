// Tests of batches in pieces: how a reader treats pieces and commit records, complete and incomplete.
#include "wal/log_pieces.h"

#include <engine/write_batch.h>
#include <catch2/catch.hpp>

#include "base/checksum.h"
#include "base/coding.h"
#include "engine/wal/segments.h"
#include "io/file_names.h"
#include "wal/batch_group.h"
#include "wal/log_format.h"
#include "wal/log_sequence.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string payload_of(const WriteBatch& batch) {
  std::vector<Bytes> parts;
  batch.append_payload(&parts);
  std::string out;
  for (const Bytes part : parts) out += part;
  return out;
}

std::string group_of(const WriteBatch& batch) {
  std::string out;
  put_u32(&out, static_cast<std::uint32_t>(batch.payload_bytes()));
  return out + payload_of(batch);
}

WriteBatch small_batch(SeqNum seq) {
  WriteBatch batch;
  batch.put(0, "small", "value", {});
  batch.set_header(seq, 1000, 0);
  return batch;
}

/// A batch of 40 puts in 5 pieces.
struct Large {
  static constexpr std::uint32_t kPieces = 5;
  explicit Large(SeqNum seq, PieceId piece_id) : id(piece_id) {
    for (int i = 0; i < 40; ++i) batch.put(0, "key" + std::to_string(i), std::string(20, 'v'), {});
    batch.set_header(seq, 1000, 0);
    body = payload_of(batch).substr(WriteBatch::kHeaderBytes);
  }
  [[nodiscard]] std::string piece(std::uint32_t index) const {
    const std::size_t bytes = body.size() / kPieces + 1;
    return encode_piece_head({id, index, {{3, 77}}, {}}) + body.substr(index * bytes, bytes);
  }
  [[nodiscard]] std::string commit(std::uint32_t durable = 0) const {
    PieceCommit out;
    out.header = payload_of(batch).substr(0, WriteBatch::kHeaderBytes);
    out.id = id;
    out.pieces = kPieces;
    out.durable = durable;
    out.bytes = body.size();
    BlockChecksummer checksum(id.file, id.number);
    checksum.update(body);
    out.checksum = checksum.digest();
    return encode_commit(out);
  }
  PieceId id;
  WriteBatch batch;
  std::string body;
};

struct Segments {
  Segments() { REQUIRE(fs.create_dir("d").is_ok()); }
  void write(FileNum file, const std::vector<std::string>& payloads) {
    auto writer = LogWriter::create(fs, "d", file);
    REQUIRE(writer.is_ok());
    for (const std::string& payload : payloads) {
      offsets.push_back((*writer)->size());
      REQUIRE(append_one(**writer, payload).is_ok());
    }
    REQUIRE((*writer)->sync().is_ok());
  }
  void damage(FileNum file, std::uint64_t offset) {
    const std::string path = join_path("d", log_file_name(file));
    std::string bytes = *read_file(fs, path);
    bytes[static_cast<std::size_t>(offset)] ^= 1;
    REQUIRE(fs.unlink(path).is_ok());
    write_file(fs, path, bytes);
  }
  LogEnd read(FileNum file, LogPieces* pieces, bool goes_on = true) {
    const auto on_damage = [&, goes_on](const LogDamage& damage) -> Result<bool> {
      damages.push_back(damage);
      return goes_on;
    };
    auto end = read_log(
        fs, "d", file,
        [&](std::string payload, std::uint64_t) {
          groups.push_back(std::move(payload));
          return Status::ok();
        },
        on_damage, pieces);
    REQUIRE(end.is_ok());
    return *end;
  }
  MemoryFileSystem fs;
  std::vector<std::uint64_t> offsets;
  std::vector<std::string> groups;
  std::vector<LogDamage> damages;
};

TEST_CASE("pieces of a batch lie between groups, in two segments: the batch is read at its commit record", "[pieces]") {
  Segments log;
  const Large large(2, {7, 1}), other(42, {7, 2});
  log.write(7, {large.piece(0), other.piece(0), group_of(small_batch(1)), large.piece(1), large.piece(2), other.piece(1)});
  log.write(8, {other.piece(2), large.piece(3), large.piece(4), large.commit(3), other.piece(3), other.piece(4), other.commit(2),
                group_of(small_batch(82))});
  LogPieces pieces(log.fs, "d", 7);
  CHECK(log.read(7, &pieces).clean);
  CHECK(log.groups == std::vector<std::string>{group_of(small_batch(1))});
  CHECK(pieces.last_seq(7) == 0);
  CHECK(log.read(8, &pieces).clean);
  CHECK(log.groups == std::vector<std::string>{group_of(small_batch(1)), group_of(large.batch), group_of(other.batch),
                                               group_of(small_batch(82))});
  CHECK(log.damages.empty());
  CHECK(pieces.last_seq(7) == 81);
  CHECK(pieces.last_seq(8) == 81);
  REQUIRE(pieces.notes(7).size() == 1);
  CHECK(pieces.notes(7)[0].tree == 3);
  CHECK(pieces.notes(7)[0].min_expiry == 77);
  CHECK(pieces.notes(9).empty());
}

TEST_CASE("pieces have no commit record: the reader returns only the notes of their deletes", "[pieces]") {
  Segments log;
  const Large large(2, {7, 1});
  log.write(7, {large.piece(0), large.piece(1), group_of(small_batch(2)), large.piece(2)});
  LogPieces pieces(log.fs, "d", 7);
  CHECK(log.read(7, &pieces).clean);
  CHECK(log.groups == std::vector<std::string>{group_of(small_batch(2))});
  CHECK(pieces.last_seq(7) == 0);
  CHECK(pieces.notes(7).size() == 1);
}

TEST_CASE("log begins after a batch's first piece: its commit is reported to on_in_tables, not to on_record", "[pieces]") {
  Segments log;
  const Large large(2, {6, 1});
  log.write(7, {large.piece(3), large.piece(4), large.commit(), group_of(small_batch(42))});
  LogPieces pieces(log.fs, "d", 7);
  std::vector<SeqNum> in_tables;
  pieces.on_in_tables = [&](const PieceCommit& commit, std::uint64_t offset) {
    CHECK(offset == log.offsets[2]);
    in_tables = {commit.first_seq(), commit.last_seq()};
    return Status::ok();
  };
  CHECK(log.read(7, &pieces).clean);
  CHECK(in_tables == std::vector<SeqNum>{2, 41});
  CHECK(log.groups == std::vector<std::string>{group_of(small_batch(42))});
  LogPieces unknown(log.fs, "d", kNoFile);  // if the beginning of the log is unknown, missing pieces are an error
  log.read(7, &unknown);
  CHECK(log.damages.size() == 1);
}

TEST_CASE("piece of a committed batch is damaged: the batch is reported as damaged", "[pieces]") {
  const std::uint32_t durable = GENERATE(0, 1, 2, 5);
  const bool followed = GENERATE(true, false);
  Segments log;
  const Large large(2, {7, 1});
  log.write(7, {large.piece(0), large.piece(1), large.piece(2), large.piece(3), large.piece(4), large.commit(durable)});
  if (followed) {
    log.offsets.clear();
    REQUIRE(log.fs.unlink("d/000007.wal").is_ok());
    log.write(7, {large.piece(0), large.piece(1), large.piece(2), large.piece(3), large.piece(4), large.commit(durable),
                  group_of(small_batch(42))});
  }
  log.damage(7, log.offsets[1] + 40);
  LogPieces pieces(log.fs, "d", 7);
  const LogEnd end = log.read(7, &pieces);
  REQUIRE(log.damages.size() == (followed ? 2u : 1u));
  CHECK(log.damages[0].offset == log.offsets[1]);
  CHECK(log.damages[0].resumes == log.offsets[2]);
  CHECK(log.damages[0].next_seq == 2);
  if (followed) {
    CHECK(end.clean);
    CHECK(log.damages[1].offset == log.offsets[5]);
    CHECK(log.damages[1].next_seq == 42);
    CHECK(log.damages[1].what.find("piece 1 of 5 of batch 7-1 is missing") != std::string::npos);
    CHECK(log.damages[1].durable == (durable > 1));
    CHECK(log.groups == std::vector<std::string>{group_of(small_batch(42))});
  } else {
    CHECK_FALSE(end.clean);
    CHECK(end.valid_bytes == log.offsets[5]);
    CHECK(end.valid_after == (durable > 1));
    CHECK(log.groups.empty());
  }
}

TEST_CASE("power loss removes an unsynced piece: the batch's pieces and commit record are cut as a torn end", "[pieces]") {
  const std::uint32_t durable = GENERATE(0, 2);
  Segments log;
  const Large large(2, {7, 1});
  log.write(7, {group_of(small_batch(1)), large.piece(0), large.piece(1), large.piece(2), large.piece(3), large.piece(4),
                large.commit(durable)});
  log.damage(7, log.offsets[2] + 40);
  LogPieces pieces(log.fs, "d", 7);
  LogNeeds needs{.oldest_log = 7, .last_seq = 1, .lacking = [](SeqNum) { return std::string("tree 3"); }};
  LogSequence sequence("d", std::move(needs));
  REQUIRE(sequence.begin({7}).is_ok());
  sequence.enter(7);
  const auto end = read_log(
      log.fs, "d", 7, [&](const std::string&, std::uint64_t offset) { return sequence.follow(1, 1, 1000, offset); },
      [&](const LogDamage& damage) { return sequence.damaged(damage); }, &pieces);
  REQUIRE(end.is_ok());
  CHECK(end->valid_bytes == log.offsets[6]);
  const auto torn = sequence.leave(*end);
  REQUIRE(torn.is_ok());
  CHECK(*torn == (durable == 0));
  CHECK(sequence.finish().is_ok() == (durable == 0));  // a durable piece is not torn
  CHECK(sequence.skipped().empty());
}

TEST_CASE("pieces have the id of another batch, or occur twice: the error names the batch, or file and offset", "[pieces]") {
  Segments log;
  const Large large(2, {7, 1});
  std::string changed = large.piece(4);
  SECTION("pieces of another batch have the id") {
    changed.back() ^= 1;
    log.write(7, {large.piece(0), large.piece(1), large.piece(2), large.piece(3), changed, large.commit(5)});
    LogPieces pieces(log.fs, "d", 7);
    const LogEnd end = log.read(7, &pieces);
    CHECK(end.what.find("the pieces of batch 7-1 are not those that were committed") != std::string::npos);
    CHECK(end.valid_after);
  }
  SECTION("piece occurs twice") {
    log.write(7, {large.piece(0), large.piece(0)});
    LogPieces pieces(log.fs, "d", 7);
    const auto end = read_log(
        log.fs, "d", 7, [](const std::string&, std::uint64_t) { return Status::ok(); }, {}, &pieces);
    CHECK(end.status().code() == Code::kCorruption);
    CHECK(end.status().to_string().find("000007.wal: record at " + std::to_string(log.offsets[1])) != std::string::npos);
  }
}

TEST_CASE("record before pieces is damaged: the search for the next record finds the pieces, and the batch is complete",
          "[pieces]") {
  Segments log;
  const Large large(2, {7, 1});
  log.write(7, {group_of(small_batch(1)), large.piece(0), large.piece(1), large.piece(2), large.piece(3), large.piece(4),
                large.commit()});
  log.damage(7, log.offsets[0] + 1);  // the length is damaged, so the offset of the next record is lost
  LogPieces pieces(log.fs, "d", 7);
  CHECK(log.read(7, &pieces).clean);
  REQUIRE(log.damages.size() == 1);
  CHECK(log.damages[0].resumes == log.offsets[1]);
  CHECK(log.damages[0].next_seq == 2);
  CHECK(log.groups == std::vector<std::string>{group_of(large.batch)});
}

TEST_CASE("piece or commit record is truncated anywhere: decoding fails, without reading past its end", "[pieces]") {
  const Large large(2, {7, 1});
  LogPiece piece;
  REQUIRE(decode_piece(large.piece(0), &piece).is_ok());
  CHECK(piece.id == large.id);
  for (std::size_t n = 0; n < large.commit().size(); ++n) {
    const std::string cut = large.commit().substr(0, n);
    CHECK_FALSE(decode_commit(cut).is_ok());
    SeqNum first = 0;
    CHECK_FALSE(first_operation(cut, &first));
    const std::string head = encode_piece_head({large.id, 0, {{3, 77}}, {}});
    if (n < head.size()) CHECK_FALSE(decode_piece(Bytes(head).substr(0, n), &piece).is_ok());
  }
}

}  // namespace TEST_FILE
