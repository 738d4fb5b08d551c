#include "index/index_maintenance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <engine/collection_keys.h>

#include "store/collection/large.h"
#include "store/hashes.h"
#include "store/key_codec.h"
#include "store/numbers.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

/// What a batch does to the records of one database.
struct Touched {
  std::shared_ptr<const Indexes> indexes;
  /// Keys of records that are written or deleted. True: the record gets its stamp from this batch, if stamps are times of writes.
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

class Maintenance {
 public:
  Maintenance(const IndexCatalog& catalog, const IndexRun& run, WriteBatch* batch, IndexChanges* changes)
      : catalog_(catalog), run_(run), batch_(batch), changes_(changes) {}

  Status complete() {
    collect();
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

  void collect() {
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch_->next_op(&cursor, &op);) {
      switch (op.kind) {
        case OpKind::kPut:
        case OpKind::kHeader:
        case OpKind::kTombstone:
          note_key(op.tree, main_key_of(op.key), !op.element);
          break;
        case OpKind::kRangeTombstone:
          note_range(op.tree, {std::string(op.key), std::string(op.end)});
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
  }
  void note_key(DatabaseId database, Bytes key, bool main) {
    Touched* const t = touched(database);
    if (t == nullptr) return;
    const bool indexed = std::any_of(t->indexes->begin(), t->indexes->end(),
                                     [&](const auto& index) { return key.starts_with(index.second.prefix); });
    if (indexed) t->keys[std::string(key)] |= main;
  }
  void note_range(DatabaseId database, const KeyRange& range) {
    Touched* const t = touched(database);
    if (t == nullptr) return;
    const Bytes key = main_key_of(range.start);
    if (key.size() != range.start.size()) return note_key(database, key, false);  // elements of one collection
    for (const auto& [name, index] : *t->indexes) {
      const KeyRange records = index.records();
      if (is_within(records, range)) {
        t->emptied.insert(name);
      } else if (overlap(records, range)) {
        t->rebuilt.insert(name);
      }
    }
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

  /// Computes the changes of all records before the batch gets more operations: `pending` reads its bytes.
  Status compare(const PendingWrites& pending) {
    bool resident = true;
    for (const auto& [database, t] : databases_) {
      const ReadView view = run_.view(database);
      const bool stamped_now = view.stamp_mode() == StampMode::kWriteTime;
      for (const auto& [key, written] : t.keys) {
        for (const auto& [name, index] : *t.indexes) {
          if (!key.starts_with(index.prefix) || t.rebuilt.contains(name)) continue;
          Change change{.tree = index.tree(database)};
          // An emptied index has no entry any more.
          TRY(look(t.emptied.contains(name) ? nullptr : &view, nullptr, index, key, &change.before, &resident));
          TRY(look(&view, &pending, index, key, &change.after, &resident));
          if (stamped_now && written && change.after) change.after->stamp = kNoStamp;
          entries_.push_back(std::move(change));
        }
      }
    }
    return resident ? Status::ok() : Status::not_resident();
  }
  /// Goes on at a missing page, so that one fetch reads all that are missing.
  Status look(const ReadView* view, const PendingWrites* pending, const IndexDefinition& index, Bytes key,
              std::optional<IndexEntry>* entry, bool* resident) {
    if (view == nullptr) return Status::ok();
    auto found = entry_of_record(*view, pending, index, key);
    if (found.status().is_not_resident()) {
      *resident = false;
      return Status::ok();
    }
    TRY(found.status());
    *entry = std::move(found).value();
    return Status::ok();
  }

  // Whole trees come first, since the entries of this batch are newer.
  void write(DatabaseId database, const Touched& t) {
    for (const auto& [name, index] : *t.indexes) {
      const bool rebuilt = t.rebuilt.contains(name);
      if (rebuilt || t.emptied.contains(name)) batch_->flush_database(index.tree(database));
      if (rebuilt) {
        IndexDefinition building = index;
        building.building_from = "";
        ++building.builds;
        put_definition(batch_, database, building);
        changes_->emplace_back(database, std::move(building));
      }
      for (const auto& [lo, hi] : t.deleted_stamps) batch_->delete_stamps(index.tree(database), lo, hi);
    }
    for (const Change& change : entries_) {
      if (owner_of(change.tree) == database) change_index_entry(batch_, change.tree, change.before, change.after);
    }
  }

  const IndexCatalog& catalog_;
  const IndexRun& run_;
  WriteBatch* const batch_;
  IndexChanges* const changes_;
  std::map<DatabaseId, Touched> databases_;
  std::vector<Change> entries_;
};

/// A field of a record.
struct FieldValue {
  std::string value;
  Millis expiry = 0;
};

/// Returns the field of a located hash, whose entry was read; nullopt if there is none, or if it is too long to be indexed.
Result<std::optional<FieldValue>> field_of(Strings& strings, const LookupKey& key, Bytes field, const Found& hash) {
  std::optional<FieldValue> none;
  if (hash.kind == EntryKind::kCompact) {
    TRY_ASSIGN(value, find_field(hash.value, field));
    if (!value) return none;
    return std::optional(FieldValue{std::string(*value), 0});
  }
  TRY_ASSIGN(header, LargeHeader::decode(hash.value));
  ElementKeys keys(key.key, header.generation);
  const std::string& name = keys.of(ElementClass::kField, field);
  std::optional<Found> element;
  TRY(strings.locate_any({name, hash_key(name)}, &element));
  if (!element || element->length > kMostIndexedBytes) return none;
  TRY(strings.read(&*element));
  return std::optional(FieldValue{std::string(element->value), element->expiry});
}

std::optional<std::string> indexed_value(const IndexDefinition& definition, std::string value) {
  if (definition.order == IndexOrder::kText) return value;
  const auto number = parse_double(value);
  if (!number || std::isnan(*number)) return std::nullopt;
  return ordered_number(*number);
}

}  // namespace

Result<std::optional<IndexEntry>> entry_of_record(const ReadView& view, const PendingWrites* pending,
                                                  const IndexDefinition& definition, Bytes key) {
  std::optional<IndexEntry> none;
  WriteBatch unused;
  ReadCounts counts;
  Strings strings(view, unused, counts, pending);
  const LookupKey lookup{key, hash_key(key)};
  std::optional<Found> found;
  TRY(strings.locate_any(lookup, &found));
  if (!found || !is_collection(found->kind)) return none;
  TRY(strings.read(&*found));
  if (collection_type_of(found->value) != CollectionType::kHash) return none;
  TRY_ASSIGN(field, field_of(strings, lookup, definition.source, *found));
  if (!field) return none;
  auto value = indexed_value(definition, std::move(field->value));
  if (!value) return none;
  auto entry_key = index_entry_key(*value, key);
  if (!entry_key) return none;
  IndexEntry entry{.key = std::move(*entry_key), .expiry = found->expiry, .stamp = found->stamp};
  if (field->expiry != 0 && (entry.expiry == 0 || field->expiry < entry.expiry)) entry.expiry = field->expiry;
  return std::optional(std::move(entry));
}

Status maintain_indexes(const IndexCatalog& catalog, const IndexRun& run, WriteBatch* batch, IndexChanges* changes) {
  return Maintenance(catalog, run, batch, changes).complete();
}

}  // namespace ebbtide
