#include "io/fault_fs.h"

#include <cerrno>

#include <algorithm>

#include "base/invariant.h"
#include "io/errno_status.h"

namespace ebbtide {

void FaultFileSystem::inject(FileFault fault) {
  ASSERT(fault.nth > 0 && fault.code != Code::kOk);
  MutexLock lock(mutex_);
  faults_.push_back(std::move(fault));
}

void FaultFileSystem::clear_faults() {
  MutexLock lock(mutex_);
  faults_.clear();
}

void FaultFileSystem::before_nth(std::uint64_t nth, FileOps ops, std::function<void()> hook) {
  ASSERT(nth > 0);
  MutexLock lock(mutex_);
  hooks_.push_back({.left = nth, .ops = ops, .hook = std::move(hook)});
}

void FaultFileSystem::clear_hooks() {
  MutexLock lock(mutex_);
  hooks_.clear();
}

std::uint64_t FaultFileSystem::operations(FileOps ops) const {
  MutexLock lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& [op, count] : counts_) total += (ops & ops_of(op)) != 0 ? count : 0;
  return total;
}

std::uint64_t FaultFileSystem::failures() const {
  MutexLock lock(mutex_);
  return failures_;
}

Status FaultFileSystem::around(const FileCall& call, const Run& run) {
  for (const auto& hook : count(call)) hook();  // the mutex is not held, since a hook may call this file system
  const Strike struck = strike(call);
  if (!struck.fails) {
    bool lost = false;
    if (call.op == FileOp::kSync) {
      MutexLock lock(mutex_);
      lost = lost_.contains(call.handle);
    }
    return lost ? Status::ok() : run(call.length);
  }
  if (struck.effect == FileFault::Effect::kHalf && call.op == FileOp::kWrite) (void)run(call.length / 2);
  if (struck.effect == FileFault::Effect::kFull) (void)run(call.length);
  const std::string what = std::string(file_op_name(call.op)) + " " + call.path + ": injected fault";
  return struck.code == Code::kIoError ? errno_status(what, "", EIO) : Status(struck.code, what);
}

/// Counts the call, and returns the hooks that are due before it.
std::vector<std::function<void()>> FaultFileSystem::count(const FileCall& call) {
  MutexLock lock(mutex_);
  ++counts_[call.op];
  std::vector<std::function<void()>> due;
  for (Hook& hook : hooks_) {
    if ((hook.ops & ops_of(call.op)) != 0 && --hook.left == 0) due.push_back(std::move(hook.hook));
  }
  std::erase_if(hooks_, [](const Hook& hook) { return hook.left == 0; });
  return due;
}

FaultFileSystem::Strike FaultFileSystem::strike(const FileCall& call) {
  MutexLock lock(mutex_);
  Strike struck;
  for (FileFault& fault : faults_) {
    const bool path_matches =
        call.path.find(fault.path_has) != std::string::npos || call.to.find(fault.path_has) != std::string::npos;
    if ((fault.ops & ops_of(call.op)) == 0 || !path_matches) continue;
    if (fault.nth > 0 && --fault.nth > 0) continue;
    // The fault is due. `nth` stays 0, so that a sticky fault applies again.
    if (!struck.fails) struck = {.fails = true, .effect = fault.effect, .code = fault.code};
  }
  std::erase_if(faults_, [](const FileFault& fault) { return fault.nth == 0 && !fault.sticky; });
  if (struck.fails) ++failures_;
  if (struck.fails && call.op == FileOp::kSync && call.handle != 0) lost_.insert(call.handle);
  return struck;
}

}  // namespace ebbtide
