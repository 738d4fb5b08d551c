// A large batch is written to the log in pieces, so that other batches wait for one piece at most.
//
//   group | piece 0 of 7-1 | group | piece 1 of 7-1 | group | commit of 7-1 | group
//
// Pieces hold the operations before the batch has a place in the order of writes. The small commit record gives it that place.
// Pieces without a commit record have no effect: the batch was abandoned, or the process ended. An id is the segment of the first
// piece and a number that is unique in it. No segment is written by two processes, so ids are unique.
//
// A batch's pieces stay until its operations are in tables. Its commit record may stay longer, in a segment with needed records.
// The log then begins after the batch's first segment, and the batch is not needed.
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
  std::uint32_t number = 0;  ///< unique among those that begin in that segment
  auto operator<=>(const PieceId&) const = default;
  /// "7-1"
  [[nodiscard]] std::string to_text() const { return std::to_string(file) + "-" + std::to_string(number); }
};

/// A tree that the batch writes to. Stored in each piece, since its values are subject to the tree's deadlines even without a
/// commit.
struct PieceNote {
  TreeId tree = kNoTree;
  Millis min_expiry = 0;  ///< smallest expiry of the batch's values in the tree; 0 = none
};

/// A part of a batch's payload, without the header.
struct LogPiece {
  PieceId id;
  std::uint32_t index = 0;  ///< from 0 on
  std::vector<PieceNote> notes;
  Bytes bytes;
};

struct PieceCommit {
  std::string header;  ///< the batch's, WriteBatch::kHeaderBytes
  PieceId id;
  std::uint32_t pieces = 0;
  std::uint32_t durable = 0;   ///< number of pieces, from piece 0 on, that were durable before this record was written
  std::uint64_t bytes = 0;     ///< of all pieces
  std::uint64_t checksum = 0;  ///< of all their bytes in order: block_checksum, bound to id.file and id.number

  [[nodiscard]] SeqNum first_seq() const;
  [[nodiscard]] std::uint32_t count() const;
  [[nodiscard]] Millis time() const;
  [[nodiscard]] SeqNum last_seq() const { return first_seq() + count() - 1; }
};

enum class LogRecordKind : std::uint8_t { kGroup, kPiece, kCommit };
/// The kind of a record, by the first bytes of its payload.
LogRecordKind record_kind(Bytes payload);

/// The header of a piece's record, before the bytes.
std::string encode_piece_head(const LogPiece& piece);
std::string encode_commit(const PieceCommit& commit);
/// kCorruption if `payload` is malformed. `piece->bytes` points into `payload`.
Status decode_piece(Bytes payload, LogPiece* piece);
Result<PieceCommit> decode_commit(Bytes payload);

/// True if a payload of `bytes` may begin with `prefix`, of kGroupPrefixBytes: a group, a piece or a commit record. A cheap test,
/// for a search that tries every offset.
bool looks_like_record(Bytes prefix, std::uint64_t bytes);
/// Sets the seq of a record's first operation; false if it has none (a piece) or is malformed.
bool first_operation(Bytes payload, SeqNum* first_seq);

/// Assembles batches while the log is read (read_log), segment by segment. Stores the places of pieces, not their bytes.
class LogPieces {
 public:
  /// A batch with a commit record, and the state of its pieces.
  struct Assembled {
    LogPayload group;        ///< the batch as a group of its own; empty if a fault is set or in_tables
    std::string fault;       ///< why its operations cannot be read
    bool durable = false;    ///< with a fault: the missing part was durable, so it is damage
    bool in_tables = false;  ///< the log begins behind its first piece: tables have it
  };
  /// `oldest_log`: the first segment of the log, by the manifest; kNoFile = unknown.
  LogPieces(FileSystem& fs, std::string dir, FileNum oldest_log);
  ~LogPieces();

  /// Called for each batch whose operations are in tables, instead of on_record; `offset` is that of its commit record.
  std::function<Status(const PieceCommit& commit, std::uint64_t offset)> on_in_tables;

  // --- for read_log
  Status add(FileNum file, std::uint64_t offset, Bytes payload);
  Result<Assembled> assemble(const PieceCommit& commit);

  // --- for callers of read_log
  /// The notes of the segment's pieces, of committed batches and others.
  [[nodiscard]] const std::vector<PieceNote>& notes(FileNum file) const;
  /// The last operation of all batches that have a piece in the segment; 0 = none of them was committed.
  [[nodiscard]] SeqNum last_seq(FileNum file) const;

 private:
  struct Place {
    FileNum file = kNoFile;
    std::uint64_t offset = 0;  // of the bytes
    std::uint64_t length = 0;
  };
  using Places = std::map<std::uint32_t, Place>;
  Result<std::uint64_t> read(const PieceId& id, const Places& places, LogPayload* out);

  FileSystem& fs_;
  const std::string dir_;
  const FileNum oldest_log_;
  std::map<PieceId, Places> places_;  // of batches that are not committed yet
  std::map<FileNum, std::vector<PieceNote>> notes_;
  std::map<FileNum, SeqNum> last_seqs_;
};

}  // namespace ebbtide
