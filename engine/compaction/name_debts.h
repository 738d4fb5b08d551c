// Whose names range tombstones are cut at.
//
// A merge cuts range tombstones at keys that their deletes never named: where a part of the merge ends, where a file does, where older
// files begin and end. Such a key may have been deleted before the range was. Then its name would stay behind as the end of a
// piece, until the range's own deadline, when all else of the key has long been gone. So a piece takes over the oldest birth that
// is owed where it was cut: it is then as urgent as that is.
#pragma once

#include <utility>
#include <vector>

#include "version/version.h"

namespace ebbtide {

/// A value; immutable once made.
class NameDebts {
 public:
  NameDebts() = default;
  /// What the files of run number `newest` and of all older ones owe.
  NameDebts(const Version& version, std::size_t newest, Millis now);
  /// Something else, wherever its keys may be; 0 = nothing.
  void add(Millis birth);

  /// The oldest birth of a delete of this key, or of the one that it is the successor of; 0 = of none.
  [[nodiscard]] Millis birth_at(Bytes key) const;

 private:
  std::vector<std::pair<KeyRange, Millis>> owed_;  // ends included
};

}  // namespace ebbtide
