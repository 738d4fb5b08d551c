// Writes batches to the log in pieces (log_pieces.h).
//
// Invariants:
//   * A commit record is written after all pieces, into the same segment or a later one. A segment is synced as a whole before
//     the next segment gets a record. So a sync of the commit record has also synced the pieces.
//   * Until enqueue(), pieces_ keeps the segments with pieces from being removed. From then on LogSegment::pieces_seq keeps them,
//     as long as the batch's operations are needed. Both change in one step under the mutex.
//   * The thread that writes pieces also writes the queue after each piece, like any writer.
#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/planted_bug.h"
#include "wal/group_commit.h"

namespace ebbtide {
namespace {

/// Cuts a payload, without the batch's header, into pieces.
class Cutter {
 public:
  Cutter(const WriteBatch& batch, std::size_t piece_bytes) : piece_bytes_(piece_bytes) {
    batch.append_payload(&left_);
    left_.front().remove_prefix(WriteBatch::kHeaderBytes);
  }
  /// Sets `piece` to the next piece; returns false after the last piece.
  bool next(LogRecord* piece) {
    piece->clear();
    std::size_t room = piece_bytes_;
    for (; room != 0 && at_ < left_.size(); at_ += left_[at_].empty() ? 1 : 0) {
      const Bytes part = left_[at_].substr(0, room);
      left_[at_].remove_prefix(part.size());
      room -= part.size();
      if (!part.empty()) piece->push_back(part);
    }
    return !piece->empty();
  }

 private:
  const std::size_t piece_bytes_;
  std::vector<Bytes> left_;
  std::size_t at_ = 0;
};

}  // namespace

GroupCommit::Pieces::~Pieces() {
  GroupCommit* const owner = log;
  if (owner == nullptr) return;
  MutexLock lock(owner->mutex_);
  owner->end_pieces(this);
}

void GroupCommit::end_pieces(Pieces* pieces) {
  std::erase(pieces_, pieces);
  pieces->log = nullptr;
}

void GroupCommit::give_up_all_pieces() {
  for (Pieces* pieces : std::exchange(pieces_, {})) {
    pieces->given_up = true;
    pieces->log = nullptr;
  }
}

Result<GroupCommit::Prepared> GroupCommit::write_pieces(const WriteBatch& batch, std::span<const LogNote> notes,
                                                        const std::atomic<bool>* stop) {
  Prepared prepared;
  prepared.pieces_ = std::make_shared<Pieces>(this);
  Pieces& pieces = *prepared.pieces_;
  for (const LogNote& note : notes) pieces.notes.push_back({note.tree, note.min_expiry});
  Cutter cutter(batch, options_.piece_bytes);
  for (LogRecord payload; cutter.next(&payload);) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed))
      return Status::aborted("stopped while writing a batch to the log");
    if (!write_piece(&pieces, payload)) return Prepared{};
  }
  return prepared;
}

// Writes one piece to the log. Returns false if the pieces were given up or the log failed.
bool GroupCommit::write_piece(Pieces* pieces, const LogRecord& payload) {
  bool goes_on = false;
  {
    MutexLock lock(mutex_);
    become_writer();
    if (bad_.is_ok() && !pieces->given_up) append_piece(pieces, payload);
    done_writing(!options_.own_thread);
    pace(*pieces);
    goes_on = bad_.is_ok() && !pieces->given_up;
  }
  notify_listener();
  return goes_on;
}

