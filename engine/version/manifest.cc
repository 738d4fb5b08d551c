#include "version/manifest.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/coding.h"
#include "io/chunked_reader.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

// header: magic u32, version u32, file u64, checksum u64 of magic, version and file
// record: length u32, checksum u64 of length and payload, payload
// seal:   magic u32, checksum u64 of the magic
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kRecordHeaderBytes = 12;
constexpr std::size_t kSealBytes = 12;
constexpr std::size_t kChecksummedHeaderBytes = 16;
constexpr char kSealMagic[] = {'S', 'E', 'A', 'L'};
/// CURRENT is one short line, so a longer file is damaged.
constexpr std::uint64_t kMaxCurrentBytes = 1024;
/// The greatest payload of a record. An edit of this size would describe tens of millions of files.
constexpr std::size_t kMaxPayloadBytes = std::size_t{1} << 30;

std::uint64_t record_checksum(Bytes length, Bytes payload, FileNum file, std::uint64_t offset) {
  BlockChecksummer checksum(file, offset);
  checksum.update(length);
  checksum.update(payload);
  return checksum.digest();
}

std::string seal_bytes(FileNum file, std::uint64_t offset) {
  std::string out(kSealMagic, sizeof(kSealMagic));
  put_u64(&out, block_checksum(out, file, offset));
  return out;
}

std::string header_bytes(FileNum file) {
  std::string out;
  put_u32(&out, kManifestMagic);
  put_u32(&out, kManifestVersion);
  put_u64(&out, file);
  put_u64(&out, block_checksum(out, file, 0));
  return out;
}

/// Returns the content of CURRENT, "MANIFEST-000007 0123456789abcdef\n": the name, and its checksum in hex.
std::string current_content(FileNum file) {
  static const char kHex[] = "0123456789abcdef";
  std::string out = manifest_file_name(file);
  const std::uint64_t checksum = block_checksum(out, file, 0);
  out += ' ';
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[(checksum >> shift) & 15];
  return out + "\n";
}

/// Reads the header, records and seals of a manifest on disk. Holds one record at a time.
class ManifestReader {
 public:
  ManifestReader(const RandomAccessFile& in, FileNum file) : in_(in), file_(file) {}

  Status check_header() {
    if (size() < kHeaderBytes) return Status::corruption("header at 0: the file has only " + std::to_string(size()) + " bytes");
    char header[kHeaderBytes];
    TRY(in_.read(0, sizeof(header), header));
    if (load_fixed<std::uint32_t>(header) != kManifestMagic) return Status::corruption("header at 0: not a manifest");
    if (load_fixed<std::uint64_t>(header + kChecksummedHeaderBytes) !=
        block_checksum(Bytes(header, kChecksummedHeaderBytes), file_, 0)) {
      return Status::corruption("header at 0: checksum mismatch");
    }
    const auto version = load_fixed<std::uint32_t>(header + 4);
    if (version > kManifestVersion) {
      return Status::unsupported("has format version " + std::to_string(version) + "; this program reads up to version " +
                                 std::to_string(kManifestVersion));
    }
    if (version == 0) return Status::corruption("header at 0: invalid format version 0");
    return Status::ok();
  }
  /// Reads the payload of the record at `offset`. Sets `what` to "", or to the reason why there is no whole record.
  Status record_at(std::uint64_t offset, std::string* payload, std::string* what) {
    what->clear();
    const std::uint64_t left = size() - offset;
    if (left < kRecordHeaderBytes) return *what = "record header is incomplete", Status::ok();
    char header[kRecordHeaderBytes];
    TRY(in_.read(offset, sizeof(header), header));
    const auto length = load_fixed<std::uint32_t>(header);
    const auto stored = load_fixed<std::uint64_t>(header + 4);
    if (length > left - kRecordHeaderBytes) return *what = "record is incomplete", Status::ok();
    const std::uint64_t at = offset + kRecordHeaderBytes;
    if (length > kBelievedBytes) {
      BlockChecksummer checksum(file_, offset);
      checksum.update(Bytes(header, 4));
      TRY(in_.add_to(&checksum, at, length));
      if (checksum.digest() != stored) return *what = "record checksum mismatch", Status::ok();
    }
    payload->resize(length);
    TRY(in_.read(at, length, payload->data()));
    if (stored != record_checksum(Bytes(header, 4), *payload, file_, offset)) *what = "record checksum mismatch";
    return Status::ok();
  }
  Result<bool> seal_at(std::uint64_t offset) {
    if (offset > size() || size() - offset < kSealBytes) return false;
    char bytes[kSealBytes];
    TRY(in_.read(offset, sizeof(bytes), bytes));
    return Bytes(bytes, sizeof(bytes)) == seal_bytes(file_, offset);
  }
  /// Returns true if a seal lies at or after `offset`, so that the bytes before the seal were once durable. Only the first call
  /// searches the file, so later calls must not have smaller offsets.
  Result<bool> sealed_after(std::uint64_t offset) {
    if (!searched_) TRY(find_last_seal(offset));
    return last_seal_ != 0 && last_seal_ >= offset;
  }
  [[nodiscard]] std::uint64_t size() const { return in_.size(); }

 private:
  /// Finds the last seal. Record boundaries are unknown after `offset`, so every offset at which a seal may begin is tried.
  Status find_last_seal(std::uint64_t offset) {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 10;
    std::string piece;
    while (offset + kSealBytes <= size()) {
      piece.resize(static_cast<std::size_t>(std::min(kPieceBytes, size() - offset)));
      TRY(in_.read(offset, piece.size(), piece.data()));
      for (std::size_t at = piece.find(kSealMagic, 0, sizeof(kSealMagic));
           at != std::string::npos && at + kSealBytes <= piece.size(); at = piece.find(kSealMagic, at + 1, sizeof(kSealMagic))) {
        if (Bytes(piece).substr(at, kSealBytes) == seal_bytes(file_, offset + at)) last_seal_ = offset + at;
      }
      offset += piece.size() - (kSealBytes - 1);  // successive reads overlap, so that none cuts a seal in two
    }
    searched_ = true;
    return Status::ok();
  }

