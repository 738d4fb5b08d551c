#include "store/pending_writes.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

bool contains(const KeyRange& range, Bytes key) { return key >= range.start && (range.end.empty() || key < range.end); }

}  // namespace

bool PendingWrites::Database::hides(Bytes key) const {
  return std::any_of(deleted.begin(), deleted.end(), [key](const KeyRange& range) { return contains(range, key); });
}

bool PendingWrites::Database::hides_stamp(DeleteKey stamp) const {
  return std::any_of(deleted_stamps.begin(), deleted_stamps.end(),
                     [stamp](const auto& range) { return range.first <= stamp && stamp < range.second; });
}

StampMode PendingWrites::stamp_mode(const ReadView& view) const {
  const Database* database = find(view.database());
  return database == nullptr ? view.stamp_mode() : database->mode;
}

DeleteKey PendingWrites::stamp_of(const Database& database, const WriteBatch::Op& op) const {
  switch (database.mode) {
    case StampMode::kWriteTime:
      return db_->stamped(now_);  // the time of the commit may be a little later; see kSecondaryDelete below
    case StampMode::kExpireTime:
      return op.expiry == 0 ? kNoStamp : op.expiry;
    case StampMode::kExplicit:
      break;
    case StampMode::kGiven:
      return op.stamp == kNoStamp ? db_->stamped(now_) : op.stamp;
  }
  return op.stamp;
}

ReadView PendingWrites::view_of(DatabaseId database) const {
  return views_ != nullptr ? (*views_)(database) : db_->view(database, now_, mode_, misses_);
}

PendingWrites::Database& PendingWrites::database_of(DatabaseId database) {
  const auto [it, is_new] = databases_.try_emplace(database);
  if (is_new) {
    it->second.base = database;
    it->second.mode = db_->stamp_mode(database);
  }
  return it->second;
}

const PendingWrites::Database* PendingWrites::find(DatabaseId database) const {
  const auto it = databases_.find(database);
  return it == databases_.end() ? nullptr : &it->second;
}

void PendingWrites::apply_new() {
  WriteBatch::Op op;
  for (std::size_t at = applied_; batch_.next_op(&applied_, &op); at = applied_) apply(at, op);
}

WriteBatch::Op PendingWrites::operation_of(const Entry& entry) const {
  std::size_t cursor = entry.op;
  WriteBatch::Op op;
  batch_.next_op(&cursor, &op);
  return op;
}

void PendingWrites::apply(std::size_t at, const WriteBatch::Op& op) {
  switch (op.kind) {
    case OpKind::kPut:
    case OpKind::kHeader: {
      Database& database = database_of(op.tree);
      Entry& entry = database.entries[std::string(op.key)];
      entry = Entry{};
      entry.kind = op.value_kind;
      entry.element = op.element;
      database.collections |= is_collection(op.value_kind);
      entry.expiry = op.expiry;
      entry.stamp = stamp_of(database, op);
      entry.op = at;
      return;
    }
    case OpKind::kTombstone: {
      Entry& entry = database_of(op.tree).entries[std::string(op.key)];
      entry = Entry{};
      entry.deleted = true;
      return;
    }
    case OpKind::kRangeTombstone: {
      Database& database = database_of(op.tree);
      KeyRange range{std::string(op.key), std::string(op.end)};
      auto& entries = database.entries;
      entries.erase(entries.lower_bound(op.key), op.end.empty() ? entries.end() : entries.lower_bound(op.end));
      database.deleted.push_back(std::move(range));
      return;
    }
    case OpKind::kFlushDatabase: {
      const auto number = static_cast<DatabaseId>(op.lo);
      Database& database = database_of(number);
      database = Database{};
      database.mode = db_->configured_stamp_mode(number);
      return;
    }
    case OpKind::kSwapDatabases:
      std::swap(database_of(static_cast<DatabaseId>(op.lo)), database_of(static_cast<DatabaseId>(op.hi)));
      return;
    case OpKind::kSecondaryDelete: {
      // In mode write_time a pending entry gets the time of the commit, which is not known yet. If a bound of the range lies
      // between now and the commit, the command makes the commit fail.
      Database& database = database_of(op.tree);
      for (auto& [key, entry] : database.entries) {
        if (entry.deleted || entry.stamp < op.lo || entry.stamp >= op.hi) continue;
        const bool header = entry.kind == EntryKind::kHeader;
        entry = Entry{};
        entry.deleted = true;
        entry.leaves_elements = header;
      }
      database.deleted_stamps.emplace_back(op.lo, op.hi);
      return;
    }
    case OpKind::kCreateTree:
      return;  // no handler writes these operations
  }
}

