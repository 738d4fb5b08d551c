#include "index/index_catalog.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <engine/spatial.h>

namespace ebbtide {
namespace {

const std::shared_ptr<const Indexes> kNone = std::make_shared<const Indexes>();

/// Reads the definitions of one database. After an error, `indexes` has those that could be read.
Status read_definitions(Db& db, DatabaseId database, Indexes* indexes) {
  const auto walk = db.iterate(db.lease(index_tree(database, kCatalog)), {});
  Status first;
  for (walk->seek_to_first(); walk->valid(); walk->next()) {
    auto definition = IndexDefinition::decode(walk->key(), walk->value());
    if (definition.status().code() == Code::kUnsupported) return definition.status();
    if (definition.is_ok()) {
      indexes->emplace(std::string(walk->key()), std::move(definition).value());
    } else if (first.is_ok()) {
      first = definition.status();
    }
  }
  TRY(walk->status());
  return first;
}

/// Reads the position at which the build of an index continues. Leaves `definition` unchanged if its tree has no position.
void read_position(Db& db, DatabaseId database, IndexDefinition* definition) {
  IteratorOptions options;
  options.bounds = build_positions();
  const auto walk = db.iterate(db.lease(definition->tree(database)), options);
  walk->seek_to_first();
  if (walk->valid()) definition->building_from = definition->position = build_position_of(walk->key());
}

}  // namespace

Status IndexCatalog::load(Db& db, DatabaseId databases, const Warn& warn) {
  {
    std::lock_guard lock(mutex_);
    databases_.clear();
  }
  for (DatabaseId database = 0; database < databases; ++database) {
    Indexes indexes;
    const Status status = read_definitions(db, database, &indexes);
    if (status.code() == Code::kUnsupported) return status;
    if (!status.is_ok()) {
      damaged_.push_back(database);
      warn("the catalog of indexes of database " + std::to_string(database) + " is damaged, and " +
           std::to_string(indexes.size()) + " definitions could be read. INDEX.LIST shows them: create the others again. " +
           status.to_string());
    }
    for (auto& [name, definition] : indexes) {
      if (const Status set = set_index_options(db, database, definition); !set.is_ok())
        warn("the index '" + name + "' has the merge policy of its database: " + set.to_string());
      const bool has_tree = db.lease(definition.tree(database)).has_tree();
      if (!has_tree && !definition.building_from) definition.building_from = "";
      if (has_tree && definition.building_from) read_position(db, database, &definition);
    }
    if (!indexes.empty()) change(database, std::move(indexes));
  }
  if (const Status status = repair(db); !status.is_ok())
    warn("the catalog of indexes cannot be written again: " + status.to_string());
  return Status::ok();
}

Status IndexCatalog::repair(Db& db) {
  while (!damaged_.empty()) {
    const DatabaseId database = damaged_.back();
    const auto indexes = of(database);
    WriteBatch batch;
    batch.end_command();
    batch.flush_database(index_tree(database, kCatalog));
    // No write maintains the tree of a lost definition any more, so the tree is removed.
    for (std::uint32_t index = 1; index <= kMostIndexes; ++index) {
      const bool known =
          std::any_of(indexes->begin(), indexes->end(), [&](const auto& other) { return other.second.index == index; });
      if (!known && db.lease(index_tree(database, index)).has_tree()) batch.flush_database(index_tree(database, index));
    }
    for (const auto& [name, definition] : *indexes) put_definition(&batch, database, definition);
    std::uint32_t wait_ms = 0;
    TRY(db.try_commit(batch, true, &wait_ms));
    damaged_.pop_back();
  }
  return Status::ok();
}

std::shared_ptr<const Indexes> IndexCatalog::of(DatabaseId database) const {
  std::lock_guard lock(mutex_);
  const auto at = databases_.find(database);
  return at == databases_.end() ? kNone : at->second;
}

std::vector<std::pair<IndexName, std::string>> IndexCatalog::positions() const {
  std::vector<std::pair<IndexName, std::string>> out;
  std::lock_guard lock(mutex_);
  for (const auto& [database, indexes] : databases_) {
    for (const auto& [name, definition] : *indexes) {
      if (!definition.position.empty()) out.emplace_back(IndexName{database, name}, definition.position);
    }
  }
  return out;
}

void IndexCatalog::set(DatabaseId database, IndexDefinition definition) {
  Indexes indexes = *of(database);
  IndexDefinition& known = indexes[definition.name];
  IndexDefinition with_progress = known;
  with_progress.building_from = definition.building_from;
  with_progress.position = definition.position;
  with_progress.skipped = definition.skipped;
  const bool progress = with_progress == definition;
  known = std::move(definition);
  change(database, std::move(indexes), progress);
}

void IndexCatalog::take(IndexChanges changes) {
  for (const auto& [index, position] : changes.left_positions) {
    const auto indexes = of(index.first);
    const auto at = indexes->find(index.second);
    if (at == indexes->end() || at->second.position != position) continue;
    IndexDefinition definition = at->second;
    definition.position.clear();
    set(index.first, std::move(definition));
  }
  for (auto& [database, definition] : changes.definitions) set(database, std::move(definition));
  if (changes.skipped.empty()) return;
  std::lock_guard lock(mutex_);
  for (const auto& [tree, records] : changes.skipped) {
    SkippedRecords& sum = skipped_writes_[tree];
    for (std::size_t reason = 0; reason < kSkipReasons; ++reason) sum[reason] += records[reason];
  }
}

void IndexCatalog::remove(DatabaseId database, const std::string& name) {
  Indexes indexes = *of(database);
  const auto at = indexes.find(name);
  if (at == indexes.end()) return;
  const DatabaseId tree = at->second.tree(database);
  indexes.erase(at);
  change(database, std::move(indexes));
  std::lock_guard lock(mutex_);
  skipped_writes_.erase(tree);
  failures_.erase(tree);
}

SkippedRecords IndexCatalog::skipped_writes(DatabaseId tree) const {
  std::lock_guard lock(mutex_);
  const auto at = skipped_writes_.find(tree);
  return at == skipped_writes_.end() ? SkippedRecords{} : at->second;
}

void IndexCatalog::set_failure(DatabaseId tree, std::string text) {
  std::lock_guard lock(mutex_);
  if (text.empty()) {
    failures_.erase(tree);
  } else {
    failures_[tree] = std::move(text);
  }
}

std::string IndexCatalog::failure_of(DatabaseId tree) const {
  std::lock_guard lock(mutex_);
  const auto at = failures_.find(tree);
  return at == failures_.end() ? "" : at->second;
}

void IndexCatalog::change(DatabaseId database, Indexes indexes, bool progress) {
  {
    std::lock_guard lock(mutex_);
    if (indexes.empty()) {
      databases_.erase(database);
    } else {
      databases_[database] = std::make_shared<const Indexes>(std::move(indexes));
    }
    any_.store(!databases_.empty(), std::memory_order_release);
    if (!progress) version_.fetch_add(1, std::memory_order_acq_rel);
  }
  if (listener_) listener_();
}

// A range delete that starts the build of an index again must succeed even on a full disk, so it may add no data.
void put_definition(WriteBatch* batch, DatabaseId database, const IndexDefinition& definition) {
  batch->put(index_tree(database, kCatalog), definition.name, definition.encode(), {.shrinks = !batch->adds_data()});
}

Status set_index_options(Db& db, DatabaseId database, const IndexDefinition& definition) {
  IndexTreeOptions options;
  if (const auto order = place_order(definition.kind)) options.points_at = points_offset(*order);
  options.policy = definition.policy;
  return db.set_index_options(definition.tree(database), options);
}

void delete_definition(WriteBatch* batch, DatabaseId database, const std::string& name) {
  batch->del(index_tree(database, kCatalog), name);
}

}  // namespace ebbtide
