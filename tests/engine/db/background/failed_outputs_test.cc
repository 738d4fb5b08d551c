// Tests that files which no edit names are unlinked, and that the ledger has them until they are removed.
#include <catch2/catch.hpp>

#include <memory>
#include <string>

#include "base/clock.h"
#include "db/background/failed_outputs.h"
#include "engine/db/background/remover_env.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

struct Bed {
  MemoryFileSystem memory;
  FaultFileSystem fs{memory};
  RemovalsFileSystem removals{fs, "db"};
  SimulatedClock clock;
  PurgeLedger ledger{removals, "db"};
  ObsoleteFileRemover obsolete_files{remover_env(clock, removals, [] {})};
  FailedOutputs outputs{{.ledger = &ledger, .fs = &removals, .obsolete_files = &obsolete_files, .floor = [](const TreePtr&) {
                           return Millis{3000};
                         }}};
  TreePtr tree = std::make_shared<Tree>(clock);

  Bed() {
    tree->id = 7;
    REQUIRE(fs.create_dir("db").is_ok());
    for (const std::string& name : {data_file_name(1), metadata_file_name(2), data_file_name(3), metadata_file_name(4)}) {
      auto file = std::move(removals.create("db/" + name)).value();
      REQUIRE((file->append("x").is_ok() && file->close().is_ok()));
    }
  }
  static FileMeta table(FileNum data, FileNum metadata) {
    FileMeta meta;
    meta.data_file = data;
    meta.metadata_file = metadata;
    meta.data_bytes = 10;
    meta.metadata_bytes = 5;
    return meta;
  }
  bool exists(const std::string& name) { return fs.exists("db/" + name); }
};

TEST_CASE("job fails before its edit: its outputs are unlinked at once, except a page drop's data file, which is in use") {
  Bed bed;
  bed.outputs.unlink(bed.tree, {Bed::table(1, 2)}, {Bed::table(3, 4)});
  CHECK((!bed.exists(data_file_name(1)) && !bed.exists(metadata_file_name(2)) && !bed.exists(metadata_file_name(4))));
  CHECK(bed.exists(data_file_name(3)));
  const auto leaving = bed.ledger.leaving();
  REQUIRE(leaving.size() == 3);
  for (const PurgeLedger::Leaving& file : leaving) CHECK(file.floors == PurgeLedger::Floors{{7, 3000}});
}

TEST_CASE("edit of a job failed: the job's outputs stay until the manifest is rolled") {
  Bed bed;
  bed.outputs.disown(bed.tree, {Bed::table(1, 2)});
  bed.obsolete_files.remove_queued();
  CHECK((bed.exists(data_file_name(1)) && bed.ledger.leaving().size() == 2));
  bed.obsolete_files.queue_disowned();
  bed.obsolete_files.remove_queued();
  CHECK((!bed.exists(data_file_name(1)) && !bed.exists(metadata_file_name(2))));
}

TEST_CASE("job failed: the purge ledger lists its outputs as one item, and names each file that could not be unlinked") {
  Bed bed;
  bed.fs.inject({.ops = ops_of(FileOp::kUnlink)});
  CHECK_FALSE(bed.removals.unlink("db/" + data_file_name(1)).is_ok());
  bed.outputs.note_failure(bed.tree);
  const auto leaving = bed.ledger.leaving();
  REQUIRE(leaving.size() == 2);
  CHECK((leaving[0].name == "(outputs)" && leaving[1].name == data_file_name(1)));
  CHECK(leaving[1].floors == PurgeLedger::Floors{{7, 3000}});
}

}  // namespace TEST_FILE
