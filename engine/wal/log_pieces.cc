#include "wal/log_pieces.h"

#include <algorithm>
#include <utility>

#include <engine/write_batch.h>
#include "base/checksum.h"
#include "base/coding.h"
#include "io/file_names.h"
#include "wal/batch_group.h"
#include "wal/log_format.h"

namespace ebbtide {
namespace {

// Tags of records that are not groups. A tag is stored where a group has its first length. A length is at least
// WriteBatch::kHeaderBytes, so no length equals a tag.
constexpr std::uint32_t kPieceTag = 1, kCommitTag = 2;
constexpr std::size_t kPieceHeadBytes = 4 + 8 + 4 + 4 + 4;  // size of a piece's head without its notes
constexpr std::size_t kPieceNoteBytes = 4 + 8;
constexpr std::size_t kCommitBytes = 4 + WriteBatch::kHeaderBytes + 8 + 4 + 4 + 4 + 8 + 8;

Status malformed(const char* what) { return Status::corruption(std::string("malformed ") + what); }

bool plausible(const PieceCommit& commit) {
  return commit.first_seq() != 0 && commit.count() != 0 && commit.first_seq() <= kMaxSeqNum - commit.count() &&
         commit.id.file != kNoFile && commit.pieces != 0 && commit.durable <= commit.pieces;
}

}  // namespace

SeqNum PieceCommit::first_seq() const { return load_fixed<SeqNum>(header.data()); }
Millis PieceCommit::time() const { return load_fixed<Millis>(header.data() + 8); }
std::uint32_t PieceCommit::count() const { return load_fixed<std::uint32_t>(header.data() + 24); }

LogRecordKind record_kind(Bytes payload) {
  std::uint32_t tag = 0;
  if (!get_u32(&payload, &tag)) return LogRecordKind::kGroup;
  return tag == kPieceTag ? LogRecordKind::kPiece : tag == kCommitTag ? LogRecordKind::kCommit : LogRecordKind::kGroup;
}

std::string encode_piece_head(const LogPiece& piece) {
  std::string out;
  put_u32(&out, kPieceTag);
  put_u64(&out, piece.id.file);
  put_u32(&out, piece.id.number);
  put_u32(&out, piece.index);
  put_u32(&out, static_cast<std::uint32_t>(piece.notes.size()));
  for (const PieceNote& note : piece.notes) {
    put_u32(&out, note.tree);
    put_u64(&out, note.min_expiry);
  }
  return out;
}

Status decode_piece(Bytes payload, LogPiece* piece) {
  std::uint32_t tag = 0, notes = 0;
  const bool head = get_u32(&payload, &tag) && tag == kPieceTag && get_u64(&payload, &piece->id.file) &&
                    get_u32(&payload, &piece->id.number) && get_u32(&payload, &piece->index) && get_u32(&payload, &notes);
  if (!head || notes > payload.size() / kPieceNoteBytes) return malformed("piece of a batch");
  piece->notes.resize(notes);
  for (PieceNote& note : piece->notes) {
    if (!get_u32(&payload, &note.tree) || !get_u64(&payload, &note.min_expiry)) return malformed("piece of a batch");
  }
  piece->bytes = payload;
  return Status::ok();
}

std::string encode_commit(const PieceCommit& commit) {
  std::string out;
  put_u32(&out, kCommitTag);
  out += commit.header;
  put_u64(&out, commit.id.file);
  put_u32(&out, commit.id.number);
  put_u32(&out, commit.pieces);
  put_u32(&out, commit.durable);
  put_u64(&out, commit.bytes);
  put_u64(&out, commit.checksum);
  return out;
}

Result<PieceCommit> decode_commit(Bytes payload) {
  PieceCommit commit;
  std::uint32_t tag = 0;
  if (payload.size() != kCommitBytes || !get_u32(&payload, &tag) || tag != kCommitTag) return malformed("commit record");
  commit.header = payload.substr(0, WriteBatch::kHeaderBytes);
  payload.remove_prefix(WriteBatch::kHeaderBytes);
  const bool whole = get_u64(&payload, &commit.id.file) && get_u32(&payload, &commit.id.number) &&
                     get_u32(&payload, &commit.pieces) && get_u32(&payload, &commit.durable) &&
                     get_u64(&payload, &commit.bytes) && get_u64(&payload, &commit.checksum);
  if (!whole || !plausible(commit)) return malformed("commit record");
  return commit;
}

bool looks_like_record(Bytes prefix, std::uint64_t bytes) {
  if (prefix.size() < kGroupPrefixBytes) return false;
  SeqNum first_seq = 0;
  switch (record_kind(prefix)) {
    case LogRecordKind::kGroup:
      return looks_like_group(prefix, bytes, &first_seq);
    case LogRecordKind::kPiece:
      return bytes >= kPieceHeadBytes &&
             load_fixed<std::uint32_t>(prefix.data() + kPieceHeadBytes - 4) <= (bytes - kPieceHeadBytes) / kPieceNoteBytes;
    case LogRecordKind::kCommit:
      first_seq = load_fixed<std::uint64_t>(prefix.data() + 4);
      return bytes == kCommitBytes && first_seq != 0 && first_seq <= kMaxSeqNum;
  }
  return false;
}

bool first_operation(Bytes payload, SeqNum* first_seq) {
  switch (record_kind(payload)) {
    case LogRecordKind::kGroup:
      return looks_like_group(payload, payload.size(), first_seq);
    case LogRecordKind::kPiece:
      return false;
    case LogRecordKind::kCommit:
      break;
  }
  const auto commit = decode_commit(payload);
  if (commit.is_ok()) *first_seq = commit->first_seq();
  return commit.is_ok();
}

LogPieces::LogPieces(FileSystem& fs, std::string dir, FileNum oldest_log)
    : fs_(fs), dir_(std::move(dir)), oldest_log_(oldest_log) {}

LogPieces::~LogPieces() = default;

Status LogPieces::add(FileNum file, std::uint64_t offset, Bytes payload) {
  LogPiece piece;
  TRY(decode_piece(payload, &piece));
  std::vector<PieceNote>& notes = notes_[file];
  for (const PieceNote& note : piece.notes) {
    const auto same = [&](const PieceNote& have) { return have.tree == note.tree && have.min_expiry == note.min_expiry; };
    if (std::none_of(notes.begin(), notes.end(), same)) notes.push_back(note);
  }
  if (piece.id.file < oldest_log_) return Status::ok();  // the segment of piece 0 is not needed, so tables have the batch
  const std::uint64_t at = offset + kLogRecordHeaderBytes + (payload.size() - piece.bytes.size());
  if (!places_[piece.id].try_emplace(piece.index, Place{file, at, piece.bytes.size()}).second) {
    return Status::corruption("piece " + std::to_string(piece.index) + " of batch " + piece.id.to_text() + " appears twice");
  }
  return Status::ok();
}

Result<LogPieces::Assembled> LogPieces::assemble(const PieceCommit& commit) {
  Assembled out;
  if (commit.id.file < oldest_log_) {
    out.in_tables = true;
    return out;
  }
  const Places places = std::exchange(places_[commit.id], {});
  places_.erase(commit.id);
  for (const auto& [index, place] : places) {
    SeqNum& last = last_seqs_[place.file];
    last = std::max(last, commit.last_seq());
  }
  std::uint32_t present = 0;  // pieces 0 to present - 1 were found
  for (const auto& [index, place] : places) present += index == present ? 1 : 0;
  if (present < commit.pieces) {
    out.fault = "piece " + std::to_string(present) + " of " + std::to_string(commit.pieces) + " of batch " + commit.id.to_text() +
                " is missing";
    out.durable = present < commit.durable;
    return out;
  }
  std::uint64_t bytes = 0;
  for (const auto& [index, place] : places) bytes += place.length;
  std::string head;
  put_u32(&head, static_cast<std::uint32_t>(commit.header.size() + bytes));
  out.group.add(head + commit.header);
  TRY_ASSIGN(checksum, read(commit.id, places, &out.group));
  if (bytes != commit.bytes || checksum != commit.checksum) {
    out.group = {};
    out.fault = "the pieces of batch " + commit.id.to_text() + " are not those that were committed";
    out.durable = commit.durable == commit.pieces;
  }
  return out;
}

// Adds the bytes of a batch's pieces to `out` and returns their checksum. Each piece's record was valid, but a damaged log may
// have pieces of another batch under this id. So the caller compares the result with the checksum in the commit record.
Result<std::uint64_t> LogPieces::read(const PieceId& id, const Places& places, LogPayload* out) {
  std::shared_ptr<const RandomAccessFile> in;
  FileNum open = kNoFile;
  BlockChecksummer checksum(id.file, id.number);
  std::string bytes;
  for (const auto& [index, place] : places) {
    if (place.file != open) {
      TRY_ASSIGN(file, fs_.open(join_path(dir_, log_file_name(place.file))));
      in = std::move(file);
      open = place.file;
    }
    bytes.resize(static_cast<std::size_t>(place.length));
    TRY(in->read(place.offset, bytes.size(), bytes.data()));
    checksum.update(bytes);
    out->add(in, place.offset, place.length);
  }
  return checksum.digest();
}

const std::vector<PieceNote>& LogPieces::notes(FileNum file) const {
  static const std::vector<PieceNote> kNone;
  const auto at = notes_.find(file);
  return at == notes_.end() ? kNone : at->second;
}

SeqNum LogPieces::last_seq(FileNum file) const {
  const auto at = last_seqs_.find(file);
  return at == last_seqs_.end() ? 0 : at->second;
}

}  // namespace ebbtide
