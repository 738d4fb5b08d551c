#include "import/live_copy.h"

#include <engine/read_view.h>

#include <array>
#include <string>
#include <utility>

#include "import/import_state.h"

namespace ebbtide {
namespace {

// At most this many keys are noted at once, by one write to the file of known keys.
constexpr std::size_t kNotedKeys = 128, kNotedBytes = std::size_t{1} << 20;

std::uint64_t hash_of_name(std::uint64_t database, const std::string& key) {
  return hash_key(std::to_string(database) + " " + key);
}

KnownKeys::Hashes hashes_of(const RdbEntry& entry) {
  std::string bytes = entry.value;
  bytes.push_back(static_cast<char>(entry.type));
  bytes += std::to_string(entry.expiry_ms.value_or(0));
  return {.name = hash_of_name(entry.database, entry.key), .value = hash_key(bytes)};
}

}  // namespace

Result<CopyPass> LiveCopy::pass(const std::set<std::uint64_t>& databases, TransferReport* report, std::uint64_t removed,
                                const std::function<void(std::uint64_t keys)>& progress, const Record& record) {
  Importer importer(target_, *report, true);  // replaces existing keys: SCAN may return a key twice
  TRY(importer.begin());
  CopyPass result{.removed = removed};
  std::uint64_t keys = 0;
  for (const std::uint64_t database : databases) {
    TRY(copy(
        database, &importer, [&] { progress(++keys); }, [&] { return record(removed); }));
  }
  TRY(importer.drain());
  known_.end_notes();
  for (const std::uint64_t database : databases) {
    TRY_ASSIGN(gone, gone_from(database));
    if (gone.empty()) continue;
    result.removed += gone.size();
    TRY(record(result.removed));  // recorded before the removal: the target does not say later how many of the keys it had
    for (const std::string& name : gone) TRY(importer.remove(database, name));
    TRY(importer.drain());
  }
  result.changed = report->keys();
  result.keys = known_.next_pass();
  return result;
}

/// Copies one database.
Status LiveCopy::copy(std::uint64_t database, Importer* importer, const std::function<void()>& progress,
                      const std::function<Status()>& record) {
  std::vector<DumpedKey> waiting;
  std::size_t bytes = 0;
  const auto visit = [&](DumpedKey&& key) -> Status {
    progress();
    bytes += key.entry.value.size();
    waiting.push_back(std::move(key));
    if (waiting.size() < kNotedKeys && bytes < kNotedBytes) return Status::ok();
    bytes = 0;
    TRY(send(&waiting, importer));
    if (unrecorded_keys_ + kNotedKeys <= ImportState::kMostEntries && unrecorded_bytes_ < ImportState::kMostBytes)
      return Status::ok();
    unrecorded_keys_ = unrecorded_bytes_ = 0;
    TRY(importer->drain());
    return record();
  };
  TRY(walk_keys(source_, database, visit));
  return send(&waiting, importer);
}

/// Notes keys, and sends those that the target is not known to have.
Status LiveCopy::send(std::vector<DumpedKey>* keys, Importer* importer) {
  std::vector<KnownKeys::Hashes> hashes;
  for (const DumpedKey& key : *keys) hashes.push_back(hashes_of(key.entry));
  TRY(known_.note(hashes));
  unrecorded_keys_ += keys->size();
  for (std::size_t i = 0; i < keys->size(); ++i) {
    if (known_.has(hashes[i])) continue;
    DumpedKey& key = (*keys)[i];
    unrecorded_bytes_ += key.entry.value.size();
    TRY(importer->add(std::move(key.entry), key.version));
  }
  keys->clear();
  return Status::ok();
}

/// Returns the keys that the target was known to have and that the source does not have any more.
Result<std::vector<std::string>> LiveCopy::gone_from(std::uint64_t database) {
  std::vector<std::string> gone;
  if (!known_.any_gone()) return gone;
  TRY(walk_names(target_, database, [&](const std::string& name) {
    if (known_.is_gone(hash_of_name(database, name))) gone.push_back(name);
    return Status::ok();
  }));
  const std::string number = std::to_string(database);
  TRY(source_.require(std::array<Bytes, 2>{"SELECT", number}).status());
  std::size_t kept = 0;
  for (std::string& name : gone) {
    TRY_ASSIGN(exists, source_.require(std::array<Bytes, 2>{"EXISTS", name}));
    if (exists.integer == 0) std::swap(gone[kept++], name);  // otherwise the source has the key again
  }
  gone.resize(kept);
  return gone;
}

}  // namespace ebbtide
