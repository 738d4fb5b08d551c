// Finds versions with after < expiry <= until, elements of collections included: iterates over the memtables, and over pages with
// such expiries. A version counts if, apart from its expiry, it is the current entry of its key: there is no newer version, and
// no delete covers it.
#include "db/read/expiry_scan.h"

#include <algorithm>
#include <limits>
#include <string>

#include "db/read/view_parts.h"

namespace ebbtide {
namespace {

/// Keeps the `limit` added entries with the earliest expiries. If there is one entry too many, drops all entries with the latest
/// expiry, and moves `until` to the ms before it. So every added entry up to `until` is kept. There is one exception: if more
/// than `limit` entries share the earliest expiry, `limit` of them are kept. Otherwise a caller that continues from `until` would
/// make no progress.
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

Result<Millis> expiring_keys(const ReadView& view, Millis after, Millis until, std::size_t limit, std::vector<ExpiringKey>* out) {
  const TreeView& tree = *ViewParts::tree(view);
  Earliest found(limit, until);
  for (const auto& memtable : tree.memtables) {
    if (memtable->min_expiry() == 0 || memtable->min_expiry() > until) continue;
    const auto walk = memtable->new_iterator();
    for (walk->seek_to_first(); walk->valid(); walk->next()) {
      const Entry& entry = walk->entry();
      if (entry.seq <= view.seq() && entry.expiry > after && entry.expiry <= until) found.add(entry);
    }
  }
  for (const RunView& run : tree.tables->runs) {
    for (std::size_t i = 0; i < run.tables().size(); ++i) {
      TRY(run.reader(i).visit_expiring(after, until, [&](const Entry& entry) { found.add(entry); }));
    }
  }
  const ReadView unexpired = ViewParts::at(view, 0);
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
