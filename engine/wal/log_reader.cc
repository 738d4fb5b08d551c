// Reads a segment from its header to the first offset without a valid record. Then searches the bytes after that offset for marks
// and, if LogVisitor::on_damage is set, for the next valid record.
//
// Record boundaries are unknown after a bad record. If the length of the bad record is intact, it leads to the next record.
// Otherwise every offset is tried: a cheap test of the first bytes decides whether a checksum is computed. Values from a hostile
// client may pass that test often, so the bytes that may be read for checksums are limited (kSearchBudget).
//
// No data is used before its checksum is verified. Lengths are bounded by the file's size, and a long record is checked before
// memory is allocated, so a damaged length in a sparse file allocates almost nothing.
#include "wal/log_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/planted_bug.h"
#include "io/chunked_reader.h"
#include "io/file_names.h"
#include "wal/batch_group.h"
#include "wal/log_format.h"

namespace ebbtide {

namespace {

class SegmentReader {
 public:
  SegmentReader(std::shared_ptr<const RandomAccessFile> file, FileNum number, const LogVisitor& visitor)
      : file_(std::move(file)),
        reader_(*file_),
        number_(number),
        size_(file_->size()),
        name_(log_file_name(number)),
        visitor_(visitor),
        on_damage_(visitor.on_damage),
        pieces_(visitor.pieces),
        search_budget_(kSearchBudget * size_) {}

  Result<LogEnd> walk() {
    std::uint64_t offset = kLogHeaderBytes;
    bool foreign = false;
    Result<std::string> header_fault = read_header(&foreign);
    if (!header_fault.is_ok()) {
      if (!on_damage_ || header_fault.status().code() != Code::kCorruption) return header_fault.status();
      const std::string what(header_fault.status().message());
      TRY_ASSIGN(resumed, resume({.fault = what, .next = offset, .durable = true}, 0));
      if (resumed == 0) return LogEnd{.clean = false, .valid_bytes = 0, .what = what, .valid_after = true, .foreign = foreign};
      offset = resumed;
    } else if (!header_fault->empty()) {
      return LogEnd{.clean = false, .valid_bytes = 0, .what = *header_fault, .valid_after = false};
    }
    for (;;) {
      LogPayload payload;
      TRY_ASSIGN(found, read_record(offset, &payload));
      const std::uint64_t next = offset + kLogRecordHeaderBytes + payload.size();
      if (found.whole && !found.mark && pieces_ != nullptr) TRY(take_piece(offset, next, &payload, &found));
      if (!found.whole && on_damage_ && !found.fault.empty()) {
        TRY_ASSIGN(zeros, only_zeros_from(offset));
        TRY_ASSIGN(resumed, zeros ? Result<std::uint64_t>(0) : resume(found, offset));
        if (resumed != 0) {
          offset = resumed;
          continue;
        }
      }
      if (!found.whole) {
        TRY_ASSIGN(end, finish(offset, found));
        end.first_seq = first_seq_;
        end.next = next_;
        return end;
      }
      if (found.next_file != kNoFile) next_ = found.next_file;
      if (!found.mark) TRY(hand_out(std::move(payload), offset));
      offset = next;
    }
  }

 private:
  struct Found {
    bool whole = false;
    bool mark = false;            // true if the record is a mark or an end mark, which is not passed to the caller
    FileNum next_file = kNoFile;  // the segment that the record names; set if it is an end mark
    std::string fault{};          // the fault, if the record is not whole; "" at the end of the file
    std::uint64_t next = 0;  // offset of the next record, if this record is not whole but its length may be intact; otherwise 0
    // True if the record is not whole, and is known to have been durable without a mark: a header, or a piece with a commit
    // record.
    bool durable = false;
  };
  /// For each byte of the segment, the search may read this many bytes to compute checksums.
  static constexpr std::uint64_t kSearchBudget = 16;

