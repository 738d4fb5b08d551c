// Finds the entries of a table that expire within a time range; reads only pages whose fences overlap the range.
#include "table/metadata.h"
#include "table/page.h"
#include "table/table_reader_impl.h"

namespace ebbtide {

Status TableInspector::visit_expiring(Millis after, Millis until, const std::function<void(const Entry& entry)>& visit) const {
  if (r_.stats.min_expiry == 0 || r_.stats.max_expiry <= after || r_.stats.min_expiry > until) return Status::ok();
  TRY_ASSIGN(pin, r_.pinned());
  std::string key;
  for (std::uint32_t page = 0; page < page_count(); ++page) {
    const PageFence fence = page_fence(page);
    if ((fence.flags & kPageDropped) != 0 || fence.min_expiry > fence.max_expiry) continue;
    if (fence.max_expiry <= after || fence.min_expiry > until) continue;
    TRY_ASSIGN(block, r_.load_page(r_.held().pages[page], true, nullptr));
    const PageView view(block->bytes());
    for (std::uint32_t i = 0; i < view.count(); ++i) {
      Entry entry;
      view.read(i, r_.lookup, &key, &entry);
      if (entry.expiry > after && entry.expiry <= until) visit(entry);
    }
  }
  return Status::ok();
}

}  // namespace ebbtide