  ChunkedReader in_;
  const FileNum file_;
  bool searched_ = false;
  std::uint64_t last_seal_ = 0;  // 0 = none, since a seal lies after the header
};

Status damage(std::uint64_t offset, const std::string& what) {
  return Status::corruption(what + " at " + std::to_string(offset));
}

Result<ManifestEnd> walk(ManifestReader& manifest, const std::function<Status(Bytes, std::uint64_t)>& on_record) {
  TRY(manifest.check_header());
  ManifestEnd end;
  end.bytes = manifest.size();
  std::uint64_t at = kHeaderBytes;
  std::string payload, what;
  while (at < manifest.size() || end.records == 0) {
    const std::uint64_t start = at;
    TRY(manifest.record_at(at, &payload, &what));
    if (!what.empty()) {
      TRY_ASSIGN(was_durable, manifest.sealed_after(at));
      // The snapshot was durable before CURRENT named this file.
      if (end.records == 0 || was_durable) return damage(at, what);
      end.torn = what + " at " + std::to_string(at);
      return end;
    }
    if (Status status = on_record(payload, start); !status.is_ok()) {
      return status.with_context("record at " + std::to_string(start));
    }
    at += kRecordHeaderBytes + payload.size();
    ++end.records;
    end.valid_bytes = at;
    TRY_ASSIGN(sealed, manifest.seal_at(at));
    if (sealed) {
      at += kSealBytes;
      end.valid_bytes = at;
      continue;
    }
    TRY_ASSIGN(was_durable, manifest.sealed_after(at));
    if (end.records == 1 || was_durable) return damage(at, "the seal after the record is damaged or missing");
    if (at < manifest.size()) {
      // A crash may damage a seal, since it is not synced with its record. The record after the seal may be whole, or torn, too.
      end.torn = "seal is damaged at " + std::to_string(at);
      at = std::min(at + kSealBytes, manifest.size());
    }
  }
  return end;
}

}  // namespace

ManifestWriter::ManifestWriter(std::unique_ptr<WritableFile> out, FileNum file) : out_(std::move(out)), file_(file) {}
ManifestWriter::~ManifestWriter() = default;

std::uint64_t ManifestWriter::size() const { return out_->size(); }

Result<std::unique_ptr<ManifestWriter>> ManifestWriter::create(FileSystem& fs, const std::string& dir, FileNum file,
                                                               Bytes snapshot) {
  const std::string path = join_path(dir, manifest_file_name(file));
  TRY_ASSIGN(out, fs.create(path));
  std::unique_ptr<ManifestWriter> writer(new ManifestWriter(std::move(out), file));
  Status status = writer->begin(snapshot);
  if (status.is_ok()) status = fs.sync_dir(dir);
  if (!status.is_ok()) {
    writer.reset();
    (void)fs.unlink(path);  // an error is harmless: CURRENT does not name the file, and the next open removes it
    return status;
  }
  return writer;
}

Status ManifestWriter::begin(Bytes snapshot) {
  TRY(out_->append(header_bytes(file_)));
  TRY(append(snapshot));
  TRY(seal());
  return out_->sync();
}

Status ManifestWriter::append(Bytes payload) {
  if (payload.size() > kMaxPayloadBytes) {
    return Status::unsupported("manifest record of " + std::to_string(payload.size()) + " bytes; at most " +
                               std::to_string(kMaxPayloadBytes));
  }
  const std::uint64_t offset = out_->size();
  std::string header;
  put_u32(&header, static_cast<std::uint32_t>(payload.size()));
  put_u64(&header, record_checksum(header, payload, file_, offset));
  const Bytes pieces[] = {header, payload};
  TRY(out_->append(pieces));
  return out_->sync();
}

Status ManifestWriter::seal() { return out_->append(seal_bytes(file_, out_->size())); }

Result<ManifestEnd> read_manifest(FileSystem& fs, const std::string& dir, FileNum file,
                                  const std::function<Status(Bytes payload, std::uint64_t offset)>& on_record,
                                  const OpenOptions& options) {
  const std::string name = manifest_file_name(file);
  TRY_ASSIGN(in, fs.open(join_path(dir, name), options));
  ManifestReader manifest(*in, file);
  Result<ManifestEnd> end = walk(manifest, on_record);
  if (!end.is_ok()) return end.status().with_context(name);
  return end;
}

Result<FileNum> read_current(FileSystem& fs, const std::string& dir) {
  const std::string path = join_path(dir, kCurrentFileName);
  if (!fs.exists(path)) return Status::not_found(path + " does not exist");
  TRY_ASSIGN(content, read_file(fs, path, kMaxCurrentBytes));
  FileKind kind{};
  FileNum file = kNoFile;
  const Bytes name = Bytes(content).substr(0, content.find(' '));
  const bool named = parse_file_name(name, &kind, &file) && kind == FileKind::kManifest;
  if (!named || content != current_content(file)) {
    return Status::corruption(path + ": offset 0: expected one line with a manifest's name and its checksum");
  }
  return file;
}

Status write_current(FileSystem& fs, const std::string& dir, FileNum file) {
  return write_file_atomically(fs, dir, std::string(kCurrentFileName), current_content(file));
}

}  // namespace ebbtide
