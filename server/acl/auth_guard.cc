#include "acl/auth_guard.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

constexpr std::size_t kShownUserBytes = 64;

std::string shown_user(Bytes user) {
  return user.size() <= kShownUserBytes ? std::string(user) : std::string(user.substr(0, kShownUserBytes)) + "...";
}

}  // namespace

void AuthGuard::forget(std::int64_t now_ms) {
  const auto old = [&](const Network& network) { return now_ms - network.last_ms >= kForgetMs; };
  while (!in_order_.empty() && (in_order_.size() > kNetworks || old(in_order_.front()))) {
    by_name_.erase(in_order_.front().name);
    in_order_.pop_front();
  }
}

std::uint32_t AuthGuard::delay_ms(Bytes network, std::int64_t now_ms) {
  std::lock_guard lock(mutex_);
  if (in_order_.empty()) return 0;
  forget(now_ms);
  const auto found = by_name_.find(std::string(network));
  if (found == by_name_.end() || found->second->failures < kFreeFailures) return 0;
  const std::uint32_t doublings = std::min(found->second->failures - kFreeFailures, 16u);
  return std::min(kFirstDelayMs << doublings, kMaxDelayMs);
}

bool AuthGuard::line_allowed(std::int64_t now_ms) {
  if (const std::int64_t second = now_ms / 1'000; second != second_) {
    second_ = second;
    lines_ = 0;
  }
  return lines_++ < kLinesASecond;
}

std::optional<std::string> AuthGuard::failed(Bytes network, Bytes address, Bytes user, std::int64_t now_ms) {
  std::lock_guard lock(mutex_);
  forget(now_ms);
  auto [found, added] = by_name_.try_emplace(std::string(network));
  if (added) {
    found->second = in_order_.emplace(in_order_.end());
    found->second->name = network;
  } else {
    in_order_.splice(in_order_.end(), in_order_, found->second);
  }
  Network& from = *found->second;
  ++from.failures;
  from.last_ms = now_ms;
  std::string line = "authentication failed: user '" + shown_user(user) + "' from " + std::string(address);
  const bool due = !from.logged_ms || now_ms - *from.logged_ms >= kLogMs;
  if (due && line_allowed(now_ms)) {
    from.logged_ms = now_ms;
    if (from.unlogged != 0)
      line += " (" + std::to_string(std::exchange(from.unlogged, 0)) +
              " more failures from this network since the last log line about it)";
  } else {
    ++from.unlogged;
    line.clear();
  }
  forget(now_ms);
  return line.empty() ? std::nullopt : std::optional(std::move(line));
}

std::size_t AuthGuard::networks() const {
  std::lock_guard lock(mutex_);
  return in_order_.size();
}

}  // namespace ebbtide
