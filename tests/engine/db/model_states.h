// Records the engine states that a life in the model test reached, since a test proves nothing about states that it never
// reaches. The observation uses no random numbers of the life and changes nothing in the database.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <engine/collection_keys.h>

#include "engine/db/model.h"
#include "io/file_names.h"
#include "table/metadata.h"
#include "version/manifest.h"
#include "version/version_state.h"

namespace ebbtide {

enum class State : std::uint8_t {
  kTombstones,  ///< tables have tombstones; the states below are also of tables unless their comment says otherwise
  kRangeTombstones,
  kRangeTombstoneAcross,  ///< a range tombstone with parts in several files of a run
  kRecords,               ///< secondary range deletes, also in memtables
  kRecordRetired,
  kThreeRuns,
  kThreeLevels,
  kWholeDrop,    ///< a page was dropped without being read
  kPartialDrop,  ///< a page was replaced by its survivors
  kDeadlineMerge,
  kFileChosen,       ///< the policy chose a file of a level that was too large
  kExpiryDropped,    ///< an expired value is in no file and no memtable
  kMergeUnderView,   ///< a merge ran while a view read the previous state
  kFlushedDatabase,  ///< FLUSHDB of a database that had tables
  kRestarted,
  kKilled,
  kStates
};

/// A set of states.
using States = std::uint32_t;
template <typename... Some>
constexpr States states(Some... some) {
  return (States{0} | ... | (States{1} << static_cast<unsigned>(some)));
}
constexpr States kAllStates = (States{1} << static_cast<unsigned>(State::kStates)) - 1;

inline constexpr const char* kStateNames[] = {
    "tombstones",
    "range tombstones",
    "range tombstone across files",
    "records",
    "record retired",
    "three runs",
    "three levels",
    "page dropped whole",
    "page dropped in part",
    "deadline merge",
    "file chosen",
    "expired value dropped",
    "merge under a view",
    "database flushed",
    "restart",
    "kill",
};
static_assert(std::size(kStateNames) == static_cast<std::size_t>(State::kStates));

/// Counts the lives of an option set that reached each state.
struct Reached {
  std::array<std::uint64_t, static_cast<std::size_t>(State::kStates)> lives{};  ///< number of lives that reached each state
  std::uint64_t count = 0, operations = 0;

  [[nodiscard]] States any() const {
    States found = 0;
    for (std::size_t i = 0; i < lives.size(); ++i) found |= lives[i] != 0 ? States{1} << i : 0;
    return found;
  }
  void add_life(States found, std::uint64_t its_operations) {
    for (std::size_t i = 0; i < lives.size(); ++i) lives[i] += (found >> i) & 1;
    ++count;
    operations += its_operations;
  }
  void add(const Reached& other) {
    for (std::size_t i = 0; i < lives.size(); ++i) lives[i] += other.lives[i];
    count += other.count;
    operations += other.operations;
  }
};

/// Returns the names of states, such as "restart, kill"; "" for none.
inline std::string states_text(States some) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kStateNames); ++i) {
    if ((some >> i & 1) != 0) text += (text.empty() ? "" : ", ") + std::string(kStateNames[i]);
  }
  return text;
}

/// Returns one line: for each state that some lives did not reach, the number of lives that did.
inline std::string states_report(const std::string& name, const Reached& reached) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kStateNames); ++i) {
    if (reached.lives[i] != reached.count) text += ", " + std::string(kStateNames[i]) + " " + std::to_string(reached.lives[i]);
  }
  return name + ": " + std::to_string(reached.count) + " runs reached all states" +
         (text.empty() ? "" : " but for " + text.substr(2));
}

/// Returns true if parts of one range tombstone are in several files.
inline bool has_range_tombstone_across_files(FileSystem& fs, const std::string& dir) {
  const auto manifest = read_current(fs, dir);
  demand_ok(manifest.status(), "CURRENT");
  StateBuilder builder;
  const auto end = read_manifest(fs, dir, *manifest, [&builder](Bytes payload, std::uint64_t) -> Status {
    TRY_ASSIGN(edit, VersionEdit::decode(payload));
    return builder.add(edit);
  });
  demand_ok(end.status(), "manifest");
  const auto state = builder.finish();
  demand_ok(state.status(), "manifest");
  for (const auto& [tree, version] : state->trees) {
    for (const Run& run : version->runs) {
      std::map<SeqNum, FileNum> seen;
      for (const FileMetaPtr& file : run.files) {
        if (file->stats.range_tombstones == 0) continue;
        const std::string path = join_path(dir, metadata_file_name(file->metadata_file));
        const auto bytes = read_file(fs, path);
        demand_ok(bytes.status(), "metadata of a table");
        const auto table = TableMetadata::decode(*bytes, file->metadata_file, path);
        demand_ok(table.status(), "metadata of a table");
        for (const RangeTombstone& piece : table->range_tombstones) {
          if (seen.emplace(piece.seq, file->data_file).first->second != file->data_file) return true;
        }
      }
    }
  }
  return false;
}

