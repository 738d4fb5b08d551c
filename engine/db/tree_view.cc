#include "db/tree_view.h"

#include <algorithm>
#include <cstring>

namespace ebbtide {
namespace {

std::uint64_t prefix_of(Bytes key) {
  unsigned char bytes[8] = {};
  std::memcpy(bytes, key.data(), std::min<std::size_t>(8, key.size()));
  std::uint64_t v;
  std::memcpy(&v, bytes, 8);
  return __builtin_bswap64(v);
}

std::size_t common_prefix(Bytes a, Bytes b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

RunView::RunView(const Run& run, std::vector<OpenTablePtr> tables) : id_(run.id), level_(run.level), tables_(std::move(tables)) {
  for (const OpenTablePtr& t : tables_) {
    readers_.push_back(t->reader.get());
    ranged_.push_back(t->meta->stats.range_tombstones != 0 ? 1 : 0);
  }
  if (tables_.empty()) return;
  const Bytes first = tables_.front()->meta->stats.smallest, last = tables_.back()->meta->stats.smallest;
  common_.assign(first.substr(0, common_prefix(first, last)));
  for (const OpenTablePtr& t : tables_) prefixes_.push_back(prefix_of(Bytes(t->meta->stats.smallest).substr(common_.size())));
}

// The last table whose lower bound is <= key is the only one that can hold it.
int RunView::find(Bytes key) const {
  const std::size_t n = tables_.size();
  if (n == 0) return -1;
  std::size_t i = 0;  // number of tables whose lower bound is <= key
  if (n == 1) {
    i = key >= Bytes(tables_[0]->meta->stats.smallest) ? 1 : 0;
  } else if (key.size() >= common_.size() && std::memcmp(key.data(), common_.data(), common_.size()) == 0) {
    const std::uint64_t p = prefix_of(key.substr(common_.size()));
    i = static_cast<std::size_t>(std::upper_bound(prefixes_.begin(), prefixes_.end(), p) - prefixes_.begin());
    // Equal prefixes do not decide: compare whole keys, from the back.
    while (i > 0 && prefixes_[i - 1] == p && Bytes(tables_[i - 1]->meta->stats.smallest) > key) --i;
  } else {
    i = key < Bytes(common_) ? 0 : n;
  }
  if (i == 0 || tables_[i - 1]->meta->stats.ends_before(key)) return -1;
  return static_cast<int>(i - 1);
}

std::size_t RunView::lower_bound(Bytes key) const {
  return static_cast<std::size_t>(std::partition_point(tables_.begin(), tables_.end(),
                                                       [&](const OpenTablePtr& t) { return t->meta->stats.ends_before(key); }) -
                                  tables_.begin());
}

}  // namespace ebbtide
