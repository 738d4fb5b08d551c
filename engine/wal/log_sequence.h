// Whether the operations of a log, as it is read, go on without a gap that matters.
//
// Every operation has a seq, and each batch begins where the one before ended. A torn end of a segment is what a crash leaves, and
// harmless exactly if the next segment goes on from there. The manifest knows the oldest segment that is needed, and seqs that it
// relies on: a log that begins later, or ends before the last of them, has lost something.
//
// What no table lacks is not needed. A part of the log that cannot be read, or a segment that is missing, is skipped if the
// operation behind it is known, and tables and manifest have everything before that one. Where the part reaches the end of the log,
// no operation behind it is known: it may have held any number of acknowledged writes, and it is never skipped. A record that the
// manifest does not rely on and that no mark vouches for is a torn end, as always.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wal/log_reader.h"

namespace ebbtide {

/// What a manifest needs of the log.
struct LogNeeds {
  FileNum oldest_log = kNoFile;  ///< the log begins there; kNoFile = not known yet
  SeqNum last_seq = 0;           ///< the last operation that it relies on
  /// Names what may lack operations up to `upto`; "" = tables and manifest have all of them.
  std::function<std::string(SeqNum upto)> lacking;
};

/// A part of the log that is skipped: nothing needs it.
struct SkippedLog {
  FileNum file = kNoFile;    ///< segment in which it begins; it may be missing
  std::uint64_t offset = 0;  ///< where in it
  FileNum next_file = kNoFile;
  std::uint64_t next_offset = 0;  ///< where the log goes on; 0 = in the header of next_file
  SeqNum first = 0;               ///< the first operation that it may have had; 0 = unknown
  SeqNum next = 0;                ///< the first operation behind it
  Millis time = 0;                ///< of the last batch before it: nothing in it is older; 0 = unknown
  std::string what;               ///< file, place and fault

  /// "data/000007.wal: record at 8192: checksum mismatch; operations 501 to 600 are skipped: tables have them"
  [[nodiscard]] std::string to_text() const;
};

/// The reader of the log feeds it, segment by segment. After an error it is of no use, but for lose().
class LogSequence {
 public:
  /// `dir`: for messages.
  LogSequence(std::string dir, LogNeeds needs);

  /// The segments from the oldest that is needed on, ascending. kCorruption: there is none, and there must be one.
  Status begin(const std::vector<FileNum>& segments);
  /// The next segment.
  void enter(FileNum file) {
    file_ = file;
    has_records_ = false;
  }
  /// The next batch, of `count` operations from `first` on. kCorruption: it does not follow. Where that is the caller says.
  Status follow(SeqNum first, std::uint32_t count, Millis time, std::uint64_t offset);
  /// For OnLogDamage.
  Result<bool> damaged(const LogDamage& damage);
  /// The segment ended. Returns whether what follows `end.valid_bytes` is the torn end of a crash, to be cut off (or the segment
  /// to be unlinked, where it has no valid byte) once all of the log has been found good.
  Result<bool> leave(const LogEnd& end);
  /// The log ended. kCorruption: before the last operation that the manifest relies on.
  Status finish();
  /// For tools that go on after an error: what comes next need not follow.
  void lose();

  [[nodiscard]] const std::vector<SkippedLog>& skipped() const { return skipped_; }
  /// Of the last operation; 0 = there is none.
  [[nodiscard]] SeqNum last() const { return expected_ == 0 ? 0 : expected_ - 1; }

 private:
  /// A part that could not be read; known once the log goes on.
  struct Gap {
    FileNum file = kNoFile;
    std::uint64_t offset = 0;
    std::string what;
    bool durable = true;  // it was whole once
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
  bool has_records_ = false;  // the segment at hand
  bool open_gap_ = false, lost_ = false;
  Gap gap_;           // if open_gap_
  std::string torn_;  // where an earlier segment ended badly
  std::string end_;   // "<segment>: the write-ahead log ends at <offset>"
  std::vector<SkippedLog> skipped_;
};

}  // namespace ebbtide
