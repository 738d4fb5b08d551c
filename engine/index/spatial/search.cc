#include <engine/spatial.h>

#include <algorithm>
#include <utility>

namespace ebbtide {

class PlaceSearch::Filter final : public PointFilter {
 public:
  Filter(PlaceShape shape, PlaceOrder order)
      : PointFilter(points_offset(order)), shape_(std::move(shape)), boxes_(shape_.point_bounds()) {}
  // A search calls this for each tile of a table, and most tiles are far away. So the bounds are first compared with boxes around
  // the shape.
  [[nodiscard]] bool meets(const PointBounds& bounds) const override {
    const bool near = std::any_of(boxes_.begin(), boxes_.end(), [&](const PointBounds& box) {
      return box.min_x <= bounds.max_x && bounds.min_x <= box.max_x && box.min_y <= bounds.max_y && bounds.min_y <= box.max_y;
    });
    return near && shape_.meets(box_of(bounds));
  }
  [[nodiscard]] PlaceShape& shape() { return shape_; }

 private:
  PlaceShape shape_;
  const std::vector<PointBounds> boxes_;
};

PlaceSearch::PlaceSearch(PlaceShape shape, PlaceSearchOptions options, const Open& open)
    : options_(std::move(options)), filter_(std::make_unique<Filter>(std::move(shape), options_.order)) {
  ranges_ = filter_->shape().key_ranges(options_.order);
  IteratorOptions walk;
  walk.bounds = {std::max(ranges_.front().start, options_.from), ranges_.back().end};
  walk.max_steps = options_.max_steps;
  walk.resident = options_.resident;
  walk.pages_at_once = options_.pages_at_once;
  walk.points = filter_.get();
  iterator_ = open(walk);
}

PlaceSearch::~PlaceSearch() = default;

void PlaceSearch::shrink(double meters) { filter_->shape().shrink(meters); }

Status PlaceSearch::status() const { return iterator_->status(); }

// Moves the iterator to the first key, at or after its current key, that is in one of the ranges. Returns false if the iterator
// ends or pauses before.
bool PlaceSearch::enter_range() {
  while (iterator_->valid()) {
    const Bytes key = iterator_->key();
    while (range_ < ranges_.size() && !ranges_[range_].end.empty() && key >= Bytes(ranges_[range_].end)) ++range_;
    if (range_ == ranges_.size()) return false;
    if (key >= Bytes(ranges_[range_].start)) return true;
    iterator_->seek(ranges_[range_].start);
  }
  return false;
}

// A table without bounds, a memtable, or a tile that the shape meets also has keys whose places are not in the shape. Such a key
// may even be deleted, if its tombstone is in a tile that was skipped. So each place is tested here.
void PlaceSearch::next() {
  valid_ = false;
  if (paused_ || !started_) {
    iterator_->seek(paused_ ? Bytes(resume_key_) : Bytes(options_.from));
  } else {
    iterator_->next();
  }
  paused_ = false;
  started_ = true;
  for (std::uint64_t examined = 0; enter_range(); iterator_->next()) {
    const Bytes key = iterator_->key();
    if (split_place_key(options_.order, key, &place_, &record_) && filter_->shape().contains(place_)) {
      resume_key_.assign(key);
      valid_ = true;
      return;
    }
    if (options_.max_steps == 0 || ++examined < options_.max_steps) continue;
    resume_key_.assign(key);
    resume_key_.push_back('\0');  // the least key after this one
    paused_ = true;
    return;
  }
  paused_ = iterator_->paused();
  if (paused_) resume_key_.assign(iterator_->resume_key());
}

}  // namespace ebbtide
