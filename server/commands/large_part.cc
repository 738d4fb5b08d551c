#include "commands/large_part.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "commands/ranked_walk.h"

namespace ebbtide {
namespace {

/// Work (Ctx::work) for the look-up of an element, and for each entry that a walk visits or skips.
constexpr std::uint64_t kLookupWork = 1024, kWalkWork = 192;
/// The most deleted entries that one step skips on a loop.
constexpr std::uint64_t kMostPassed = 4096;
/// The most pages of a table that a walk reads at once, and the fewest elements that a page has.
constexpr std::uint64_t kPagesAtOnce = 128, kElementsPerPage = 32;
/// Memory of an element in addition to twice its bytes (the buffer doubles when it grows): its views in decoded collections
/// before and after a change.
constexpr std::size_t kOverheadBytes = 64;

KeyRange bounds_of(ElementKeys& keys, const ElementRange& range) {
  KeyRange bounds = keys.range(range.which);
  if (!range.first.empty()) bounds.start = keys.of(range.which, range.first);
  if (!range.end.empty()) bounds.end = keys.of(range.which, range.end);
  return bounds;
}

}  // namespace

Status leave_loop(Ctx& ctx) {
  ctx.too_long = true;
  return Status::not_resident();
}

// --- walks

ElementWalk::ElementWalk(Ctx& ctx, ElementKeys& keys, const ElementRange& range)
    : ctx_(ctx),
      keys_(keys),
      from_end_(range.from_end),
      empty_(!range.end.empty() && range.first >= range.end),
      in_parts_(range.in_parts) {
  if (empty_) return;
  IteratorOptions options;
  options.bounds = bounds_of(keys, range);
  options.elements = true;
  options.resident = ctx.off_loop == nullptr;
  if (ctx.off_loop == nullptr || in_parts_) options.max_steps = kMostPassed;
  const std::uint64_t visited = range.limit > kMostWalked ? kMostWalked : std::min(range.skip + range.limit, kMostWalked);
  options.pages_at_once = static_cast<std::uint32_t>(std::min(1 + visited / kElementsPerPage, kPagesAtOnce));
  walk_ = ctx.iterate(options);
}

Status ElementWalk::begin() {
  if (empty_) return Status::ok();
  from_end_ ? walk_->seek_to_last() : walk_->seek_to_first();
  return settle();
}

Status ElementWalk::next() {
  from_end_ ? walk_->prev() : walk_->next();
  return settle();
}

Status ElementWalk::settle() {
  if (!walk_->valid()) {
    if (walk_->paused() && !in_parts_) return leave_loop(ctx_);
    TRY(walk_->status());
  }
  const std::uint64_t steps = walk_->steps(), passed = steps - std::exchange(passed_, steps);
  TRY(ctx_.work(kWalkWork * (1 + passed)));
  ended_ = in_parts_ && (passed_ >= kMostWalked || walk_->paused());
  visited_ += 1 + (in_parts_ ? 0 : passed);
  if (visited_ <= kMostWalked) return Status::ok();
  return ctx_.off_loop == nullptr ? leave_loop(ctx_) : ctx_.go_on_for_long();
}

Result<Bytes> ElementWalk::value() {
  const Bytes value = walk_->value();
  if (value.empty() && !walk_->valid()) TRY(walk_->status());  // a large value may be unreadable
  return value;
}

// --- parts

LargePart::LargePart(Ctx& ctx, const Found& found, const LargeHeader& header)
    : ctx_(ctx),
      found_(found),
      header_(header),
      keys_(found.key, header.generation),
      builder_(header.type, header.expiries.has_value()),
      charge_(ctx) {}

void LargePart::set_elements(std::string elements, Found* found) {
  struct Loaded {
    std::string header, elements;
  };
  auto loaded = std::make_shared<const Loaded>(
      Loaded{std::string(found->header.empty() ? found->value : found->header), std::move(elements)});
  found->header = loaded->header;
  found->value = loaded->elements;
  found->length = found->value.size();
  found->pin = std::shared_ptr<const void>(loaded, &loaded->elements);
}

Status LargePart::order_by_score(Found* found) {
  SortedSet members;
  TRY_ASSIGN(reader, CompactReader::open(found->value, CollectionType::kSortedSet));
  for (ScoredMember each; reader.next(&each);) members.push_back(each);
  std::sort(members.begin(), members.end(), is_before);
  set_elements(encode(members), found);
  return Status::ok();
}

Status LargePart::look_up_position(std::uint64_t place) {
  return look_up(ElementClass::kPosition, position_name(header_.first + place * kPositionStep), false);
}

Status LargePart::look_up(ElementClass which, Bytes name, bool may_be_absent) {
  if (keys_.overhead() + name.size() > kMaxKeyBytes) return Status::ok();
  TRY(ctx_.work(kLookupWork));
  std::optional<Found> element;
  const Status status = ctx_.collections().read_element(keys_.of(which, name), &element);
  resident_ &= !status.is_not_resident();
  if (status.is_not_resident()) return Status::ok();
  TRY(status);
  if (!element) return may_be_absent ? Status::ok() : Status::corruption("a list lacks an element that its header counts");
  return resident_ ? add(name, element->value, element->expiry) : Status::ok();
}

ElementRange LargePart::in_bounds(ElementRange range) const {
  if (range.which != ElementClass::kScore || header_.lowest.empty()) return range;
  range.first = std::max(range.first, header_.lowest);
  const std::string end = behind_bound(header_.highest);
  range.end = range.end.empty() ? end : std::min(range.end, end);
  return range;
}

Status LargePart::walk(const ElementRange& range) {
  const bool by_rank = range.skip > RankedWalk::kFew && is_ranked(range.which);
  const auto add_each = [this](Bytes name, Bytes value, Millis expiry) { return add(name, value, expiry); };
  if (by_rank || !range.from_end) return by_rank ? visit_ranks(range, add_each) : visit(range, add_each);
  ElementWalk walk(ctx_, keys_, in_bounds(range));
  TRY(walk.begin());
  for (std::uint64_t i = 0; i < range.skip && walk.valid(); ++i) TRY(walk.next());
  return add_backward(walk, range.limit);
}

Status LargePart::visit(const ElementRange& range, const ElementVisit& each) {
  if (range.skip > RankedWalk::kFew && is_ranked(range.which)) return visit_ranks(range, each);
  ElementWalk walk(ctx_, keys_, in_bounds(range));
  TRY(walk.begin());
  for (std::uint64_t i = 0; i < range.skip && walk.valid(); ++i) TRY(walk.next());
  for (std::uint64_t i = 0; i < range.limit && walk.valid(); ++i) {
    TRY_ASSIGN(value, walk.value());
    TRY(each(walk.name(), value, walk.expiry()));
    if (i + 1 < range.limit) TRY(walk.next());
  }
  return Status::ok();
}

bool LargePart::is_ranked(ElementClass which) const {
  return which == ordered_class(header_.type) && RankedWalk::helps(ctx_, found_, header_);
}

// The elements are visited in ascending order in both directions.
Status LargePart::visit_ranks(const ElementRange& range, const ElementVisit& each) {
  RankedWalk walk(ctx_, found_, header_, keys_, *this);
  std::uint64_t begin = 0, end = header_.count;
  if (!range.first.empty()) {
    TRY(walk.seek(range.first));
    begin = walk.rank();
  }
  if (!range.end.empty()) {
    TRY(walk.seek(range.end));
    end = walk.rank();
  }
  if (begin >= end || end - begin <= range.skip) return Status::ok();
  const std::uint64_t added = std::min(range.limit, end - begin - range.skip);
  if (added == 0) return Status::ok();
  TRY(walk.seek_rank(range.from_end ? end - range.skip - added : begin + range.skip));
  for (std::uint64_t i = 0; i < added && walk.valid(); ++i) {
    TRY(each(walk.name(), {}, 0));
    if (i + 1 < added) TRY(walk.next());
  }
  return Status::ok();
}

// The builder takes elements in ascending order, but this walk visits them in descending order, so they are first collected.
// These elements have no values.
Status LargePart::add_backward(ElementWalk& walk, std::uint64_t limit) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < limit && walk.valid(); ++i) {
    TRY(charge_.add(walk.name().size() + sizeof(std::string)));
    names.emplace_back(walk.name());
    if (i + 1 < limit) TRY(walk.next());
  }
  for (auto name = names.rbegin(); name != names.rend(); ++name) TRY(add(*name, {}));
  return Status::ok();
}

