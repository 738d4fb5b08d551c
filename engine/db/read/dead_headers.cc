// The search reads only pages that may have a header that died since `after`. Their fences show this: they have expiries in that
// time, or stamps that a new record (secondary range tombstone) covers. Each candidate is looked up, since another version of the
// key may be newer.
#include "db/read/dead_headers.h"

#include <algorithm>
#include <vector>

#include "db/read/lookup.h"
#include "db/read/view_parts.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

class Search {
 public:
  Search(const ReadView& view, const Reaped& after, const std::function<Status(const DeadHeader&)>& visit)
      : view_(view), after_(after), visit_(visit), records_(ViewParts::tree(view)->record_sets()) {
    std::erase_if(records_, [&](const SharedRecords& set) { return set->newest() <= after.record; });
  }

  Status run() {
    const TreeView& tree = *ViewParts::tree(view_);
    for (const auto& memtable : tree.memtables) {
      if (memtable->has_headers()) TRY(search(*memtable));
    }
    for (const RunView& run : tree.tables->runs) {
      for (std::size_t i = 0; i < run.tables().size(); ++i) TRY(search(run.reader(i), run.tables()[i]->meta->stats));
    }
    return Status::ok();
  }
  [[nodiscard]] bool any() const { return any_; }

 private:
  Status search(const MemTable& memtable) {
    const bool none_expired = memtable.min_expiry() == 0 || memtable.min_expiry() > view_.now();
    if (none_expired && records_.empty()) return Status::ok();
    const auto walk = memtable.new_iterator();
    for (walk->seek_to_first(); walk->valid(); walk->next()) TRY(judge(walk->entry()));
    return walk->status();
  }

  Status search(const TableReader& table, const TableStats& stats) {
    if (stats.headers == 0) return Status::ok();
    if (!expires_between(stats.min_expiry, stats.max_expiry) &&
        !may_be_covered(stats.min_delete_key, stats.max_delete_key, stats.min_seq))
      return Status::ok();
    const auto wanted = [this](const PageFence& page) {
      return (page.min_expiry <= page.max_expiry && expires_between(page.min_expiry, page.max_expiry)) ||
             may_be_covered(page.min_delete_key, page.max_delete_key, page.min_seq);
    };
    return table.visit_headers(wanted, [this](const Entry& entry) { return judge(entry); });
  }

  [[nodiscard]] bool expires_between(Millis min, Millis max) const {
    return max > after_.expiry && min <= view_.now() && max != 0;
  }
  [[nodiscard]] bool may_be_covered(DeleteKey min, DeleteKey max, SeqNum min_seq) const {
    return min <= max && std::any_of(records_.begin(), records_.end(),
                                     [&](const SharedRecords& set) { return set->may_cover(min, max, min_seq, after_.record); });
  }

  // Looks up the candidate's key: the newest version is the candidate, or a version that replaced it.
  Status judge(const Entry& entry) {
    if (entry.kind != EntryKind::kHeader || entry.seq > view_.seq()) return Status::ok();
    const bool may_have_died = (entry.expiry != 0 && expires_between(entry.expiry, entry.expiry)) ||
                               (entry.delete_key != kNoStamp && may_be_covered(entry.delete_key, entry.delete_key, entry.seq));
    if (!may_have_died) return Status::ok();
    any_ = true;
    Found newest;
    {
      EpochGuard guard(ViewParts::env(view_).epoch);
      if (ViewParts::is_revoked(view_)) return revoked_view();
      ReadCounters reads;
      const Status status = find_entry(view_, {entry.key, hash_key(entry.key)}, &newest, &reads);
      if (status.is_ok()) return Status::ok();
      if (!status.is_not_found()) return status;
    }
    if (newest.died == 0 || newest.seq != entry.seq) return Status::ok();
    const auto generation = header_generation(entry.value);
    if (!generation) return Status::corruption("the header of a collection names no generation");
    return visit_({entry.key, *generation, newest.died});
  }

  const ReadView& view_;
  const Reaped after_;
  const std::function<Status(const DeadHeader&)>& visit_;
  std::vector<SharedRecords> records_;
  bool any_ = false;
};

}  // namespace

Status visit_dead_headers(const ReadView& view, const Reaped& after, const std::function<Status(const DeadHeader&)>& visit,
                          bool* any) {
  Search search(view, after, visit);
  const Status status = search.run();
  *any = search.any();
  return status;
}

}  // namespace ebbtide
