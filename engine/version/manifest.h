// MANIFEST-NNNNNN: a log of records, each an encoded VersionEdit, the first a snapshot of the whole state; and CURRENT, which
// names it. engine/docs/formats.md has the grammar.
//
// A record counts once it is synced. After that sync a *seal* is appended: a few bytes that say "all before me was durable". They
// need no sync of their own, and they are what tells damage from a crash. Bytes that are no record, and no seal after them, are
// what a crash left of a write that nobody was told of: they are ignored. The same bytes with a seal anywhere after them were
// durable once, so the disk has lost them: kCorruption. Without seals a flipped bit in the last record would silently take the
// tree one edit back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file_system.h"

namespace ebbtide {

inline constexpr std::uint32_t kManifestMagic = 0x464d4245;  // "EBMF"
inline constexpr std::uint32_t kManifestVersion = 1;

/// Not thread-safe.
class ManifestWriter {
 public:
  /// Creates manifest `file` with `snapshot` as its first record; all of it, seal included, is synced, the directory too. On
  /// failure no file is left, if that works; nothing names it.
  static Result<std::unique_ptr<ManifestWriter>> create(FileSystem& fs, const std::string& dir, FileNum file, Bytes snapshot);
  ~ManifestWriter();

  /// Appends a record and syncs. After an error the file is lost: never call it again.
  Status append(Bytes payload);
  /// Appends the seal of what append() has synced. After an error the record stands, but the file takes no more.
  Status seal();
  [[nodiscard]] FileNum file() const { return file_; }
  [[nodiscard]] std::uint64_t size() const;

 private:
  ManifestWriter(std::unique_ptr<WritableFile> out, FileNum file);
  Status begin(Bytes snapshot);
  std::unique_ptr<WritableFile> out_;
  const FileNum file_;
};

/// How a manifest ended.
struct ManifestEnd {
  std::uint64_t bytes = 0;        ///< of the file
  std::uint64_t valid_bytes = 0;  ///< up to here it is whole
  std::uint64_t records = 0;
  std::string torn;  ///< what a crash left behind them, "" if nothing
};

/// Calls `on_record` with each whole record in order, the snapshot first; payloads point into memory that lasts for the call. A
/// Status of `on_record` ends the walk and is returned, naming file and offset. kCorruption: damage, named. kUnsupported: a newer
/// format.
Result<ManifestEnd> read_manifest(FileSystem& fs, const std::string& dir, FileNum file,
                                  const std::function<Status(Bytes payload, std::uint64_t offset)>& on_record);

/// The manifest that CURRENT names. kNotFound: there is no CURRENT. kCorruption: it is not one line of name and checksum.
Result<FileNum> read_current(FileSystem& fs, const std::string& dir);
/// Names `file` in CURRENT, atomically and durably. After an error either name may be there.
Status write_current(FileSystem& fs, const std::string& dir, FileNum file);

}  // namespace ebbtide
