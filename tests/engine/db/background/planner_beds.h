// Trees as planners see them: of metadata alone, and of real tables. There is no database.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "db/background/planners.h"
#include "engine/compaction/files.h"
#include "engine/db/background/tables.h"

namespace ebbtide::testing {

/// A tree of only metadata, which is enough for planners that open no table.
struct Metadata {
  JobRegistry jobs;
  std::shared_ptr<Version> version = std::make_shared<Version>();
  PlannerInput input;
  PlannerNotes notes;

  Metadata() {
    version->next_run = 10;
    input.policy = make_policy({}).value();
    input.jobs = &jobs;
    input.now = 10'000;
  }
  std::shared_ptr<FileMeta> add(RunId run, int level, FileNum num, const std::string& first, const std::string& last) {
    if (version->runs.empty() || version->runs.back().id != run) version->runs.push_back({run, level, {}});
    auto file = std::make_shared<FileMeta>(*make_file(num, first, last));
    version->runs.back().files.push_back(file);
    return file;
  }
  const PlannerInput& look() {
    auto tables = std::make_shared<TablesView>();
    tables->version = version;
    input.tables = tables;
    input.shape = version->shape(1000, 1000, 0, input.now, [](FileNum) { return false; });
    input.whole = input.shape;
    return input;
  }
};

/// Real tables of stamped keys.
struct Tables {
  TreeFixture tree{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  JobRegistry jobs;
  PlannerInput input;
  PlannerNotes notes;

  Tables() {
    tree.context.settings.pages_per_tile = 1;
    tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
    input.policy = make_policy({}).value();
    input.jobs = &jobs;
    input.look_for_pages = true;
  }
  const PlannerInput& look() {
    input.tables = open_tables(tree, &sink);
    input.visible_seq = tree.context.visible_seq;
    input.now = tree.context.now;
    return input;
  }
};

}  // namespace ebbtide::testing
