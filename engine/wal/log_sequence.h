// Checks while a log is read that its operations continue without a gap in needed ones.
//
// Every operation has a seq, and each batch begins where the one before ended. A crash leaves a torn end of a segment; it is
// harmless if and only if the next segment continues from there. The manifest names the oldest needed segment and the seqs that
// it relies on. A log that begins later, or ends before the last of them, has lost data.
//
// Operations in tables are not needed. An unreadable part of the log, or a missing segment, is skipped if the operation after it
// is known and tables and manifest have all earlier ones. If the part reaches the end of the log, no later operation is known:
// the part may have held any number of acknowledged writes, and is never skipped. A record that neither the manifest nor a mark
// relies on is a torn end, as always.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wal/log_reader.h"

namespace ebbtide {

/// The part of the log that the manifest needs.
struct LogNeeds {
  FileNum oldest_log = kNoFile;  ///< the first segment of the log; kNoFile = unknown
  SeqNum last_seq = 0;           ///< the last operation that the manifest relies on
  /// Names the trees or the manifest if they may lack operations up to `upto`; "" = they have all of these.
  std::function<std::string(SeqNum upto)> lacking;
};

/// A skipped part of the log, not needed by any table.
struct SkippedLog {
  FileNum file = kNoFile;    ///< segment in which it begins; it may be missing
  std::uint64_t offset = 0;  ///< where in it
  FileNum next_file = kNoFile;
  std::uint64_t next_offset = 0;  ///< where the log goes on; 0 = in the header of next_file
  SeqNum first = 0;               ///< the first operation that it may have had; 0 = unknown
  SeqNum next = 0;                ///< the first operation after it
  Millis time = 0;                ///< time of the last batch before it, the oldest possible time in it; 0 = unknown
  std::string what;               ///< file, place and fault

  /// "data/000007.wal: record at 8192: checksum mismatch; operations 501 to 600 are skipped: tables have them"
  [[nodiscard]] std::string to_text() const;
};

/// The reader of the log calls it, segment by segment. After an error only lose() may be called.
class LogSequence {
 public:
  /// `dir`: for messages.
  LogSequence(std::string dir, LogNeeds needs);

  /// The segments from the oldest needed one on, ascending. kCorruption: there is none, although one is needed.
  Status begin(const std::vector<FileNum>& segments);
  /// The next segment.
  void enter(FileNum file) {
    file_ = file;
    has_records_ = false;
  }
  /// The next batch, of `count` operations from `first` on. kCorruption: it does not follow. The caller adds the place.
  Status follow(SeqNum first, std::uint32_t count, Millis time, std::uint64_t offset);
  /// For OnLogDamage.
  Result<bool> damaged(const LogDamage& damage);
  /// Ends the segment. Returns true if the bytes after `end.valid_bytes` are the torn end of a crash. The caller truncates them
  /// (or unlinks a segment without a valid byte) once the whole log was found good.
  Result<bool> leave(const LogEnd& end);
  /// Ends the log. kCorruption: it ends before the last operation that the manifest relies on.
  Status finish();
  /// For tools that continue after an error: the next batch may have any seq.
  void lose();

  [[nodiscard]] const std::vector<SkippedLog>& skipped() const { return skipped_; }
  /// Of the last operation; 0 = there is none.
  [[nodiscard]] SeqNum last() const { return expected_ == 0 ? 0 : expected_ - 1; }

 private:
  /// An unreadable part; its extent is known once the log goes on.
  struct Gap {
    FileNum file = kNoFile;
    std::uint64_t offset = 0;
    std::string what;
    bool durable = true;  // it was written completely
  };
  [[nodiscard]] std::string path(FileNum file) const;
  Status close_gap(SeqNum next, std::uint64_t offset);
  void open_gap(std::uint64_t offset, const std::string& what, bool durable = true);
  Status take_header(SeqNum first_seq);
  [[nodiscard]] Status lost(const std::string& what, SeqNum first, SeqNum next, const std::string& lacks) const;

  const std::string dir_;
  const LogNeeds needs_;
  FileNum file_ = kNoFile;
  SeqNum expected_ = 0;       // that the next batch must begin with; 0 = unknown
  Millis time_ = 0;           // of the last batch
  bool has_records_ = false;  // of the current segment
  bool open_gap_ = false, lost_ = false;
  Gap gap_;           // if open_gap_
  std::string torn_;  // where an earlier segment ended badly
  std::string end_;   // "<segment>: the write-ahead log ends at <offset>"
  std::vector<SkippedLog> skipped_;
};

}  // namespace ebbtide
