#include "commands/ranked_walk.h"

#include <utility>

#include "dispatch/command_env.h"

namespace ebbtide {
namespace {

/// A longer name does not become a boundary, so that the index stays small.
constexpr std::size_t kMostBoundaryBytes = 256;

/// Returns true if a header is surely not a pending write of the transaction. PendingWrites::locate() gives those the view's seq.
/// Every command that changes elements writes the header, so pending writes do not concern the elements either.
bool is_committed(const Ctx& ctx, const Found& found) {
  const PendingWrites* const pending = ctx.exec == nullptr ? nullptr : ctx.exec->pending;
  return pending == nullptr || pending->operations() == 0 || found.seq < ctx.view.seq();
}

}  // namespace

bool RankedWalk::helps(const Ctx& ctx, const Found& found, const LargeHeader& header) {
  const bool distinct = header.type == CollectionType::kSortedSet || header.type == CollectionType::kSet;
  return distinct && header.count >= RankIndexes::kLeastElements && found.seq != 0 && is_committed(ctx, found);
}

RankedWalk::RankedWalk(Ctx& ctx, const Found& found, const LargeHeader& header, ElementKeys& keys, const LargePart& part)
    : ctx_(ctx), indexes_(*env_of(ctx).ranks), found_(found), header_(header), keys_(keys), part_(part) {}

RankIndexes::State RankedWalk::state() const {
  return {.database = ctx_.view.database(),
          .key = found_.key,
          .seq = found_.seq,
          .generation = header_.generation,
          .which = ordered_class(header_.type),
          .count = header_.count};
}

SeqNum RankedWalk::newest() const {
  const Db& db = *env_of(ctx_).db;
  MissSet misses;
  const bool on_loop = ctx_.off_loop == nullptr;
  const ReadView view =
      on_loop ? db.view(ctx_.view.database(), ctx_.now, ReadMode::kResident, &misses) : db.lease(ctx_.view.database());
  Found found;
  return view.locate({found_.key, hash_key(found_.key)}, &found).is_ok() ? found.seq : 0;
}

Status RankedWalk::seek(Bytes name) {
  end_segment();
  TRY(begin(indexes_.open_at_name(state(), name, [this] { return newest(); })));
  while (valid() && this->name() < name) TRY(next());
  return Status::ok();
}

Status RankedWalk::seek_rank(std::uint64_t rank) {
  end_segment();
  TRY(begin(indexes_.open_at_rank(state(), rank, [this] { return newest(); })));
  while (valid() && rank_ < rank) TRY(next());
  return valid() ? Status::ok() : Status::corruption("the header of a collection counts too many elements");
}

Status RankedWalk::begin(std::optional<RankIndexes::Walk> from) {
  segment_ = from ? std::move(*from) : RankIndexes::Walk{};
  rank_ = segment_.from.before;
  since_point_ = 0;
  walk_.emplace(
      ctx_, keys_,
      part_.in_bounds({.which = ordered_class(header_.type), .first = segment_.from.name, .limit = RankIndex::kSegmentElements}));
  return walk_->begin();
}

Status RankedWalk::next() {
  TRY(walk_->next());
  ++rank_;
  if (++since_point_ < RankIndex::kSegmentElements || segment_.ticket == 0 || !valid()) return Status::ok();
  if (name().size() > kMostBoundaryBytes) return Status::ok();
  points_.push_back({std::string(name()), std::exchange(since_point_, 0)});
  return Status::ok();
}

void RankedWalk::end_segment() {
  if (segment_.ticket != 0) indexes_.close(state(), segment_, points_);
  segment_ = {};
  points_.clear();
}

}  // namespace ebbtide
