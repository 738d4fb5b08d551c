#include "dispatch/slow_log.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "resp/disposal.h"

namespace ebbtide {
namespace {

std::size_t memory_of(const std::string& text) {
  static const std::size_t inside = std::string().capacity();
  return text.capacity() > inside ? text.capacity() + 1 : 0;
}

std::size_t memory_of(const SlowLog::Entry& entry) {
  std::size_t bytes = sizeof(entry) + memory_of(entry.address) + memory_of(entry.name);
  bytes += entry.arguments.capacity() * sizeof(std::string);
  for (const std::string& argument : entry.arguments) bytes += memory_of(argument);
  return bytes;
}

}  // namespace

void SlowLog::set_budget(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  most_bytes_ = bytes / kBudgetPart;
  keep_limits();
}

void SlowLog::drop_oldest() {
  bytes_ -= memory_of(entries_.back());
  entries_.pop_back();
}

void SlowLog::keep_limits() {
  while (!entries_.empty() && (entries_.size() > max_entries_ || bytes_ > most_bytes_)) drop_oldest();
  memory.follow(bytes_);
}

void SlowLog::configure(std::uint64_t micros, std::uint64_t entries, bool arguments) {
  // A threshold that would overflow in nanoseconds becomes the largest one.
  threshold_nanos_.store(micros > kMaxMicros ? ~std::uint64_t{0} : micros * 1000, std::memory_order_relaxed);
  switches_.set(Switches::kEveryTime, micros < 1000);
  std::lock_guard lock(mutex_);
  max_entries_ = entries;
  if (arguments_.exchange(arguments, std::memory_order_relaxed) && !arguments) {
    entries_.clear();
    bytes_ = 0;
  }
  keep_limits();
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
  bytes_ += memory_of(entry);
  entries_.push_front(std::move(entry));
  keep_limits();
}

// Copies a limited number of entries per lock, since event loops that add entries wait for it.
std::vector<SlowLog::Entry> SlowLog::latest(std::size_t count) const {
  constexpr std::size_t kAtOnce = 1024;
  std::vector<Entry> out;
  while (out.size() < count) {
    std::lock_guard lock(mutex_);
    if (entries_.empty()) break;
    // Ids have no gaps, so the id of the last copied entry gives the index of the next one.
    const std::uint64_t first = out.empty() ? 0 : entries_.front().id - out.back().id + 1;
    if (first >= entries_.size()) break;
    const std::uint64_t end = std::min<std::uint64_t>(entries_.size(), first + std::min(kAtOnce, count - out.size()));
    out.insert(out.end(), entries_.begin() + static_cast<std::ptrdiff_t>(first),
               entries_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return out;
}

std::size_t SlowLog::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t SlowLog::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void SlowLog::reset() {
  auto removed = std::make_shared<std::deque<Entry>>();
  {
    std::lock_guard lock(mutex_);
    removed->swap(entries_);
    bytes_ = 0;
    memory.follow(bytes_);
  }
  const bool is_long = removed->size() > kDisposedPieces;
  let_go(std::move(removed), is_long);
}

}  // namespace ebbtide
