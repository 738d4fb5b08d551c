// Appends records to one segment. The commit pipeline (group_commit.h) queues and groups batches, and decides when to sync.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/file_system.h"

namespace ebbtide {

/// One record, as the parts of its payload in order.
using LogRecord = std::vector<Bytes>;

/// One thread at a time may append; one other thread may sync() meanwhile. Any thread may call size(), synced_bytes() and file().
class LogWriter {
 public:
  /// Creates segment `file` in `dir`, writes its header, and syncs file and directory. After an error the file is removed if
  /// possible. `first_seq`: seq of the first operation that the segment may have; 0 = unknown.
  static Result<std::unique_ptr<LogWriter>> create(FileSystem& fs, const std::string& dir, FileNum file, SeqNum first_seq = 0);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Appends all records in one write. If one record is longer than kMaxLogPayloadBytes, appends none and returns
  /// kInvalidArgument; the writer stays usable. After any other error every later append and sync fails with that error.
  Status append(std::span<const LogRecord> records);
  /// Appends an end mark, which names the next segment. That segment must be durable. No append may follow. The next sync() makes
  /// the end mark durable. Errors are as for append().
  Status end(FileNum next);
  /// Makes every append durable that had returned before this call. After an error every later append and sync fails with that
  /// error. A failed sync is never retried, since the system may have dropped the pages that it could not write.
  Status sync();
  /// After a failed append: makes earlier appends durable. Returns the error of a sync, if one has failed. Must not run at the
  /// same time as a sync, whose error it might miss.
  Status salvage();
  /// Closes the file without a sync. No append or sync may follow.
  Status close();
  [[nodiscard]] FileNum file() const { return file_; }
  /// Bytes appended, including the header.
  [[nodiscard]] std::uint64_t size() const { return size_.load(std::memory_order_acquire); }
  /// Bytes known to be durable.
  [[nodiscard]] std::uint64_t synced_bytes() const { return synced_bytes_.load(std::memory_order_acquire); }

 private:
  LogWriter(std::unique_ptr<WritableFile> out, FileNum file);
  Status start(FileSystem& fs, const std::string& dir, SeqNum first_seq);
  Status sync_appended() EXCLUDES(mutex_);
  Status usable() EXCLUDES(mutex_);
  Status fail(const Status& status) EXCLUDES(mutex_);
  Status append_all(std::span<const LogRecord> records, bool end);
  void add_record(std::span<const Bytes> payload, std::uint32_t length, std::uint64_t* offset, char** scratch);

  const std::unique_ptr<WritableFile> out_;
  const FileNum file_;

  Mutex mutex_;
  Status bad_ GUARDED_BY(mutex_);  // the first error; ok while the segment is good
  bool sync_failed_ GUARDED_BY(mutex_) = false;

  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> synced_bytes_{0};

  // Only the appending thread uses the following members.
  std::uint64_t marked_bytes_ = 0;  // number of durable bytes that the last mark states
  std::string scratch_;             // record headers, and the mark, of one append
  std::vector<Bytes> pieces_;       // parts of one append, in the order of the file
};

}  // namespace ebbtide
