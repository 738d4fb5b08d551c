#include "db/read/db_iterator.h"

#include <map>
#include <utility>

#include "db/read/lookup.h"
#include "db/read/view_parts.h"
#include "db/trees/tree_view.h"
#include "iter/barrier_iterator.h"
#include "iter/merging_iterator.h"
#include "iter/run_iterator.h"
#include "iter/visible_iterator.h"

namespace ebbtide {
namespace {

// Tables of a run, by index, whose range tombstones could not be read.
using Failed = std::map<std::size_t, Status>;

// Returns true if a search for points skips the table. It never skips an unreadable table, since the table may have range
// tombstones that the search needs: the search then fails.
bool passes_over(const RunView& run, std::size_t table, const PointFilter* points) {
  return points != nullptr && !run.is_unreadable(table) && run.tables()[table]->meta->stats.misses(*points);
}

// Makes an iterator over the tables of a run within bounds, as a child of the merge. When the iterator reaches a failed table, it
// ends with the table's error.
std::unique_ptr<InternalIterator> run_child(const RunView& run, const IteratorOptions& options, std::size_t readahead,
                                            Failed failed, MissSet* misses, ReadCounters* counters) {
  RunFiles files;
  files.files = run.tables().size();
  files.stats = [&run](std::size_t i) -> const TableStats& { return run.tables()[i]->meta->stats; };
  files.open = [&run, bounds = options.bounds, pages_at_once = options.pages_at_once, points = options.points, readahead, misses,
                counters, failed = std::move(failed)](std::size_t i) -> std::unique_ptr<InternalIterator> {
    if (const auto at = failed.find(i); at != failed.end())
      return std::make_unique<BarrierIterator>(run.tables()[i]->meta->stats, bounds.start, at->second);
    if (passes_over(run, i, points)) return error_iterator(Status::ok());
    return run.reader(i).new_iterator({.bounds = bounds,
                                       .counters = counters,
                                       .readahead = readahead,
                                       .misses = misses,
                                       .pages_at_once = pages_at_once,
                                       .points = points});
  };
  return std::make_unique<RunIterator>(std::move(files), options.bounds);
}

// Returns an iterator over all memtables and runs of the view. `misses`, `counters`: as in TableIteratorOptions.
std::unique_ptr<MergingIterator> merge_tree(const TreeView& view, const IteratorOptions& options, MissSet* misses,
                                            ReadCounters* counters, std::vector<TombstoneSource>* tombstones) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (const auto& memtable : view.memtables) {
    // The tombstone runs of one memtable may overlap. So each run is a source of its own, with the age of the memtable.
    for (SharedTombstones& run : memtable->range_tombstone_runs()) tombstones->push_back({children.size(), {std::move(run)}});
    children.push_back(memtable->new_iterator());
  }
  const std::size_t readahead = readahead_of_each(view.tables->runs.size());
  bool resident = true;
  for (const RunView& run : view.tables->runs) {
    TombstoneSource source{children.size(), {}};
    Failed failed;
    for (std::size_t c = 0; c < run.tables().chunks(); ++c) {
      const TableList::Chunk& chunk = run.tables().at_chunk(c);
      if (TableList::sums_of(chunk).special == 0) continue;
      for (std::size_t i = run.tables().start_of(c), end = i + chunk.items.size(); i < end; ++i) {
        if (!run.has_range_tombstones(i) || run.is_unreadable(i) || !run.tables()[i]->meta->stats.overlaps(options.bounds))
          continue;
        if (const auto table = run.reader(i).pinned(misses); table.is_ok()) {
          source.sets.push_back((*table)->range_tombstones());
        } else if (table.status().is_not_resident()) {
          resident = false;
        } else {
          failed.emplace(i, table.status());
        }
      }
    }
    if (!source.sets.empty()) tombstones->push_back(std::move(source));
    children.push_back(run_child(run, options, readahead, std::move(failed), misses, counters));
  }
  // While range tombstones of a table are not in memory, no entry may be returned. The other children still add their missing
  // pages.
  if (!resident) children.push_back(error_iterator(Status::not_resident()));
  return std::make_unique<MergingIterator>(std::move(children));
}

class DbIterator final : public Iterator {
 public:
  DbIterator(std::shared_ptr<Lease> lease, Millis now, const IteratorOptions& options, const RangeTally& tally,
             std::shared_ptr<LargeValues> values)
      : lease_(std::move(lease)),
        values_(std::move(values)),
        tally_(tally),
        walk_(make_walk(*lease_->view(), lease_->seq(), now, options, nullptr, &reads_)) {}
  // An iterator that never waits. `pass_view` has a tree and a MissSet.
  DbIterator(const ReadView& pass_view, const IteratorOptions& options, const RangeTally& tally)
      : pass_view_(pass_view),
        tally_(tally),
        walk_(make_walk(*ViewParts::tree(pass_view), pass_view.seq(), pass_view.now(), options, pass_view.misses(), &reads_)) {}
  ~DbIterator() override {
    // If a resident iterator lacks pages, the command makes a new iterator after the fetch. Only the last iterator is counted.
    if (tally_.counters == nullptr || seeks_ == 0 || status().is_not_resident()) return;
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
      if (Status read = read_large(entry); !read.is_ok()) {
        status_ = std::move(read);
        return {};
      }
    }
    return *large_;
  }
  [[nodiscard]] EntryKind kind() const override { return walk_.entry().kind; }
  [[nodiscard]] Millis expiry() const override { return walk_.entry().expiry; }
  [[nodiscard]] DeleteKey stamp() const override { return walk_.entry().delete_key; }
  [[nodiscard]] SeqNum seq() const override { return walk_.entry().seq; }
  [[nodiscard]] std::uint64_t steps() const override { return walk_.steps(); }
  [[nodiscard]] Status status() const override {
    Status status = status_.is_ok() ? walk_.status() : status_;
    return status.is_not_resident() ? missing_status(pass_view_) : status;
  }

