// The expected contents of the database: ordered maps, and the list of their operations, so that any prefix can be rebuilt.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/db/harness.h"

namespace ebbtide {

class Model {
 public:
  struct Value {
    std::string bytes;
    Millis expiry = 0;
    DeleteKey stamp = kNoStamp;
    EntryKind kind = EntryKind::kValue;
  };
  using Map = std::map<std::string, Value>;
  struct Op {
    enum Kind { kPut, kDel, kRange, kStamps, kFlush, kSwap } kind;
    DatabaseId database, other;
    std::string key, end;
    Value value;
    DeleteKey lo, hi;  ///< kStamps
  };
  struct Batch {
    SeqNum first = 0, last = 0;
    std::vector<Op> ops;
  };

  explicit Model(DatabaseId databases) : maps_(databases) {}

  void apply(Batch batch) {
    for (const Op& op : batch.ops) apply(op);
    history_.push_back(std::move(batch));
  }
  /// Restores the state after operation `seq`. Returns false if that splits a batch.
  bool rewind(SeqNum seq) {
    for (Map& map : maps_) map.clear();
    std::vector<Batch> kept;
    for (Batch& batch : history_) {
      if (batch.first > seq) break;
      if (batch.last > seq) return false;
      kept.push_back(std::move(batch));
    }
    history_ = std::move(kept);
    for (const Batch& batch : history_) {
      for (const Op& op : batch.ops) apply(op);
    }
    return true;
  }
  [[nodiscard]] std::string get(DatabaseId d, const std::string& key, Millis now) const {
    auto it = maps_[d].find(key);
    return it == maps_[d].end() || dead(it->second, now) ? "(absent)" : it->second.bytes;
  }
  [[nodiscard]] const Map& map(DatabaseId d) const { return maps_[d]; }
  [[nodiscard]] static bool dead(const Value& v, Millis now) { return v.expiry != 0 && v.expiry <= now; }
  [[nodiscard]] SeqNum last_seq() const { return history_.empty() ? 0 : history_.back().last; }

 private:
  void apply(const Op& op) {
    Map& map = maps_[op.database];
    switch (op.kind) {
      case Op::kPut:
        map[op.key] = op.value;
        break;
      case Op::kDel:
        map.erase(op.key);
        break;
      case Op::kRange:
        map.erase(map.lower_bound(op.key), op.end.empty() ? map.end() : map.lower_bound(op.end));
        break;
      case Op::kStamps:
        std::erase_if(map, [&](const auto& item) { return op.lo <= item.second.stamp && item.second.stamp < op.hi; });
        break;
      case Op::kFlush:
        map.clear();
        break;
      case Op::kSwap:
        std::swap(maps_[op.database], maps_[op.other]);
        break;
    }
  }
  std::vector<Map> maps_;
  std::vector<Batch> history_;
};

/// Applies the same operations to harness and model. `Choices` chooses them, from a `Source`: random numbers of a seed
/// (ModelDriver), or the bytes of an input (tests/fuzz/operations_fuzz.cc). The caller names the seed through INFO, which every
/// check shows.
template <typename Choices, typename Source>
class BasicModelDriver {
 public:
  /// `second`: the number of the model's database 1, which may be an index tree of database 0.
  BasicModelDriver(Harness& harness, Source source, int keys, DatabaseId second = 1)
      : h_(harness), random_(source), keys_(keys), stamp_(harness.settings.tree.stamp), model_(kDatabases), second_(second) {}
  static constexpr DatabaseId kDatabases = 2;

