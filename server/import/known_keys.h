// The keys and values that the target of a copy is known to have: as hashes, 16 bytes a key.
//
// A pass reads and notes all keys of the source. It sends those that are not among the known keys, or have another value there.
// The noted keys of a pass are the known keys of the next. If the notes are also written to a file, an interrupted pass can be
// repeated: each note is in the file before its key is sent. The repeated pass knows the values of the keys that the target has
// acknowledged. The target may also have the keys of later notes, so the values of these keys are unknown.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>

namespace ebbtide {

/// The known keys, and the notes of the current pass: the keys that the source has. Not thread-safe.
class KnownKeys {
 public:
  /// Hashes of a key's name and value.
  struct Hashes {
    std::uint64_t name = 0, value = 0;
  };
  static constexpr std::uint64_t kUnknown = 0;  ///< value hash of a key whose value is unknown

  /// Begins without known keys. Keeps the notes in memory, and, if `path` is not empty, also in a new file.
  static Result<KnownKeys> create(const std::string& path);
  /// Continues with the notes in a file from byte `from` on. Values from byte `to` on are unknown. kCorruption: the file is
  /// shorter.
  static Result<KnownKeys> resume(const std::string& path, std::uint64_t from, std::uint64_t to);

  /// Returns true if the target is known to have this key with this value.
  [[nodiscard]] bool has(const Hashes& key) const;
  /// Adds keys of the source to the notes. Call it before the keys are sent. kIoError: the file cannot be written.
  Status note(std::span<const Hashes> keys);
  /// Sorts the notes, for is_gone(). Call it when the pass has noted all keys of the source.
  void end_notes();
  /// Returns true if this key was known and is not noted: the source does not have it any more. Requires end_notes().
  [[nodiscard]] bool is_gone(std::uint64_t name) const;
  /// Returns true if is_gone() is true for any key. Requires end_notes().
  [[nodiscard]] bool any_gone() const;
  /// Ends a pass: the noted keys become the known ones. Returns their number.
  std::uint64_t next_pass();

  /// The range of bytes in the file with all known and noted keys.
  [[nodiscard]] std::uint64_t from() const { return from_; }
  [[nodiscard]] std::uint64_t to() const { return to_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t from_ = 0, pass_begin_ = 0, to_ = 0;  // offsets in the file
  std::vector<Hashes> known_, noted_;                 // known_ is sorted, and has each name once
};

}  // namespace ebbtide
