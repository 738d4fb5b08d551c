// Visits entries that expire within a time range, and headers of collections. Reads only pages that can have such an entry, by
// their fences.
#include "table/metadata.h"
#include "table/page.h"
#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

/// Visits the entries of the pages for which `wanted` returns true, until `visit` returns an error.
template <typename Wanted, typename Visit>
Status visit_pages(const TableReaderImpl& r, const TableInspector& table, Wanted wanted, Visit visit) {
  TRY_ASSIGN(pin, r.pinned());
  std::string key;
  for (std::uint32_t page = 0; page < table.page_count(); ++page) {
    const PageFence fence = table.page_fence(page);
    if ((fence.flags & kPageDropped) != 0 || !wanted(fence)) continue;
    TRY_ASSIGN(block, r.use_page(r.held().pages[page], nullptr));
    const PageView view(block->bytes());
    for (std::uint32_t i = 0; i < view.count(); ++i) {
      Entry entry;
      view.read(i, r.lookup, &key, &entry);
      TRY(visit(entry));
    }
  }
  return Status::ok();
}

}  // namespace

Status TableInspector::visit_expiring(Millis after, Millis until, const std::function<void(const Entry& entry)>& visit) const {
  if (r_.stats.min_expiry == 0 || r_.stats.max_expiry <= after || r_.stats.min_expiry > until) return Status::ok();
  const auto wanted = [&](const PageFence& fence) {
    return fence.min_expiry <= fence.max_expiry && fence.max_expiry > after && fence.min_expiry <= until;
  };
  return visit_pages(r_, *this, wanted, [&](const Entry& entry) {
    if (entry.expiry > after && entry.expiry <= until) visit(entry);
    return Status::ok();
  });
}

Status TableInspector::visit_headers(const std::function<bool(const PageFence& fence)>& wanted,
                                     const std::function<Status(const Entry& header)>& visit) const {
  if (r_.stats.headers == 0) return Status::ok();
  const auto may_match = [&](const PageFence& fence) { return (fence.flags & kPagePlainOnly) == 0 && wanted(fence); };
  return visit_pages(r_, *this, may_match,
                     [&](const Entry& entry) { return entry.kind == EntryKind::kHeader ? visit(entry) : Status::ok(); });
}

}  // namespace ebbtide