  /// Makes one random write batch.
  void write() {
    WriteBatch batch;
    Model::Batch mirror;
    const int count = random_.one_in(4) ? 1 + static_cast<int>(random_.uniform(5)) : 1;
    for (int i = 0; i < count; ++i) add_op(&batch, &mirror);
    if (batch.empty()) return;
    if (!stage(batch, mirror)) {
      demand_ok(h_.db->commit(batch), "commit");
      note_committed(batch, std::move(mirror));
      if (staged_.batch != nullptr) {
        demand_ok(h_.db->commit(*staged_.batch), "commit of a staged batch");
        note_committed(staged_.batch->batch(), std::move(staged_.mirror));
        staged_ = {};
      }
    }
    if (!random_.one_in(3)) h_.db->write_log();
    durable_ = h_.db->durable_seq();
    synced_ = h_.db->stats().synced_seq;
  }
  void check_get() {
    const auto d = database();
    const std::string key = !borders_.empty() && random_.one_in(2) ? borders_[random_.uniform(borders_.size())] : random_key();
    demand_same(h_.get(number(d), key), model_.get(d, key, h_.db->now()), key);
    Found found;
    const ReadView view = h_.db->lease(number(d));
    if (!view.get({key, hash_key(key)}, &found).is_ok()) return;
    demand(found.kind == model_.map(d).at(key).kind, "a get returns another kind");
    demand(!is_collection(found.kind) || view.may_have_collection({key, hash_key(key)}), "a database denies a collection");
  }
  void check_scan() {
    const auto d = database();
    KeyRange range;
    if (random_.one_in(2)) range = random_range();
    IteratorOptions options;
    options.bounds = range;
    if (random_.one_in(3)) options.max_steps = 1 + random_.uniform(20);
    const ReadView view = h_.db->lease(number(d));
    auto it = h_.db->iterate(view, options);
    std::vector<std::pair<std::string, std::string>> expected, seen;
    for (const auto& [key, value] : model_.map(d)) {
      if (range.contains(key) && !Model::dead(value, view.now())) expected.emplace_back(key, value.bytes);
    }
    const auto check_entry = [&] {
      const auto in_model = model_.map(d).find(std::string(it->key()));
      if (in_model != model_.map(d).end()) {
        demand(it->stamp() == in_model->second.stamp, "a key in a scan has another stamp");
        demand(it->kind() == in_model->second.kind, "a key in a scan has another kind");
      }
      seen.emplace_back(it->key(), it->value());
    };
    const bool backward = random_.one_in(2);
    if (backward) {
      std::reverse(expected.begin(), expected.end());
      for (it->seek_to_last(); it->valid() || it->paused();) {
        if (it->paused()) {
          it->seek_before(std::string(it->resume_key()));
          continue;
        }
        check_entry();
        it->prev();
      }
    } else {
      for (it->seek_to_first(); it->valid() || it->paused();) {
        if (it->paused()) {
          it->seek(std::string(it->resume_key()));
          continue;
        }
        check_entry();
        it->next();
      }
    }
    demand_ok(it->status(), "scan");
    demand(seen == expected, "a scan sees other keys or values than the model has");
  }
  /// Checks a secondary range lookup, step by step.
  void check_stamps() {
    const auto d = database();
    DeleteKey lo = 0, hi = 0;
    random_stamps(&lo, &hi);
    const ReadView view = h_.db->lease(number(d));
    std::vector<std::pair<std::string, DeleteKey>> expected, seen;
    for (const auto& [key, value] : model_.map(d)) {
      if (lo <= value.stamp && value.stamp < hi && !Model::dead(value, view.now())) expected.emplace_back(key, value.stamp);
    }
    const std::size_t keys_at_once = 1 + random_.uniform(30);
    const std::uint64_t pages_at_once = 1 + random_.uniform(8);
    std::string from;
    for (bool more = true; more;) {
      const auto found = h_.db->scan_stamps(view, lo, hi, from, keys_at_once, pages_at_once);
      demand_ok(found.status(), "scan of stamps");
      demand(found->keys.size() <= keys_at_once, "a scan of stamps gives more keys than were asked for");
      for (const StampedKeys::Key& key : found->keys) {
        seen.emplace_back(key.key, key.stamp);
        const auto in_model = model_.map(d).find(key.key);
        demand(in_model == model_.map(d).end() || key.kind == in_model->second.kind, "a scan of stamps gives another kind");
      }
      more = found->more;
      demand(!more || found->resume > from, "a scan of stamps does not get on");
      from = found->resume;
    }
    demand(seen == expected, "a scan of stamps sees other keys or stamps than the model has");
    (void)h_.db->estimate_stamps(number(d), lo, hi);
  }
  void check_everything() {
    for (DatabaseId d = 0; d < kDatabases; ++d) {
      const ReadView view = h_.db->lease(number(d));
      auto it = h_.db->iterate(view, {});
      std::map<std::string, std::string> expected, seen;
      for (const auto& [key, value] : model_.map(d)) {
        if (!Model::dead(value, view.now())) expected[key] = value.bytes;
      }
      for (it->seek_to_first(); it->valid(); it->next()) seen.emplace(it->key(), it->value());
      demand_ok(it->status(), "walk over everything");
      demand(seen == expected, "a walk over everything sees other keys or values than the model has");
      for (int i = 0; i < 10; ++i) {
        const std::string key = random_key();
        demand_same(h_.get(number(d), key), model_.get(d, key, h_.db->now()), key);
      }
    }
  }
  /// Opens a view that stays open for a while, or checks and closes an old one.
  void change_views() {
    if (views_.size() < 3 && random_.one_in(2)) {
      const auto d = database();
      views_.push_back({h_.db->lease(number(d)), model_.map(d)});
    } else if (!views_.empty()) {
      views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(random_.uniform(views_.size())));
    }
  }
  /// Releases all views before the database is closed.
  void close_views() {
    views_.clear();
    staged_ = {};
  }
  [[nodiscard]] bool has_views() const { return !views_.empty(); }
  /// Checks that each open view shows the state at its opening.
  void check_views() {
    for (const OpenView& open : views_) {
      const auto it = h_.db->iterate(open.view, {});
      std::map<std::string, std::string> expected, seen;
      for (const auto& [key, value] : open.map) {
        if (!Model::dead(value, open.view.now())) expected[key] = value.bytes;
      }
      for (it->seek_to_first(); it->valid(); it->next()) seen.emplace(it->key(), it->value());
      if (it->status().code() == Code::kRevoked) continue;
      demand_ok(it->status(), "walk over an open view");
      demand(seen == expected, "an open view sees other keys or values than when it was opened");
      const std::string key = random_key();
      Found found;
      const Status status = open.view.get({key, hash_key(key)}, &found);
      demand_same(status.is_ok() ? std::string(found.value) : "(absent)", expected.contains(key) ? expected.at(key) : "(absent)",
                  key + " in an open view");
    }
  }
  /// Checks the state after a crash and an open: durable operations are there, and the state is the result of a prefix of all
  /// operations.
  void check_recovered(SeqNum must_have) {
    staged_ = {};  // a staged batch that was never committed
    const SeqNum recovered = h_.db->visible_seq();
    demand(recovered >= must_have, "what was durable is lost");
    demand(model_.rewind(recovered), "what was recovered ends in the middle of a batch");
    check_everything();
  }

