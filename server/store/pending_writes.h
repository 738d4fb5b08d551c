// The pending writes of a transaction, as its later commands read them.
//
// EXEC is one WriteBatch, which becomes visible as a whole. Until then its commands read through this overlay. For each database
// that the batch changes, the overlay has the entries that were put or deleted, and the deleted ranges and stamps. All other keys
// are read from the committed database below it: another database after SWAPDB, none after FLUSHDB. Entries are ordered, so that
// SCAN, KEYS and COUNTRANGE can iterate over overlay and database at once. The overlay copies keys only: an entry has the
// position of its operation in the batch, where its value is read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <engine/db.h>
#include <engine/iterator.h>
#include <engine/read_view.h>
#include <engine/write_batch.h>

namespace ebbtide {

/// The writes of one attempt of one transaction. Used on the thread that holds the attempt's PassGuard, or, after read_through(),
/// on another. Not thread-safe.
class PendingWrites {
 public:
  /// `db` is null while the database is being opened: all reads then find an empty database. `now`, `mode` and `misses` are as in
  /// Db::view, for views of other databases. `batch`: the transaction's uncommitted batch, which must outlive this object.
  PendingWrites(Db* db, Millis now, ReadMode mode, MissSet* misses, const WriteBatch& batch)
      : db_(db), now_(now), mode_(mode), misses_(misses), batch_(batch) {}

  /// From now on reads other databases through `views`, which must outlive this object. For a thread without a PassGuard.
  void read_through(const std::function<ReadView(DatabaseId)>* views) { views_ = views; }

  /// Applies the operations that were added to the batch since the last call.
  void apply_new();

  /// Like ReadView::locate(), with the pending operations applied. `found` is valid until the batch changes, and as long as
  /// `view` lives, since it may point to bytes of either. After every change of the batch, call apply_new() before the next read.
  [[nodiscard]] Status locate(const ReadView& view, const LookupKey& key, Found* found) const;
  /// Returns the number of the transaction's operations so far.
  [[nodiscard]] std::uint32_t operations() const { return batch_.count(); }
  /// Returns the stamp mode of the view's database, with the pending operations applied.
  [[nodiscard]] StampMode stamp_mode(const ReadView& view) const;
  /// Returns true if commands have ever written to the database, pending operations included.
  [[nodiscard]] bool has_tree(const ReadView& view) const;
  /// Like ReadView::may_have_collection(), with the pending operations applied.
  [[nodiscard]] bool may_have_collection(const ReadView& view, const LookupKey& key) const;
  /// Like Db::iterate(), with the pending operations applied. Blocks for reads. The iterator is valid until the batch
  /// changes, and must not outlive this object.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const ReadView& view, const IteratorOptions& options) const;

 private:
  friend class OverlayIterator;
  struct Entry {
    bool deleted = false;
    bool element = false;  ///< the key is that of an element of a large collection
    bool leaves_elements =
        false;  ///< if deleted: it was the header of a large collection, whose elements were not deleted with it
    EntryKind kind = EntryKind::kValue;
    std::size_t op = 0;  ///< unless `deleted`: cursor (WriteBatch::next_op) of the operation that has the value
    Millis expiry = 0;
    DeleteKey stamp = kNoStamp;
  };
  struct Database {
    /// The committed database below; nullopt: none, since a pending operation has emptied the database.
    std::optional<DatabaseId> base;
    std::map<std::string, Entry, std::less<>> entries;
    bool collections = false;                                     ///< `entries` has or had a collection
    std::vector<KeyRange> deleted;                                ///< deleted ranges of the base
    std::vector<std::pair<DeleteKey, DeleteKey>> deleted_stamps;  ///< stamp ranges [lo, hi) whose entries in the base are deleted
    StampMode mode{};                                             ///< stamp mode of the database
    [[nodiscard]] bool hides(Bytes key) const;                    ///< the base's entry of `key` is hidden
    [[nodiscard]] bool hides_stamp(DeleteKey stamp) const;        ///< the base's entries with that stamp are hidden
  };
  void apply(std::size_t at, const WriteBatch::Op& op);
  /// Returns the operation of an entry that is not deleted. The operation's bytes are valid until the batch changes.
  [[nodiscard]] WriteBatch::Op operation_of(const Entry& entry) const;
  [[nodiscard]] DeleteKey stamp_of(const Database& database, const WriteBatch::Op& op) const;
  Database& database_of(DatabaseId database);
  [[nodiscard]] ReadView view_of(DatabaseId database) const;
  [[nodiscard]] const Database* find(DatabaseId database) const;

  Db* db_;
  const Millis now_;
  const ReadMode mode_;
  MissSet* const misses_;
  const WriteBatch& batch_;
  std::size_t applied_ = 0;  ///< the cursor after the last applied operation
  const std::function<ReadView(DatabaseId)>* views_ = nullptr;
  std::map<DatabaseId, Database> databases_;  ///< only databases with pending operations
};

}  // namespace ebbtide
