// Pending deletes of the keys at which range tombstones are cut.
//
// A merge cuts range tombstones at the ends of its parts or of files, that is, at keys that the range delete did not name. Such a
// key may have been deleted before the range was. Its name would then stay as the end of a piece until the range's own deadline,
// past the deadline of the key. So a piece takes over the oldest pending birth of the key where it was cut, and is as urgent.
#pragma once

#include <vector>

#include "version/version.h"

namespace ebbtide {

/// Pending deletes at a key in the files of one run of a version and all older runs. The version must outlive it. Thread-safe.
class NameDebts {
 public:
  NameDebts() = default;  // nothing
  NameDebts(const Version& version, std::size_t newest_run, Millis now)
      : version_(&version), newest_run_(newest_run), now_(now) {}

  /// The oldest birth of a pending delete of this key, or of the key that it is the successor of; 0 = none. O(log files) per run.
  [[nodiscard]] Millis birth_at(Bytes key) const;

 private:
  const Version* version_ = nullptr;
  std::size_t newest_run_ = 0;
  Millis now_ = 0;
};

}  // namespace ebbtide
