// Copies all keys of a running server to another, in passes: each pass sends what has changed since the one before.
//
// Between two passes only hashes of keys and values are kept (KnownKeys). So a change that keeps both hashes is missed, with a chance of
// 2^-64 a key. A pass that was interrupted begins again, and sends only what the target does not have yet.
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
  std::uint64_t keys = 0;     ///< keys of the source
  std::uint64_t changed = 0;  ///< with another value or expiry than in the pass before, or new; in the first pass all keys
  std::uint64_t removed = 0;  ///< of the pass before, and no longer in the source
};

/// Copies databases. Not thread-safe.
class LiveCopy {
 public:
  /// Called when all replies have come to what was sent. An error ends the pass.
  using Record = std::function<Status(std::uint64_t removed)>;

  /// Keys of the target are replaced. The arguments must outlive this object.
  LiveCopy(Connection& source, Connection& target, KnownKeys& known) : source_(source), target_(target), known_(known) {}

  /// Copies what has changed since the pass before. `report` counts the keys that are sent, beside those that this pass had sent before an
  /// interruption; so had it removed `removed` keys. `progress` is called after each key with the number of keys so far. `record` is called
  /// after at most ImportState::kMostEntries keys, and before keys are removed.
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
