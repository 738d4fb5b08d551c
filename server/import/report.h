// The outcomes of an import or export: counts by database and type, and a line for each key that was not taken.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <engine/result.h>

namespace ebbtide {

/// Returns the bytes in double quotes; bytes other than printable ASCII as \xNN.
[[nodiscard]] std::string printable(Bytes bytes);
/// Returns a number with commas: "1,234,567".
[[nodiscard]] std::string with_commas(std::uint64_t number);

enum class Fate : std::uint8_t {
  kTaken,
  kExpired,      ///< the key had expired
  kUnsupported,  ///< the target does not have the key's type
  kRefused       ///< the target answered with an error
};

/// Counts the outcomes. Not thread-safe.
class TransferReport {
 public:
  /// Writes a line for each key that was not taken to `list`, unless it is null. text() shows only the first of these keys.
  explicit TransferReport(std::FILE* list = nullptr) : list_(list) {}

  void add(std::uint64_t database, const std::string& type, Fate fate) {
    ++counts_[{database, type}][static_cast<std::size_t>(fate)];
  }
  /// Adds a key that was not taken.
  void add_lost(std::uint64_t database, const std::string& type, Fate fate, Bytes key, const std::string& why);
  /// Adds a key that the target has, and that an interrupted import may have sent. The key is counted as taken, and its name is
  /// written to `list`.
  void add_in_doubt(std::uint64_t database, const std::string& type, Bytes key);
  /// Adds commands that have run, but whose replies were lost in an interruption.
  void add_unseen(std::uint64_t commands) { unseen_ += commands; }
  /// Adds something that is not a key, such as a function library.
  void add_other(const std::string& what, const std::string& why);

  [[nodiscard]] std::uint64_t total(Fate fate) const;
  [[nodiscard]] std::uint64_t keys() const;
  [[nodiscard]] bool lost_any() const { return lost_ != 0; }
  /// Returns false if lines could not be written to the list.
  [[nodiscard]] bool list_is_whole() const { return list_ == nullptr || (std::fflush(list_) == 0 && std::ferror(list_) == 0); }
  /// Returns a table of the counts, and lines for the first keys that were not taken. `taken`: the heading of the column of taken
  /// keys, such as "imported".
  [[nodiscard]] std::string text(const char* taken) const;

  /// Returns the whole report as lines of text. Requires that no added text contains a line feed.
  [[nodiscard]] std::string save() const;
  /// Restores a report from the result of save(). kCorruption: a line cannot be parsed.
  Status restore(const std::string& saved);
  /// Flushes `list`, and returns the bytes written to it; 0 without a list.
  [[nodiscard]] Result<std::uint64_t> list_bytes() const;

 private:
  static constexpr std::uint64_t kShown = 20;
  void add_line(const std::string& line);

  std::FILE* const list_;
  std::map<std::pair<std::uint64_t, std::string>, std::array<std::uint64_t, 4>> counts_;
  std::uint64_t lost_ = 0, in_doubt_ = 0, unseen_ = 0;
  std::string lines_;
};

/// Shows progress on standard error: on a terminal in one line, renewed each second; otherwise a line every ten seconds.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Shows the progress, unless it was shown a moment ago. `share`: how much is done, from 0 to 1; 0 or less if unknown.
  void show(const std::string& doing, std::uint64_t keys, double share);
  /// On a terminal, ends the line.
  void end();

 private:
  const bool terminal_;
  const std::uint64_t begun_ns_;
  std::uint64_t shown_ns_;
  bool open_ = false;
};

}  // namespace ebbtide
