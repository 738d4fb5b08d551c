#include "io/trace_fs.h"

#include <utility>

namespace ebbtide {

std::vector<std::string> TraceFileSystem::lines() const {
  MutexLock lock(mutex_);
  return lines_;
}

std::string TraceFileSystem::take() {
  std::vector<std::string> lines;
  {
    MutexLock lock(mutex_);
    lines = std::exchange(lines_, {});
  }
  std::string text;
  for (const std::string& line : lines) text.append(line).push_back('\n');
  return text;
}

Status TraceFileSystem::around(const FileCall& call, const Run& run) {
  const Status status = run(call.length);
  if ((options_.ops & ops_of(call.op)) == 0) return status;
  std::string line = std::string(file_op_name(call.op)) + " " + call.path;
  if (!call.to.empty()) line += " -> " + call.to;
  if (call.op == FileOp::kTruncate || (options_.lengths && call.length != 0 && call.op != FileOp::kWrite)) {
    line += " at " + std::to_string(call.offset);
  }
  if (options_.lengths && call.length != 0) line += " " + std::to_string(call.length);
  if (!status.is_ok()) line += std::string(" = ") + code_name(status.code());
  MutexLock lock(mutex_);
  lines_.push_back(std::move(line));
  return status;
}

}  // namespace ebbtide
