// A large batch is written to the log in pieces, so that another batch never waits for more than one piece.
//
//   group | piece 0 of 7-1 | group | piece 1 of 7-1 | group | commit of 7-1 | group
//
// Pieces hold the batch's operations, and are written before the batch has a position in the order of writes. The small commit
// record gives the batch that position. Pieces without a commit record have no effect: the batch was abandoned, or the process
// ended. The id of a batch (7-1 above) has two numbers: the segment of its first piece, and a number that is unique in that
// segment. A segment is written by one process only, so ids are unique.
//
// Segments with a batch's pieces are kept until tables have the batch's operations. The segment with the commit record may be
// kept longer, for other records. So if the log begins after the segment of a batch's first piece, the batch is not needed.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "wal/log_payload.h"

namespace ebbtide {

struct PieceId {
  FileNum file = kNoFile;    ///< segment of piece 0
  std::uint32_t number = 0;  ///< unique among the batches whose first piece is in that segment
  auto operator<=>(const PieceId&) const = default;
  /// For example "7-1".
  [[nodiscard]] std::string to_text() const { return std::to_string(file) + "-" + std::to_string(number); }
};

/// A tree that the batch writes to. Each piece stores the notes of its batch: even without a commit record, values in pieces
/// that expire must leave the log by the tree's delete deadline.
struct PieceNote {
  TreeId tree = kNoTree;
  Millis min_expiry = 0;  ///< smallest expiry of the batch's values in the tree; 0 = none
};

/// A part of a batch's payload. The header of the batch is not in any piece.
struct LogPiece {
  PieceId id;
  std::uint32_t index = 0;  ///< number of the piece in the batch, from 0 on
  std::vector<PieceNote> notes;
  Bytes bytes;
};

/// The record that gives a batch in pieces its position in the order of writes.
struct PieceCommit {
  std::string header;  ///< the batch's header, WriteBatch::kHeaderBytes long
  PieceId id;
  /// Number of the batch's pieces.
  std::uint32_t pieces = 0;
  std::uint32_t durable = 0;   ///< number of leading pieces that were durable before this record was written
  std::uint64_t bytes = 0;     ///< bytes of all pieces
  std::uint64_t checksum = 0;  ///< block_checksum of the bytes of all pieces in order, bound to id.file and id.number

  [[nodiscard]] SeqNum first_seq() const;
  [[nodiscard]] std::uint32_t count() const;
  [[nodiscard]] Millis time() const;
  [[nodiscard]] SeqNum last_seq() const { return first_seq() + count() - 1; }
};

enum class LogRecordKind : std::uint8_t { kGroup, kPiece, kCommit };
/// Returns the kind of a record, from the first bytes of its payload.
LogRecordKind record_kind(Bytes payload);

/// Encodes a piece's record without LogPiece::bytes, which follow it.
std::string encode_piece_head(const LogPiece& piece);
std::string encode_commit(const PieceCommit& commit);
/// Decodes a piece. Returns kCorruption if `payload` is malformed. `piece->bytes` points into `payload`.
Status decode_piece(Bytes payload, LogPiece* piece);
Result<PieceCommit> decode_commit(Bytes payload);

/// Returns true if `prefix`, the first kGroupPrefixBytes bytes of a payload of `bytes` bytes, may be the beginning of a group,
/// a piece or a commit record. The test is cheap, since a search for a record tests every offset.
bool looks_like_record(Bytes prefix, std::uint64_t bytes);
/// Sets `first_seq` to the seq of a record's first operation. Returns false if the record is a piece, which has no seq, or is
/// malformed.
bool first_operation(Bytes payload, SeqNum* first_seq);

/// Assembles batches from their pieces while read_log() reads the log, segment by segment. Stores where the pieces are in the
/// files, not their bytes.
class LogPieces {
 public:
  /// A batch with a commit record, and the state of its pieces.
  struct Assembled {
    LogPayload group;        ///< the batch as a group of one batch; empty if `fault` is set or in_tables is true
    std::string fault;       ///< the reason why the operations cannot be read; "" = they can be read
    bool durable = false;    ///< true if a missing or damaged piece was durable: `fault` is then damage, not a torn end
    bool in_tables = false;  ///< true if the log begins after the batch's first piece, so that tables have the batch
  };
  /// `oldest_log`: the first segment of the log by the manifest; kNoFile = unknown.
  LogPieces(FileSystem& fs, std::string dir, FileNum oldest_log);
  ~LogPieces();

  /// Gets, instead of LogVisitor::on_record, each batch whose operations are in tables. `offset` is the offset of the commit
  /// record.
  std::function<Status(const PieceCommit& commit, std::uint64_t offset)> on_in_tables;

  // --- called by read_log()
  /// Takes the piece with this record payload, whose record begins at `offset` of segment `file`.
  Status add(FileNum file, std::uint64_t offset, Bytes payload);
  /// Returns the batch of a commit record, from the pieces added so far.
  Result<Assembled> assemble(const PieceCommit& commit);

  // --- for callers of read_log()
  /// The notes of all pieces in the segment, also of batches without a commit record.
  [[nodiscard]] const std::vector<PieceNote>& notes(FileNum file) const;
  /// The seq of the last operation of all committed batches that have a piece in the segment; 0 = there is none.
  [[nodiscard]] SeqNum last_seq(FileNum file) const;

 private:
  struct Place {
    FileNum file = kNoFile;
    std::uint64_t offset = 0;  // offset of the piece's bytes
    std::uint64_t length = 0;
  };
  using Places = std::map<std::uint32_t, Place>;
  Result<std::uint64_t> read(const PieceId& id, const Places& places, LogPayload* out);

  FileSystem& fs_;
  const std::string dir_;
  const FileNum oldest_log_;
  std::map<PieceId, Places> places_;  // pieces of batches whose commit record was not read yet
  std::map<FileNum, std::vector<PieceNote>> notes_;
  std::map<FileNum, SeqNum> last_seqs_;
};

}  // namespace ebbtide