 private:
  static VisibleIterator make_walk(const TreeView& tree, SeqNum seq, Millis now, const IteratorOptions& options, MissSet* misses,
                                   ReadCounters* counters) {
    std::vector<TombstoneSource> tombstones;
    auto merged = merge_tree(tree, options, misses, counters, &tombstones);
    VisibleOptions visible;
    visible.bounds = options.bounds;
    visible.view_seq = seq;
    visible.now = now;
    visible.max_steps = options.max_steps;
    visible.elements = options.elements;
    visible.records = tree.record_sets();
    return {std::move(merged), std::move(tombstones), std::move(visible)};
  }

  Status read_large(const Entry& entry) {
    if (lease_ != nullptr) {
      TRY_ASSIGN(value, values_->read(*static_cast<const TableLookup*>(entry.large.table), entry.large));
      large_ = std::move(value);
      return Status::ok();
    }
    Found found;
    found.length = entry.value_length();
    found.large = {entry.large.table, entry.large.offset, entry.large.stored_bytes};
    TRY(pass_view_.read(&found));
    large_ = std::static_pointer_cast<const std::string>(found.pin);
    return Status::ok();
  }

  template <typename Move>
  void move(Move step) {
    if (large_ != nullptr) large_ = nullptr;
    if (lease_ != nullptr && lease_->revoked()) [[unlikely]] {
      status_ = revoked_view();
      return;
    }
    if (!status_.is_ok()) status_ = Status::ok();
    step();
    stops_ += walk_.valid() ? 1 : 0;
    // Adds the counts after each move, not only at the end, since a walk may take minutes.
    if (reads_.pages_read != 0 && tally_.counters != nullptr) [[unlikely]]
      tally_.counters->mine().add(std::exchange(reads_, {}));
  }

  const std::shared_ptr<Lease> lease_;  // null: reads pass_view_
  const std::shared_ptr<LargeValues> values_;
  const ReadView pass_view_;
  const RangeTally tally_;
  std::uint64_t seeks_ = 0;
  std::uint64_t stops_ = 0;  // keys at which a move stopped
  ReadCounters reads_;       // what walk_ read in this move
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

std::unique_ptr<Iterator> new_resident_iterator(const ReadView& view, const IteratorOptions& options, const RangeTally& tally) {
  return std::make_unique<DbIterator>(view, options, tally);
}

}  // namespace ebbtide
