// The engine's side of a ReadView: the state that all views share, and functions that make a view and return its parts.
#pragma once

#include <functional>
#include <memory>

#include <engine/read_view.h>
#include "base/epoch.h"
#include "db/read/large_values.h"
#include "db/trees/counters.h"
#include "db/trees/lease_registry.h"
#include "db/trees/tree_view.h"

namespace ebbtide {

/// The state that all views of the database share. Must outlive the views.
struct ReadEnv {
  Counters counters{};  ///< counts reads and writes; not a pointer, so that each get makes one load less
  Epoch& epoch;
  const MemoryAccount& memory;
  std::shared_ptr<LargeValues> values{};  ///< shared with iterators
  /// Returns the stamp mode that the first write to a database without a tree sets.
  std::function<StampMode(DatabaseId database)> first_stamp_mode{};
};

struct ViewParts {
  /// Makes a view of `tree` (null: the database has none) that is valid under the caller's epoch guard.
  static ReadView pass_view(ReadEnv& env, DatabaseId database, const TreeView* tree, SeqNum seq, Millis now, ReadMode mode,
                            MissSet* misses) {
    ReadView view;
    view.env_ = &env;
    view.tree_ = tree;
    view.seq_ = seq;
    view.now_ = now;
    view.misses_ = misses;
    view.mode_ = mode;
    view.database_ = database;
    return view;
  }
  /// Makes a view that owns the memory and files that it reads. Its seq is the seq of the lease.
  static ReadView leased_view(ReadEnv& env, DatabaseId database, std::shared_ptr<Lease> lease, Millis now) {
    ReadView view = pass_view(env, database, lease->view(), lease->seq(), now, ReadMode::kBlocking, nullptr);
    view.lease_ = std::move(lease);
    return view;
  }
  /// Returns the same view at another engine time, at which other entries have expired.
  static ReadView at(ReadView view, Millis now) {
    view.now_ = now;
    return view;
  }

  static ReadEnv& env(const ReadView& view) { return *view.env_; }
  /// Returns the view's tree; null: the database has none.
  static const TreeView* tree(const ReadView& view) { return view.tree_; }
  /// Returns the view's lease; null for a pass view, and if the database has no tree.
  static const std::shared_ptr<Lease>& lease(const ReadView& view) { return view.lease_; }
  static bool is_revoked(const ReadView& view) { return view.lease_ != nullptr && view.lease_->revoked(); }
};

}  // namespace ebbtide
