#include "store/zsets.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace ebbtide {

Result<std::optional<RankedScore>> find_member(Bytes sorted_set, Bytes member) {
  TRY_ASSIGN(reader, CompactReader::open(sorted_set, CollectionType::kSortedSet));
  std::size_t rank = 0;
  for (ScoredMember each; reader.next(&each); ++rank) {
    if (each.member == member) return std::optional(RankedScore{rank, each.score});
  }
  TRY(reader.status());
  return std::optional<RankedScore>();
}

// --- changes

SortedSetEditor::SortedSetEditor(SortedSet members, std::size_t changes)
    : indexed_(changes > kFewChanges), members_(std::move(members)) {
  if (!indexed_) return;
  index_.reserve(members_.size() + changes);
  for (const ScoredMember& each : members_) index_.emplace(each.member, each.score);
  members_.clear();
}

SortedSet::const_iterator SortedSetEditor::place_of(Bytes member) const {
  return std::find_if(members_.begin(), members_.end(), [member](const ScoredMember& each) { return each.member == member; });
}

std::optional<double> SortedSetEditor::score(Bytes member) const {
  if (indexed_) {
    const auto found = index_.find(member);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  const auto place = place_of(member);
  return place == members_.end() ? std::nullopt : std::optional(place->score);
}

void SortedSetEditor::put(Bytes member, double score) {
  if (indexed_) {
    index_[member] = score;
    return;
  }
  if (const auto place = place_of(member); place != members_.end()) members_.erase(place);
  const ScoredMember added{score, member};
  members_.insert(std::lower_bound(members_.begin(), members_.end(), added, is_before), added);
}

bool SortedSetEditor::remove(Bytes member) {
  if (indexed_) return index_.erase(member) != 0;
  const auto place = place_of(member);
  if (place == members_.end()) return false;
  members_.erase(place);
  return true;
}

namespace {

SortedSet in_order(const BytesMap<double>& scores) {
  SortedSet members;
  members.reserve(scores.size());
  for (const auto& [member, score] : scores) members.push_back({score, member});
  std::sort(members.begin(), members.end(), is_before);
  return members;
}

}  // namespace

SortedSet SortedSetEditor::take() { return indexed_ ? in_order(index_) : std::move(members_); }

// --- ranges

std::optional<ScoreBound> parse_score_bound(Bytes text) {
  ScoreBound bound;
  std::string number(text.substr(0, text.find('\0')));
  if (number.starts_with('(')) {
    bound.excluded = true;
    number.erase(0, 1);
  }
  char* end = nullptr;
  bound.score = std::strtod(number.c_str(), &end);
  if (*end != '\0' || std::isnan(bound.score)) return std::nullopt;
  return bound;
}

Places places_in(const SortedSet& members, const ScoreRange& range) {
  const auto is_below = [&](const ScoredMember& m) {
    return range.min.excluded ? m.score <= range.min.score : m.score < range.min.score;
  };
  const auto is_within = [&](const ScoredMember& m) {
    return range.max.excluded ? m.score < range.max.score : m.score <= range.max.score;
  };
  const auto begin = std::partition_point(members.begin(), members.end(), is_below);
  const auto end = std::partition_point(begin, members.end(), is_within);
  return {static_cast<std::size_t>(begin - members.begin()), static_cast<std::size_t>(end - members.begin())};
}

std::optional<LexBound> parse_lex_bound(Bytes text) {
  const char first = text.empty() ? '\0' : text.front();
  const bool ends = text.size() < 2 || text[1] == '\0';  // Redis reads up to a zero byte here
  if (first == '-' && ends) return LexBound{LexBound::Kind::kLowest, {}, true};
  if (first == '+' && ends) return LexBound{LexBound::Kind::kHighest, {}, true};
  if (first != '(' && first != '[') return std::nullopt;
  return LexBound{LexBound::Kind::kMember, text.substr(1), first == '('};
}

namespace {

bool is_above(Bytes member, const LexBound& min) {
  if (min.kind != LexBound::Kind::kMember) return min.kind == LexBound::Kind::kLowest;
  return min.excluded ? member > min.member : member >= min.member;
}

bool is_below(Bytes member, const LexBound& max) {
  if (max.kind != LexBound::Kind::kMember) return max.kind == LexBound::Kind::kHighest;
  return max.excluded ? member < max.member : member <= max.member;
}

bool is_empty(const LexRange& range) {
  const auto& [min, max] = range;
  if (min.kind == max.kind && min.kind != LexBound::Kind::kMember) return true;
  if (min.kind == LexBound::Kind::kHighest || max.kind == LexBound::Kind::kLowest) return true;
  if (min.kind != LexBound::Kind::kMember || max.kind != LexBound::Kind::kMember) return false;
  return min.member > max.member || (min.member == max.member && (min.excluded || max.excluded));
}

}  // namespace

Places places_in(const SortedSet& members, const LexRange& range, std::size_t skipped, bool backward) {
  if (members.empty() || is_empty(range)) return {};
  if (!is_above(members.back().member, range.min) || !is_below(members.front().member, range.max)) return {};
  const std::size_t size = members.size();
  if (!backward) {
    std::size_t begin = 0;
    while (begin < size && !is_above(members[begin].member, range.min)) ++begin;
    if (begin == size || !is_below(members[begin].member, range.max)) return {};
    begin += std::min(skipped, size - begin);
    std::size_t end = begin;
    while (end < size && is_below(members[end].member, range.max)) ++end;
    return {begin, end};
  }
  std::size_t end = size;
  while (end > 0 && !is_below(members[end - 1].member, range.max)) --end;
  if (end == 0 || !is_above(members[end - 1].member, range.min)) return {};
  end -= std::min(skipped, end);
  std::size_t begin = end;
  while (begin > 0 && is_above(members[begin - 1].member, range.min)) --begin;
  return {begin, end};
}

// --- operations on several

namespace {

double combined(double a, double b, Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::kSum: {
      const double sum = a + b;
      return std::isnan(sum) ? 0 : sum;
    }
    case Aggregate::kMin:
      return b < a ? b : a;
    case Aggregate::kMax:
      return b > a ? b : a;
  }
  return a;
}

void sort_by_size(std::vector<WeightedSource>* sources) {
  std::stable_sort(sources->begin(), sources->end(),
                   [](const WeightedSource& a, const WeightedSource& b) { return a.members.size() < b.members.size(); });
}

double weighted(const ScoredMember& member, double weight) {
  const double score = weight * member.score;
  return std::isnan(score) ? 0 : score;
}

}  // namespace

