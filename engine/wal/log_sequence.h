// Checks, while a log is read, that no needed operation is missing from its sequence.
//
// Every operation has a seq, and each batch begins with the seq after the last seq of the batch before. A crash leaves a torn
// end of a segment; that end is harmless if and only if the next segment continues with the next seq. The manifest names the
// oldest needed segment, and the last seq that the manifest relies on. A log that begins with a later segment, or ends before
// that seq, has lost data.
//
// Operations that are in tables are not needed. An unreadable part of the log, or a missing segment, is skipped under two
// conditions: the next operation after the part is known, and tables and manifest have all earlier operations. If the part
// reaches the end of the log, no later operation is known. The part may then have held any number of acknowledged writes, and is
// never skipped. An unreadable last record is a torn end, not such a part, if neither the manifest nor a mark relies on it.
//
// The file with a segment's name may be something else: a copy of another segment, or a directory that an administrator made.
// The segment with that number is then missing. That is an error if the manifest or an end mark names it, or if the operations
// have a gap there. Otherwise no write to such a segment was ever acknowledged (docs/decisions/0043), and the log is complete
// without it. This rule applies only if the manifest names segments: earlier versions of the server also wrote to segments that
// no manifest and no end mark named.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wal/log_reader.h"

namespace ebbtide {

/// The facts about the log that the manifest states.
struct LogNeeds {
  FileNum oldest_log = kNoFile;  ///< the first segment of the log; kNoFile = unknown
  FileNum newest_log = kNoFile;  ///< the newest segment that the manifest names; kNoFile = none, or it is older than oldest_log
  SeqNum last_seq = 0;           ///< seq of the last operation that the manifest relies on
  bool names_segments = false;   ///< false: the manifest is from an early version, which named no segments
  /// Returns text that names the trees whose tables may lack operations up to `upto`, and the mapping of databases if that may
  /// lack some; "" = nothing is lacking. `upto` is the last seq of an unreadable part.
  std::function<std::string(SeqNum upto)> lacking;
};

/// An unreadable part of the log that replay skips, since tables and manifest have its operations; or a stray file.
struct SkippedLog {
  bool stray = false;           ///< true: `file` has a segment's name but is no segment of the log
  FileNum file = kNoFile;       ///< segment in which the part begins; that segment may be missing
  std::uint64_t offset = 0;     ///< offset in `file` at which the part begins
  FileNum next_file = kNoFile;  ///< segment in which the log continues
  SeqNum first = 0;             ///< seq of the first operation that the part may have had; 0 = unknown
  SeqNum next = 0;              ///< seq of the first operation after the part
  Millis time = 0;              ///< time of the last batch before the part: batches in the part are not older; 0 = unknown
  std::string what;             ///< file, offset and fault

  /// For example "data/000007.wal: record at 8192: checksum mismatch; operations 501 to 600 are skipped, since tables and
  /// manifest have them".
  [[nodiscard]] std::string to_text() const;
};

/// Checks one log. The caller reads the log, and calls these functions in the order of the segments and batches. After an error
/// only lose() may be called.
class LogSequence {
 public:
  /// `dir` is used in messages.
  LogSequence(std::string dir, LogNeeds needs);

  /// Begins the log. `segments`: the numbers of the segments from the oldest needed one on, ascending. Returns kCorruption if the
  /// oldest needed segment is missing and operations in it are needed.
  Status begin(const std::vector<FileNum>& segments);
  /// Begins the next segment.
  void enter(FileNum file);
  /// Checks the next batch, which has `count` operations from seq `first` on. If `first` is not the seq after the last operation,
  /// returns kCorruption, and the caller adds file and offset to the message.
  Status follow(SeqNum first, std::uint32_t count, Millis time, std::uint64_t offset);
  /// Decides on a bad part of the segment. Returns true: skip the part and continue at `damage.resumes`. Returns false: the part
  /// is a torn end, and the segment ends there. kCorruption: operations of the part are needed. Has the signature of OnLogDamage
  /// (log_reader.h).
  Result<bool> damaged(const LogDamage& damage);
  /// Ends the segment. Returns true if the bytes after `end.valid_bytes` are the torn end of a crash. The caller truncates
  /// these bytes (or unlinks a segment without a valid byte) after finish() has returned ok.
  Result<bool> leave(const LogEnd& end);
  /// Ends the log. Returns kCorruption if the log ends before the last operation that the manifest relies on.
  Status finish();
  /// Returns true if the last error is about lost operations. Its message already says where the loss is, which is before the
  /// current record.
  [[nodiscard]] bool named_the_loss() const { return named_loss_; }
  /// Forgets the last seq, so that a tool can continue after an error: the next batch may begin with any seq.
  void lose();

  [[nodiscard]] const std::vector<SkippedLog>& skipped() const { return skipped_; }
  /// The seq of the last operation; 0 = there is none.
  [[nodiscard]] SeqNum last() const { return expected_ == 0 ? 0 : expected_ - 1; }

 private:
  /// An unreadable part. Its extent becomes known when the log continues.
  struct Gap {
    FileNum file = kNoFile;
    std::uint64_t offset = 0;
    std::string what;
    FileNum last_file = kNoFile;  // the last file that `what` names
    bool durable = true;          // true if the part was durable, so that it is damage and not a torn end
    int files = 1;                // number of files with unreadable parts in the gap
  };
  [[nodiscard]] std::string path(FileNum file) const;
  [[nodiscard]] std::string named_by(FileNum file) const;
  [[nodiscard]] bool is_stray(const LogEnd& end) const;
  void note_missing(FileNum before);
  Status close_gap(SeqNum next, std::uint64_t offset);
  void open_gap(FileNum file, std::uint64_t offset, const std::string& what, bool durable = true);
  Status take_header(SeqNum first_seq);
  [[nodiscard]] Status lost(const std::string& what, SeqNum first, SeqNum next, const std::string& lacks);

  const std::string dir_;
  const LogNeeds needs_;
  FileNum file_ = kNoFile;
  FileNum missing_ = kNoFile;                 // the last segment that was found missing
  FileNum namer_ = kNoFile, next_ = kNoFile;  // the last segment with an end mark, and the segment that its end mark names
  SeqNum expected_ = 0;                       // seq that the next batch must begin with; 0 = unknown
  Millis time_ = 0;                           // time of the last batch
  bool has_records_ = false;                  // true if the current segment has had a record
  bool open_gap_ = false, lost_ = false, named_loss_ = false;
  Gap gap_;           // valid if open_gap_
  std::string torn_;  // message about an earlier segment with a torn end; "" = there is none
  std::string end_;   // message for finish(): "<segment>: the write-ahead log ends at <offset>"
  std::vector<SkippedLog> skipped_;
};

}  // namespace ebbtide
