// The pending writes of a transaction, for reads by its later commands.
//
// EXEC is one WriteBatch, which becomes visible as a whole. Until then its commands read through this overlay. For each database
// that the batch changes it has the entries put or deleted, and the ranges and stamps deleted since. It also has the committed
// database underneath (another one after SWAPDB, none after FLUSHDB), from which all other keys are read. Ordered, so that SCAN,
// KEYS and COUNTRANGE can iterate over both at once.
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

/// For one run of one transaction, on the thread that holds its PassGuard. Not thread-safe.
class PendingWrites {
 public:
  /// `db`: null while the database is being opened; nothing is in it then. `now`, `mode` and `misses` as in Db::view, for
  /// databases that a view does not show.
  PendingWrites(Db* db, Millis now, ReadMode mode, MissSet* misses) : db_(db), now_(now), mode_(mode), misses_(misses) {}

  /// One operation of a batch that is not committed, in order. Copies what it keeps.
  void apply(const WriteBatch::Op& op);

  /// As ReadView::locate, with the pending operations applied. `found` is valid until the next apply, and as long as `view`,
  /// which reads its bytes.
  [[nodiscard]] Status locate(const ReadView& view, const LookupKey& key, Found* found) const;
  /// Where the stamps of the view's database come from, once the pending operations are there.
  [[nodiscard]] StampMode stamp_mode(const ReadView& view) const;
  /// Whether anything was ever written to the database, pending operations included.
  [[nodiscard]] bool has_tree(const ReadView& view) const;
  /// As Db::iterate, with the pending operations applied. Reads blocking; must not outlive this object, nor the next apply.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const ReadView& view, const IteratorOptions& options) const;

 private:
  friend class OverlayIterator;
  struct Entry {
    bool deleted = false;
    EntryKind kind = EntryKind::kValue;
    std::string value;
    SharedValue shared;  ///< holds the value instead, if set
    Millis expiry = 0;
    DeleteKey stamp = kNoStamp;
  };
  struct Database {
    std::optional<DatabaseId> base;  ///< what is committed there; nullopt: nothing, it was emptied
    std::map<std::string, Entry, std::less<>> entries;
    std::vector<KeyRange> deleted;                                ///< of the base
    std::vector<std::pair<DeleteKey, DeleteKey>> deleted_stamps;  ///< of the base: [lo, hi)
    StampMode mode{};                                             ///< where its stamps come from
    [[nodiscard]] bool hides(Bytes key) const;                    ///< whether the base's entry of `key` is not to be seen
    [[nodiscard]] bool hides_stamp(DeleteKey stamp) const;        ///< the same of an entry with that stamp
  };
  [[nodiscard]] DeleteKey stamp_of(const Database& database, const WriteBatch::Op& op) const;
  Database& at(DatabaseId database);
  [[nodiscard]] const Database* find(DatabaseId database) const;

  Db* db_;
  const Millis now_;
  const ReadMode mode_;
  MissSet* const misses_;
  std::map<DatabaseId, Database> databases_;  ///< those that are as committed are not there
};

}  // namespace ebbtide