Status LargePart::walk_to(std::span<const std::size_t> places) {
  const ElementClass which = ordered_class(header_.type);
  if (is_ranked(which)) return walk_to_ranks(places);
  // a single element is searched from the nearer end
  const bool from_end = places.size() == 1 && places.front() > header_.count / 2;
  const std::uint64_t visited = places.empty() ? 0 : from_end ? header_.count - places.back() : places.back() + 1;
  ElementWalk walk(ctx_, keys_, in_bounds({.which = which, .from_end = from_end, .limit = visited}));
  TRY(walk.begin());
  std::size_t at = 0;
  for (const std::size_t place : places) {
    for (const std::size_t target = from_end ? header_.count - 1 - place : place; at < target && walk.valid(); ++at) {
      TRY(walk.next());
    }
    if (!walk.valid()) return Status::corruption("the header of a collection counts too many elements");
    TRY_ASSIGN(value, walk.value());
    TRY(add(walk.name(), value, walk.expiry()));
  }
  return Status::ok();
}

Status LargePart::walk_to_ranks(std::span<const std::size_t> ranks) {
  RankedWalk walk(ctx_, found_, header_, keys_, *this);
  bool begun = false;
  for (const std::size_t rank : ranks) {
    if (!begun || rank > walk.rank() + RankedWalk::kFew) TRY(walk.seek_rank(rank));
    begun = true;
    while (walk.valid() && walk.rank() < rank) TRY(walk.next());
    if (!walk.valid()) return Status::corruption("the header of a collection counts too many elements");
    TRY(add(walk.name(), {}));
  }
  return Status::ok();
}

