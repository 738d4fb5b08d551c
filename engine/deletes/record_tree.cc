#include "deletes/record_tree.h"

#include <type_traits>

#include "base/invariant.h"

namespace ebbtide {
namespace {

constexpr std::size_t kLeafRecords = 64;  // a leaf then has 2 KiB, and a change of one record copies a leaf
constexpr std::size_t kInnerParts = 32;
// Adjacent nodes that together fill at most 1 / kSmall of a node become one.
constexpr std::size_t kSmall = 2;

RecordPart leaf_of(std::span<const Record> records, bool by_range) {
  RecordPart part;
  part.size = static_cast<std::uint32_t>(records.size());
  part.count = records.size();
  part.first = records.front();
  part.min_lo = part.min_hi = ~DeleteKey{0};
  part.min_seq = ~SeqNum{0};
  part.min_birth = ~Millis{0};
  for (const Record& r : records) {
    if (by_range && part.max_hi != 0) {
      part.disjoint &= r.lo >= part.max_hi;
      part.gapless &= r.lo <= part.max_hi;
    }
    part.min_lo = std::min(part.min_lo, r.lo);
    part.max_lo = std::max(part.max_lo, r.lo);
    part.min_hi = std::min(part.min_hi, r.hi);
    part.max_hi = std::max(part.max_hi, r.hi);
    part.min_seq = std::min(part.min_seq, r.seq);
    part.max_seq = std::max(part.max_seq, r.seq);
    part.min_birth = std::min(part.min_birth, known_birth(r.birth));
  }
  auto copy = std::make_shared<Record[]>(records.size());
  std::copy(records.begin(), records.end(), copy.get());
  part.records = std::move(copy);
  return part;
}

RecordPart inner_of(std::span<const RecordPart> parts) {
  auto copy = std::make_shared<RecordPart[]>(parts.size());
  std::copy(parts.begin(), parts.end(), copy.get());
  RecordPart sum = parts.front();
  sum.records = nullptr;
  sum.size = static_cast<std::uint32_t>(parts.size());
  copy[0].reach = parts.front().max_hi;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const RecordPart& part = parts[i];
    sum.gapless &= part.gapless && part.min_lo <= sum.max_hi;
    sum.disjoint = false;
    sum.min_lo = std::min(sum.min_lo, part.min_lo);
    sum.max_lo = std::max(sum.max_lo, part.max_lo);
    sum.min_hi = std::min(sum.min_hi, part.min_hi);
    sum.max_hi = std::max(sum.max_hi, part.max_hi);
    sum.min_seq = std::min(sum.min_seq, part.min_seq);
    sum.max_seq = std::max(sum.max_seq, part.max_seq);
    sum.min_birth = std::min(sum.min_birth, part.min_birth);
    sum.count += part.count;
    copy[i].reach = sum.max_hi;
  }
  sum.parts = std::move(copy);
  return sum;
}

/// Cuts `list` into as few chunks as possible, of equal size, none with more than `most` elements.
template <typename T, typename Make>
void cut(std::span<const T> list, std::size_t most, Make make) {
  const std::size_t pieces = (list.size() + most - 1) / most;
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t from = list.size() * i / pieces, to = list.size() * (i + 1) / pieces;
    make(list.subspan(from, to - from));
  }
}

template <typename Order>
struct Edit {
  static constexpr bool kByRange = std::is_same_v<Order, ByRange>;

  static void cut_records(std::span<const Record> records, std::vector<RecordPart>* out) {
    cut(records, kLeafRecords, [&](std::span<const Record> piece) { out->push_back(leaf_of(piece, kByRange)); });
  }
  static void cut_parts(std::span<const RecordPart> parts, std::vector<RecordPart>* out) {
    cut(parts, kInnerParts, [&](std::span<const RecordPart> piece) { out->push_back(inner_of(piece)); });
  }

