// What expires soon, for those who want to be told: a sweep over the memtables and over those pages whose expiries lie in the
// time asked for. It finds versions; one counts if it is the newest of its key.
#include <engine/db.h>

#include <algorithm>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

/// The `limit` earliest of what is added; `until` moves back before those that had to go.
class Earliest {
 public:
  Earliest(std::size_t limit, Millis until) : limit_(limit), until_(until) {}

  void add(const Entry& entry) {
    if (entry.expiry > until_) return;
    heap_.push_back({std::string(entry.key), entry.expiry, entry.seq});
    std::push_heap(heap_.begin(), heap_.end(), sooner);
    while (heap_.size() > limit_) {
      // All that expire at the same moment go together: nothing up to `until` is left out.
      until_ = heap_.front().expiry - 1;
      while (!heap_.empty() && heap_.front().expiry > until_) {
        std::pop_heap(heap_.begin(), heap_.end(), sooner);
        heap_.pop_back();
      }
    }
  }
  [[nodiscard]] Millis until() const { return until_; }
  [[nodiscard]] std::vector<ExpiringKey>& keys() { return heap_; }

 private:
  static bool sooner(const ExpiringKey& a, const ExpiringKey& b) { return a.expiry < b.expiry; }

  const std::size_t limit_;
  Millis until_;
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
  for (ExpiringKey& each : found.keys()) {
    Found newest;
    const Status status = view.get({each.key, hash_key(each.key)}, &newest);
    if (!status.is_ok() && !status.is_not_found()) return status;
    if (newest.seq == each.seq) out->push_back(std::move(each));
  }
  return found.until();
}

}  // namespace ebbtide