  /// Returns "" if the header is good. Returns the fault if the segment's creation was interrupted; any other fault is an
  /// error. Sets `foreign` to true if the header belongs to another segment.
  Result<std::string> read_header(bool* foreign) {
    if (size_ < kLogHeaderBytes)
      return name_ + ": segment header at 0: incomplete, since the file has only " + std::to_string(size_) + " bytes";
    char header[kLogHeaderBytes];
    TRY(reader_.read(0, sizeof(header), header));
    const auto version = load_fixed<std::uint32_t>(header + 4);
    const auto owner = load_fixed<std::uint64_t>(header + 8);
    std::string fault;
    if (load_fixed<std::uint32_t>(header) != kLogMagic) {
      fault = name_ + ": segment header at 0: not a log segment";
    } else if (load_fixed<std::uint64_t>(header + 24) != block_checksum(Bytes(header, 24), owner, 0)) {
      fault = name_ + ": segment header at 0: checksum mismatch";
    } else if (owner != number_) {
      *foreign = true;
      return Status::corruption(name_ + ": segment header at 0: belongs to file " + std::to_string(owner));
    } else if (version > kLogVersion) {
      return Status::unsupported(name_ + ": log format version " + std::to_string(version) +
                                 "; this program reads versions up to " + std::to_string(kLogVersion));
    } else if (version == 0) {
      return Status::corruption(name_ + ": segment header at 0: invalid format version 0");
    }
    if (!fault.empty() && size_ > kLogHeaderBytes) return Status::corruption(fault);
    first_seq_ = load_fixed<std::uint64_t>(header + 16);
    return fault;
  }

  Found fault_at(std::uint64_t offset, const std::string& fault, std::uint64_t next = 0) const {
    return Found{.fault = name_ + ": record at " + std::to_string(offset) + ": " + fault, .next = next};
  }

  Status hand_out(LogPayload payload, std::uint64_t offset) {
    if (visitor_.on_long_record && payload.size() > kLongRecordBytes) return visitor_.on_long_record(payload, offset);
    TRY_ASSIGN(bytes, std::move(payload).to_string());
    return visitor_.on_record(std::move(bytes), offset);
  }

  /// Reads the record at `offset`. A long payload is not read: `payload` then refers to the file.
  Result<Found> read_record(std::uint64_t offset, LogPayload* payload) {
    const std::uint64_t left = size_ - offset;
    if (left == 0) return Found{};
    if (left < kLogRecordHeaderBytes) return fault_at(offset, "incomplete header of " + std::to_string(left) + " bytes");
    char header[kLogRecordHeaderBytes];
    TRY(reader_.read(offset, sizeof(header), header));
    const auto field = load_fixed<std::uint32_t>(header);
    const bool mark = (field & kLogMarkFlag) != 0;
    const bool end = field == kLogEndLength;
    if (mark && !end && field != kLogMarkLength) return fault_at(offset, "length field " + std::to_string(field) + " is invalid");
    const std::uint64_t length = field & ~kLogMarkFlag;
    if (length > left - kLogRecordHeaderBytes) {
      return fault_at(offset,
                      std::to_string(length) + " bytes, but the file ends after " + std::to_string(left - kLogRecordHeaderBytes));
    }
    const std::uint64_t at = offset + kLogRecordHeaderBytes;
    const auto stored = load_fixed<std::uint64_t>(header + sizeof(field));
    BlockChecksummer checksum(number_, offset);
    checksum.update(Bytes(header, sizeof(field)));
    if (length > kBelievedBytes) {
      TRY(reader_.add_to(&checksum, at, length));
      if (checksum.digest() != stored) return fault_at(offset, "checksum mismatch", at + length);
      payload->add(file_, at, length);
      return Found{.whole = true, .mark = mark};
    }
    std::string bytes(static_cast<std::size_t>(length), '\0');
    TRY(reader_.read(at, bytes.size(), bytes.data()));
    checksum.update(bytes);
    if (checksum.digest() != stored && !planted(PlantedBug::kAcceptGarbageTail)) {
      return fault_at(offset, "checksum mismatch", at + length);
    }
    if (end && bytes.front() != kLogEndKind)
      return fault_at(offset, "an end mark of the unknown kind " + std::to_string(bytes.front()));
    Found found{.whole = true, .mark = mark};
    if (end) found.next_file = load_fixed<FileNum>(bytes.data() + 1);
    payload->add(std::move(bytes));
    return found;
  }

