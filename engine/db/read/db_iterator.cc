#include "db/read/db_iterator.h"

#include <map>
#include <utility>

#include "db/trees/tree_view.h"
#include "iter/barrier_iterator.h"
#include "iter/merging_iterator.h"
#include "iter/run_iterator.h"
#include "iter/visible_iterator.h"

namespace ebbtide {
namespace {

// Tables of a run, by index, whose range tombstones could not be read.
using Failed = std::map<std::size_t, Status>;

// Makes an iterator over the tables of a run within bounds, as a child of the merge. When the iterator reaches a failed table, it
// ends with the table's error.
std::unique_ptr<InternalIterator> run_child(const RunView& run, const KeyRange& bounds, bool fill_cache, std::size_t readahead,
                                            Failed failed) {
  RunFiles files;
  files.files = run.tables().size();
  files.stats = [&run](std::size_t i) -> const TableStats& { return run.tables()[i]->meta->stats; };
  files.open = [&run, bounds, fill_cache, readahead,
                failed = std::move(failed)](std::size_t i) -> std::unique_ptr<InternalIterator> {
    if (const auto at = failed.find(i); at != failed.end())
      return std::make_unique<BarrierIterator>(run.tables()[i]->meta->stats, bounds.start, at->second);
    return run.reader(i).new_iterator({bounds, fill_cache, nullptr, readahead});
  };
  return std::make_unique<RunIterator>(std::move(files), bounds);
}

std::unique_ptr<MergingIterator> merge_tree(const TreeView& view, const KeyRange& bounds, bool fill_cache,
                                            std::vector<TombstoneSource>* tombstones) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (const auto& memtable : view.memtables) {
    // The tombstone runs of one memtable may overlap. So each run is a source of its own, with the age of the memtable.
    for (SharedTombstones& run : memtable->range_tombstone_runs()) tombstones->push_back({children.size(), {std::move(run)}});
    children.push_back(memtable->new_iterator());
  }
  const std::size_t readahead = readahead_of_each(view.tables->runs.size());
  for (const RunView& run : view.tables->runs) {
    TombstoneSource source{children.size(), {}};
    Failed failed;
    for (std::size_t c = 0; c < run.tables().chunks(); ++c) {
      const TableList::Chunk& chunk = run.tables().at_chunk(c);
      if (TableList::sums_of(chunk).special == 0) continue;
      for (std::size_t i = run.tables().start_of(c), end = i + chunk.items.size(); i < end; ++i) {
        if (!run.has_range_tombstones(i) || run.is_unreadable(i) || !run.tables()[i]->meta->stats.overlaps(bounds)) continue;
        if (const auto table = run.reader(i).pinned(); table.is_ok()) {
          source.sets.push_back((*table)->range_tombstones());
        } else {
          failed.emplace(i, table.status());
        }
      }
    }
    if (!source.sets.empty()) tombstones->push_back(std::move(source));
    children.push_back(run_child(run, bounds, fill_cache, readahead, std::move(failed)));
  }
  return std::make_unique<MergingIterator>(std::move(children));
}

class DbIterator final : public Iterator {
 public:
  DbIterator(std::shared_ptr<Lease> lease, Millis now, const IteratorOptions& options, const RangeTally& tally,
             std::shared_ptr<LargeValues> values)
      : lease_(std::move(lease)), values_(std::move(values)), tally_(tally), walk_(make_walk(*lease_, now, options)) {}
  ~DbIterator() override {
    if (tally_.counters == nullptr || seeks_ == 0) return;
    DatabaseCounters& mine = tally_.counters->of(tally_.counters->mine(), tally_.database);
    ThreadCounters::add(mine.ranges, seeks_);
    ThreadCounters::add(mine.range_entries, stops_ + walk_.steps());
  }
  DbIterator(const DbIterator&) = delete;
  DbIterator& operator=(const DbIterator&) = delete;

  void seek_to_first() override {
    ++seeks_;
    move([&] { walk_.seek_to_first(); });
  }
  void seek_to_last() override {
    ++seeks_;
    move([&] { walk_.seek_to_last(); });
  }
  void seek(Bytes target) override {
    ++seeks_;
    move([&] { walk_.seek(target); });
  }
  void seek_before(Bytes target) override {
    ++seeks_;
    move([&] { walk_.seek_before(target); });
  }
  void next() override {
    move([&] { walk_.next(); });
  }
  void prev() override {
    move([&] { walk_.prev(); });
  }

