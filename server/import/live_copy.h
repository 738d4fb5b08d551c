// Copies all keys of a running server to another, in passes: each pass sends what has changed since the one before.
//
// Between two passes only hashes of keys and values are kept (KnownKeys). So a change that leaves both hashes equal is missed,
// with a probability of 2^-64 a key. An interrupted pass begins again, and sends only keys that the target is not known to have.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "import/connection.h"
#include "import/importer.h"
#include "import/key_walk.h"
#include "import/known_keys.h"
#include "import/report.h"

namespace ebbtide {

/// The counts of one pass.
struct CopyPass {
  std::uint64_t keys = 0;  ///< keys of the source
  /// Keys that are new, or have another value or expiry than in the pass before; in the first pass all keys.
  std::uint64_t changed = 0;
  std::uint64_t removed = 0;  ///< keys of the pass before that the source does not have any more
};

/// Copies databases. Not thread-safe.
class LiveCopy {
 public:
  /// Records the progress of the pass, once all replies to what was sent have arrived. An error ends the pass.
  using Record = std::function<Status(std::uint64_t removed)>;

  /// Keys that the target already has are replaced. The arguments must outlive this object.
  LiveCopy(Connection& source, Connection& target, KnownKeys& known) : source_(source), target_(target), known_(known) {}

  /// Copies all changes since the pass before. `report` counts the keys that are sent. If this pass was interrupted, `report` has
  /// the keys sent before that, and `removed` is the number of keys removed before that. `progress` is called after each key with
  /// the number of keys so far. `record` is called after at most ImportState::kMostEntries keys, and before keys are removed.
  Result<CopyPass> pass(const std::set<std::uint64_t>& databases, TransferReport* report, std::uint64_t removed,
                        const std::function<void(std::uint64_t keys)>& progress, const Record& record);

 private:
  Status send(std::vector<DumpedKey>* keys, Importer* importer);
  Status copy(std::uint64_t database, Importer* importer, const std::function<void()>& progress,
              const std::function<Status()>& record);
  Result<std::vector<std::string>> gone_from(std::uint64_t database);

  Connection& source_;
  Connection& target_;
  KnownKeys& known_;
  std::uint64_t unrecorded_keys_ = 0, unrecorded_bytes_ = 0;
};

}  // namespace ebbtide
