// Counts deletes that missed their deadline, by reason. Only kLoad is a fault of this program's: the other reasons left it less than
// half of the time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include <engine/types.h>
#include "db/purge/survey.h"

namespace ebbtide {

enum class MissReason : std::uint8_t {
  kLoad,    ///< merges or flushes came too late
  kDown,    ///< no server ran until less than half of the time was left
  kClock,   ///< the same, where the clock moved forward
  kDisk,    ///< the same, where the disk refused what had to be written
  kDamage,  ///< a quarantined file holds it
};
inline constexpr std::size_t kMissReasons = 5;
/// "load", "down", "clock", "disk", "damage".
const char* miss_reason_name(MissReason reason);

/// What may have kept deletes from going in time: engine times of the last of each; 0 = never.
struct MissCauses {
  Millis opened_at = 0;     ///< the database was opened
  Millis clock_step = 0;    ///< the wall clock moved forward
  Millis disk_refused = 0;  ///< the disk refused a write
};

/// Why a delete born at `birth` and due at `deadline` is late, unless damage keeps it. Pure.
MissReason miss_reason(Millis birth, Millis deadline, const MissCauses& causes);

/// note() is not thread-safe; count() is.
class MissedDeadlines {
 public:
  struct Miss {
    TreeId tree = kNoTree;
    Millis late_ms = 0;
    MissReason reason = MissReason::kLoad;
    bool operator==(const Miss&) const = default;
  };
  /// The deletes that the survey finds late, each birth once for each tree, and once more if damage keeps it. What damage made late
  /// is not counted again for another reason.
  std::vector<Miss> note(const PurgeSurvey& survey, const MissCauses& causes);
  [[nodiscard]] std::uint64_t count(MissReason reason) const {
    return counts_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kMissReasons> counts_{};
  std::map<TreeId, Millis> counted_;         // the newest birth that was counted
  std::map<TreeId, Millis> counted_damage_;  // the same, of what damage keeps
};

}  // namespace ebbtide