  /// Appends to `out` the parts that replace `part`, which have the same height as `part`. Appends nothing if no record is left.
  static void apply(const RecordPart& part, std::span<const Record> removed, std::span<const Record> added,
                    std::vector<RecordPart>* out) {
    if (part.is_leaf()) return apply_leaf(part, removed, added, out);
    std::vector<RecordPart> parts;
    parts.reserve(part.size + 1);
    const auto children = part.inner();
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto until = [&](std::span<const Record>* list) {
        if (i + 1 == children.size()) return std::exchange(*list, {});
        const auto end = std::partition_point(list->begin(), list->end(),
                                              [&](const Record& r) { return Order::before(r, children[i + 1].first); });
        const auto mine = list->first(static_cast<std::size_t>(end - list->begin()));
        *list = list->subspan(mine.size());
        return mine;
      };
      const auto gone = until(&removed), fresh = until(&added);
      if (gone.empty() && fresh.empty()) {
        parts.push_back(children[i]);
      } else {
        apply(children[i], gone, fresh, &parts);
      }
    }
    join_small(&parts);
    cut_parts(parts, out);
  }

  static void apply_leaf(const RecordPart& part, std::span<const Record> removed, std::span<const Record> added,
                         std::vector<RecordPart>* out) {
    std::vector<Record> kept, all;
    std::set_difference(part.leaf().begin(), part.leaf().end(), removed.begin(), removed.end(), std::back_inserter(kept),
                        Order::before);
    ASSERT_MSG(kept.size() + removed.size() == part.leaf().size(), "a removed record must be in the tree");
    std::merge(kept.begin(), kept.end(), added.begin(), added.end(), std::back_inserter(all), Order::before);
    cut_records(all, out);
  }

  /// Joins adjacent parts that have become small.
  static void join_small(std::vector<RecordPart>* parts) {
    std::vector<RecordPart> joined;
    joined.reserve(parts->size());
    for (RecordPart& part : *parts) {
      const std::size_t most = (part.is_leaf() ? kLeafRecords : kInnerParts) / kSmall;
      if (joined.empty() || joined.back().size + part.size > most) {
        joined.push_back(std::move(part));
        continue;
      }
      joined.back() = join(joined.back(), part);
    }
    *parts = std::move(joined);
  }
  static RecordPart join(const RecordPart& a, const RecordPart& b) {
    const auto both = [](auto first, auto second) {
      std::vector<std::remove_cvref_t<decltype(first[0])>> list(first.begin(), first.end());
      list.insert(list.end(), second.begin(), second.end());
      return list;
    };
    return a.is_leaf() ? leaf_of(both(a.leaf(), b.leaf()), kByRange) : inner_of(both(a.inner(), b.inner()));
  }
};

std::size_t bytes_of(const RecordPart& part) {
  constexpr std::size_t kBlock = 32;  // the reference counts of a node, and the allocator's overhead
  if (part.is_leaf()) return part.size * sizeof(Record) + (part.size == 0 ? 0 : kBlock);
  std::size_t bytes = part.size * sizeof(RecordPart) + kBlock;
  for (const RecordPart& below : part.inner()) bytes += bytes_of(below);
  return bytes;
}

}  // namespace

template <typename Order>
RecordTree<Order> RecordTree<Order>::changed(std::vector<Record> removed, std::vector<Record> added) const {
  std::sort(removed.begin(), removed.end(), Order::before);
  std::sort(added.begin(), added.end(), Order::before);
  std::vector<RecordPart> parts;
  if (empty()) {
    ASSERT_MSG(removed.empty(), "a removed record must be in the tree");
    Edit<Order>::cut_records(added, &parts);
  } else {
    Edit<Order>::apply(root_, removed, added, &parts);
  }
  while (parts.size() > 1) {
    std::vector<RecordPart> above;
    Edit<Order>::cut_parts(parts, &above);
    parts = std::move(above);
  }
  RecordTree out;
  if (parts.empty()) return out;
  out.root_ = std::move(parts.front());
  while (!out.root_.is_leaf() && out.root_.size == 1) out.root_ = RecordPart(out.root_.inner().front());
  return out;
}

template <typename Order>
const Record& RecordTree<Order>::at(std::size_t i) const {
  ASSERT(i < size());
  const RecordPart* part = &root_;
  while (!part->is_leaf()) {
    const RecordPart* below = part->inner().data();
    for (; i >= below->count; ++below) i -= below->count;
    part = below;
  }
  return part->leaf()[i];
}

template <typename Order>
std::size_t RecordTree<Order>::memory_bytes() const {
  return bytes_of(root_);
}

template class RecordTree<ByRange>;
template class RecordTree<BySeq>;

}  // namespace ebbtide
