// The manifest: MANIFEST-NNNNNN is a log of records, each an encoded VersionEdit; the first record is a snapshot of the whole
// state. CURRENT has the name of the valid manifest. engine/docs/formats.md has the grammar.
//
// A record is valid once it is synced. After that sync a *seal* is appended: a few bytes. They state that everything before them
// was durable. Seals need no sync of their own; they distinguish damage from a crash. If bytes do not form a record and no seal
// follows, the bytes belong to an interrupted write that was never acknowledged, and are ignored. If a seal follows anywhere, the
// bytes were durable, so the disk has lost data: kCorruption. Without seals a flipped bit in the last record would silently undo
// an edit.
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
  /// Creates manifest `file` with `snapshot` as its first record, and syncs the file, including the seal, and the directory.
  /// After an error the file is removed if possible; CURRENT does not name it.
  static Result<std::unique_ptr<ManifestWriter>> create(FileSystem& fs, const std::string& dir, FileNum file, Bytes snapshot);
  ~ManifestWriter();

  /// Appends a record and syncs. After an error the file is unusable: do not call append() again.
  Status append(Bytes payload);
  /// Appends a seal, which states that all bytes before it are durable. Call it after each append(). After an error the appended
  /// record is valid, but append() must not be called again.
  Status seal();
  [[nodiscard]] FileNum file() const { return file_; }
  [[nodiscard]] std::uint64_t size() const;

 private:
  ManifestWriter(std::unique_ptr<WritableFile> out, FileNum file);
  Status begin(Bytes snapshot);
  std::unique_ptr<WritableFile> out_;
  const FileNum file_;
};

/// The end of a manifest, as a reader found it.
struct ManifestEnd {
  std::uint64_t bytes = 0;        ///< size of the file
  std::uint64_t valid_bytes = 0;  ///< length of the valid part
  std::uint64_t records = 0;
  std::string torn;  ///< message about an interrupted write after the valid bytes; "" if there is none
};

/// Calls `on_record` with each whole record in order, the snapshot first. The payload is valid during the call. An error of
/// `on_record` ends the reading and is returned with file and offset. Returns kCorruption, with file and offset, if the manifest
/// is damaged; kUnsupported if its format is newer.
Result<ManifestEnd> read_manifest(FileSystem& fs, const std::string& dir, FileNum file,
                                  const std::function<Status(Bytes payload, std::uint64_t offset)>& on_record,
                                  const OpenOptions& options = {});

/// Returns the manifest that CURRENT names. Returns kNotFound if there is no CURRENT; kCorruption if CURRENT is not one line of
/// name and checksum.
Result<FileNum> read_current(FileSystem& fs, const std::string& dir);
/// Writes the name of `file` to CURRENT, atomically and durably. After an error CURRENT may have the old or the new name.
Status write_current(FileSystem& fs, const std::string& dir, FileNum file);

}  // namespace ebbtide