SortedSet united(std::vector<WeightedSource> sources, Aggregate aggregate, const StopCheck& stop) {
  sort_by_size(&sources);
  BytesMap<double> scores;
  for (const WeightedSource& source : sources) {
    if (stop()) return {};
    for (const ScoredMember& each : source.members) {
      const double score = weighted(each, source.weight);
      const auto [found, is_new] = scores.try_emplace(each.member, score);
      if (!is_new) found->second = combined(found->second, score, aggregate);
    }
  }
  return in_order(scores);
}

SortedSet common(std::vector<WeightedSource> sources, Aggregate aggregate, const StopCheck& stop) {
  if (sources.empty()) return {};
  sort_by_size(&sources);
  // For each member: how many sources have it, and its score so far.
  BytesMap<std::pair<std::size_t, double>> scores;
  for (const ScoredMember& each : sources[0].members)
    scores.emplace(each.member, std::pair(1, weighted(each, sources[0].weight)));
  for (std::size_t i = 1; i < sources.size(); ++i) {
    if (stop()) return {};
    for (const ScoredMember& each : sources[i].members) {
      const auto found = scores.find(each.member);
      if (found == scores.end() || found->second.first != i) continue;
      ++found->second.first;
      found->second.second = combined(found->second.second, each.score * sources[i].weight, aggregate);
    }
  }
  SortedSet members;
  for (const auto& [member, state] : scores) {
    if (state.first == sources.size()) members.push_back({state.second, member});
  }
  std::sort(members.begin(), members.end(), is_before);
  return members;
}

SortedSet without_others(const std::vector<WeightedSource>& sources, const StopCheck& stop) {
  BytesSet others;
  for (std::size_t i = 1; i < sources.size(); ++i) {
    if (stop()) return {};
    for (const ScoredMember& each : sources[i].members) others.insert(each.member);
  }
  SortedSet members;
  for (const ScoredMember& each : sources[0].members) {
    if (!others.contains(each.member)) members.push_back(each);
  }
  return members;
}

}  // namespace ebbtide
