// Which keys the target of a copy is known to have, and with which values: hashes, 16 bytes a key.
//
// A pass compares the source with what is known, and notes all keys of the source; these are what the next pass knows. With a file, that
// outlives an interruption. The file has the notes in their order, each written before its key is sent. So after an interruption, notes
// whose replies have come say what the target has, and later ones which keys it may have, with an unknown value. Both together are what
// the interrupted pass knows when it begins again.
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

/// Not thread-safe.
class KnownKeys {
 public:
  /// Of a key.
  struct Hashes {
    std::uint64_t name = 0, value = 0;
  };
  static constexpr std::uint64_t kUnknown = 0;  ///< in place of the hash of a value

  /// Keeps the keys in memory only, or in a new file at `path` if that is not empty.
  static Result<KnownKeys> create(const std::string& path);
  /// Continues with what a file has from byte `from` on; from byte `to` on, values are unknown. kCorruption: the file is shorter.
  static Result<KnownKeys> resume(const std::string& path, std::uint64_t from, std::uint64_t to);

  /// Returns true if the target is known to have this value.
  [[nodiscard]] bool has(const Hashes& key) const;
  /// Notes keys of the source. Call it before they are sent. kIoError: the file cannot be written.
  Status note(std::span<const Hashes> keys);
  /// Ends the notes of a pass.
  void end_notes();
  /// Returns true if the target was known to have a key that was not noted. Requires end_notes().
  [[nodiscard]] bool is_gone(std::uint64_t name) const;
  /// Returns true if is_gone() is true of a key. Requires end_notes().
  [[nodiscard]] bool any_gone() const;
  /// Ends a pass: what was noted is what is known. Returns the number of keys.
  std::uint64_t next_pass();

  /// The bytes of the file with what is known and noted.
  [[nodiscard]] std::uint64_t from() const { return from_; }
  [[nodiscard]] std::uint64_t to() const { return to_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t from_ = 0, pass_begin_ = 0, to_ = 0;  // in the file
  std::vector<Hashes> known_, noted_;                 // `known_` is in order, and has each name once
};

}  // namespace ebbtide