  [[nodiscard]] bool valid() const override { return status_.is_ok() && walk_.valid(); }
  [[nodiscard]] bool paused() const override { return status_.is_ok() && walk_.paused(); }
  [[nodiscard]] Bytes resume_key() const override { return walk_.resume_key(); }
  [[nodiscard]] Bytes key() const override { return walk_.entry().key; }
  [[nodiscard]] Bytes value() override {
    const Entry& entry = walk_.entry();
    if (!entry.is_large()) return entry.value;
    if (large_ == nullptr) {
      auto value = values_->read(*static_cast<const TableLookup*>(entry.large.table), entry.large);
      if (!value.is_ok()) {
        status_ = value.status();
        return {};
      }
      large_ = std::move(value).value();
    }
    return *large_;
  }
  [[nodiscard]] EntryKind kind() const override { return walk_.entry().kind; }
  [[nodiscard]] Millis expiry() const override { return walk_.entry().expiry; }
  [[nodiscard]] DeleteKey stamp() const override { return walk_.entry().delete_key; }
  [[nodiscard]] SeqNum seq() const override { return walk_.entry().seq; }
  [[nodiscard]] std::uint64_t steps() const override { return walk_.steps(); }
  [[nodiscard]] Status status() const override { return status_.is_ok() ? walk_.status() : status_; }

 private:
  static VisibleIterator make_walk(const Lease& lease, Millis now, const IteratorOptions& options) {
    std::vector<TombstoneSource> tombstones;
    auto merged = merge_tree(*lease.view(), options.bounds, true, &tombstones);
    VisibleOptions visible;
    visible.bounds = options.bounds;
    visible.view_seq = lease.seq();
    visible.now = now;
    visible.max_steps = options.max_steps;
    visible.elements = options.elements;
    visible.records = lease.view()->record_sets();
    return {std::move(merged), std::move(tombstones), std::move(visible)};
  }

  template <typename Move>
  void move(Move step) {
    if (large_ != nullptr) large_ = nullptr;
    if (lease_->revoked()) [[unlikely]] {
      status_ = revoked_view();
      return;
    }
    if (!status_.is_ok()) status_ = Status::ok();
    step();
    stops_ += walk_.valid() ? 1 : 0;
  }

  const std::shared_ptr<Lease> lease_;
  const std::shared_ptr<LargeValues> values_;
  const RangeTally tally_;
  std::uint64_t seeks_ = 0;
  std::uint64_t stops_ = 0;  // keys at which a move stopped
  VisibleIterator walk_;
  Status status_;
  std::shared_ptr<const std::string> large_;
};

class EmptyIterator final : public Iterator {
 public:
  void seek_to_first() override {}
  void seek_to_last() override {}
  void seek(Bytes) override {}
  void seek_before(Bytes) override {}
  void next() override {}
  void prev() override {}
  [[nodiscard]] bool valid() const override { return false; }
  [[nodiscard]] bool paused() const override { return false; }
  [[nodiscard]] Bytes resume_key() const override { return {}; }
  [[nodiscard]] Bytes key() const override { return {}; }
  [[nodiscard]] Bytes value() override { return {}; }
  [[nodiscard]] EntryKind kind() const override { return EntryKind::kValue; }
  [[nodiscard]] Millis expiry() const override { return 0; }
  [[nodiscard]] DeleteKey stamp() const override { return kNoStamp; }
  [[nodiscard]] SeqNum seq() const override { return 0; }
  [[nodiscard]] std::uint64_t steps() const override { return 0; }
  [[nodiscard]] Status status() const override { return {}; }
};

}  // namespace

std::unique_ptr<Iterator> new_db_iterator(std::shared_ptr<Lease> lease, Millis now, const IteratorOptions& options,
                                          const RangeTally& tally, std::shared_ptr<LargeValues> values) {
  if (lease == nullptr) return std::make_unique<EmptyIterator>();
  return std::make_unique<DbIterator>(std::move(lease), now, options, tally, std::move(values));
}

}  // namespace ebbtide
