// Reports the progress of a tool that reads a whole database, every two seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "io/interposed_fs.h"

namespace ebbtide {

/// A file system that counts the bytes read and written, and reports the counts. For one thread.
class InspectProgress final : public InterposedFileSystem {
 public:
  static constexpr std::uint64_t kEveryNs = 2'000'000'000;

  /// Calls `tell` every kEveryNs with a line without a newline, such as "1.25 GiB read, in 000123.data". The arguments must
  /// outlive this object.
  InspectProgress(FileSystem& base, const Clock& clock, std::function<void(const std::string&)> tell);

 private:
  Status around(const FileCall& call, const Run& run) override;

  const Clock& clock_;
  const std::function<void(const std::string&)> tell_;
  std::uint64_t last_told_ns_;
  std::uint64_t read_ = 0, written_ = 0;
};

}  // namespace ebbtide
