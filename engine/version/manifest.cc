#include "version/manifest.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/coding.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

// header: magic u32, version u32, file u64, checksum u64 of these
// record: length u32, checksum u64 of length and payload, payload
// seal:   magic u32, checksum u64 of it
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kRecordHeaderBytes = 12;
constexpr std::size_t kSealBytes = 12;
constexpr std::size_t kChecksummedHeaderBytes = 16;
constexpr char kSealMagic[] = {'S', 'E', 'A', 'L'};
/// An edit of this size would describe tens of millions of files.
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

/// "MANIFEST-000007 0123456789abcdef\n": the name, and its checksum in hex.
std::string current_content(FileNum file) {
  static const char kHex[] = "0123456789abcdef";
  std::string out = manifest_file_name(file);
  const std::uint64_t checksum = block_checksum(out, file, 0);
  out += ' ';
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[(checksum >> shift) & 15];
  return out + "\n";
}

/// A manifest in memory, and where its parts are.
class ManifestBytes {
 public:
  ManifestBytes(Bytes data, FileNum file) : data_(data), file_(file) {}

  Status check_header() const {
    if (data_.size() < kHeaderBytes)
      return Status::corruption("header at 0: the file has only " + std::to_string(data_.size()) + " bytes");
    if (load_fixed<std::uint32_t>(data_.data()) != kManifestMagic) return Status::corruption("header at 0: this is no manifest");
    if (load_fixed<std::uint64_t>(data_.data() + kChecksummedHeaderBytes) !=
        block_checksum(data_.substr(0, kChecksummedHeaderBytes), file_, 0)) {
      return Status::corruption("header at 0: checksum mismatch");
    }
    const auto version = load_fixed<std::uint32_t>(data_.data() + 4);
    if (version > kManifestVersion) {
      return Status::unsupported("has format version " + std::to_string(version) + "; this program reads up to version " +
                                 std::to_string(kManifestVersion));
    }
    return Status::ok();
  }
  /// The payload of the record at `offset`; false, and why, if there is no whole one.
  bool record_at(std::size_t offset, Bytes* payload, std::string* what) const {
    const std::size_t left = data_.size() - offset;
    if (left < kRecordHeaderBytes) return *what = "record header is cut off", false;
    const auto length = load_fixed<std::uint32_t>(data_.data() + offset);
    if (length > left - kRecordHeaderBytes) return *what = "record is cut off", false;
    *payload = data_.substr(offset + kRecordHeaderBytes, length);
    const auto stored = load_fixed<std::uint64_t>(data_.data() + offset + 4);
    if (stored != record_checksum(data_.substr(offset, 4), *payload, file_, offset))
      return *what = "record checksum mismatch", false;
    return true;
  }
  bool seal_at(std::size_t offset) const {
    return data_.size() >= offset + kSealBytes && data_.substr(offset, kSealBytes) == seal_bytes(file_, offset);
  }
  /// Whether anything from `offset` on was once durable.
  bool sealed_after(std::size_t offset) const {
    const Bytes magic(kSealMagic, sizeof(kSealMagic));
    for (std::size_t at = data_.find(magic, offset); at != Bytes::npos; at = data_.find(magic, at + 1)) {
      if (seal_at(at)) return true;
    }
    return false;
  }
  std::size_t size() const { return data_.size(); }

 private:
  Bytes data_;
  FileNum file_;
};

Status damage(std::size_t offset, const std::string& what) { return Status::corruption(what + " at " + std::to_string(offset)); }

Result<ManifestEnd> walk(const ManifestBytes& manifest, const std::function<Status(Bytes, std::uint64_t)>& on_record) {
  TRY(manifest.check_header());
  ManifestEnd end;
  end.bytes = manifest.size();
  std::size_t at = kHeaderBytes;
  while (at < manifest.size() || end.records == 0) {
    const std::size_t start = at;
    Bytes payload;
    std::string what;
    if (!manifest.record_at(at, &payload, &what)) {
      // The snapshot was durable before anything named this file.
      if (end.records == 0 || manifest.sealed_after(at)) return damage(at, what);
      end.torn = what + " at " + std::to_string(at);
      return end;
    }
    if (Status status = on_record(payload, start); !status.is_ok()) {
      return status.with_context("record at " + std::to_string(start));
    }
    at += kRecordHeaderBytes + payload.size();
    ++end.records;
    end.valid_bytes = at;
    if (manifest.seal_at(at)) {
      at += kSealBytes;
      end.valid_bytes = at;
    } else if (end.records == 1 || (at < manifest.size() && manifest.sealed_after(at))) {
      return damage(at, "seal is damaged or missing");
    } else if (at < manifest.size()) {
      // Not synced with its record: the next record may be whole behind it, or lost too.
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
  TRY_ASSIGN(out, fs.create(join_path(dir, manifest_file_name(file))));
  std::unique_ptr<ManifestWriter> writer(new ManifestWriter(std::move(out), file));
  TRY(writer->out_->append(header_bytes(file)));
  TRY(writer->append(snapshot));
  TRY(writer->seal());
  TRY(writer->out_->sync());
  TRY(fs.sync_dir(dir));
  return writer;
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
                                  const std::function<Status(Bytes payload, std::uint64_t offset)>& on_record) {
  const std::string name = manifest_file_name(file);
  TRY_ASSIGN(data, read_file(fs, join_path(dir, name)));
  Result<ManifestEnd> end = walk(ManifestBytes(data, file), on_record);
  if (!end.is_ok()) return end.status().with_context(name);
  return end;
}

Result<FileNum> read_current(FileSystem& fs, const std::string& dir) {
  const std::string path = join_path(dir, kCurrentFileName);
  if (!fs.exists(path)) return Status::not_found(path + " does not exist");
  TRY_ASSIGN(content, read_file(fs, path));
  FileKind kind{};
  FileNum file = kNoFile;
  const Bytes name = Bytes(content).substr(0, content.find(' '));
  const bool named = parse_file_name(name, &kind, &file) && kind == FileKind::kManifest;
  if (!named || content != current_content(file)) {
    return Status::corruption(path + ": offset 0: not one line of a manifest's name and its checksum");
  }
  return file;
}

Status write_current(FileSystem& fs, const std::string& dir, FileNum file) {
  return write_file_atomically(fs, dir, std::string(kCurrentFileName), current_content(file));
}

}  // namespace ebbtide
