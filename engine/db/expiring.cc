// What expires soon, for those who want to be told: a sweep over the memtables and over those pages whose expiries lie in the
// time asked for. It finds versions; one counts if it is the current entry of its key but for its expiry, that is, if nothing
// newer took its place and no delete of a range covers it.
#include <engine/db.h>

#include <algorithm>
#include <limits>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

/// The `limit` earliest of what is added; `until` moves back before those that had to go. All that expire at the same moment go
/// together, so that nothing up to `until` is left out; but of the earliest moment as many stay as may, or whoever asks again for
/// what comes next would be given nothing for ever.
class Earliest {
 public:
  Earliest(std::size_t limit, Millis until) : limit_(limit), until_(until) {}

  void add(const Entry& entry) {
    if (entry.expiry > until_) return;
    heap_.push_back({std::string(entry.key), entry.expiry, entry.seq});
    std::push_heap(heap_.begin(), heap_.end(), sooner);
    first_ = std::min(first_, entry.expiry);
    if (heap_.size() <= limit_) return;
    const Millis last = heap_.front().expiry;
    if (last == first_) {
      until_ = last;
      return pop();
    }
    until_ = last - 1;
    while (heap_.front().expiry == last) pop();
  }
  [[nodiscard]] Millis until() const { return until_; }
  [[nodiscard]] std::vector<ExpiringKey>& keys() { return heap_; }

 private:
  static bool sooner(const ExpiringKey& a, const ExpiringKey& b) { return a.expiry < b.expiry; }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), sooner);
    heap_.pop_back();
  }

  const std::size_t limit_;
  Millis until_, first_ = std::numeric_limits<Millis>::max();
  std::vector<ExpiringKey> heap_;
};

}  // namespace

Result<Millis> Db::expiring_keys(DatabaseId database, Millis after, Millis until, std::size_t limit,
                                 std::vector<ExpiringKey>* out) const {
  const ReadView view = lease(database);
  if (!view.has_tree()) return until;
  Earliest found(limit, until);
  for (const auto& memtable : view.tree_->memtables) {
    if (memtable->min_expiry() == 0 || memtable->min_expiry() > until) continue;
    const auto walk = memtable->new_iterator();
    for (walk->seek_to_first(); walk->valid(); walk->next()) {
      const Entry& entry = walk->entry();
      if (entry.seq <= view.seq() && entry.expiry > after && entry.expiry <= until) found.add(entry);
    }
  }
  for (const RunView& run : view.tree_->tables->runs) {
    for (std::size_t i = 0; i < run.tables().size(); ++i) {
      TRY(run.reader(i).visit_expiring(after, until, [&](const Entry& entry) { found.add(entry); }));
    }
  }
  ReadView unexpired = view;
  unexpired.now_ = 0;
  for (ExpiringKey& each : found.keys()) {
    Found current;
    const Status status = unexpired.locate({each.key, hash_key(each.key)}, &current);
    if (status.is_not_found()) continue;
    TRY(status);
    if (current.seq == each.seq) out->push_back(std::move(each));
  }
  return found.until();
}

}  // namespace ebbtide