  /// Adds a piece to visitor_.pieces, or replaces a commit record by the group that its pieces form. Does not change a group.
  Status take_piece(std::uint64_t offset, std::uint64_t next, LogPayload* payload, Found* found) {
    const auto at = [&](const Status& status) { return status.with_context(name_ + ": record at " + std::to_string(offset)); };
    TRY_ASSIGN(kind, kind_of(*payload));
    if (kind == LogRecordKind::kGroup) return Status::ok();
    found->mark = true;
    TRY_ASSIGN(bytes, std::move(*payload).to_string());
    if (kind == LogRecordKind::kPiece) return at(pieces_->add(number_, offset, bytes));
    auto commit = decode_commit(bytes);
    if (!commit.is_ok()) return at(commit.status());
    TRY_ASSIGN(batch, pieces_->assemble(*commit));
    if (batch.in_tables) return pieces_->on_in_tables ? pieces_->on_in_tables(*commit, offset) : Status::ok();
    if (!batch.fault.empty()) {
      *found = fault_at(offset, batch.fault, next);
      found->durable = batch.durable;
      return Status::ok();
    }
    found->mark = false;
    *payload = std::move(batch.group);
    return Status::ok();
  }

  static Result<LogRecordKind> kind_of(const LogPayload& payload) {
    char prefix[kGroupPrefixBytes];
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof(prefix), payload.size()));
    TRY(payload.read(0, length, prefix));
    return record_kind(Bytes(prefix, length));
  }

  Result<LogEnd> finish(std::uint64_t offset, Found found) {
    LogEnd end;
    end.valid_bytes = offset;
    if (found.fault.empty()) return end;
    TRY_ASSIGN(zeros, only_zeros_from(offset));
    if (zeros) return end;  // zeros are no damage: the space was preallocated, or a crash kept the file's size but not its data
    TRY_ASSIGN(vouched, vouched_after(offset));
    end.clean = false;
    end.valid_after = found.durable || vouched > offset;
    end.what = std::move(found.fault);
    if (vouched > offset) end.what += durable_text(vouched);
    return end;
  }

  Result<bool> only_zeros_from(std::uint64_t offset) {
    if (offset >= zeros_from_) return true;
    const std::uint64_t from = offset;
    std::string chunk;
    while (offset < size_) {
      const std::uint64_t start = offset;
      offset = file_->next_data(offset);
      if (offset < size_) {
        TRY(read_chunk(offset, &chunk));
        if (!is_zeros(chunk)) return false;
        offset += chunk.size();
      }
      if (visitor_.on_zeros) visitor_.on_zeros(offset - start);
    }
    zeros_from_ = from;
    return true;
  }

