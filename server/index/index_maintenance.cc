#include "index/index_maintenance.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <engine/collection_keys.h>

#include "index/record_values.h"

namespace ebbtide {
namespace {

/// The most versions that a walk over a deleted range visits, and how many pages it reads at once.
constexpr std::uint64_t kMostStepsOfRange = 4 * kMostRecordsOfRange;
constexpr std::uint32_t kPagesOfRange = 16;

/// The bytes of changes between two calls of IndexRun::charge.
constexpr std::uint64_t kChargeBytes = 64 << 10;

/// The effect of a batch on the records of one database.
struct Touched {
  std::shared_ptr<const Indexes> indexes;
  /// Keys of records that the batch writes or deletes. The value is true if the record's stamp becomes the time of this batch,
  /// where stamps are times of writes.
  std::map<std::string, bool, std::less<>> keys{};
  std::vector<std::pair<DeleteKey, DeleteKey>> deleted_stamps{};
  std::set<std::string, std::less<>> emptied{}, rebuilt{};  // names of indexes
};

bool is_within(const KeyRange& inner, const KeyRange& outer) {
  return outer.start <= inner.start && (outer.end.empty() || (!inner.end.empty() && inner.end <= outer.end));
}

bool overlap(const KeyRange& a, const KeyRange& b) {
  return (a.end.empty() || b.start < a.end) && (b.end.empty() || a.start < b.end);
}

KeyRange common(const KeyRange& a, const KeyRange& b) {
  const std::string& end = a.end.empty() || (!b.end.empty() && b.end < a.end) ? b.end : a.end;
  return {std::max(a.start, b.start), end};
}

class Maintenance {
 public:
  Maintenance(const IndexCatalog& catalog, const IndexRun& run, WriteBatch* batch, IndexChanges* changes)
      : catalog_(catalog), run_(run), batch_(batch), changes_(changes) {}

  Status complete() {
    TRY(collect());
    if (databases_.empty()) return Status::ok();
    PendingWrites pending(run_.db, run_.now, run_.mode, run_.misses, *batch_);
    pending.read_through(&run_.view);
    pending.apply_new();
    TRY(compare(pending));
    batch_->end_command();
    for (const auto& [database, touched] : databases_) write(database, touched);
    return Status::ok();
  }

 private:
  struct Change {
    DatabaseId tree;
    std::optional<IndexEntry> before{}, after{};
  };

  /// Returns null if the database has no index.
  Touched* touched(DatabaseId database) {
    if (is_index_tree(database)) return nullptr;
    const auto at = databases_.find(database);
    if (at != databases_.end()) return &at->second;
    auto indexes = catalog_.of(database);
    return indexes->empty() ? nullptr : &databases_.emplace(database, Touched{.indexes = std::move(indexes)}).first->second;
  }

  Status collect() {
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch_->next_op(&cursor, &op);) {
      switch (op.kind) {
        case OpKind::kPut:
        case OpKind::kHeader:
        case OpKind::kTombstone:
          note_key(op.tree, main_key_of(op.key), !op.element);
          break;
        case OpKind::kRangeTombstone:
          TRY(note_range(op.tree, {std::string(op.key), std::string(op.end)}));
          break;
        case OpKind::kSecondaryDelete:
          if (Touched* const t = touched(op.tree); t != nullptr) t->deleted_stamps.emplace_back(op.lo, op.hi);
          break;
        case OpKind::kFlushDatabase:
          note_emptied(static_cast<DatabaseId>(op.lo));
          break;
        case OpKind::kSwapDatabases:
          note_rebuilt(static_cast<DatabaseId>(op.lo));
          note_rebuilt(static_cast<DatabaseId>(op.hi));
          break;
        case OpKind::kCreateTree:
          break;  // no handler writes such operations
      }
    }
    return resident_ ? Status::ok() : Status::not_resident();
  }
  void note_key(DatabaseId database, Bytes key, bool main) {
    Touched* const t = touched(database);
    if (t == nullptr) return;
    const bool indexed = std::any_of(t->indexes->begin(), t->indexes->end(),
                                     [&](const auto& index) { return key.starts_with(index.second.prefix); });
    if (indexed) t->keys[std::string(key)] |= main;
  }
  Status note_range(DatabaseId database, const KeyRange& range) {
    Touched* const t = touched(database);
    if (t == nullptr) return Status::ok();
    const Bytes key = main_key_of(range.start);
    if (key.size() != range.start.size()) {  // elements of one collection
      note_key(database, key, false);
      return Status::ok();
    }
    for (const auto& [name, index] : *t->indexes) {
      const KeyRange records = index.records();
      if (is_within(records, range)) {
        t->emptied.insert(name);
      } else if (overlap(records, range)) {
        TRY_ASSIGN(few, note_records(database, t, common(records, range)));
        if (!few) t->rebuilt.insert(name);
      }
    }
    return Status::ok();
  }
  /// Adds all records of a range to `t->keys`, as if each were deleted by its key. Returns false if there are too many, or if
  /// other threads may write records of the range meanwhile.
  Result<bool> note_records(DatabaseId database, Touched* t, const KeyRange& range) {
    if (!run_.holds_all_locks) return false;
    const ReadView view = run_.view(database);
    if (!view.has_tree()) return true;
    IteratorOptions options;
    options.bounds = range;
    options.resident = true;
    options.max_steps = kMostStepsOfRange;
    options.pages_at_once = kPagesOfRange;
    const auto walk = run_.db->iterate(view, options);
    for (walk->seek_to_first(); walk->valid(); walk->next()) {
      if (++records_ > kMostRecordsOfRange) return false;
      t->keys.try_emplace(std::string(walk->key()), false);
    }
    if (walk->status().is_not_resident()) {
      resident_ = false;
      return true;
    }
    TRY(walk->status());
    return !walk->paused();
  }
  void note_emptied(DatabaseId database) {
    if (Touched* const t = touched(database); t != nullptr) {
      for (const auto& [name, index] : *t->indexes) t->emptied.insert(name);
    }
  }
  void note_rebuilt(DatabaseId database) {
    if (Touched* const t = touched(database); t != nullptr) {
      for (const auto& [name, index] : *t->indexes) t->rebuilt.insert(name);
    }
  }