void GroupCommit::append_piece(Pieces* pieces, const LogRecord& payload) {
  LogSegment& segment = segments_.current();
  if (pieces->id.file == kNoFile) {
    pieces->id = {segment.file, ++pieces_begun_};
    pieces->checksum = std::make_unique<BlockChecksummer>(pieces->id.file, pieces->id.number);
    pieces_.push_back(pieces);
  }
  // The segment gets the notes before the write, since a record may be on disk even if its write fails.
  for (const PieceNote& note : pieces->notes) add_note(&segment.notes, {note.tree, 0, note.min_expiry});
  const std::string head =
      encode_piece_head({pieces->id, static_cast<std::uint32_t>(pieces->ends.size()), pieces->notes, Bytes()});
  LogRecord record{head};
  record.insert(record.end(), payload.begin(), payload.end());
  mutex_.unlock();
  std::uint64_t bytes = 0;
  for (const Bytes part : payload) {
    pieces->checksum->update(part);
    bytes += part.size();
  }
  const Status status = writer_->append(std::span<const LogRecord>(&record, 1));
  mutex_.lock();
  if (!status.is_ok()) return fail(status);
  pieces->bytes += bytes;
  pieces->ends.emplace_back(writer_->file(), writer_->size());
  segments_.current().bytes = writer_->size();
  writes_.fetch_add(1, std::memory_order_relaxed);
  bytes_written_.fetch_add(bytes + head.size(), std::memory_order_relaxed);
}

// Returns true if the writer of pieces must pause until the device has caught up. The log thread switches to the next segment
// after a sync, during which appends go on. Without a pause, a full segment would grow by pieces during that sync.
bool GroupCommit::far_ahead() const {
  if (segment_full()) return true;
  return fsync() != FsyncMode::kNo && writer_->size() - writer_->synced_bytes() > options_.most_ahead_bytes;
}

void GroupCommit::pace(const Pieces& pieces) {
  if (!options_.own_thread) {
    if (!bad_.is_ok() || !far_ahead()) return;
    become_writer();
    if (segment_full()) {
      switch_segment();
    } else {
      sync_as_writer();
    }
    done_writing();
    return sync_ended();
  }
  ++pacing_;
  while (bad_.is_ok() && !stop_ && !pieces.given_up && far_ahead()) {
    wake_.notify_one();
    moved_.wait(mutex_);
  }
  --pacing_;
}

bool GroupCommit::enqueue_commit(const WriteBatch& batch, Pieces* pieces, std::span<const LogNote> notes) {
  std::vector<Bytes> payload;
  batch.append_payload(&payload);
  MutexLock lock(mutex_);
  if (!bad_.is_ok()) return true;  // no record may follow lost records; the client gets an error when it waits for the batch
  if (pieces->given_up) return false;
  PieceCommit commit;
  commit.header = payload.front().substr(0, WriteBatch::kHeaderBytes);
  commit.id = pieces->id;
  commit.pieces = static_cast<std::uint32_t>(pieces->ends.size());
  for (const auto& [file, end] : pieces->ends) {
    commit.durable += file != writer_->file() || end <= writer_->synced_bytes() ? 1 : 0;
  }
  commit.bytes = pieces->bytes;
  commit.checksum = pieces->checksum->digest();
  if (!planted(PlantedBug::kForgetPieces)) segments_.note_pieces(pieces->id.file, pieces->ends.back().first, batch.last_seq());
  end_pieces(pieces);
  Group group;
  group.bytes = encode_commit(commit);
  group.last_seq = batch.last_seq();
  group.since = batch.time();
  group.notes.assign(notes.begin(), notes.end());
  queue_group(std::move(group));
  return true;
}

bool GroupCommit::is_pinned(FileNum file) const {
  return std::any_of(pieces_.begin(), pieces_.end(), [file](const Pieces* pieces) { return pieces->id.file <= file; });
}

void GroupCommit::give_up_pieces(FileNum last) {
  MutexLock lock(mutex_);
  std::erase_if(pieces_, [last](Pieces* pieces) {
    if (pieces->id.file > last) return false;
    pieces->given_up = true;
    pieces->log = nullptr;
    return true;
  });
  moved_.notify_all();
}

void GroupCommit::give_up_pieces_before(SeqNum seq) {
  FileNum needed = kNoFile;
  {
    MutexLock lock(mutex_);
    if (pieces_.empty()) return;
    needed = segments_.oldest_needed(seq, [](FileNum) { return false; });
  }
  give_up_pieces(needed - 1);
}

std::uint64_t GroupCommit::pending_piece_bytes() const {
  MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Pieces* pieces : pieces_) bytes += pieces->bytes;
  return bytes;
}

}  // namespace ebbtide
