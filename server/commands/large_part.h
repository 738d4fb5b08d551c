// Loads some elements of a large collection into the form of a small one. Only large_access.h and large_members.h use this file;
// commands call those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <engine/iterator.h>

#include "dispatch/context.h"
#include "dispatch/growing_charge.h"
#include "store/collection/large.h"

namespace ebbtide {

/// Elements of one class, in the order of their names.
struct ElementRange {
  ElementClass which{};
  std::string first{};    ///< the range begins at this name
  std::string end{};      ///< the range ends before this name; "": at the end of the class
  bool from_end = false;  ///< `skip` and `limit` count from the end of the range
  std::uint64_t skip = 0, limit = ~std::uint64_t{0};
  bool in_parts = false;  ///< the walk ends early once it has skipped kMostWalked dead elements (ElementWalk::rest)
};

/// The most elements that a walk visits on an event loop: about a millisecond of work. A longer walk leaves its loop.
inline constexpr std::uint64_t kMostWalked = 4096;

/// Gets the name, value and expiry of an element.
using ElementVisit = std::function<Status(Bytes name, Bytes value, Millis expiry)>;

/// Makes dispatch run the command again, off its loop.
Status leave_loop(Ctx& ctx);

/// Visits the elements of a range one by one, from its start or, with ElementRange::from_end, from its end. `skip` and `limit`
/// serve only to estimate how many pages the walk needs. The walk counts its work (Ctx::work). On a loop it never waits for the
/// disk: begin() and next() return kNotResident if pages are missing, or if the walk is too long.
class ElementWalk {
 public:
  ElementWalk(Ctx& ctx, ElementKeys& keys, const ElementRange& range);

  Status begin();
  Status next();
  [[nodiscard]] bool valid() const { return !empty_ && !ended_ && walk_->valid(); }
  /// Returns the key from which the rest of the range can be walked; "" if it has no more elements.
  [[nodiscard]] Bytes rest() const { return empty_ || !(walk_->valid() || walk_->paused()) ? Bytes() : rest_key(); }
  /// Valid until next().
  [[nodiscard]] Bytes name() const { return keys_.name_of(walk_->key()); }
  Result<Bytes> value();
  /// Returns the expiry of the element; 0: none.
  [[nodiscard]] Millis expiry() const { return walk_->expiry(); }
  [[nodiscard]] Bytes key() const { return walk_->key(); }
  /// Returns about how many tombstones of removed elements the walk has skipped.
  [[nodiscard]] std::uint64_t passed() const { return passed_; }

 private:
  Status settle();
  [[nodiscard]] Bytes rest_key() const { return walk_->valid() ? walk_->key() : walk_->resume_key(); }

  Ctx& ctx_;
  const ElementKeys& keys_;
  const bool from_end_, empty_, in_parts_;
  bool ended_ = false;
  std::unique_ptr<Iterator> walk_;
  std::uint64_t visited_ = 0, passed_ = 0;
};

/// A part of one large collection, in the form of a small one. Not thread-safe; for one attempt of a command.
class LargePart {
 public:
  /// `found`: the located header. It must outlive this object, and stay unchanged until give().
  LargePart(Ctx& ctx, const Found& found, const LargeHeader& header);

  /// Looks an element up by its name, and adds it to this part if it exists. If the element's page is not in memory,
  /// is_resident() returns false from then on.
  Status look_up(Bytes name) { return look_up(named_class(header_.type), name, true); }
  Status look_up_position(std::uint64_t place);
  [[nodiscard]] bool is_resident() const { return resident_; }

  /// Adds the elements of a range, in the order of their names.
  Status walk(const ElementRange& range);
  /// Calls `each` for the elements of a range, which must not count from its end, in the order of their names. Adds nothing.
  Status visit(const ElementRange& range, const ElementVisit& each);
  /// Adds the elements with these ranks (0 = first) in the order of replies (ordered_class()). The ranks ascend and are below the
  /// header's count.
  Status walk_to(std::span<const std::size_t> places);
  /// Adds the elements of a range up to its limit, and ends after about `bytes`. Returns the key from which the rest of the range
  /// can be walked, if there may be one.
  Result<std::optional<std::string>> walk_some(const ElementRange& range, std::size_t bytes);
  /// Returns the number of elements in a range.
  Result<std::uint64_t> count_in(const ElementRange& range);
  /// Returns the rank of the element with this name in the ordered class. Visits the elements between it and the nearer end.
  Result<std::uint64_t> place_of(Bytes name);

  /// Moves the elements into `found`, where they replace its value. Found::header keeps the header's own value.
  void give(Found* found) { set_elements(builder_.take(), found); }
  [[nodiscard]] std::size_t count() const { return builder_.count(); }
  /// Puts members of a sorted set, which were looked up by name, into the order of their scores.
  static Status order_by_score(Found* found);
  /// Replaces the header's value in `found` by these elements of its collection.
  static void set_elements(std::string elements, Found* found);
  /// Returns the intersection of a range and the header's bounds. It has all elements of the range.
  [[nodiscard]] ElementRange in_bounds(ElementRange range) const;

 private:
  Status look_up(ElementClass which, Bytes name, bool may_be_absent);
  Status add(Bytes name, Bytes value, Millis expiry = 0);
  Status add_scored(Bytes name, Bytes value);
  Status add_backward(ElementWalk& walk, std::uint64_t limit);
  /// Returns true if elements of this class can be found by rank (ranked_walk.h). The functions below require that.
  [[nodiscard]] bool is_ranked(ElementClass which) const;
  Status visit_ranks(const ElementRange& range, const ElementVisit& each);
  Status walk_to_ranks(std::span<const std::size_t> ranks);
  Result<std::uint64_t> count_ranks(const ElementRange& range);

  Ctx& ctx_;
  const Found& found_;
  const LargeHeader header_;
  ElementKeys keys_;
  CompactBuilder builder_;
  GrowingCharge charge_;
  bool resident_ = true;
};

}  // namespace ebbtide
