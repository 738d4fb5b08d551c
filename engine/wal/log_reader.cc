// One walk from the header to the first thing that is not a whole record, then a search for marks in what is left.
//
// Nothing that is read is believed before its checksum holds. Lengths are bounded by the file's size, and a long record is
// checked before it gets memory, so a flipped length in a sparse file allocates next to nothing.
#include "wal/log_reader.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/planted_bug.h"
#include "io/chunked_reader.h"
#include "io/file_names.h"
#include "wal/log_format.h"

namespace ebbtide {

namespace {

class SegmentReader {
 public:
  SegmentReader(const RandomAccessFile& file, FileNum number)
      : reader_(file), number_(number), size_(file.size()), name_(log_file_name(number)) {}

  Result<LogEnd> walk(const std::function<Status(std::string, std::uint64_t)>& on_record) {
    TRY_ASSIGN(header_fault, read_header());
    if (!header_fault.empty()) return LogEnd{.clean = false, .valid_bytes = 0, .what = header_fault, .valid_after = false};
    std::uint64_t offset = kLogHeaderBytes;
    std::string payload;
    for (;;) {
      TRY_ASSIGN(found, read_record(offset, &payload));
      if (!found.whole) {
        TRY_ASSIGN(end, finish(offset, found.fault));
        end.first_seq = first_seq_;
        return end;
      }
      const std::uint64_t next = offset + kLogRecordHeaderBytes + payload.size();
      if (!found.mark) TRY(on_record(std::move(payload), offset));
      offset = next;
    }
  }

 private:
  struct Found {
    bool whole = false;
    bool mark = false;
    std::string fault{};  // if not whole; empty at the end of the file
  };

  /// Empty if it is good; what is wrong with it if the segment's creation was cut short.
  Result<std::string> read_header() {
    if (size_ < kLogHeaderBytes)
      return name_ + ": segment header at 0: cut short, the file has " + std::to_string(size_) + " bytes";
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
      return Status::corruption(name_ + ": segment header at 0: it is of file " + std::to_string(owner));
    } else if (version > kLogVersion) {
      return Status::unsupported(name_ + ": log format version " + std::to_string(version) + ", and this program reads up to " +
                                 std::to_string(kLogVersion));
    } else if (version == 0) {
      return Status::corruption(name_ + ": segment header at 0: version 0");
    }
    if (!fault.empty() && size_ > kLogHeaderBytes) return Status::corruption(fault);
    first_seq_ = load_fixed<std::uint64_t>(header + 16);
    return fault;
  }

  Found fault_at(std::uint64_t offset, const std::string& fault) const {
    return Found{.fault = name_ + ": record at " + std::to_string(offset) + ": " + fault};
  }

  Result<Found> read_record(std::uint64_t offset, std::string* payload) {
    const std::uint64_t left = size_ - offset;
    if (left == 0) return Found{};
    if (left < kLogRecordHeaderBytes) return fault_at(offset, "header cut short, " + std::to_string(left) + " bytes");
    char header[kLogRecordHeaderBytes];
    TRY(reader_.read(offset, sizeof(header), header));
    const auto field = load_fixed<std::uint32_t>(header);
    const bool mark = (field & kLogMarkFlag) != 0;
    if (mark && field != kLogMarkLength) return fault_at(offset, "length field " + std::to_string(field) + " is none");
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
      if (checksum.digest() != stored) return fault_at(offset, "checksum mismatch");
    }
    payload->resize(static_cast<std::size_t>(length));
    TRY(reader_.read(at, payload->size(), payload->data()));
    if (length <= kBelievedBytes) {
      checksum.update(*payload);
      if (checksum.digest() != stored && !planted(PlantedBug::kAcceptGarbageTail)) return fault_at(offset, "checksum mismatch");
    }
    return Found{.whole = true, .mark = mark};
  }

  Result<LogEnd> finish(std::uint64_t offset, std::string fault) {
    LogEnd end;
    end.valid_bytes = offset;
    if (fault.empty()) return end;
    TRY_ASSIGN(zeros, only_zeros_from(offset));
    if (zeros) return end;  // space taken in advance, or a size that became durable without its data
    TRY_ASSIGN(vouched, vouched_after(offset));
    end.clean = false;
    end.valid_after = vouched > offset;
    end.what = std::move(fault);
    if (end.valid_after) end.what += "; a later mark says that " + std::to_string(vouched) + " bytes were durable";
    return end;
  }

  Result<bool> only_zeros_from(std::uint64_t offset) {
    std::string chunk;
    for (; offset < size_; offset += chunk.size()) {
      TRY(read_chunk(offset, &chunk));
      if (chunk.find_first_not_of('\0') != std::string::npos) return false;
    }
    return true;
  }

  /// The most bytes that a whole mark after `offset` vouches for; 0 if there is none. Record boundaries are lost there, so every
  /// place that begins like a mark is tried.
  Result<std::uint64_t> vouched_after(std::uint64_t offset) {
    char pattern[sizeof(kLogMarkLength)];
    store_fixed(pattern, kLogMarkLength);
    std::uint64_t vouched = 0;
    std::string chunk;
    while (offset + kLogMarkBytes <= size_) {
      TRY(read_chunk(offset, &chunk));
      for (std::size_t at = chunk.find(pattern, 0, sizeof(pattern));
           at != std::string::npos && at + kLogMarkBytes <= chunk.size(); at = chunk.find(pattern, at + 1, sizeof(pattern))) {
        const char* mark = chunk.data() + at;
        const auto bytes = load_fixed<std::uint64_t>(mark + kLogRecordHeaderBytes);
        BlockChecksummer checksum(number_, offset + at);
        checksum.update(Bytes(mark, sizeof(pattern)));
        checksum.update(Bytes(mark + kLogRecordHeaderBytes, sizeof(bytes)));
        if (checksum.digest() == load_fixed<std::uint64_t>(mark + sizeof(pattern))) vouched = std::max(vouched, bytes);
      }
      offset += chunk.size() - (kLogMarkBytes - 1);  // chunks overlap, so that none cuts a mark in two
    }
    return vouched;
  }

  Status read_chunk(std::uint64_t offset, std::string* chunk) {
    constexpr std::uint64_t kChunkBytes = std::uint64_t{256} << 10;
    chunk->resize(static_cast<std::size_t>(std::min(kChunkBytes, size_ - offset)));
    return reader_.read(offset, chunk->size(), chunk->data());
  }

  ChunkedReader reader_;
  const FileNum number_;
  const std::uint64_t size_;
  const std::string name_;
  SeqNum first_seq_ = 0;
};

}  // namespace

Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file,
                        const std::function<Status(std::string payload, std::uint64_t offset)>& on_record) {
  TRY_ASSIGN(in, fs.open(join_path(dir, log_file_name(file))));
  return SegmentReader(*in, file).walk(on_record);
}

Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes) {
  const std::string path = join_path(dir, log_file_name(file));
  TRY(fs.truncate(path, valid_bytes));
  return fs.sync_file(path);
}

}  // namespace ebbtide
