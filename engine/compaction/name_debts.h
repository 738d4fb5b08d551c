// Whose names range tombstones are cut at.
//
// A merge cuts range tombstones at keys that their deletes never named: where a part of the merge ends, or a file does. Such a key
// may have been deleted before the range was. Then its name would stay behind as the end of a piece, until the range's own
// deadline, when all else of the key has long been gone. So a piece takes over the oldest birth that is owed where it was cut: it is
// then as urgent as that is.
#pragma once

#include <vector>

#include "version/version.h"

namespace ebbtide {

/// What the files of one run of a version and of all older ones owe at a key. The version must outlive it. Thread-safe.
class NameDebts {
 public:
  NameDebts() = default;  // nothing
  NameDebts(const Version& version, std::size_t newest_run, Millis now)
      : version_(&version), newest_run_(newest_run), now_(now) {}

  /// The oldest birth of a delete of this key, or of the one that it is the successor of; 0 = of none. O(log files) for each run.
  [[nodiscard]] Millis birth_at(Bytes key) const;

 private:
  const Version* version_ = nullptr;
  std::size_t newest_run_ = 0;
  Millis now_ = 0;
};

}  // namespace ebbtide
