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

/// What a batch changes beside index trees: the catalog takes it after the commit, while the batch's locks are held.
struct IndexChanges {
  std::vector<std::pair<DatabaseId, IndexDefinition>> definitions;  ///< all key locks are held
  /// Indexes from whose trees the batch has deleted the position of their build, with the record's key in it.
  std::vector<std::pair<IndexName, std::string>> left_positions;
  std::map<DatabaseId, SkippedRecords> skipped;  ///< by index tree: written records that have no entry there

  [[nodiscard]] bool empty() const { return definitions.empty() && left_positions.empty() && skipped.empty(); }
};

/// Thread-safe.
class IndexCatalog {
 public:
  using Warn = std::function<void(const std::string& text)>;

  /// Sets the function that is called after each change. Called before the catalog is shared.
  void set_listener(std::function<void()> listener) { listener_ = std::move(listener); }
  /// Reads the definitions of all databases. Called when the database has been opened, before it has clients. An index without a tree
  /// was left out by a repair, so it is built again: INDEX.CREATE makes the tree. Of a damaged catalog the definitions before the
  /// damage are kept, and the others are removed with their trees. Returns kUnsupported if there are definitions of a newer version.
  Status load(Db& db, DatabaseId databases, const Warn& warn);
  /// Writes catalogs again that load() has found damaged. To be repeated after an error, while all key locks are held.
  Status repair(Db& db);
  /// Returns true if repair() has not been able to do so yet. For the thread that calls it.
  [[nodiscard]] bool is_damaged() const { return !damaged_.empty(); }

  /// Returns false if no database has an index. Costs one load.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }
  /// Returns a number that changes with the definitions, but not while an index is built: maintenance does not depend on that.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Returns the indexes of a database; never null.
  [[nodiscard]] std::shared_ptr<const Indexes> of(DatabaseId database) const;
  /// Returns the indexes that are being built, and the keys of their positions.
  [[nodiscard]] std::vector<std::pair<IndexName, std::string>> positions() const;
  /// Adds a definition, or replaces it.
  void set(DatabaseId database, IndexDefinition definition);
  void take(IndexChanges changes);
  void remove(DatabaseId database, const std::string& name);

  /// Returns the number of writes since the start that have left a record without an entry, by reason. `tree`: of the index.
  [[nodiscard]] SkippedRecords skipped_writes(DatabaseId tree) const;
  /// Notes why the build of an index does not go on; "": it does.
  void set_failure(DatabaseId tree, std::string text);
  [[nodiscard]] std::string failure_of(DatabaseId tree) const;

 private:
  void change(DatabaseId database, Indexes indexes, bool progress = false);

  std::function<void()> listener_;
  std::atomic<bool> any_{false};
  std::atomic<std::uint64_t> version_{1};
  std::vector<DatabaseId> damaged_;                                 // catalogs to repair; used by one thread at a time
  mutable std::mutex mutex_;                                        // guards what follows
  std::map<DatabaseId, std::shared_ptr<const Indexes>> databases_;  // only those with indexes
  std::map<DatabaseId, SkippedRecords> skipped_writes_;             // by tree
  std::map<DatabaseId, std::string> failures_;                      // by tree
};

/// Adds a definition to the catalog tree of a database, or replaces it.
void put_definition(WriteBatch* batch, DatabaseId database, const IndexDefinition& definition);
/// Sets the options of the index's tree that follow from its definition.
Status set_index_options(Db& db, DatabaseId database, const IndexDefinition& definition);
void delete_definition(WriteBatch* batch, DatabaseId database, const std::string& name);

}  // namespace ebbtide
