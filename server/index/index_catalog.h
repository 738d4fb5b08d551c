// The definitions of all indexes, in memory. On disk they are in the catalog tree of each database (engine/index.h).
//
// A definition changes only after a commit, while its command holds all key locks. So a command that holds a key lock, or runs on
// the only event loop, finds the same definitions until its commit. A long write holds no lock while it runs. It stores version()
// before it maintains indexes, and does not commit if the version has changed since.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/db.h>
#include <engine/index.h>

namespace ebbtide {

/// The indexes of one database, by name. Immutable.
using Indexes = std::map<std::string, IndexDefinition, std::less<>>;

/// Database and name of an index.
using IndexName = std::pair<DatabaseId, std::string>;

/// The changes that a batch makes to the catalog. IndexCatalog::take() applies them after the commit, while the batch's locks are
/// held.
struct IndexChanges {
  /// Changed definitions. If there are any, all key locks are held.
  std::vector<std::pair<DatabaseId, IndexDefinition>> definitions;
  /// Indexes whose build position the batch has deleted, each with the key in that position.
  std::vector<std::pair<IndexName, std::string>> left_positions;
  std::map<DatabaseId, SkippedRecords> skipped;  ///< by index tree: number of written records that have no entry there, by reason

  [[nodiscard]] bool empty() const { return definitions.empty() && left_positions.empty() && skipped.empty(); }
};

/// Thread-safe.
class IndexCatalog {
 public:
  using Warn = std::function<void(const std::string& text)>;

  /// Sets a function that is called after each change of a definition. Call it before other threads use the catalog.
  void set_listener(std::function<void()> listener) { listener_ = std::move(listener); }
  /// Reads the definitions of all databases. Call it after the engine has opened them, before clients connect. INDEX.CREATE makes
  /// an index's tree, so a missing tree means that a repair has dropped it: the index is then built again. If a catalog is
  /// damaged, keeps the definitions that can be read, and removes the trees of the others. kUnsupported: a definition is of a
  /// newer version.
  Status load(Db& db, DatabaseId databases, const Warn& warn);
  /// Rewrites the catalogs that load() has found damaged, without their lost definitions. After an error, call it again, while
  /// all key locks are held.
  Status repair(Db& db);
  /// Returns true if repair() has not rewritten all damaged catalogs yet. Only for the thread that calls repair().
  [[nodiscard]] bool is_damaged() const { return !damaged_.empty(); }

  /// Returns false if no database has an index. This is one atomic load.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }
  /// Returns a number that changes when a definition changes. The progress of a build does not change it, since maintenance does
  /// not depend on the progress.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Returns the indexes of a database; never null.
  [[nodiscard]] std::shared_ptr<const Indexes> of(DatabaseId database) const;
  /// Returns the indexes that have a build position, each with the key in that position.
  [[nodiscard]] std::vector<std::pair<IndexName, std::string>> positions() const;
  /// Adds a definition, or replaces it.
  void set(DatabaseId database, IndexDefinition definition);
  void take(IndexChanges changes);
  void remove(DatabaseId database, const std::string& name);

  /// Returns how many writes since the start have left a record without an entry in this index tree, by reason.
  [[nodiscard]] SkippedRecords skipped_writes(DatabaseId tree) const;
  /// Stores the error of the latest step of an index's build; "": none.
  void set_failure(DatabaseId tree, std::string text);
  [[nodiscard]] std::string failure_of(DatabaseId tree) const;

 private:
  void change(DatabaseId database, Indexes indexes, bool progress = false);

  std::function<void()> listener_;
  std::atomic<bool> any_{false};
  std::atomic<std::uint64_t> version_{1};
  std::vector<DatabaseId> damaged_;                                 // catalogs to repair; used by one thread at a time
  mutable std::mutex mutex_;                                        // guards the members below
  std::map<DatabaseId, std::shared_ptr<const Indexes>> databases_;  // only databases with indexes
  std::map<DatabaseId, SkippedRecords> skipped_writes_;             // by index tree
  std::map<DatabaseId, std::string> failures_;                      // by index tree
};

/// Adds a definition to the catalog tree of a database, or replaces it.
void put_definition(WriteBatch* batch, DatabaseId database, const IndexDefinition& definition);
/// Sets the options of the index's tree that follow from its definition.
Status set_index_options(Db& db, DatabaseId database, const IndexDefinition& definition);
void delete_definition(WriteBatch* batch, DatabaseId database, const std::string& name);

}  // namespace ebbtide