  /// Computes the changes of all records. Call it before operations are added to the batch, since `pending` reads the batch's
  /// bytes.
  Status compare(const PendingWrites& pending) {
    for (const auto& [database, t] : databases_) {
      const ReadView view = run_.view(database);
      for (const auto& [key, written] : t.keys) {
        const Status status = compare(database, t, view, pending, key, written);
        if (!status.is_not_resident()) TRY(status);
        resident_ = resident_ && status.is_ok();  // the loop continues, so that all missing pages are read together
      }
    }
    return resident_ ? Status::ok() : Status::not_resident();
  }
  Status compare(DatabaseId database, const Touched& t, const ReadView& view, const PendingWrites& pending, Bytes key,
                 bool written) {
    IndexedRecord old(view, nullptr, key), changed(view, &pending, key);
    const Status found_old = old.find();
    TRY(changed.find());
    TRY(found_old);
    for (const auto& [name, index] : *t.indexes) {
      if (!key.starts_with(index.prefix) || t.rebuilt.contains(name)) continue;
      Change change{.tree = index.tree(database)};
      if (!t.emptied.contains(name)) {  // an emptied index has no entries any more
        TRY_ASSIGN(before, entry_of_record(index, old));
        change.before = std::move(before.entry);
      }
      TRY_ASSIGN(after, entry_of_record(index, changed));
      if (after.skipped) ++changes_->skipped[change.tree][static_cast<std::size_t>(*after.skipped)];
      change.after = std::move(after.entry);
      if (written && change.after && view.stamp_mode() == StampMode::kWriteTime) change.after->stamp = kNoStamp;
      TRY(keep(std::move(change)));
    }
    return Status::ok();
  }
  Status keep(Change change) {
    bytes_ += sizeof(Change);
    if (change.before) bytes_ += 2 * change.before->key.size();  // the key is here, and later in the batch, too
    if (change.after) bytes_ += 2 * change.after->key.size();
    entries_.push_back(std::move(change));
    if (!run_.charge || bytes_ < charged_ + kChargeBytes) return Status::ok();
    charged_ = bytes_;
    return run_.charge(charged_);
  }

  // Operations on whole trees come first, so that they do not delete the entries that this batch adds.
  void write(DatabaseId database, const Touched& t) {
    for (const auto& [name, index] : *t.indexes) {
      const bool rebuilt = t.rebuilt.contains(name), emptied = rebuilt || t.emptied.contains(name);
      if (emptied) batch_->flush_database(index.tree(database));
      leave_position(database, index, t, emptied);
      if (rebuilt) {
        IndexDefinition building = index;
        building.building_from = "";
        building.position.clear();
        building.skipped = {};
        ++building.builds;
        put_definition(batch_, database, building);
        changes_->definitions.emplace_back(database, std::move(building));
      }
      for (const auto& [lo, hi] : t.deleted_stamps) batch_->delete_stamps(index.tree(database), lo, hi);
    }
    for (const Change& change : entries_) {
      if (owner_of(change.tree) == database) change_index_entry(batch_, change.tree, change.before, change.after);
    }
  }
  /// Deletes the position of a build if the batch writes or deletes the position's record. Otherwise the position could outlive
  /// its record, or have another stamp or expiry. After a restart, a build without a position begins at the first record.
  void leave_position(DatabaseId database, const IndexDefinition& index, const Touched& t, bool emptied) {
    if (index.position.empty() || (!emptied && !t.keys.contains(index.position))) return;
    if (!emptied) batch_->del(index.tree(database), build_position_key(index.position).value_or(""));
    changes_->left_positions.emplace_back(IndexName{database, index.name}, index.position);
  }

  const IndexCatalog& catalog_;
  const IndexRun& run_;
  WriteBatch* const batch_;
  IndexChanges* const changes_;
  std::map<DatabaseId, Touched> databases_;
  std::vector<Change> entries_;
  std::size_t records_ = 0;                // records of deleted ranges that were read so far
  std::uint64_t bytes_ = 0, charged_ = 0;  // memory of the changes, and how much of it is charged
  bool resident_ = true;
};

}  // namespace

Status maintain_indexes(const IndexCatalog& catalog, const IndexRun& run, WriteBatch* batch, IndexChanges* changes) {
  *changes = {};
  return Maintenance(catalog, run, batch, changes).complete();
}

}  // namespace ebbtide
