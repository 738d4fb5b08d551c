// Pending deletes of the keys at which range tombstones are cut.
//
// A merge cuts range tombstones at the ends of its parts or of files, that is, at keys that the range delete did not name. Such a
// key may have been deleted earlier than the range. As a bound of the cut tombstone, the key would then stay in files until the
// range's deadline, which is later than the key's deadline. So the cut tombstone takes over the oldest birth of the key's pending
// deletes, and with it the key's deadline.
#pragma once

#include <vector>

#include "version/version.h"

namespace ebbtide {

/// Finds pending deletes of a key in the files of one run of a version and of all older runs. The version must outlive this
/// object. Thread-safe.
class NameDebts {
 public:
  NameDebts() = default;  // makes an object without pending deletes
  NameDebts(const Version& version, std::size_t newest_run, Millis now)
      : version_(&version), newest_run_(newest_run), now_(now) {}

  /// Returns the oldest birth of a pending delete of `key`, or of the key whose successor `key` is; 0 = none. Takes O(log files)
  /// per run.
  [[nodiscard]] Millis birth_at(Bytes key) const;

 private:
  const Version* version_ = nullptr;
  std::size_t newest_run_ = 0;
  Millis now_ = 0;
};

}  // namespace ebbtide
