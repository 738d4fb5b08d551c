// Batches in pieces, as the log queue writes them (wal/log_pieces.h).
//
// What must hold:
//   * A commit record is written after all pieces, into the same segment or a later one; and a segment is synced as a whole before
//     the next one is written to. So a sync of the commit record has synced the pieces.
//   * Between the first piece and the enqueue() the segments stay (pieces_), afterwards as long as the batch's seq is needed
//     (Segment::pieces_seq). Both change under the queue's lock, so there is no moment without either.
//   * Who writes pieces writes what is queued after each of them, like any writer.
#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/planted_bug.h"
#include "db/log_queue.h"

namespace ebbtide {
namespace {

/// Cuts a payload behind the batch's header.
class Cutter {
 public:
  Cutter(const WriteBatch& batch, std::size_t piece_bytes) : piece_bytes_(piece_bytes) {
    batch.append_payload(&left_);
    left_.front().remove_prefix(WriteBatch::kHeaderBytes);
  }
  /// False at the end.
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

LogQueue::Pieces::~Pieces() {
  LogQueue* const owner = queue;
  if (owner == nullptr) return;
  MutexLock lock(owner->mutex_);
  owner->end_pieces(this);
}

void LogQueue::end_pieces(Pieces* pieces) {
  std::erase(pieces_, pieces);
  pieces->queue = nullptr;
}

void LogQueue::give_up_all_pieces() {
  for (Pieces* pieces : std::exchange(pieces_, {})) {
    pieces->given_up = true;
    pieces->queue = nullptr;
  }
}

Result<LogQueue::Prepared> LogQueue::write_pieces(const WriteBatch& batch, std::span<const LogNote> notes,
                                                  const std::atomic<bool>* stop) {
  Prepared prepared;
  prepared.pieces_ = std::make_shared<Pieces>(this);
  Pieces& pieces = *prepared.pieces_;
  for (const LogNote& note : notes) pieces.notes.push_back({note.tree, note.min_expiry});
  Cutter cutter(batch, options_.piece_bytes);
  for (LogRecord payload; cutter.next(&payload);) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed))
      return Status::aborted("writing a batch to the log was stopped");
    if (!write_piece(&pieces, payload)) return Prepared{};
  }
  return prepared;
}

// False: there is no point in going on.
bool LogQueue::write_piece(Pieces* pieces, const LogRecord& payload) {
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

void LogQueue::append_piece(Pieces* pieces, const LogRecord& payload) {
  Segment& segment = segments_.back();
  if (pieces->id.file == kNoFile) {
    pieces->id = {segment.file, ++pieces_begun_};
    pieces->checksum = std::make_unique<BlockChecksummer>(pieces->id.file, pieces->id.number);
    pieces_.push_back(pieces);
  }
  // Before the write: what fails may be on disk all the same.
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
  segments_.back().bytes = writer_->size();
  writes_.fetch_add(1, std::memory_order_relaxed);
  bytes_written_.fetch_add(bytes + head.size(), std::memory_order_relaxed);
}

// The next segment is begun by the log thread, after a sync beside which appends go on; pieces would outrun that.
bool LogQueue::far_ahead() const {
  if (segment_full()) return true;
  return fsync() != FsyncMode::kNo && writer_->size() - writer_->synced_bytes() > options_.most_ahead_bytes;
}

void LogQueue::pace(const Pieces& pieces) {
  if (!options_.own_thread) {
    if (!bad_.is_ok() || !far_ahead()) return;
    become_writer();
    if (segment_full()) {
      switch_segment();
    } else {
      sync_as_writer();
    }
    return done_writing();
  }
  ++pacing_;
  while (bad_.is_ok() && !stop_ && !pieces.given_up && far_ahead()) {
    wake_.notify_one();
    moved_.wait(mutex_);
  }
  --pacing_;
}

bool LogQueue::enqueue_commit(const WriteBatch& batch, Pieces* pieces, std::span<const LogNote> notes) {
  std::vector<Bytes> payload;
  batch.append_payload(&payload);
  MutexLock lock(mutex_);
  if (!bad_.is_ok()) return true;  // as of every batch: commit has refused, or its reply will
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
  for (Segment& segment : segments_) {
    const bool has_some = segment.file >= pieces->id.file && segment.file <= pieces->ends.back().first;
    if (has_some && !planted(PlantedBug::kForgetPieces)) segment.pieces_seq = batch.last_seq();
  }
  end_pieces(pieces);
  Group group;
  group.bytes = encode_commit(commit);
  group.last_seq = batch.last_seq();
  group.since = batch.time();
  group.notes.assign(notes.begin(), notes.end());
  if (!pending_.empty()) full_groups_.push_back(std::exchange(pending_, {}));
  full_groups_.push_back(std::move(group));
  queued_seq_.store(batch.last_seq(), std::memory_order_relaxed);
  has_pending_.store(true, std::memory_order_relaxed);
  return true;
}

bool LogQueue::is_pinned(FileNum file) const {
  return std::any_of(pieces_.begin(), pieces_.end(), [file](const Pieces* pieces) { return pieces->id.file <= file; });
}

void LogQueue::give_up_pieces(FileNum last) {
  MutexLock lock(mutex_);
  std::erase_if(pieces_, [last](Pieces* pieces) {
    if (pieces->id.file > last) return false;
    pieces->given_up = true;
    pieces->queue = nullptr;
    return true;
  });
  moved_.notify_all();
}

void LogQueue::give_up_pieces_before(SeqNum seq) {
  FileNum needed = kNoFile;
  {
    MutexLock lock(mutex_);
    if (pieces_.empty()) return;
    const auto first =
        std::find_if(segments_.begin(), segments_.end(), [seq](const Segment& s) { return s.needed_seq() >= seq; });
    needed = first == segments_.end() ? segments_.back().file : first->file;
  }
  give_up_pieces(needed - 1);
}

std::uint64_t LogQueue::pending_piece_bytes() const {
  MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Pieces* pieces : pieces_) bytes += pieces->bytes;
  return bytes;
}

}  // namespace ebbtide
