#include "dispatch/expiry_reports.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

constexpr std::uint64_t kSliceNanos = 5'000'000;  // short, since this thread also accepts connections

}  // namespace

bool ExpiryReports::report_some() {
  const Slice slice([this, end = env_.mono_nanos() + kSliceNanos] { return env_.mono_nanos() >= end; });
  std::set<std::pair<DatabaseId, std::string>> hashes;  // hashes with an expired field: each gets one event per slice
  while (outbox_.send(slice) && !slice.over()) {
    const auto key = env_.observers->expiries.take_first_due(env_.now());
    if (!key) return false;
    if (const auto hash = ExpiryWatch::hash_of_field(key->key); hash && !hashes.emplace(key->database, *hash).second) continue;
    env_.observers->expired(key->database, key->key, nullptr, &outbox_);
  }
  return true;
}

void ExpirySweep::run() {
  std::optional<Millis> until = sweep_.until;
  for (DatabaseId database = 0; database < databases_ && until; ++database) {
    std::vector<ExpiringKey> keys;
    const auto reached = db_.expiring_keys(database, sweep_.after, *until, ExpiryWatch::kMaxKeys, &keys);
    until = reached.is_ok() ? std::optional(*reached) : std::nullopt;
    watch_.found(database, keys);
  }
  watch_.end_sweep(until);
}

}  // namespace ebbtide
