// Invariants: size_ counts only whole appends. synced_bytes_ covers only appends that had returned when the sync began. A mark
// states at most the value that synced_bytes_ had when the mark's append began.
#include "wal/log_writer.h"

#include "base/checksum.h"
#include "base/coding.h"
#include "base/invariant.h"
#include "io/file_names.h"
#include "wal/log_format.h"

namespace ebbtide {

namespace {

std::string segment_header(FileNum file, SeqNum first_seq) {
  std::string header;
  put_u32(&header, kLogMagic);
  put_u32(&header, kLogVersion);
  put_u64(&header, file);
  put_u64(&header, first_seq);
  put_u64(&header, block_checksum(header, file, 0));
  ASSERT(header.size() == kLogHeaderBytes);
  return header;
}

std::uint64_t payload_bytes(const LogRecord& record) {
  std::uint64_t bytes = 0;
  for (const Bytes piece : record) bytes += piece.size();
  return bytes;
}

}  // namespace

Result<std::unique_ptr<LogWriter>> LogWriter::create(FileSystem& fs, const std::string& dir, FileNum file, SeqNum first_seq) {
  const std::string path = join_path(dir, log_file_name(file));
  TRY_ASSIGN(out, fs.create(path));
  std::unique_ptr<LogWriter> writer(new LogWriter(std::move(out), file));
  if (Status status = writer->start(fs, dir, first_seq); !status.is_ok()) {
    (void)fs.unlink(path);  // an error is harmless: the next open skips an empty segment
    return status;
  }
  return writer;
}

LogWriter::LogWriter(std::unique_ptr<WritableFile> out, FileNum file) : out_(std::move(out)), file_(file) {}

LogWriter::~LogWriter() = default;

Status LogWriter::start(FileSystem& fs, const std::string& dir, SeqNum first_seq) {
  TRY(out_->append(segment_header(file_, first_seq)));
  TRY(out_->sync());
  TRY(fs.sync_dir(dir));
  size_ = synced_bytes_ = marked_bytes_ = kLogHeaderBytes;
  return Status::ok();
}

Status LogWriter::append(std::span<const LogRecord> records) {
  TRY(usable());
  for (const LogRecord& record : records) {
    if (const std::uint64_t bytes = payload_bytes(record); bytes > kMaxLogPayloadBytes) {
      return Status::invalid_argument(log_file_name(file_) + ": a record of " + std::to_string(bytes) + " bytes; at most " +
                                      std::to_string(kMaxLogPayloadBytes) + " fit");
    }
  }
  if (records.empty()) return Status::ok();
  return append_all(records, false);
}

Status LogWriter::end(FileNum next) {
  TRY(usable());
  std::string payload(1, kLogEndKind);
  put_u64(&payload, next);
  const LogRecord record{payload};
  return append_all(std::span(&record, 1), true);
}

/// Appends records and, if needed, a mark in one write. `end`: true if the only record is an end mark.
Status LogWriter::append_all(std::span<const LogRecord> records, bool end) {
  const std::uint64_t synced = synced_bytes();
  const bool mark = synced > marked_bytes_;
  pieces_.clear();
  scratch_.resize(records.size() * kLogRecordHeaderBytes + kLogMarkBytes);  // must not grow later, since pieces_ points into it
  char* scratch = scratch_.data();
  std::uint64_t offset = size();
  char vouched[sizeof(std::uint64_t)];
  if (mark) {
    store_fixed<std::uint64_t>(vouched, synced);
    const Bytes payload(vouched, sizeof(vouched));
    add_record(std::span(&payload, 1), kLogMarkLength, &offset, &scratch);
  }
  for (const LogRecord& record : records) {
    add_record(record, end ? kLogEndLength : static_cast<std::uint32_t>(payload_bytes(record)), &offset, &scratch);
  }

  if (Status status = out_->append(pieces_); !status.is_ok()) return fail(status);
  size_.store(offset, std::memory_order_release);
  if (mark) marked_bytes_ = synced;
  return usable();  // if a sync has failed during the append, the append fails, too
}

/// Appends the header and the payload of one record to pieces_.
void LogWriter::add_record(std::span<const Bytes> payload, std::uint32_t length, std::uint64_t* offset, char** scratch) {
  char* header = *scratch;
  store_fixed<std::uint32_t>(header, length);
  BlockChecksummer checksum(file_, *offset);
  checksum.update(Bytes(header, sizeof(length)));
  for (const Bytes piece : payload) checksum.update(piece);
  store_fixed<std::uint64_t>(header + sizeof(length), checksum.digest());

  pieces_.emplace_back(header, kLogRecordHeaderBytes);
  *offset += kLogRecordHeaderBytes;
  for (const Bytes piece : payload) {
    pieces_.push_back(piece);
    *offset += piece.size();
  }
  *scratch += kLogRecordHeaderBytes;
}

Status LogWriter::sync() {
  TRY(usable());
  return sync_appended();
}

Status LogWriter::salvage() {
  {
    MutexLock lock(mutex_);
    if (sync_failed_) return bad_;
  }
  return sync_appended();
}

Status LogWriter::sync_appended() {
  const std::uint64_t appended = size();
  if (Status status = out_->sync(); !status.is_ok()) {
    {
      MutexLock lock(mutex_);
      sync_failed_ = true;
    }
    return fail(status);
  }
  synced_bytes_.store(appended, std::memory_order_release);
  return Status::ok();
}

Status LogWriter::close() { return out_->close(); }

Status LogWriter::usable() {
  MutexLock lock(mutex_);
  return bad_;
}

Status LogWriter::fail(const Status& status) {
  MutexLock lock(mutex_);
  if (bad_.is_ok()) bad_ = status.with_context("log segment " + log_file_name(file_) + " has failed");
  return bad_;
}

}  // namespace ebbtide
