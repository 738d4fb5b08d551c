// Sorted sets as values: lookups in a sorted set's bytes, changes of a decoded one, ranges, and operations on several.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/seeded_hash.h>

#include "store/collection/compact.h"
#include "store/lists.h"

namespace ebbtide {

struct RankedScore {
  std::size_t rank = 0;  ///< the member's index in the sorted set; 0 for the lowest score
  double score = 0;
};
/// Looks for a member in the bytes of a sorted set, without decoding them all. kCorruption if they are damaged before the member.
Result<std::optional<RankedScore>> find_member(Bytes sorted_set, Bytes member);

/// Changes a decoded sorted set. The bytes of the members must outlive the editor.
class SortedSetEditor {
 public:
  /// `changes`: about how many calls follow. For many calls the editor makes an index of the members; for few calls, each scans
  /// the members.
  SortedSetEditor(SortedSet members, std::size_t changes);

  [[nodiscard]] std::optional<double> score(Bytes member) const;
  /// Adds a member, or changes the score of a member.
  void put(Bytes member, double score);
  /// Removes a member. Returns false if it is absent.
  bool remove(Bytes member);
  [[nodiscard]] std::size_t size() const { return indexed_ ? index_.size() : members_.size(); }
  /// Returns the changed sorted set. Must be the last call.
  [[nodiscard]] SortedSet take();

 private:
  static constexpr std::size_t kFewChanges = 4;
  [[nodiscard]] SortedSet::const_iterator place_of(Bytes member) const;

  const bool indexed_;
  SortedSet members_;       // the members in order, unless indexed_
  BytesMap<double> index_;  // all members, if indexed_
};

/// One end of a range of scores.
struct ScoreBound {
  double score = 0;
  bool excluded = false;
};
struct ScoreRange {
  ScoreBound min, max;
};
/// Parses "1.5", "(1.5", "-inf" as Redis does: up to a zero byte, and "" is 0. nullopt: the text is not a number.
std::optional<ScoreBound> parse_score_bound(Bytes text);
/// Returns the indexes of the members whose scores are in the range.
Places places_in(const SortedSet& members, const ScoreRange& range);

/// One end of a range of members.
struct LexBound {
  enum class Kind : std::uint8_t { kLowest, kHighest, kMember };
  Kind kind = Kind::kMember;
  Bytes member;
  bool excluded = false;
};
struct LexRange {
  LexBound min, max;
};
/// Parses "-", "+", "[a" or "(a". nullopt: the text has another form.
std::optional<LexBound> parse_lex_bound(Bytes text);
/// Returns the indexes of the members in the range, without the first `skipped` of them, or, if `backward`, without the last
/// `skipped`. All members should have one score. If they do not, the result is Redis's. A walk begins at the first member above
/// the lower bound, or, if `backward`, at the last member below the upper bound. It skips `skipped` members, and ends at the
/// other bound.
Places places_in(const SortedSet& members, const LexRange& range, std::size_t skipped = 0, bool backward = false);

enum class Aggregate : std::uint8_t { kSum, kMin, kMax };
/// A source of an operation such as ZUNION. Members of a set have score 1. Several sources may refer to the same members.
struct WeightedSource {
  std::span<const ScoredMember> members;
  double weight = 1;
};
/// An operation calls this before each of its sources, since thousands of sources take many seconds. If it returns true, the
/// operation ends, and its result has no meaning.
using StopCheck = std::function<bool()>;
/// Return the union and the intersection of the sources. Scores are multiplied by weights and added up in Redis's order, from the
/// smallest source to the largest; a sum that is not a number becomes 0.
SortedSet united(std::vector<WeightedSource> sources, Aggregate aggregate, const StopCheck& stop);
SortedSet common(std::vector<WeightedSource> sources, Aggregate aggregate, const StopCheck& stop);
/// Returns the members of the first source that are in no other, with their scores.
SortedSet without_others(const std::vector<WeightedSource>& sources, const StopCheck& stop);

}  // namespace ebbtide
