// The definitions of all indexes, in memory. The copy on disk is the catalog trees' (engine/index.h).
//
// A definition changes only in commands that hold all key locks, after their commit. A run that holds a key lock, or computes on the
// loop that runs all writes, sees the same definitions until its commit. A long write holds no lock while it runs: it notes version()
// before, and does not commit if the version has changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <engine/db.h>
#include <engine/index.h>

namespace ebbtide {

/// The indexes of one database, by name. Immutable.
using Indexes = std::map<std::string, IndexDefinition, std::less<>>;

/// Definitions that change with a batch: the catalog takes them after the commit, while all key locks are held.
using IndexChanges = std::vector<std::pair<DatabaseId, IndexDefinition>>;

/// Thread-safe.
class IndexCatalog {
 public:
  /// Sets the function that is called after each change. Called before the catalog is shared.
  void set_listener(std::function<void()> listener) { listener_ = std::move(listener); }
  /// Reads the definitions of all databases. Called when the database has been opened, before it has clients. An index without a tree
  /// has no entries, or was left out by a repair: it is built again in any case.
  Status load(Db& db, DatabaseId databases);

  /// Returns false if no database has an index. Costs one load.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }
  /// Returns a number that changes with the definitions, but not while an index is built: maintenance does not depend on that.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Returns the indexes of a database; never null.
  [[nodiscard]] std::shared_ptr<const Indexes> of(DatabaseId database) const;
  /// Adds a definition, or replaces it.
  void set(DatabaseId database, IndexDefinition definition);
  void take(IndexChanges changes) {
    for (auto& [database, definition] : changes) set(database, std::move(definition));
  }
  void remove(DatabaseId database, const std::string& name);

 private:
  void change(DatabaseId database, Indexes indexes, bool progress = false);

  std::function<void()> listener_;
  std::atomic<bool> any_{false};
  std::atomic<std::uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::map<DatabaseId, std::shared_ptr<const Indexes>> databases_;  // only those with indexes
};

/// Adds a definition to the catalog tree of a database, or replaces it.
void put_definition(WriteBatch* batch, DatabaseId database, const IndexDefinition& definition);
void delete_definition(WriteBatch* batch, DatabaseId database, const std::string& name);

}  // namespace ebbtide
