#include "index/index_builder.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <semaphore>

#include "index/index_maintenance.h"

namespace ebbtide {
namespace {

/// A step takes about half a millisecond, during which no write runs.
constexpr std::uint64_t kStepRecords = 256, kStepVersions = 4096;
/// Between steps, so that writes go on; and after an error, such as a full disk.
constexpr std::uint32_t kPauseMs = 1, kErrorPauseMs = 1000;

/// Adds the entries of the next records to the batch, and moves the definition's progress on.
Status add_entries(Db& db, const ReadView& view, IndexDefinition* definition, WriteBatch* batch) {
  if (!view.has_tree()) {
    definition->building_from.reset();
    return Status::ok();
  }
  IteratorOptions options;
  options.bounds = definition->records();
  options.resident = true;
  options.max_steps = kStepVersions;
  const auto walk = db.iterate(view, options);
  std::uint64_t records = 0;
  const DatabaseId tree = definition->tree(view.database());
  for (walk->seek(std::max(*definition->building_from, options.bounds.start)); walk->valid(); walk->next()) {
    if (++records > kStepRecords) break;
    TRY_ASSIGN(entry, entry_of_record(view, nullptr, *definition, walk->key()));
    change_index_entry(batch, tree, std::nullopt, entry);
  }
  TRY(walk->status());
  definition->building_from.reset();
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
  TRY(add_entries(db, view, &definition, &batch));
  put_definition(&batch, database, definition);
  TRY(db.try_commit(batch, false, wait_ms));
  catalog.set(database, std::move(definition));
  return Status::ok();
}

std::optional<std::pair<DatabaseId, std::string>> unfinished_index(const IndexCatalog& catalog, DatabaseId databases) {
  for (DatabaseId database = 0; catalog.any() && database < databases; ++database) {
    for (const auto& [name, definition] : *catalog.of(database)) {
      if (definition.building_from) return std::pair(database, name);
    }
  }
  return std::nullopt;
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
  MissSet misses;
  std::string failure;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      woken_ = false;
    }
    const auto index = unfinished_index(*env_.catalog, env_.databases);
    if (!index) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || woken_; });
      if (stop_) return;
      continue;
    }
    std::uint32_t wait_ms = 0;
    Status status;
    env_.locked([&] { status = build_step(*env_.db, *env_.catalog, index->first, index->second, &misses, &wait_ms); });
    if (status.is_not_resident()) {
      fetch(&misses);
    } else {
      misses.clear();
    }
    if (status.is_ok()) env_.db->write_log();
    const bool failed = !status.is_ok() && !status.is_not_resident() && wait_ms == 0;
    const std::string text = failed ? status.to_string() : "";
    if (failed && text != failure) env_.warn("the index '" + index->second + "' cannot be built: " + text);
    failure = text;
    if (!pause(failed ? kErrorPauseMs : std::max(wait_ms, kPauseMs))) return;
  }
}

void IndexBuilder::fetch(MissSet* misses) {
  const auto done = std::make_shared<std::binary_semaphore>(0);
  if (!env_.db->fetch(misses, [done] { done->release(); })) done->acquire();
}

}  // namespace ebbtide
