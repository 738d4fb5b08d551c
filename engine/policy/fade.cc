#include "policy/fade.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/oldest.h"
#include "policy/fade_strategy.h"

namespace ebbtide {
namespace {

/// While disk space is short, plans are made for at most kMostTried expired files, and the best plan is taken. Making a plan
/// takes microseconds.
constexpr std::size_t kMostTried = 64;

constexpr std::uint64_t kPartsOfSplit = 4;
/// Returns the smallest size, in bytes, of the parts into which a file may be split. In addition to its data a file takes some 8
/// KiB, for metadata and unused ends of blocks. So the smallest files need an eighth more space than their data.
std::uint64_t smallest_part(std::uint64_t file_bytes) {
  return std::max(file_bytes / 64, std::min(std::uint64_t{64} << 10, file_bytes));
}
std::uint64_t space_of(std::uint64_t bytes) { return bytes + bytes / 8; }

/// Computes the result of urgent(): finds the expired files, orders them, and chooses among the strategies' proposals.
class Fade {
 public:
  Fade(const TreeShape& shape, const Policy& policy, const FadeContext& context)
      : shape_(shape),
        context_(context),
        due_(shape, policy, context.now, context.margin),
        query_{shape, due_, policy.by_file(), is_short(context.room, shape.file_bytes)} {}

  Plan next() const {
    std::optional<Proposal> best;
    std::size_t tried = 0;
    for (const ExpiredFile& e : by_urgency(find_expired())) {
      if (!is_to_be_done(*e.file)) continue;
      Proposal proposal = propose(e);
      if (proposal.reserved.busy) continue;
      proposal.plan.reason = Reason::kDeadline;
      proposal.plan.urgent = due_.is_late(*e.file);
      if (!query_.room_is_short) return std::move(proposal.plan);
      if (!best || is_better(proposal, *best)) best = std::move(proposal);
      if (++tried == kMostTried) break;
    }
    if (!best) return {};
    return fits(*best) ? std::move(best->plan) : split_for(std::move(best->plan));
  }

 private:
  [[nodiscard]] std::vector<ExpiredFile> find_expired() const {
    std::vector<ExpiredFile> expired;
    for (std::size_t run = 0; run < shape_.runs.size(); ++run) {
      const FileShapes& files = shape_.runs[run].files;
      for (std::size_t c = 0; c < files.chunks(); ++c) {
        const ShapeSums sums = FileShapes::sums_of(files.at_chunk(c));
        if (due_.any_may_be_expired(sums, shape_.runs[run].level)) add_expired(run, files.at_chunk(c), &expired);
      }
    }
    return expired;
  }
  void add_expired(std::size_t run, const FileShapes::Chunk& chunk, std::vector<ExpiredFile>* expired) const {
    const int level = shape_.runs[run].level;
    for (const FileShape& file : chunk.items) {
      // Every plan for a file takes the file itself, so no plan is possible for a busy file. Skipping it saves the work below
      // during a merge of a thousand runs.
      if (file.busy) continue;
      // A bottommost file expires later than other files. So the search for older runs is needed only if the file would be
      // expired with an older run below it.
      if (!due_.is_expired(file, level)) continue;
      const bool final = is_final_in(shape_, run, file.range());
      if (due_.is_expired(file, level, final)) expired->push_back({run, &file, final});
    }
  }

  [[nodiscard]] std::vector<ExpiredFile> by_urgency(std::vector<ExpiredFile> expired) const {
    std::sort(expired.begin(), expired.end(), [this](const ExpiredFile& a, const ExpiredFile& b) { return goes_first(a, b); });
    return expired;
  }
  [[nodiscard]] bool goes_first(const ExpiredFile& a, const ExpiredFile& b) const {
    const Millis deadline_a = due_.deadline_of(*a.file), deadline_b = due_.deadline_of(*b.file);
    if (deadline_a != deadline_b) return deadline_a < deadline_b;
    if (a.file->oldest_birth != b.file->oldest_birth) return a.file->oldest_birth < b.file->oldest_birth;
    const int level_a = shape_.runs[a.run].level, level_b = shape_.runs[b.run].level;
    if (level_a != level_b) return level_a < level_b;
    const auto tombstones = [](const FileShape& file) { return file.tombstones + file.range_tombstones; };
    if (tombstones(*a.file) != tombstones(*b.file)) return tombstones(*a.file) > tombstones(*b.file);
    if (a.run != b.run) return a.run < b.run;
    return a.file->smallest < b.file->smallest;
  }

  /// Returns false if the FadeContext excludes the file.
  [[nodiscard]] bool is_to_be_done(const FileShape& file) const {
    if (std::binary_search(context_.skip.begin(), context_.skip.end(), file.num)) return false;
    if (due_.is_late(file)) return true;
    return !context_.late_only && (!context_.over_budget || due_.is_purged_now(file));
  }

  [[nodiscard]] Proposal propose(const ExpiredFile& e) const {
    if (e.final) return rewrite(e);
    if (query_.by_file && !query_.goes_in_one(e)) {
      std::optional<Proposal> down = propose_step_down(query_, e);
      if (down && (!query_.room_is_short || fits(*down))) return std::move(*down);
    }
    return propose_slice(query_, e);
  }
  [[nodiscard]] Proposal rewrite(const ExpiredFile& e) const {
    Proposal proposal{.reserved = {.bytes = e.file->bytes, .busy = e.file->busy}};
    proposal.plan.action = Rewrite{shape_.runs[e.run].id, e.file->num};
    return proposal;
  }

