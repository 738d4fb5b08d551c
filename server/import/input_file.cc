#include "import/input_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "store/dump.h"

namespace ebbtide {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

class StreamInput final : public InputFile {
 public:
  StreamInput(std::string name, std::FILE* file, std::optional<std::uint64_t> size)
      : InputFile(std::move(name)), file_(file), size_(size) {}
  ~StreamInput() override {
    if (file_ != stdin) std::fclose(file_);
  }
  StreamInput(const StreamInput&) = delete;
  StreamInput& operator=(const StreamInput&) = delete;
  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }

 private:
  Result<std::size_t> read(char* to, std::size_t n) override {
    const std::size_t got = std::fread(to, 1, n, file_);
    if (got < n && std::ferror(file_) != 0) return Status::io_error(name() + ": " + std::strerror(errno));
    return got;
  }

  std::FILE* const file_;
  const std::optional<std::uint64_t> size_;
};

class MemoryInput final : public InputFile {
 public:
  explicit MemoryInput(std::string bytes) : InputFile("memory"), bytes_(std::move(bytes)) {}
  [[nodiscard]] std::optional<std::uint64_t> size() const override { return bytes_.size(); }

 private:
  Result<std::size_t> read(char* to, std::size_t n) override {
    const std::size_t got = bytes_.copy(to, n, at_);
    at_ += got;
    return got;
  }

  const std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::unique_ptr<InputFile>> InputFile::open(const std::string& path) {
  if (path == "-") return std::unique_ptr<InputFile>(std::make_unique<StreamInput>("standard input", stdin, std::nullopt));
  // Opening a named pipe without a writer would block.
  if (std::error_code error; std::filesystem::is_fifo(path, error))
    return Status::io_error(path + ": cannot be read twice; give - and pass it as standard input");
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Status::io_error(path + ": " + std::strerror(errno));
  struct stat info {};
  const bool is_file = ::fstat(::fileno(file), &info) == 0 && S_ISREG(info.st_mode);
  if (S_ISDIR(info.st_mode)) {
    std::fclose(file);
    return Status::io_error(path + ": is a directory; give the RDB file or the AOF's manifest in it");
  }
  if (!is_file) {
    std::fclose(file);
    return Status::io_error(path + ": cannot be read twice; give - and pass it as standard input");
  }
  std::setvbuf(file, nullptr, _IONBF, 0);  // no buffer, since fill() reads large blocks
  return std::unique_ptr<InputFile>(std::make_unique<StreamInput>(path, file, static_cast<std::uint64_t>(info.st_size)));
}

std::unique_ptr<InputFile> InputFile::of(std::string bytes) { return std::make_unique<MemoryInput>(std::move(bytes)); }

Result<bool> InputFile::fill() {
  if (used_ < buffer_.size()) return true;
  buffer_.resize(kBufferBytes);
  used_ = 0;
  auto got = read(buffer_.data(), buffer_.size());
  buffer_.resize(got.is_ok() ? *got : 0);
  if (!got.is_ok()) return got.status();
  return !buffer_.empty();
}

Result<std::optional<char>> InputFile::peek() {
  TRY_ASSIGN(more, fill());
  return more ? std::optional(buffer_[used_]) : std::nullopt;
}

Status InputFile::take(std::uint64_t n, std::string* out) {
  while (n > 0) {
    TRY_ASSIGN(more, fill());
    if (!more) return Status::corruption(name_ + " ends at byte " + std::to_string(offset_) + ", in the middle of a value");
    const std::size_t now = std::min<std::uint64_t>(n, buffer_.size() - used_);
    const Bytes piece = Bytes(buffer_).substr(used_, now);
    crc_ = crc64(piece, crc_);
    out->append(piece);
    used_ += now;
    offset_ += now;
    n -= now;
  }
  return Status::ok();
}

}  // namespace ebbtide
