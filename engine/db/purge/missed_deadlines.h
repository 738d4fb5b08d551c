// Counts deletes that missed their deadline, by reason. Only kLoad is a bug. For every other reason except damage, the cause
// ended when less than half of the deadline remained for the work.
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
  kDown,    ///< no server ran until less than half of the deadline was left
  kClock,   ///< the wall clock moved forward so that less than half of the deadline was left
  kDisk,    ///< the disk refused writes until less than half of the deadline was left
  kDamage,  ///< a quarantined file has bytes of the delete
};
inline constexpr std::size_t kMissReasons = 5;
/// Returns "load", "down", "clock", "disk" or "damage".
const char* miss_reason_name(MissReason reason);

/// Events that may have delayed purges: the engine time of the last event of each kind; 0 = never.
struct MissCauses {
  Millis opened_at = 0;     ///< the database was opened
  Millis clock_step = 0;    ///< the wall clock moved forward
  Millis disk_refused = 0;  ///< the disk refused a write
};

/// Returns the reason why a delete missed `deadline`, which has applied to the delete since `promised_at`; both are engine times.
/// Never returns kDamage: callers know which deletes are in quarantined files. Pure function.
MissReason miss_reason(Millis promised_at, Millis deadline, const MissCauses& causes);

/// Counts missed deadlines. count() is thread-safe, note() is not.
class MissedDeadlines {
 public:
  struct Miss {
    TreeId tree = kNoTree;
    Millis late_ms = 0;
    MissReason reason = MissReason::kLoad;
    bool operator==(const Miss&) const = default;
  };
  /// Counts and returns the survey's late deletes: each birth once per tree, and once more if damage keeps the delete. A delete
  /// that is late because of damage is not counted again for another reason.
  std::vector<Miss> note(const PurgeSurvey& survey, const MissCauses& causes);
  [[nodiscard]] std::uint64_t count(MissReason reason) const {
    return counts_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kMissReasons> counts_{};
  std::map<TreeId, Millis> counted_;         // by tree, the newest birth that was counted
  std::map<TreeId, Millis> counted_damage_;  // by tree, the newest birth that was counted for the reason kDamage
};

}  // namespace ebbtide
