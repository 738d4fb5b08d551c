#include "index/index_catalog.h"

#include <utility>

namespace ebbtide {
namespace {

const std::shared_ptr<const Indexes> kNone = std::make_shared<const Indexes>();

}  // namespace

Status IndexCatalog::load(Db& db, DatabaseId databases) {
  for (DatabaseId database = 0; database < databases; ++database) {
    Indexes indexes;
    const auto walk = db.iterate(db.lease(index_tree(database, kCatalog)), {});
    for (walk->seek_to_first(); walk->valid(); walk->next()) {
      TRY_ASSIGN(definition, IndexDefinition::decode(walk->key(), walk->value()));
      const bool has_tree = db.lease(definition.tree(database)).has_tree();
      if (!has_tree && !definition.building_from) definition.building_from = "";
      indexes.emplace(std::string(walk->key()), std::move(definition));
    }
    TRY(walk->status());
    if (!indexes.empty()) change(database, std::move(indexes));
  }
  return Status::ok();
}

std::shared_ptr<const Indexes> IndexCatalog::of(DatabaseId database) const {
  std::lock_guard lock(mutex_);
  const auto at = databases_.find(database);
  return at == databases_.end() ? kNone : at->second;
}

void IndexCatalog::set(DatabaseId database, IndexDefinition definition) {
  Indexes indexes = *of(database);
  IndexDefinition& known = indexes[definition.name];
  IndexDefinition with_progress = known;
  with_progress.building_from = definition.building_from;
  const bool progress = with_progress == definition;
  known = std::move(definition);
  change(database, std::move(indexes), progress);
}

void IndexCatalog::remove(DatabaseId database, const std::string& name) {
  Indexes indexes = *of(database);
  indexes.erase(name);
  change(database, std::move(indexes));
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

// The progress of a build names the key of a record. So an older version must leave the files like a deleted value, and the put has a debt. A
// range delete that makes an index be built again must succeed on a full disk.
void put_definition(WriteBatch* batch, DatabaseId database, const IndexDefinition& definition) {
  batch->put(index_tree(database, kCatalog), definition.name, definition.encode(),
             {.debt = true, .shrinks = !batch->adds_data()});
}

void delete_definition(WriteBatch* batch, DatabaseId database, const std::string& name) {
  batch->del(index_tree(database, kCatalog), name);
}

}  // namespace ebbtide
