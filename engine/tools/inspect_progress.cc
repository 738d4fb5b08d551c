#include "tools/inspect_progress.h"

#include <cstdio>

namespace ebbtide {
namespace {

std::string gibibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / static_cast<double>(std::uint64_t{1} << 30));
  return text;
}

}  // namespace

InspectProgress::InspectProgress(FileSystem& base, const Clock& clock, std::function<void(const std::string&)> tell)
    : InterposedFileSystem(base), clock_(clock), tell_(std::move(tell)), last_told_ns_(clock.mono_ns()) {}

Status InspectProgress::around(const FileCall& call, const Run& run) {
  const Status status = run(call.length);
  if (call.op == FileOp::kRead) read_ += call.length;
  if (call.op == FileOp::kWrite) written_ += call.length;
  const std::uint64_t now = clock_.mono_ns();
  if (now - last_told_ns_ < kEveryNs) return status;
  last_told_ns_ = now;
  std::string line = gibibytes(read_) + " read";
  if (written_ != 0) line += ", " + gibibytes(written_) + " written";
  tell_(line + ", in " + call.path.substr(call.path.rfind('/') + 1));
  return status;
}

}  // namespace ebbtide
