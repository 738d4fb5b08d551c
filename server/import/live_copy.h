// Copies all keys of a running server to another, in passes: each pass sends what has changed since the one before.
//
// Between two passes only hashes of keys and values are kept, 16 bytes a key. So a change is missed if the new value has the same
// hash, with a probability of 2^-64 a key.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "import/connection.h"
#include "import/importer.h"
#include "import/report.h"

namespace ebbtide {

/// The counts of one pass.
struct CopyPass {
  std::uint64_t keys = 0;     ///< keys of the source
  std::uint64_t changed = 0;  ///< with another value or expiry than in the pass before, or new; in the first pass all keys
  std::uint64_t removed = 0;  ///< of the pass before, and no longer in the source
};

/// Copies one database. Not thread-safe.
class LiveCopy {
 public:
  /// Keys of the target are replaced.
  LiveCopy(Connection& source, Connection& target, std::uint64_t database)
      : source_(source), target_(target), database_(database) {}

  /// Copies what has changed since the pass before. `report` counts the keys that were sent. `progress` is called after each key
  /// with the number of keys so far.
  Result<CopyPass> pass(TransferReport* report, const std::function<void(std::uint64_t keys)>& progress);

 private:
  using Seen = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // hashes of key and value, in order
  Status remove_gone(const Seen& now, CopyPass* result, TransferReport* report);

  Connection& source_;
  Connection& target_;
  const std::uint64_t database_;
  bool first_ = true;
  Seen before_;
};

}  // namespace ebbtide