  [[nodiscard]] SeqNum durable() const { return durable_; }
  [[nodiscard]] SeqNum synced() const { return synced_; }
  Choices& random() { return random_; }
  Model& model() { return model_; }

 private:
  struct Staged {
    std::unique_ptr<StagedBatch> batch{};
    Model::Batch mirror{};
  };
  /// Stages every eighth batch, and commits it after the next ordinary batch. Returns true if it was staged.
  bool stage(WriteBatch& batch, Model::Batch& mirror) {
    if (++writes_ % 8 != 0 || staged_.batch != nullptr) return false;
    auto staged = h_.db->stage(std::move(batch));
    if (!staged.is_ok()) {
      demand(staged.status().code() == Code::kUnsupported, "staging is refused");
      return false;
    }
    staged_ = {std::move(staged).value(), std::move(mirror)};
    return true;
  }
  void note_committed(const WriteBatch& batch, Model::Batch mirror) {
    for (Model::Op& op : mirror.ops) {
      if (op.kind == Model::Op::kPut) op.value.stamp = stamp_of(op, batch.time());
    }
    mirror.first = batch.first_seq();
    mirror.last = batch.last_seq();
    model_.apply(std::move(mirror));
  }
  DatabaseId database() { return random_.one_in(5) ? 1 : 0; }
  /// Returns the number by which the engine knows a database of the model.
  [[nodiscard]] DatabaseId number(DatabaseId database) const { return database == 0 ? 0 : second_; }
  std::string random_key() {
    // Some keys share long prefixes, some are a prefix of another, some contain special bytes.
    const auto i = random_.uniform(static_cast<std::uint64_t>(keys_));
    switch (i % 7) {
      case 0:
        return "k" + std::to_string(i / 7);
      case 1:
        return std::string("k\0", 2) + std::to_string(i / 7);
      case 2:
        return "k\xff" + std::to_string(i / 7);
      case 3:
        return std::string(static_cast<std::size_t>(i % 50), 'a');
      default:
        return "user:000000:" + std::to_string(i);
    }
  }
  KeyRange random_range() {
    std::string a = random_key(), b = random_key();
    if (b < a) std::swap(a, b);
    if (random_.one_in(20)) b.clear();
    return {a, b};
  }
  /// Returns a range, mostly from an existing key to a key a little further on, so that deletes are small and begin and end at
  /// keys.
  KeyRange range_to_delete(DatabaseId d) {
    const Model::Map& map = model_.map(d);
    auto start = map.lower_bound(random_key()), end = start;
    for (std::uint64_t n = 1 + random_.uniform(8); n > 0 && end != map.end(); --n) ++end;
    if (end == map.end() || random_.one_in(5)) return random_range();
    return {start->first, end->first};
  }
  [[nodiscard]] StampMode mode_of(DatabaseId database) const {
    if (!is_index_tree(number(database))) return stamp_;
    return stamp_ == StampMode::kWriteTime ? StampMode::kGiven : StampMode::kExplicit;
  }
  [[nodiscard]] DeleteKey stamp_of(const Model::Op& op, Millis time) const {
    const Model::Value& value = op.value;
    switch (mode_of(op.database)) {
      case StampMode::kWriteTime:
        return time;
      case StampMode::kExpireTime:
        return value.expiry == 0 ? kNoStamp : value.expiry;
      case StampMode::kExplicit:
        break;
      case StampMode::kGiven:
        return value.stamp == kNoStamp ? time : value.stamp;
    }
    return value.stamp;
  }
  /// Sets a range of delete keys that contains some of those in use.
  void random_stamps(DeleteKey* lo, DeleteKey* hi) {
    const Millis now = h_.db->now();
    if (stamp_ == StampMode::kExplicit) {
      *lo = random_.uniform(1000);
      *hi = *lo + 1 + random_.uniform(100);
    } else if (stamp_ == StampMode::kWriteTime) {
      *lo = now - random_.uniform(60'000);
      *hi = *lo + 1 + random_.uniform(20'000);
    } else {
      *lo = now - 20'000 + random_.uniform(80'000);
      *hi = *lo + 1 + random_.uniform(20'000);
    }
    if (random_.one_in(20)) *lo = 0;
    if (random_.one_in(40)) *hi = kDeleteKeyEnd;
  }
  void add_op(WriteBatch* batch, Model::Batch* mirror) {
    Model::Op op{};
    op.database = database();
    const auto dice = random_.uniform(1000);
    if (dice < 650) {
      op.kind = Model::Op::kPut;
      op.key = random_key();
      const std::size_t size = random_.one_in(400) ? kLargeValueBytes + random_.uniform(100'000) : random_.uniform(200);
      const std::uint64_t bits = random_.next();
      op.value.bytes = std::to_string(bits) + std::string(size, static_cast<char>('a' + random_.uniform(26)));
      if (bits % 4 == 0) op.value.kind = EntryKind::kCompact;
      if (random_.one_in(8)) op.value.expiry = h_.db->now() + 1 + random_.uniform(60'000);
      if (stamp_ == StampMode::kExplicit && !random_.one_in(4)) op.value.stamp = random_.uniform(1000);
      if (stamp_ == StampMode::kExpireTime && op.value.expiry != 0) op.value.stamp = op.value.expiry;
      if (mode_of(op.database) == StampMode::kGiven && random_.one_in(2)) op.value.stamp = h_.db->now() - random_.uniform(60'000);
      batch->put(number(op.database), op.key, op.value.bytes,
                 {.stamp = op.value.stamp, .expiry = op.value.expiry, .kind = op.value.kind, .debt = bits / 4 % 4 == 0});
    } else if (dice < 930) {
      op.kind = Model::Op::kDel;
      op.key = random_key();
      batch->del(number(op.database), op.key);
    } else if (dice < 970) {
      op.kind = Model::Op::kRange;
      const KeyRange range = range_to_delete(op.database);
      if (range.start >= range.end && !range.end.empty()) return;
      op.key = range.start;
      op.end = range.end;
      if (op.end.empty() && !random_.one_in(10)) return;
      batch->delete_range(number(op.database), op.key, op.end);
      if (borders_.size() > kBorders) borders_.erase(borders_.begin(), borders_.begin() + 2);
      borders_.insert(borders_.end(), {op.key, op.end});
    } else if (dice < 992) {
      op.kind = Model::Op::kStamps;
      random_stamps(&op.lo, &op.hi);
      batch->delete_stamps(number(op.database), op.lo, op.hi);
    } else if (dice < 994) {
      op.kind = Model::Op::kFlush;
      batch->flush_database(number(op.database));
    } else if (dice < 997) {
      if (is_index_tree(second_)) return;
      op.kind = Model::Op::kSwap;
      op.database = 0;
      op.other = 1;
      batch->swap_databases(0, 1);
    } else {
      return;
    }
    mirror->ops.push_back(std::move(op));
  }

  struct OpenView {
    ReadView view;
    Model::Map map;
  };
  Harness& h_;
  Choices random_;
  const int keys_;
  const StampMode stamp_;
  static constexpr std::size_t kBorders = 20;
  std::vector<std::string> borders_;  // ends of the latest range deletes, where mistakes are likely
  std::vector<OpenView> views_;
  Model model_;
  const DatabaseId second_;
  Staged staged_;  // a batch that waits for its commit
  std::uint64_t writes_ = 0;
  SeqNum durable_ = 0, synced_ = 0;
};

using ModelDriver = BasicModelDriver<Random, std::uint64_t>;

}  // namespace ebbtide
