// The open tables of a TreeFixture's version, for tests of a tree without a database.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/trees/tree_view.h"
#include "engine/compaction/tree_fixture.h"
#include "tree/frozen.h"

namespace ebbtide::testing {

/// Opens the tables of the fixture's version. Obsolete files go to `sink`, which must outlive the tables.
inline std::shared_ptr<const TablesView> open_tables(TreeFixture& tree, const ObsoleteSink* sink) {
  auto view = std::make_shared<TablesView>();
  view->version = tree.version;
  for (const Run& run : tree.version->runs) {
    std::vector<OpenTablePtr> tables;
    for (const FileMetaPtr& file : run.files) {
      if (file->quarantined()) view->quarantined.push_back(file);
      auto data = std::make_shared<DataFile>(file->data_file, sink);
      tables.push_back(std::make_shared<OpenTable>(file, tree.env.open_table(*file).value(), data, sink));
    }
    if (!tables.empty()) view->runs.emplace_back(run, std::move(tables));
  }
  view->frozen = frozen_ranges(tree.version->shape());
  return view;
}

/// Returns an entry with a value of 800 bytes: with pages of 1 KiB each such entry has a page of its own.
inline Owned entry(std::string key, SeqNum seq, DeleteKey delete_key = kNoStamp) {
  return {.key = std::move(key), .seq = seq, .value = std::string(800, 'v'), .delete_key = delete_key, .first = true};
}

}  // namespace ebbtide::testing
