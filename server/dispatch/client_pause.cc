#include "dispatch/client_pause.h"

#include <algorithm>

namespace ebbtide {
namespace {

/// A paused command checks the pause at least this often, since CLIENT UNPAUSE may have ended the pause.
constexpr std::uint64_t kLongestWaitMs = 20;

}  // namespace

void ClientPause::begin(std::uint64_t until_ms, bool all) {
  std::lock_guard lock(mutex_);
  until_ms_ = std::max(until_ms_, until_ms);
  all_ = all_ || all;
  switches_.set(Switches::kPause, true);
}

void ClientPause::end() {
  std::lock_guard lock(mutex_);
  until_ms_ = 0;
  all_ = false;
  switches_.set(Switches::kPause, false);
}

std::uint32_t ClientPause::wait_ms(std::uint64_t now_ms, bool writes) {
  std::lock_guard lock(mutex_);
  if (now_ms >= until_ms_) {
    until_ms_ = 0;
    all_ = false;
    switches_.set(Switches::kPause, false);
    return 0;
  }
  if (!writes && !all_) return 0;
  return static_cast<std::uint32_t>(std::min(until_ms_ - now_ms, kLongestWaitMs));
}

}  // namespace ebbtide
