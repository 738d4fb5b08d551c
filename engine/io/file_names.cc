#include "io/file_names.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/invariant.h"

namespace ebbtide {

namespace {

constexpr Bytes kDataSuffix = ".data";
constexpr Bytes kMetadataSuffix = ".meta";
constexpr Bytes kLogSuffix = ".wal";
constexpr Bytes kManifestPrefix = "MANIFEST-";
constexpr std::size_t kMinDigits = 6;

std::string digits(FileNum file) {
  ASSERT(file != kNoFile);
  std::string text = std::to_string(file);
  if (text.size() < kMinDigits) text.insert(0, kMinDigits - text.size(), '0');
  return text;
}

bool parse_number(Bytes text, FileNum* file) {
  FileNum value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value == kNoFile || value > kMaxFileNum || Bytes(digits(value)) != text)
    return false;
  *file = value;
  return true;
}

/// Returns `path` without "." and empty components, so that spellings of the same path become equal; ".." stays.
std::string plain_path(Bytes path) {
  std::string out(path.starts_with('/') ? "/" : "");
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const Bytes part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (!out.empty() && out.back() != '/') out += '/';
    out += part;
  }
  return out;
}

bool parse_numbered(Bytes name, Bytes suffix, FileNum* file) {
  return name.ends_with(suffix) && parse_number(name.substr(0, name.size() - suffix.size()), file);
}

}  // namespace

std::string data_file_name(FileNum file) { return digits(file).append(kDataSuffix); }
std::string metadata_file_name(FileNum file) { return digits(file).append(kMetadataSuffix); }
std::string log_file_name(FileNum file) { return digits(file).append(kLogSuffix); }
std::string manifest_file_name(FileNum file) { return std::string(kManifestPrefix).append(digits(file)); }

bool parse_file_name(Bytes name, FileKind* kind, FileNum* file) {
  FileNum number = kNoFile;
  if (name == kCurrentFileName) {
    *kind = FileKind::kCurrent;
  } else if (name == kLockFileName) {
    *kind = FileKind::kLock;
  } else if (name == kReserveFileName) {
    *kind = FileKind::kReserve;
  } else if (name.size() > kTemporarySuffix.size() && name.ends_with(kTemporarySuffix)) {
    *kind = FileKind::kTemporary;
  } else if (parse_numbered(name, kDataSuffix, &number)) {
    *kind = FileKind::kData;
  } else if (parse_numbered(name, kMetadataSuffix, &number)) {
    *kind = FileKind::kMetadata;
  } else if (parse_numbered(name, kLogSuffix, &number)) {
    *kind = FileKind::kLog;
  } else if (name.starts_with(kManifestPrefix) && parse_number(name.substr(kManifestPrefix.size()), &number)) {
    *kind = FileKind::kManifest;
  } else {
    return false;
  }
  *file = number;
  return true;
}

std::string join_path(Bytes dir, Bytes name) {
  std::string path(dir);
  if (!path.empty() && path.back() != '/') path.push_back('/');
  return path.append(name);
}

std::string parent_path(Bytes path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == Bytes::npos) return ".";
  path = path.substr(0, slash);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

bool lies_within(Bytes path, Bytes dir) {
  const auto whole = [](Bytes spelled) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(std::string(spelled), error);
    return plain_path(error ? std::string(spelled) : absolute.lexically_normal().string());
  };
  const std::string inner = whole(path), outer = whole(dir);
  return inner == outer || (inner.starts_with(outer) && (outer.empty() || outer.back() == '/' || inner[outer.size()] == '/'));
}

}  // namespace ebbtide