  [[nodiscard]] bool fits(std::uint64_t bytes) const { return space_of(bytes) <= context_.room; }
  [[nodiscard]] bool fits(const Proposal& proposal) const { return fits(proposal.reserved.bytes); }
  /// Returns true if `a` is better than `b` while disk space is short. A plan that fits is better than a plan that does not fit.
  /// If both or neither fit, a plan for a late file is better; otherwise the smaller plan.
  [[nodiscard]] bool is_better(const Proposal& a, const Proposal& b) const {
    if (fits(a) != fits(b)) return fits(a);
    if (a.plan.urgent != b.plan.urgent) return a.plan.urgent;
    return a.reserved.bytes < b.reserved.bytes;
  }
  struct RunFile {
    RunId run = 0;
    const FileShape* file = nullptr;
  };
  /// Returns the plan that must come before `plan`, which does not fit: a split of one of its files, so that the next slice takes
  /// fewer bytes. If no file can be split, returns `plan` itself: it may still succeed if its inputs have dead bytes, which are
  /// not written.
  [[nodiscard]] Plan split_for(Plan plan) const {
    const auto* slice = std::get_if<Slice>(&plan.action);
    if (slice == nullptr) return plan;
    RunFile target, straddler;  // the straddler is the largest file that reaches beyond the slice
    std::uint64_t inside = 0, straddling = 0;
    for (const RunShape& run : shape_.runs) {
      if (std::none_of(slice->inputs.begin(), slice->inputs.end(), [&](const PlanInput& in) { return in.run == run.id; }))
        continue;
      for (const FileShape& file : files_in(run, slice->range)) {
        target = {run.id, &file};  // the target is in the oldest run, which this loop visits last
        const bool is_inside = hull(slice->range, file.range()) == slice->range;
        (is_inside ? inside : straddling) += file.bytes;
        if (!is_inside && (straddler.file == nullptr || straddler.file->bytes < file.bytes)) straddler = {run.id, &file};
      }
    }
    // After a split of the target, the next slice needs fewer of the files inside the target's range. After a split of the
    // straddler, the next slice needs fewer of the straddler's bytes beyond the slice.
    if (inside < straddling) std::swap(target, straddler);
    if (!split(target, &plan)) split(straddler, &plan);
    return plan;
  }
  /// Replaces the plan by a rewrite of the file in parts. Returns false, and changes nothing, if the file cannot be split, or is
  /// itself larger than the room. Makes few parts, since each file needs more space than its data; the part in the next slice may
  /// be split again.
  bool split(const RunFile& in, Plan* plan) const {
    if (in.file == nullptr || !fits(in.file->bytes)) return false;
    const FileShape& file = *in.file;
    const std::uint64_t most = file.bytes / std::max<std::uint64_t>(smallest_part(shape_.file_bytes), 1);
    const std::uint64_t parts = std::min({kPartsOfSplit, most, file.entries});
    // Only entries count towards the size of a new file, so a rewrite would not cut a file that has mostly range tombstones.
    if (parts < 2 || file.range_tombstones > file.entries) return false;
    plan->action = Rewrite{in.run, file.num, file.bytes / parts + 1};
    return true;
  }

  const TreeShape& shape_;
  const FadeContext& context_;
  const DueTimes due_;
  const FadeQuery query_;
};

}  // namespace

bool is_short(std::uint64_t room, std::uint64_t file_bytes) {
  return room / kLargestMerge < std::max<std::uint64_t>(file_bytes, 1);
}

Plan urgent(const TreeShape& shape, const Policy& policy, const FadeContext& context) {
  return Fade(shape, policy, context).next();
}

FadeWork fade_work(const TreeShape& shape, Millis now) {
  FadeWork work;
  std::map<FileNum, std::pair<Millis, std::uint64_t>> due;  // for each file: the time by which it must be merged, and its bytes
  const auto add = [&](const FileShape& file, Millis deadline) {
    auto& entry = due.try_emplace(file.num, deadline, file.bytes).first->second;
    entry.first = std::min(entry.first, deadline);
  };
  const auto add_file = [&](std::size_t run, const FileShape& file) {
    work.oldest_birth = older(work.oldest_birth, file.oldest_birth);
    if (file.deadline == 0) return;
    work.deadline = older(work.deadline, file.deadline);
    add(file, file.deadline);
    const KeyRange range = file.range();
    const std::size_t below = oldest_overlapping(shape, run + 1, range);
    if (below == shape.runs.size()) return;
    for (const FileShape& target : files_in(shape.runs[below], range)) add(target, file.deadline);
  };
  for (std::size_t run = 0; run < shape.runs.size(); ++run) {
    const FileShapes& files = shape.runs[run].files;
    for (std::size_t c = 0; c < files.chunks(); ++c) {
      if (FileShapes::sums_of(files.at_chunk(c)).oldest_birth == 0) continue;
      for (const FileShape& file : files.at_chunk(c).items) {
        if (file.oldest_birth != 0) add_file(run, file);
      }
    }
  }
  std::vector<std::pair<Millis, std::uint64_t>> by_deadline;
  for (const auto& [file, entry] : due) by_deadline.push_back(entry);
  std::sort(by_deadline.begin(), by_deadline.end());
  constexpr Millis kSoon = 1000;
  for (const auto& [deadline, bytes] : by_deadline) {
    work.bytes += bytes;
    const Millis left = deadline > now + kSoon ? deadline - now : kSoon;
    work.bytes_per_ms = std::max(work.bytes_per_ms, static_cast<double>(work.bytes) / static_cast<double>(left));
  }
  return work;
}

}  // namespace ebbtide
