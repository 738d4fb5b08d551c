#include "import/live_copy.h"

#include <engine/read_view.h>

#include <algorithm>
#include <array>
#include <string>

#include "import/key_walk.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kUnknown = 0;  // in place of the hash of a value that must be sent again

std::uint64_t hash_of(const RdbEntry& entry) {
  std::string bytes = entry.value;
  bytes.push_back(static_cast<char>(entry.type));
  bytes += std::to_string(entry.expiry_ms.value_or(0));
  return hash_key(bytes);
}

template <typename Seen>
auto find(const Seen& seen, std::uint64_t key) {
  const auto found = std::lower_bound(seen.begin(), seen.end(), std::pair(key, std::uint64_t{0}));
  return found != seen.end() && found->first == key ? found : seen.end();
}

}  // namespace

Result<CopyPass> LiveCopy::pass(TransferReport* report, const std::function<void(std::uint64_t keys)>& progress) {
  Importer importer(target_, *report, true);  // SCAN may return a key twice
  TRY(importer.begin());
  CopyPass result;
  Seen now;
  const auto visit = [&](DumpedKey&& key) -> Status {
    const std::uint64_t name = hash_key(key.entry.key), value = hash_of(key.entry);
    now.emplace_back(name, value);
    progress(now.size());
    const auto known = find(before_, name);
    if (known != before_.end() && known->second == value && value != kUnknown) return Status::ok();
    ++result.changed;
    return importer.add(std::move(key.entry), key.version);
  };
  TRY(walk_keys(source_, database_, visit));
  TRY(importer.drain());
  std::sort(now.begin(), now.end());
  now.erase(std::unique(now.begin(), now.end()), now.end());
  // If SCAN returned a key twice with different values, it is unknown which one was sent last: the next pass sends it again.
  for (std::size_t i = 1; i < now.size(); ++i) {
    if (now[i].first == now[i - 1].first) now[i - 1].second = now[i].second = kUnknown;
  }
  now.erase(std::unique(now.begin(), now.end()), now.end());
  result.keys = now.size();
  if (!first_) TRY(remove_gone(now, &result, report));
  before_ = std::move(now);
  first_ = false;
  return result;
}

/// Removes the target's keys that the pass before has seen in the source, and that are no longer there.
Status LiveCopy::remove_gone(const Seen& now, CopyPass* result, TransferReport* report) {
  std::vector<std::string> gone;
  TRY(walk_names(target_, database_, [&](const std::string& name) {
    const std::uint64_t hash = hash_key(name);
    if (find(before_, hash) != before_.end() && find(now, hash) == now.end()) gone.push_back(name);
    return Status::ok();
  }));
  Importer importer(target_, *report, true);
  for (const std::string& name : gone) {
    TRY_ASSIGN(exists, source_.require(std::array<Bytes, 2>{"EXISTS", name}));
    if (exists.integer != 0) continue;  // written again meanwhile
    ++result->removed;
    TRY(importer.remove(database_, name));
  }
  return importer.drain();
}

}  // namespace ebbtide