Status PendingWrites::locate(const ReadView& view, const LookupKey& key, Found* found) const {
  const Database* database = find(view.database());
  if (database == nullptr) return view.locate(key, found);
  if (const auto it = database->entries.find(key.key); it != database->entries.end()) {
    const Entry& entry = it->second;
    if (entry.deleted || (entry.expiry != 0 && entry.expiry <= now_)) {
      const bool header = entry.leaves_elements || (!entry.deleted && entry.kind == EntryKind::kHeader);
      found->died = header ? now_ : 0;
      return Status::not_found();
    }
    const WriteBatch::Op op = operation_of(entry);
    found->value = op.value;
    found->pin = op.shared != nullptr ? *op.shared : nullptr;
    found->length = found->value.size();
    found->kind = entry.kind;
    found->seq = view.seq();
    found->expiry = entry.expiry;
    found->stamp = entry.stamp;
    return Status::ok();
  }
  if (!database->base || database->hides(key.key)) return Status::not_found();
  if (*database->base == view.database()) {
    TRY(view.locate(key, found));
  } else {
    TRY(view_of(*database->base).locate(key, found));
  }
  if (!database->hides_stamp(found->stamp)) return Status::ok();
  found->died = found->kind == EntryKind::kHeader ? now_ : 0;
  return Status::not_found();
}

bool PendingWrites::has_tree(const ReadView& view) const {
  const Database* database = find(view.database());
  if (database == nullptr) return view.has_tree();
  if (!database->entries.empty()) return true;
  return database->base && view_of(*database->base).has_tree();
}

bool PendingWrites::may_have_collection(const ReadView& view, const LookupKey& key) const {
  const Database* database = find(view.database());
  if (database == nullptr) return view.may_have_collection(key);
  return database->collections || (database->base && view_of(*database->base).may_have_collection(key));
}

// Merges overlay and base in key order. Skips base entries that the overlay replaces or hides.
class OverlayIterator final : public Iterator {
 public:
  OverlayIterator(const PendingWrites& writes, const PendingWrites::Database& overlay, std::unique_ptr<Iterator> base,
                  const IteratorOptions& options, Millis now)
      : writes_(writes),
        overlay_(overlay),
        base_(std::move(base)),
        bounds_(options.bounds),
        max_steps_(options.max_steps),
        elements_(options.elements),
        now_(now),
        entry_(overlay.entries.end()) {}

  void seek_to_first() override { seek(bounds_.start); }
  void seek(Bytes target) override {
    forward_ = true;
    const std::string from(std::max(target, Bytes(bounds_.start)));
    if (base_ != nullptr) base_->seek(from);
    entry_ = overlay_.entries.lower_bound(from);
    settle();
  }
  void seek_to_last() override {
    if (base_ != nullptr) base_->seek_to_last();
    entry_ = bounds_.end.empty() ? overlay_.entries.end() : overlay_.entries.lower_bound(bounds_.end);
    start_backward();
  }
  void seek_before(Bytes target) override {
    const std::string until(bounds_.end.empty() ? target : std::min(target, Bytes(bounds_.end)));
    if (base_ != nullptr) base_->seek_before(until);
    entry_ = overlay_.entries.lower_bound(until);
    start_backward();
  }
  void next() override {
    if (!forward_) return seek(std::string(key()) + '\0');
    if (on_overlay_) {
      ++entry_;
    } else {
      base_->next();
    }
    settle();
  }
  void prev() override { seek_before(std::string(key())); }

  [[nodiscard]] bool valid() const override { return valid_; }
  [[nodiscard]] bool paused() const override { return paused_; }
  [[nodiscard]] Bytes resume_key() const override { return hiding_ ? Bytes(resume_key_) : base_->resume_key(); }
  [[nodiscard]] Bytes key() const override { return on_overlay_ ? Bytes(entry_->first) : base_->key(); }
  [[nodiscard]] Bytes value() override { return on_overlay_ ? writes_.operation_of(entry_->second).value : base_->value(); }
  [[nodiscard]] EntryKind kind() const override { return on_overlay_ ? entry_->second.kind : base_->kind(); }
  [[nodiscard]] Millis expiry() const override { return on_overlay_ ? entry_->second.expiry : base_->expiry(); }
  [[nodiscard]] DeleteKey stamp() const override { return on_overlay_ ? entry_->second.stamp : base_->stamp(); }
  [[nodiscard]] SeqNum seq() const override { return on_overlay_ ? 0 : base_->seq(); }
  [[nodiscard]] std::uint64_t steps() const override { return base_ == nullptr ? 0 : base_->steps() + hidden_; }
  [[nodiscard]] Status status() const override { return base_ == nullptr ? Status::ok() : base_->status(); }

