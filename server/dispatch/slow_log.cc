#include "dispatch/slow_log.h"

#include <algorithm>

namespace ebbtide {

void SlowLog::configure(std::uint64_t micros, std::uint64_t entries, bool arguments) {
  // A threshold whose nanoseconds would overflow becomes the largest one.
  threshold_nanos_.store(micros > kMaxMicros ? ~std::uint64_t{0} : micros * 1000, std::memory_order_relaxed);
  switches_.set(Switches::kEveryTime, micros < 1000);
  std::lock_guard lock(mutex_);
  max_entries_ = entries;
  while (entries_.size() > max_entries_) entries_.pop_back();
  if (arguments_.exchange(arguments, std::memory_order_relaxed) && !arguments) entries_.clear();
}

std::vector<std::string> SlowLog::shorten(const Args& args, std::size_t secret) {
  std::vector<std::string> out;
  const std::size_t shown = std::min(args.size(), kMaxArguments);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i + 1 == shown && shown < args.size()) {
      out.push_back("... (" + std::to_string(args.size() - shown + 1) + " more arguments)");
    } else if (i >= secret) {
      out.emplace_back("(redacted)");
    } else if (args[i].size() > kMaxArgumentBytes) {
      out.push_back(std::string(args[i].substr(0, kMaxArgumentBytes)) + "... (" +
                    std::to_string(args[i].size() - kMaxArgumentBytes) + " more bytes)");
    } else {
      out.emplace_back(args[i]);
    }
  }
  return out;
}

void SlowLog::add(Entry entry) {
  std::lock_guard lock(mutex_);
  if (entry.has_arguments && !keeps_arguments()) return;
  entry.id = next_id_++;
  entries_.push_front(std::move(entry));
  while (entries_.size() > max_entries_) entries_.pop_back();
}

std::vector<SlowLog::Entry> SlowLog::latest(std::size_t count) const {
  std::lock_guard lock(mutex_);
  const auto n = static_cast<std::ptrdiff_t>(std::min(count, entries_.size()));
  return {entries_.begin(), entries_.begin() + n};
}

std::size_t SlowLog::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void SlowLog::reset() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace ebbtide
