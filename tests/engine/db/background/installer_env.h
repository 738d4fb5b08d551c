// The environment of a TableInstaller without a database, for tests of components around it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "db/background/table_installer.h"
#include "db/trees/tree_registry.h"
#include "version/version_set.h"

namespace ebbtide::testing {

/// Returns the environment of a database in the directory "db". It has no cache and no threads, time stands at 1000 ms, no delete
/// is pending, and every filter has enough memory. Readers of a tree get a view only through its owner.
inline TableInstaller::Env installer_env(FileSystem& fs, const ObsoleteSink* sink, PurgeLedger& ledger, Mutex& state_mutex,
                                         std::function<FileNum()> new_file, std::function<VersionPtr(TreeId)> version) {
  return {.fs = &fs,
          .dir = "db",
          .sink = sink,
          .ledger = &ledger,
          .state_mutex = &state_mutex,
          .cache = [] { return nullptr; },
          .pool = [] { return nullptr; },
          .new_file = std::move(new_file),
          .version = std::move(version),
          .fence = [] { return Millis{1000}; },
          .floor = [](const TreeView&, Millis, Millis now) { return now; },
          .fit_filters = [](Tree&, const TablesView&) { return true; },
          .fit_filters_later = [](TreeId) {},
          .publish = [](Tree& tree, std::shared_ptr<const TreeView> view) { tree.view_owner = std::move(view); }};
}

/// Like the function above, for the trees of a registry, as the manifest has them.
inline TableInstaller::Env installer_env(FileSystem& fs, const ObsoleteSink* sink, PurgeLedger& ledger, TreeRegistry& trees,
                                         const std::unique_ptr<VersionSet>& versions) {
  TableInstaller::Env env = installer_env(
      fs, sink, ledger, trees.state_mutex, [&versions] { return versions->new_file(); },
      [&versions](TreeId id) { return versions->tree(id); });
  env.publish = [&trees](Tree& tree, std::shared_ptr<const TreeView> view)
                    NO_THREAD_SAFETY_ANALYSIS { trees.publish(tree, std::move(view)); };
  return env;
}

}  // namespace ebbtide::testing