 private:
  using Position = decltype(PendingWrites::Database::entries)::const_iterator;

  [[nodiscard]] bool gone(const PendingWrites::Entry& entry) const {
    return entry.deleted || (entry.element && !elements_) || (entry.expiry != 0 && entry.expiry <= now_);
  }
  [[nodiscard]] bool base_hidden() const {
    return overlay_.entries.contains(base_->key()) || overlay_.hides(base_->key()) || overlay_.hides_stamp(base_->stamp());
  }

  // Returns true if the base is at a hidden key, which the iterator must skip. After max_steps hidden keys in one move it pauses.
  bool passes_over(std::uint64_t* passed) {
    if (base_ == nullptr || !base_->valid() || !base_hidden()) return false;
    if (max_steps_ != 0 && ++*passed > max_steps_) {
      hiding_ = true;
      resume_key_.assign(base_->key());
      if (forward_) resume_key_.push_back('\0');
      return false;
    }
    ++hidden_;
    return true;
  }
  void start_backward() {
    forward_ = false;
    hiding_ = false;
    for (std::uint64_t passed = 0; passes_over(&passed);) base_->prev();
    // Moves entry_ to the last existing entry before it; to end() if there is none.
    while (true) {
      if (entry_ == overlay_.entries.begin()) {
        entry_ = overlay_.entries.end();
        break;
      }
      --entry_;
      if (entry_->first < bounds_.start) {
        entry_ = overlay_.entries.end();
        break;
      }
      if (!gone(entry_->second)) break;
    }
    choose();
  }
  void settle() {
    hiding_ = false;
    for (std::uint64_t passed = 0; passes_over(&passed);) base_->next();
    while (entry_ != overlay_.entries.end() && gone(entry_->second)) ++entry_;
    if (entry_ != overlay_.entries.end() && !bounds_.end.empty() && entry_->first >= bounds_.end) entry_ = overlay_.entries.end();
    choose();
  }
  // Chooses the source of the next entry in the direction of iteration. A paused base is taken to be at its resume key.
  void choose() {
    const bool base_paused = base_ != nullptr && (hiding_ || base_->paused());
    const bool base_there = base_ != nullptr && (base_->valid() || base_paused);
    const bool entry_there = entry_ != overlay_.entries.end();
    on_overlay_ = entry_there;
    if (base_there && entry_there) {
      const Bytes place = base_paused ? resume_key() : base_->key();
      on_overlay_ = forward_ ? Bytes(entry_->first) < place : Bytes(entry_->first) > place;
    }
    paused_ = !on_overlay_ && base_paused;
    valid_ = on_overlay_ || (base_there && !base_paused);
  }

  const PendingWrites& writes_;
  const PendingWrites::Database& overlay_;
  const std::unique_ptr<Iterator> base_;  ///< null: no committed database below
  const KeyRange bounds_;
  const std::uint64_t max_steps_;
  const bool elements_;
  const Millis now_;
  Position entry_;
  std::string resume_key_;    // the base's next key, if hiding_
  std::uint64_t hidden_ = 0;  // number of hidden keys of the base that were skipped so far
  bool hiding_ = false;       // the base has stopped at a hidden key
  bool forward_ = true, on_overlay_ = false, valid_ = false, paused_ = false;
};

std::unique_ptr<Iterator> PendingWrites::iterate(const ReadView& view, const IteratorOptions& options) const {
  static const Database kAsCommitted;
  const Database* overlay = find(view.database());
  std::unique_ptr<Iterator> base;
  const std::optional<DatabaseId> source = overlay == nullptr ? view.database() : overlay->base;
  if (source == view.database()) {
    if (view.has_tree()) base = db_->iterate(view, options);
  } else if (source && view_of(*source).has_tree()) {
    base = db_->iterate(db_->lease(*source), options);
  }
  return std::make_unique<OverlayIterator>(*this, overlay == nullptr ? kAsCommitted : *overlay, std::move(base), options, now_);
}

}  // namespace ebbtide