/// Observes one life from outside.
class StatesOfLife {
 public:
  void note(State state) { found_ |= states(state); }
  [[nodiscard]] bool has(State state) const { return (found_ & states(state)) != 0; }
  [[nodiscard]] States found() const { return found_; }

  /// Looks at the database after an operation, and notes the states that it has reached. `worked`: the operation may have run
  /// background work.
  void look(Harness& h, const Model& model, bool worked, bool open_views) {
    const TreeInfo info = *h.db->tree_info(0);
    std::uint64_t files = 0;
    for (const RunInfo& run : info.runs) {
      if (run.tombstones != 0) note(State::kTombstones);
      if (run.range_tombstones != 0) note(State::kRangeTombstones);
      files += run.files;
      spread_ |= run.files > 1 && run.range_tombstones > 1;
    }
    if (info.records != 0) note(State::kRecords);
    if (info.runs.size() >= 3) note(State::kThreeRuns);
    if (!info.runs.empty() && info.runs.back().level >= 2) note(State::kThreeLevels);
    // Records that subsume each other are merged, so their number may fall without a retirement; one record always stays.
    if (before_ && before_->tree == info.tree && before_->records != 0 && info.records == 0) note(State::kRecordRetired);
    // After SWAPDB the tree is still in use.
    if (before_ && before_->tree != info.tree && before_->files != 0 && h.db->tree_info(1)->tree != before_->tree)
      note(State::kFlushedDatabase);
    before_ = {info.tree, info.records, files};
    if (worked) look_at_work(h, model, open_views);
  }
  /// Resets the counts since the last open.
  void reopened() {
    before_.reset();
    compactions_ = 0;
  }

 private:
  void look_at_work(Harness& h, const Model& model, bool open_views) {
    const Stats stats = h.db->stats();
    if (stats.pages_dropped_full != 0) note(State::kWholeDrop);
    if (stats.pages_dropped_partial != 0) note(State::kPartialDrop);
    for (const ReasonInfo& merges : stats.merges_by_reason) {
      if (merges.reason == "deadline" && merges.jobs != 0) note(State::kDeadlineMerge);
      if (merges.reason == "size" && merges.jobs != 0) note(State::kFileChosen);
    }
    if (open_views && stats.compactions > compactions_) note(State::kMergeUnderView);
    compactions_ = stats.compactions;
    if (spread_ && !has(State::kRangeTombstoneAcross) && has_range_tombstone_across_files(*h.files, h.settings.dir))
      note(State::kRangeTombstoneAcross);
    spread_ = false;
    if (!has(State::kExpiryDropped)) look_for_expired(h, model);
  }
  /// Looks for expired values. The model keeps them until their key is written or deleted, and the database until a flush or a
  /// merge.
  void look_for_expired(Harness& h, const Model& model) {
    const Millis now = h.db->now();
    std::vector<ExpiringKey> kept;
    const auto found = h.db->expiring_keys(0, 0, now, std::numeric_limits<std::size_t>::max(), &kept);
    if (found.status().code() == Code::kRevoked) return;
    demand_ok(found.status(), "expired keys");
    std::size_t dead = 0;
    for (const auto& [key, value] : model.map(0)) dead += Model::dead(value, now) ? 1 : 0;
    std::erase_if(kept, [](const ExpiringKey& each) { return main_key_of(each.key).size() != each.key.size(); });  // elements
    if (dead > kept.size()) note(State::kExpiryDropped);
  }

  struct Before {
    TreeId tree;
    std::uint64_t records, files;
  };
  States found_ = 0;
  std::optional<Before> before_;
  std::uint64_t compactions_ = 0;
  bool spread_ = false;  // parts of a range tombstone may be in several files
};

}  // namespace ebbtide