  static bool is_zeros(Bytes bytes) {
    return bytes.empty() || (bytes[0] == '\0' && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
  }

  /// Returns the first offset, `offset` or later, at which a record or mark may begin. Its first `needed` bytes are never all
  /// zeros, so offsets whose next `needed` bytes lie in a hole are skipped.
  [[nodiscard]] std::uint64_t past_hole(std::uint64_t offset, std::uint64_t needed) const {
    return std::max(offset, file_->next_data(offset) - std::min(needed - 1, file_->next_data(offset)));
  }

  /// Asks the caller whether to resume after the bad record at `offset`. Returns the offset of the next whole record, or 0 if the
  /// caller declines or no whole record follows.
  Result<std::uint64_t> resume(const Found& found, std::uint64_t offset) {
    LogDamage damage{.file = number_, .offset = offset, .first_seq = first_seq_, .what = found.fault};
    bool whole = false;
    if (found.next != 0) {
      TRY_ASSIGN(there, is_record(found.next, &damage.next_seq));
      whole = there;
    }
    damage.resumes = found.next;
    if (!whole) {
      TRY_ASSIGN(next, next_record(std::max<std::uint64_t>(offset + 1, kLogHeaderBytes), &damage.next_seq));
      damage.resumes = next;
      if (next == 0) return 0;
    }
    TRY_ASSIGN(vouched, vouched_after(offset));
    damage.durable = found.durable || vouched > offset;
    if (vouched > offset && offset != 0) damage.what += durable_text(vouched);
    TRY_ASSIGN(goes_on, on_damage_(damage));
    return goes_on ? damage.resumes : 0;
  }

  /// Returns true if a whole record with operations begins at `offset`, or marks and pieces followed by such a record.
  Result<bool> is_record(std::uint64_t offset, SeqNum* first_seq) {
    for (;;) {
      LogPayload payload;
      TRY_ASSIGN(found, read_record(offset, &payload));
      if (!found.whole) return false;
      TRY_ASSIGN(kind, kind_of(payload));
      if (!found.mark && kind != LogRecordKind::kPiece) {
        TRY_ASSIGN(bytes, std::move(payload).to_string());
        return first_operation(bytes, first_seq);
      }
      offset += kLogRecordHeaderBytes + payload.size();
    }
  }

  /// Returns the offset of the first whole record at or after `offset`; 0 if there is none.
  Result<std::uint64_t> next_record(std::uint64_t offset, SeqNum* first_seq) {
    constexpr std::uint64_t kNeeded = kLogRecordHeaderBytes + kGroupPrefixBytes;
    std::string chunk;
    for (offset = past_hole(offset, kNeeded); offset + kNeeded <= size_; offset = past_hole(offset, kNeeded)) {
      TRY(read_chunk(offset, &chunk));
      const bool zeros = is_zeros(chunk);
      for (std::size_t at = 0; at + kNeeded <= chunk.size() && !zeros; ++at) {
        const std::uint64_t length = load_fixed<std::uint32_t>(chunk.data() + at);
        const std::uint64_t here = offset + at;
        if (length > size_ - here - kLogRecordHeaderBytes ||
            !looks_like_record(Bytes(chunk).substr(at + kLogRecordHeaderBytes, kGroupPrefixBytes), length)) {
          continue;
        }
        if (length > search_budget_) return 0;
        search_budget_ -= length;
        TRY_ASSIGN(whole, is_record(here, first_seq));
        if (whole) return here;
      }
      offset += chunk.size() - (kNeeded - 1);  // chunks overlap, so that none cuts the beginning of a record in two
    }
    return 0;
  }

  static std::string durable_text(std::uint64_t vouched) {
    return "; a later mark says that " + std::to_string(vouched) + " bytes were durable";
  }

  /// Returns the largest number of durable bytes that a whole mark after `offset` states; 0 if there is none. `offset` must not
  /// be smaller than in earlier calls.
  Result<std::uint64_t> vouched_after(std::uint64_t offset) {
    if (!marks_known_) TRY(find_marks(offset));
    marks_known_ = true;
    std::uint64_t vouched = 0;
    for (auto mark = marks_.rbegin(); mark != marks_.rend() && mark->first > offset; ++mark) {
      vouched = std::max(vouched, mark->second);
    }
    return vouched;
  }

  /// Finds the marks after `offset`. Record boundaries are unknown there, so every offset at which a mark may begin is tried.
  Status find_marks(std::uint64_t offset) {
    char pattern[sizeof(kLogMarkLength)];
    store_fixed(pattern, kLogMarkLength);
    std::string chunk;
    for (offset = past_hole(offset, kLogMarkBytes); offset + kLogMarkBytes <= size_; offset = past_hole(offset, kLogMarkBytes)) {
      TRY(read_chunk(offset, &chunk));
      for (std::size_t at = chunk.find(pattern, 0, sizeof(pattern));
           at != std::string::npos && at + kLogMarkBytes <= chunk.size(); at = chunk.find(pattern, at + 1, sizeof(pattern))) {
        const char* mark = chunk.data() + at;
        const auto bytes = load_fixed<std::uint64_t>(mark + kLogRecordHeaderBytes);
        BlockChecksummer checksum(number_, offset + at);
        checksum.update(Bytes(mark, sizeof(pattern)));
        checksum.update(Bytes(mark + kLogRecordHeaderBytes, sizeof(bytes)));
        if (checksum.digest() == load_fixed<std::uint64_t>(mark + sizeof(pattern))) marks_.emplace_back(offset + at, bytes);
      }
      offset += chunk.size() - (kLogMarkBytes - 1);  // chunks overlap, so that none cuts a mark in two
    }
    return Status::ok();
  }

  Status read_chunk(std::uint64_t offset, std::string* chunk) {
    constexpr std::uint64_t kChunkBytes = std::uint64_t{256} << 10;
    chunk->resize(static_cast<std::size_t>(std::min(kChunkBytes, size_ - offset)));
    return reader_.read(offset, chunk->size(), chunk->data());
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  ChunkedReader reader_;
  const FileNum number_;
  const std::uint64_t size_;
  const std::string name_;
  const LogVisitor& visitor_;
  const OnLogDamage& on_damage_;
  LogPieces* const pieces_;
  std::uint64_t search_budget_;  // bytes whose checksums the search may still compute
  bool marks_known_ = false;
  // For each valid mark, its offset and the number of durable bytes that it states.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> marks_;
  std::uint64_t zeros_from_ = ~std::uint64_t{0};  // offset from which on the file is known to have only zeros
  SeqNum first_seq_ = 0;
  FileNum next_ = kNoFile;  // the segment that the end mark names
};

}  // namespace

FileNum log_owner(FileSystem& fs, const std::string& dir, FileNum file) {
  const auto in = fs.open(join_path(dir, log_file_name(file)));
  char header[kLogHeaderBytes];
  if (!in.is_ok() || !(*in)->read(0, sizeof(header), header).is_ok()) return kNoFile;
  const auto owner = load_fixed<std::uint64_t>(header + 8);
  const bool good = load_fixed<std::uint32_t>(header) == kLogMagic &&
                    load_fixed<std::uint64_t>(header + 24) == block_checksum(Bytes(header, 24), owner, 0);
  return good ? owner : kNoFile;
}

Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const LogVisitor& visitor) {
  auto in = fs.open(join_path(dir, log_file_name(file)), {.direct = visitor.direct});
  // kCorruption: the name belongs to a directory, for example. kNotFound: the name is a dangling link.
  const bool no_file = in.status().code() == Code::kCorruption || in.status().is_not_found();
  if (no_file && visitor.on_damage) {
    const std::string what = log_file_name(file) + ": " + std::string(in.status().message());
    return LogEnd{.clean = false, .valid_bytes = 0, .what = what, .valid_after = true, .foreign = true};
  }
  if (!in.is_ok()) return in.status();
  return SegmentReader(std::move(in).value(), file, visitor).walk();
}

Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const OnLogRecord& on_record,
                        const OnLogDamage& on_damage, LogPieces* pieces) {
  return read_log(fs, dir, file, LogVisitor{.on_record = on_record, .on_damage = on_damage, .pieces = pieces});
}

Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes) {
  const std::string path = join_path(dir, log_file_name(file));
  TRY(fs.truncate(path, valid_bytes));
  return fs.sync_file(path);
}

}  // namespace ebbtide