Result<std::optional<std::string>> LargePart::walk_some(const ElementRange& range, std::size_t bytes) {
  ElementWalk walk(ctx_, keys_, in_bounds(range));
  TRY(walk.begin());
  while (walk.valid() && builder_.count() < range.limit && builder_.bytes() <= bytes) {
    TRY_ASSIGN(value, walk.value());
    TRY(add(walk.name(), value, walk.expiry()));
    TRY(walk.next());
  }
  const Bytes rest = walk.rest();
  return rest.empty() ? std::nullopt : std::optional(std::string(rest));
}

Result<std::uint64_t> LargePart::count_in(const ElementRange& range) {
  if (is_ranked(range.which)) return count_ranks(range);
  ElementWalk walk(ctx_, keys_, in_bounds(range));
  std::uint64_t count = 0;
  TRY(walk.begin());
  for (; walk.valid(); ++count) TRY(walk.next());
  return count;
}

Result<std::uint64_t> LargePart::count_ranks(const ElementRange& range) {
  if (!range.end.empty() && range.first >= range.end) return std::uint64_t{0};
  RankedWalk walk(ctx_, found_, header_, keys_, *this);
  TRY(walk.seek(range.first));
  const std::uint64_t begin = walk.rank();
  const auto within = [&] { return walk.valid() && (range.end.empty() || walk.name() < Bytes(range.end)); };
  while (within() && walk.rank() < begin + RankedWalk::kFew) TRY(walk.next());
  if (!within()) return walk.rank() - begin;
  if (range.end.empty()) return header_.count - begin;
  TRY(walk.seek(range.end));
  return walk.rank() - begin;
}

Result<std::uint64_t> LargePart::place_of(Bytes name) {
  const ElementClass which = ordered_class(header_.type);
  if (is_ranked(which)) {
    RankedWalk walk(ctx_, found_, header_, keys_, *this);
    TRY(walk.seek(name));
    return walk.rank();
  }
  ElementWalk below(ctx_, keys_, in_bounds({.which = which, .end = std::string(name)}));
  ElementWalk above(ctx_, keys_, in_bounds({.which = which, .first = std::string(name) + '\0', .from_end = true}));
  TRY(below.begin());
  TRY(above.begin());
  for (std::uint64_t passed = 0;; ++passed) {
    if (!below.valid()) return passed;
    if (!above.valid()) return header_.count - 1 - passed;
    TRY(below.next());
    TRY(above.next());
  }
}

Status LargePart::add(Bytes name, Bytes value, Millis expiry) {
  TRY(ctx_.work(name.size() + value.size()));
  TRY(charge_.add(2 * (name.size() + value.size()) + kOverheadBytes));
  switch (header_.type) {
    case CollectionType::kHash:
      builder_.add(HashField{name, value, expiry});
      return Status::ok();
    case CollectionType::kSet:
      builder_.add(name);
      return Status::ok();
    case CollectionType::kList:
      builder_.add(value);
      return Status::ok();
    case CollectionType::kSortedSet:
      return add_scored(name, value);
  }
  return Status::ok();
}

/// The score of an element of class kMember is its value; that of class kScore is in its name.
Status LargePart::add_scored(Bytes name, Bytes value) {
  if (!value.empty()) {
    const auto score = score_of(value);
    if (!score) return Status::corruption("a member of a sorted set has a damaged score");
    builder_.add(ScoredMember{*score, name});
    return Status::ok();
  }
  const auto member = scored_member_of(name);
  if (!member) return Status::corruption("a member of a sorted set has a damaged name");
  builder_.add(*member);
  return Status::ok();
}

}  // namespace ebbtide
