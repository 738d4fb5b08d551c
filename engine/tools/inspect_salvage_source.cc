#include "tools/inspect_salvage_source.h"

#include <algorithm>
#include <cstring>

namespace ebbtide {
namespace {

/// Bytes that a drive reads or fails to read as a unit.
constexpr std::uint64_t kSectorBytes = 4096;

class TolerantFile final : public RandomAccessFile {
 public:
  TolerantFile(std::unique_ptr<RandomAccessFile> in, std::string path, std::uint64_t size, std::string head,
               SalvageSource& source)
      : in_(std::move(in)), path_(std::move(path)), size_(size), head_(std::move(head)), source_(source) {}

  Status read(std::uint64_t offset, std::size_t length, char* buffer) const override {
    if (source_.stopped()) return Status::aborted("salvage was interrupted");
    if (offset > size_ || length > size_ - offset) {
      return Status::corruption(path_ + ": ends at " + std::to_string(size_) + ", before " + std::to_string(offset + length));
    }
    const std::uint64_t there =
        in_ == nullptr || offset >= in_->size() ? 0 : std::min<std::uint64_t>(length, in_->size() - offset);
    std::memset(buffer + there, 0, length - there);
    if (there != 0 && !in_->read(offset, there, buffer).is_ok()) read_sectors(offset, there, buffer);
    for (std::uint64_t at = offset; at < std::min<std::uint64_t>(head_.size(), offset + length); ++at)
      buffer[at - offset] = head_[at];
    return Status::ok();
  }
  Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const override {
    TRY(read(offset, length, buffer));
    return true;
  }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  void read_sectors(std::uint64_t offset, std::uint64_t length, char* buffer) const {
    for (std::uint64_t done = 0; done < length;) {
      const std::uint64_t at = offset + done, piece = std::min(length - done, kSectorBytes - at % kSectorBytes);
      if (const Status status = in_->read(at, piece, buffer + done); !status.is_ok()) {
        std::memset(buffer + done, 0, piece);
        source_.note_unreadable(path_, at, piece, status);
      }
      done += piece;
    }
  }

  const std::unique_ptr<RandomAccessFile> in_;  // null: the file does not exist
  const std::string path_;
  const std::uint64_t size_;
  const std::string head_;
  SalvageSource& source_;
};

}  // namespace

void SalvageSource::expect(const std::string& path, std::uint64_t bytes, std::string head) {
  expected_[path] = {bytes, std::move(head)};
}

Result<std::unique_ptr<RandomAccessFile>> SalvageSource::open(const std::string& path, const OpenOptions& options) {
  auto opened = InterposedFileSystem::open(path, options);
  const auto expected = expected_.find(path);
  if (expected == expected_.end() && !opened.is_ok()) return opened.status();
  std::unique_ptr<RandomAccessFile> in;
  if (opened.is_ok()) {
    in = std::move(opened).value();
  } else {
    note_unreadable(path, 0, expected->second.bytes, opened.status());
  }
  const std::uint64_t size = expected != expected_.end() ? expected->second.bytes : in->size();
  std::string head = expected != expected_.end() ? expected->second.head : "";
  return std::unique_ptr<RandomAccessFile>(std::make_unique<TolerantFile>(std::move(in), path, size, std::move(head), *this));
}

void SalvageSource::note_unreadable(const std::string& path, std::uint64_t offset, std::uint64_t length, const Status& status) {
  for (Unreadable& known : unreadable_) {
    if (known.path == path && offset >= known.offset && offset < known.offset + known.length) return;
    if (known.path == path && known.offset + known.length == offset) {
      known.length += length;
      return;
    }
  }
  unreadable_.push_back({path, offset, length, status.to_string()});
}

Status SalvageSource::around(const FileCall& call, const Run& run) {
  if ((ops_of(call.op) & kMutatingOps) != 0) return Status::unsupported("salvage never writes to " + call.path);
  return run(call.length);
}

}  // namespace ebbtide
