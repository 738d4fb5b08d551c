#include "index/index_builder.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>

#include "index/record_values.h"

namespace ebbtide {
namespace {

/// A step takes about half a millisecond, during which no write runs.
constexpr std::uint64_t kStepRecords = 256, kStepVersions = 4096;
/// The pauses between two steps, during which writes run, and after an error such as a full disk.
constexpr std::uint32_t kPauseMs = 1, kErrorPauseMs = 1000;
/// How many of the walk's next pages are read at once.
constexpr std::uint32_t kPagesAtOnce = 16;

/// The position of a build, and the entry of the index tree that stores it.
struct Position {
  std::string record;  ///< key of the step's last record; "": no position
  IndexEntry entry;
};

void set_position(const std::string& key, Millis expiry, DeleteKey stamp, Position* position) {
  auto entry_key = build_position_key(key);
  *position = {};
  if (entry_key) *position = {key, {.key = std::move(*entry_key), .expiry = expiry, .stamp = stamp}};
}

/// Adds the entries of the next records to the batch. Sets `definition->building_from` to the key at which the next step
/// continues; nullopt: the build has read all records. Leaves `position` unchanged if no record was read.
Status add_entries(Db& db, const ReadView& view, IndexDefinition* definition, WriteBatch* batch, Position* position) {
  const std::string from = *std::exchange(definition->building_from, std::nullopt);
  if (!view.has_tree()) return Status::ok();
  IteratorOptions options;
  options.bounds = definition->records();
  options.resident = true;
  options.max_steps = kStepVersions;
  options.pages_at_once = kPagesAtOnce;
  const auto walk = db.iterate(view, options);
  std::uint64_t records = 0;
  const DatabaseId tree = definition->tree(view.database());
  for (walk->seek(std::max(from, options.bounds.start)); walk->valid(); walk->next()) {
    if (++records > kStepRecords) break;
    const std::string key(walk->key());
    IndexedRecord record(view, nullptr, key);
    TRY(record.find());
    TRY_ASSIGN(entry, entry_of_record(*definition, record));
    if (entry.skipped) ++definition->skipped[static_cast<std::size_t>(*entry.skipped)];
    change_index_entry(batch, tree, std::nullopt, entry.entry, true);
    set_position(key, walk->expiry(), walk->stamp(), position);
  }
  TRY(walk->status());
  if (walk->paused()) {
    definition->building_from = walk->resume_key();
  } else if (walk->valid()) {
    definition->building_from = walk->key();
  }
  return Status::ok();
}

}  // namespace

Status build_step(Db& db, IndexCatalog& catalog, DatabaseId database, const std::string& name, MissSet* misses,
                  std::uint32_t* wait_ms) {
  const auto indexes = catalog.of(database);
  const auto at = indexes->find(name);
  if (at == indexes->end() || !at->second.building_from) return Status::ok();
  IndexDefinition definition = at->second;
  const PassGuard guard(db);
  const ReadView view = db.view(database, db.now(), ReadMode::kResident, misses);
  WriteBatch batch;
  batch.end_command();
  Position position{.record = definition.position, .entry = {}};
  TRY(add_entries(db, view, &definition, &batch, &position));
  if (!definition.building_from) position = {};
  if (position.record != definition.position) {
    const DatabaseId tree = definition.tree(database);
    if (!definition.position.empty()) batch.del(tree, build_position_key(definition.position).value_or(""));
    if (!position.record.empty()) change_index_entry(&batch, tree, std::nullopt, position.entry, true);
    definition.position = std::move(position.record);
  }
  put_definition(&batch, database, definition);
  TRY(db.try_commit(batch, false, wait_ms));
  catalog.set(database, std::move(definition));
  return Status::ok();
}

std::optional<IndexName> unfinished_index(const IndexCatalog& catalog, DatabaseId databases, const IndexName& last,
                                          const std::set<IndexName>& without) {
  std::optional<IndexName> first;
  for (DatabaseId database = 0; catalog.any() && database < databases; ++database) {
    for (const auto& [name, definition] : *catalog.of(database)) {
      IndexName index{database, name};
      if (!definition.building_from || without.contains(index)) continue;
      if (index > last) return index;
      if (!first) first = std::move(index);
    }
  }
  return first;
}

IndexBuilder::IndexBuilder(Env env) : env_(std::move(env)), thread_([this] { run(); }) {}

IndexBuilder::~IndexBuilder() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IndexBuilder::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

bool IndexBuilder::pause(std::uint32_t ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stop_; });
  return !stop_;
}

void IndexBuilder::run() {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      woken_ = false;
    }
    if (const auto wait_ms = step()) {
      if (!pause(*wait_ms)) return;
      continue;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || woken_; });
    if (stop_) return;
  }
}

std::optional<std::uint32_t> IndexBuilder::step() {
  if (env_.catalog->is_damaged()) {
    Status repaired;
    env_.locked([&] { repaired = env_.catalog->repair(*env_.db); });
    if (!repaired.is_ok()) return kErrorPauseMs;
  }
  if (const std::uint64_t version = env_.catalog->version(); version != version_) {
    env_.use_settings();
    version_ = version;
  }
  auto index = unfinished_index(*env_.catalog, env_.databases, last_, failing_);
  if (!index) {
    if (failing_.empty()) return std::nullopt;
    failing_.clear();
    return kErrorPauseMs;
  }
  std::uint32_t wait_ms = 0;
  Status status;
  env_.locked([&] { status = build_step(*env_.db, *env_.catalog, index->first, index->second, &misses_, &wait_ms); });
  if (status.is_not_resident()) {  // last_ is unchanged, so the next step is for the same index
    fetch(&misses_);
    return kPauseMs;
  }
  last_ = std::move(*index);
  misses_.clear();
  if (status.is_ok()) env_.db->write_log();
  note_failure(last_, wait_ms == 0 ? status : Status::ok());
  return std::max(wait_ms, kPauseMs);
}

void IndexBuilder::note_failure(const IndexName& index, const Status& status) {
  const auto indexes = env_.catalog->of(index.first);
  const auto at = indexes->find(index.second);
  if (at == indexes->end()) return;
  const DatabaseId tree = at->second.tree(index.first);
  const std::string text = status.is_ok() ? "" : status.to_string(), before = env_.catalog->failure_of(tree);
  if (!text.empty()) {
    failing_.insert(index);
    if (text != before) env_.warn("the index '" + index.second + "' cannot be built: " + text);
  }
  if (text != before) env_.catalog->set_failure(tree, text);
}

void IndexBuilder::fetch(MissSet* misses) {
  const auto done = std::make_shared<std::binary_semaphore>(0);
  if (!env_.db->fetch(misses, [done] { done->release(); })) done->acquire();
}

}  // namespace ebbtide
