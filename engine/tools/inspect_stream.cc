#include "tools/inspect_stream.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "io/file_names.h"
#include "tools/inspect_copy.h"

namespace ebbtide {
namespace {

constexpr std::size_t kBlock = 512;  // block size of tar
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr int kLevel = 3;                     // zstd's default; a higher level gains little, since pages are compressed already
constexpr std::uint64_t kMostCurrent = 4096;  // largest size of CURRENT in bytes: the file has one line
constexpr std::uint64_t kMostOctal = std::uint64_t{1} << 33;  // this size and larger sizes do not fit into eleven octal digits

// A field of a header of POSIX's ustar format: offset and length.
struct Field {
  std::size_t at, length;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12}, kTime{136, 12}, kSum{148, 8},
    kType{156, 1}, kMagic{257, 8};
constexpr char kMagicText[] = "ustar\00000";  // magic and version

using Block = std::array<char, kBlock>;

void put_octal(Block* block, Field field, std::uint64_t value) {
  for (std::size_t i = field.length - 1; i-- > 0; value >>= 3) (*block)[field.at + i] = static_cast<char>('0' + (value & 7));
}

std::uint64_t sum_of(const Block& block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool blank = i >= kSum.at && i < kSum.at + kSum.length;
    sum += blank ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

Block header_of(const std::string& name, std::uint64_t size) {
  Block block{};
  std::memcpy(block.data() + kName.at, name.data(), std::min(name.size(), kName.length));
  put_octal(&block, kMode, 0600);
  put_octal(&block, kUser, 0);
  put_octal(&block, kGroup, 0);
  put_octal(&block, kTime, 0);
  if (size < kMostOctal) {
    put_octal(&block, kSize, size);
  } else {  // as newer tars write it: the first bit is set, and the number is in base 256
    block[kSize.at] = static_cast<char>(0x80);
    for (std::size_t i = 0; i < 8; ++i) block[kSize.at + kSize.length - 1 - i] = static_cast<char>(size >> (8 * i));
  }
  block[kType.at] = '0';
  std::memcpy(block.data() + kMagic.at, kMagicText, kMagic.length);
  put_octal(&block, {kSum.at, kSum.length - 1}, sum_of(block));
  block[kSum.at + kSum.length - 1] = ' ';
  return block;
}

std::optional<std::uint64_t> number_in(const Block& block, Field field) {
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(block[field.at]) & 0x80) != 0) {
    for (std::size_t i = 1; i < field.length; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(block[field.at + i]);
    }
    return value;
  }
  for (std::size_t i = 0; i < field.length; ++i) {
    const char c = block[field.at + i];
    if (c == ' ' || c == '\0') break;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<unsigned>(c - '0');
  }
  return value;
}

std::uint64_t padding(std::uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

struct FreeCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

/// Compresses the appended bytes and passes them to `write`.
class Sink {
 public:
  explicit Sink(const std::function<Status(Bytes)>& write) : write_(write), context_(ZSTD_createCCtx()), buffer_(kPiece, '\0') {
    (void)ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
    (void)ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  }
  Status append(Bytes data) { return compress(data, ZSTD_e_continue); }
  Status finish() { return compress({}, ZSTD_e_end); }

 private:
  Status compress(Bytes data, ZSTD_EndDirective how) {
    ZSTD_inBuffer in{data.data(), data.size(), 0};
    for (;;) {
      ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(context_.get(), &out, &in, how);
      if (ZSTD_isError(left) != 0) return Status::io_error(std::string("zstd: ") + ZSTD_getErrorName(left));
      if (out.pos != 0) TRY(write_(Bytes(buffer_.data(), out.pos)));
      if (how == ZSTD_e_end ? left == 0 : in.pos == in.size) return Status::ok();
    }
  }

  const std::function<Status(Bytes)>& write_;
  std::unique_ptr<ZSTD_CCtx, FreeCompressor> context_;
  std::string buffer_;
};

/// Reads compressed bytes through `read` and decompresses them.
class Source {
 public:
  explicit Source(const std::function<Result<std::size_t>(char*, std::size_t)>& read)
      : read_(read), context_(ZSTD_createDCtx()), input_(kPiece, '\0') {}

  /// Fills the buffer; kCorruption if the stream ends before the buffer is full.
  Status take(char* buffer, std::size_t size) {
    ZSTD_outBuffer out{buffer, size, 0};
    while (out.pos < out.size) {
      TRY_ASSIGN(more, step(&out));
      if (!more) return Status::corruption("the stream ends too early");
    }
    return Status::ok();
  }
  /// Returns kCorruption unless the compressed stream is complete and ends here.
  Status expect_end() {
    char byte = 0;
    ZSTD_outBuffer out{&byte, 1, 0};
    for (;;) {
      TRY_ASSIGN(more, step(&out));
      if (out.pos != 0) return Status::corruption("the stream goes on after the end of the archive");
      if (!more) break;
    }
    return complete_ ? Status::ok() : Status::corruption("the stream ends too early");
  }

 private:
  /// Decompresses into `out`. Returns false at the end of the input.
  Result<bool> step(ZSTD_outBuffer* out) {
    if (in_.pos == in_.size) {
      const std::size_t before = out->pos;
      if (begun_ && !complete_) {  // zstd may hold output that needs no further input
        TRY(decompress(out));
        if (out->pos != before) return true;
      }
      TRY_ASSIGN(bytes, read_(input_.data(), input_.size()));
      in_ = {input_.data(), bytes, 0};
      if (bytes == 0) return false;
    }
    if (complete_) return Status::corruption("bytes follow the end of the stream");
    TRY(decompress(out));
    return true;
  }
  Status decompress(ZSTD_outBuffer* out) {
    begun_ = true;
    const std::size_t left = ZSTD_decompressStream(context_.get(), out, &in_);
    if (ZSTD_isError(left) != 0) return Status::corruption(std::string("the stream is damaged: ") + ZSTD_getErrorName(left));
    complete_ = left == 0;
    return Status::ok();
  }

  const std::function<Result<std::size_t>(char*, std::size_t)>& read_;
  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> context_;
  std::string input_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool begun_ = false, complete_ = false;
};

Status send_file(FileSystem& fs, const std::string& dir, const std::string& name, Sink* sink, std::uint64_t* bytes) {
  TRY_ASSIGN(file, fs.open(join_path(dir, name)));
  const Block header = header_of(name, file->size());
  TRY(sink->append(Bytes(header.data(), header.size())));
  std::string piece;
  for (std::uint64_t at = 0; at < file->size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPiece, file->size() - at));
    TRY(file->read(at, piece.size(), piece.data()));
    TRY(sink->append(piece));
  }
  *bytes += file->size();
  return sink->append(std::string(padding(file->size()), '\0'));
}

