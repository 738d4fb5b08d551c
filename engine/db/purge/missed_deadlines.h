// Counts deletes that missed their deadline, by reason. Only kLoad is a bug; with the other reasons, less than half of the time was left
// for the work.
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
  kDamage,  ///< a quarantined file has its bytes
};
inline constexpr std::size_t kMissReasons = 5;
/// "load", "down", "clock", "disk", "damage".
const char* miss_reason_name(MissReason reason);

/// Events that may have delayed purges: the engine time of the last one of each kind; 0 = never.
struct MissCauses {
  Millis opened_at = 0;     ///< the database was opened
  Millis clock_step = 0;    ///< the wall clock moved forward
  Millis disk_refused = 0;  ///< the disk refused a write
};

/// Returns why a delete born at `birth` and due at `deadline` is late; not for deletes that damage keeps. Pure.
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
  /// Returns and counts the survey's late deletes: each birth once per tree, and once more if damage keeps it. A delete that is late
  /// because of damage does not count again for another reason.
  std::vector<Miss> note(const PurgeSurvey& survey, const MissCauses& causes);
  [[nodiscard]] std::uint64_t count(MissReason reason) const {
    return counts_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kMissReasons> counts_{};
  std::map<TreeId, Millis> counted_;         // the newest birth that was counted
  std::map<TreeId, Millis> counted_damage_;  // the same for deletes that damage keeps
};

}  // namespace ebbtide
