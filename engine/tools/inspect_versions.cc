#include "tools/inspect_versions.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/coding.h"
#include "base/quote.h"
#include "db/admin/workload_history.h"
#include "io/file_names.h"
#include "table/format.h"
#include "version/manifest.h"
#include "version/version_edit.h"
#include "wal/log_format.h"

namespace ebbtide {
namespace {

enum Kind : std::size_t { kManifests, kLogs, kTables, kWorkloads, kKinds };
constexpr std::array<const char*, kKinds> kKindNames = {"manifest", "log", "table", "workload"};
constexpr std::array<std::uint32_t, kKinds> kOwn = {kManifestVersion, kLogVersion, kTableVersion, WorkloadHistory::kVersion};

/// The highest format versions that a release opens, oldest release first. A release that changes a format adds a row.
struct Release {
  const char* name;
  std::array<std::uint32_t, kKinds> newest;
};
constexpr Release kReleases[] = {{"0.1.0", {1, 3, 2, 1}}, {"0.2.0", {1, 4, 3, 2}}};
static_assert(std::end(kReleases)[-1].newest == kOwn, "a changed format needs a row for the release that has it");

/// In every version, the first two words of a file are magic number and version.
constexpr std::size_t kHeaderBytes = 8;

bool kind_of(const std::string& name, Kind* kind) {
  FileKind file_kind{};
  FileNum number = kNoFile;
  if (name == kWorkloadFileName) return *kind = kWorkloads, true;
  if (!parse_file_name(name, &file_kind, &number)) return false;
  switch (file_kind) {
    case FileKind::kManifest:
      return *kind = kManifests, true;
    case FileKind::kLog:
      return *kind = kLogs, true;
    case FileKind::kData:
    case FileKind::kMetadata:
      return *kind = kTables, true;
    default:
      return false;
  }
}

Result<std::uint32_t> version_of(FileSystem& fs, const std::string& path) {
  TRY_ASSIGN(file, fs.open(path));
  char header[kHeaderBytes];
  TRY(file->read(0, sizeof(header), header));
  return load_fixed<std::uint32_t>(header + 4);
}

Status collect(FileSystem& fs, const std::string& dir, std::array<std::map<std::uint32_t, std::uint64_t>, kKinds>* found,
               Inspection* out) {
  TRY_ASSIGN(names, fs.list(dir));
  if (std::find(names.begin(), names.end(), kCurrentFileName) == names.end())
    return Status::not_found(dir + " has no CURRENT: it is an unfinished backup, or not a data directory");
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    Kind kind{};
    if (!kind_of(name, &kind)) continue;
    TRY_ASSIGN(size, fs.file_size(join_path(dir, name)));
    if (size < kHeaderBytes && kind == kLogs) continue;  // a segment whose creation was interrupted
    const auto version = version_of(fs, join_path(dir, name));
    if (!version.is_ok()) {
      (kind == kWorkloads ? out->warnings : out->errors).push_back(version.status().to_string());
      continue;
    }
    ++(*found)[kind][*version];
    if (*version > kOwn[kind]) {
      // A server that cannot read the workload file starts without the workload.
      (kind == kWorkloads ? out->warnings : out->errors)
          .push_back(join_path(dir, name) + ": " + kKindNames[kind] + " format " + std::to_string(*version) +
                     ", but this program opens formats up to " + std::to_string(kOwn[kind]));
    }
  }
  return Status::ok();
}

/// Returns the version of the program that wrote the current manifest; "" if the manifest does not name the version. Reads only
/// the snapshot at the beginning of the manifest.
std::string writer_of(FileSystem& fs, const std::string& dir) {
  const auto current = read_current(fs, dir);
  std::string writer;
  bool first = true;
  const auto on_record = [&](Bytes payload, std::uint64_t) -> Status {
    if (!std::exchange(first, false)) return Status::ok();
    TRY_ASSIGN(edit, VersionEdit::decode(payload));
    writer = edit.writer.value_or("");
    return Status::ok();
  };
  // Errors are ignored: inspect_verify reports damage, and collect() has reported a manifest of a newer version.
  if (current.is_ok()) (void)read_manifest(fs, dir, *current, on_record);
  return writer;
}

const Release* first_release(const std::array<std::map<std::uint32_t, std::uint64_t>, kKinds>& found) {
  for (const Release& release : kReleases) {
    bool opens = true;
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      opens &= kind == kWorkloads || found[kind].empty() || found[kind].rbegin()->first <= release.newest[kind];
    if (opens) return &release;
  }
  return nullptr;
}

}  // namespace

Inspection inspect_versions(FileSystem& fs, const std::string& dir) {
  Inspection out;
  std::array<std::map<std::uint32_t, std::uint64_t>, kKinds> found;
  if (const Status status = collect(fs, dir, &found, &out); !status.is_ok()) {
    out.error(status);
    return out;
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    JsonObject versions;
    for (const auto& [version, files] : found[kind]) {
      out.text +=
          std::string(kKindNames[kind]) + " format " + std::to_string(version) + ": " + std::to_string(files) + " files\n";
      versions.add(std::to_string(version), files);
    }
    out.json.add(kKindNames[kind], versions);
  }
  const std::string writer = writer_of(fs, dir);
  out.text +=
      writer.empty() ? "The manifest does not say which version wrote it.\n" : "Written by " + quote(writer, "\\x") + ".\n";
  out.json.add("written_by", writer);
  const Release* const release = first_release(found);
  out.text += release == nullptr ? "No released version opens all of these files.\n"
                                 : std::string("Opens with ") + release->name + " and later.\n";
  out.json.add("opens_with", release == nullptr ? "" : release->name);
  return out;
}

}  // namespace ebbtide