Result<std::uint64_t> send_all(FileSystem& fs, const std::string& from, const std::function<Status(Bytes)>& write,
                               Inspection* out, std::uint64_t* files) {
  TRY(check_source(fs, from));
  TRY_ASSIGN(lock, lock_source(fs, from));
  const Inspection verified = inspect_verify(fs, from);
  out->text += verified.text;
  out->warnings = verified.warnings;
  out->errors = verified.errors;
  if (!out->errors.empty()) return std::uint64_t{0};
  TRY_ASSIGN(loaded, load_manifest(fs, from));
  TRY_ASSIGN(names, files_of_database(fs, from, loaded));
  Sink sink(write);
  std::uint64_t bytes = 0;
  for (const DatabaseFile& file : names) TRY(send_file(fs, from, file.name, &sink, &bytes));
  TRY(send_file(fs, from, std::string(kCurrentFileName), &sink, &bytes));
  TRY(sink.append(std::string(2 * kBlock, '\0')));
  TRY(sink.finish());
  *files = names.size() + 1;
  return bytes;
}

class Receiver {
 public:
  Receiver(FileSystem& fs, const std::function<Result<std::size_t>(char*, std::size_t)>& read, std::string to)
      : fs_(fs), source_(read), to_(std::move(to)) {}
  ~Receiver() {
    if (!finished_) clear_away();
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  Status run(Inspection* out) {
    TRY(check_target(fs_, to_));
    made_directory_ = !fs_.exists(to_);
    TRY(fs_.create_dir(to_));
    for (;;) {
      TRY_ASSIGN(more, receive_member());
      if (!more) break;
    }
    TRY(source_.expect_end());
    if (!manifest_ || current_.empty())
      return Status::corruption("the archive is not a complete database: MANIFEST or CURRENT is missing");
    TRY(fs_.sync_dir(to_));
    made_.emplace_back(kCurrentFileName);
    TRY(write_current(fs_, to_, *manifest_));
    TRY_ASSIGN(written, read_file(fs_, join_path(to_, kCurrentFileName)));
    if (written != current_) return Status::corruption("CURRENT does not name the manifest that is in the archive");
    TRY(fs_.sync_dir(parent_path(to_)));
    const Inspection verified = inspect_verify(fs_, to_);
    out->text += verified.text;
    out->warnings = verified.warnings;
    out->errors = verified.errors;
    finished_ = out->errors.empty();
    return Status::ok();
  }
  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::uint64_t files() const { return names_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  /// Restores one file of the archive. Returns false at the end of the archive.
  Result<bool> receive_member() {
    Block header;
    TRY(source_.take(header.data(), header.size()));
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) {
      TRY(source_.take(header.data(), header.size()));
      return false;
    }
    const auto sum = number_in(header, kSum), size = number_in(header, kSize);
    if (!sum || *sum != sum_of(header) || !size || (header[kType.at] != '0' && header[kType.at] != '\0'))
      return Status::corruption("a header of the archive is damaged");
    const char* const begin = header.data() + kName.at;
    const std::string name(begin, std::find(begin, begin + kName.length, '\0'));
    TRY(check_name(name, *size));
    TRY(name == kCurrentFileName ? receive_current(*size) : receive_file(name, *size));
    std::string rest(padding(*size), '\0');
    TRY(source_.take(rest.data(), rest.size()));
    bytes_ += *size;
    return true;
  }
  Status check_name(const std::string& name, std::uint64_t size) {
    FileKind kind{};
    FileNum number = kNoFile;
    const bool known = parse_file_name(name, &kind, &number);
    const bool kept = kind == FileKind::kData || kind == FileKind::kMetadata || kind == FileKind::kLog ||
                      kind == FileKind::kManifest || kind == FileKind::kCurrent;
    if (!known || !kept) return Status::corruption("the archive has a file that does not belong to a database");
    if (!current_.empty()) return Status::corruption("the archive has a file after CURRENT");
    if (!names_.insert(name).second) return Status::corruption("the archive has " + name + " twice");
    if (kind == FileKind::kCurrent && (size == 0 || size > kMostCurrent)) return Status::corruption("CURRENT has a wrong size");
    if (kind == FileKind::kManifest && manifest_) return Status::corruption("the archive has two manifests");
    if (kind == FileKind::kManifest) manifest_ = number;
    return Status::ok();
  }
  Status receive_current(std::uint64_t size) {
    current_.resize(size);
    return source_.take(current_.data(), current_.size());
  }
  Status receive_file(const std::string& name, std::uint64_t size) {
    TRY_ASSIGN(file, fs_.create(join_path(to_, name)));
    made_.push_back(name);
    std::string piece;
    for (std::uint64_t left = size; left != 0; left -= piece.size()) {
      piece.resize(std::min<std::uint64_t>(kPiece, left));
      TRY(source_.take(piece.data(), piece.size()));
      TRY(file->append(Bytes(piece)));
    }
    TRY(file->sync());
    return file->close();
  }
  void clear_away() {
    std::reverse(made_.begin(), made_.end());  // CURRENT first: a partly removed copy must not open
    for (const std::string& name : made_) (void)fs_.unlink(join_path(to_, name));
    if (made_directory_) (void)fs_.remove_dir(to_);
  }

  FileSystem& fs_;
  Source source_;
  const std::string to_;
  std::vector<std::string> made_;
  std::set<std::string> names_;
  std::optional<FileNum> manifest_;
  std::string current_;
  bool made_directory_ = false, finished_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Inspection send_database(FileSystem& fs, const std::string& from, const std::function<Status(Bytes)>& write) {
  Inspection out;
  std::uint64_t files = 0;
  const auto bytes = send_all(fs, from, write, &out, &files);
  if (!bytes.is_ok()) out.error(bytes.status());
  out.text += files == 0 ? "The stream is incomplete.\n"
                         : from + ": " + std::to_string(files) + " files, " + std::to_string(*bytes) + " bytes were sent\n";
  out.json.add("from", from).add("files", files).add("bytes", bytes.is_ok() ? *bytes : 0);
  return out;
}

Inspection receive_database(FileSystem& fs, const std::function<Result<std::size_t>(char*, std::size_t)>& read,
                            const std::string& to) {
  Inspection out;
  Receiver receiver(fs, read, to);
  if (const Status status = receiver.run(&out); !status.is_ok()) out.error(status);
  out.text += receiver.finished()
                  ? to + " has " + std::to_string(receiver.files()) + " files, " + std::to_string(receiver.bytes()) + " bytes\n"
                  : "Nothing was restored.\n";
  out.json.add("to", to).add("files", receiver.files()).add("bytes", receiver.bytes());
  return out;
}

}  // namespace ebbtide
