// Tests of views of a version's tables: which open tables they keep, which tables are opened, and when removed tables are
// unlinked.
#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "db/background/table_installer.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A tree of two runs, each with the key a.
struct Bed {
  TreeFixture files{1};
  RemovalsFileSystem removals{files.fs, "db"};
  PurgeLedger ledger{removals, "db"};
  Mutex state_mutex;
  SimulatedClock clock;
  std::vector<FileNum> data_files, metadata_files;  // files of the last view
  ObsoleteSink sink = [this](const ObsoleteFiles& obsolete) {
    if (obsolete.data_file != kNoFile) data_files.push_back(obsolete.data_file);
    if (obsolete.metadata_file != kNoFile) metadata_files.push_back(obsolete.metadata_file);
  };
  bool fitted = true;
  int fences = 0;
  std::vector<TreeId> fit_later;
  Tree tree{clock};
  TableInstaller installer{{.fs = &files.fs,
                            .dir = "db",
                            .sink = &sink,
                            .ledger = &ledger,
                            .state_mutex = &state_mutex,
                            .cache = [] { return nullptr; },
                            .pool = [] { return nullptr; },
                            .new_file = files.env.new_file,
                            .version = [this](TreeId) { return files.version; },
                            .fence =
                                [this] {
                                  ++fences;
                                  return Millis{5000};
                                },
                            .floor = [](const TreeView&, Millis, Millis now) { return now - 1000; },
                            .fit_filters = [this](Tree&, const TablesView&) { return fitted; },
                            .fit_filters_later = [this](TreeId id) { fit_later.push_back(id); },
                            .publish = [](Tree& t, std::shared_ptr<const TreeView> view) { t.view_owner = std::move(view); }}};

  Bed() {
    tree.id = 1;
    for (int run = 0; run < 2; ++run) flush();
  }
  void flush() {
    Source source;
    ++files.context.visible_seq;
    source.entries = {entry("a", files.context.visible_seq)};
    files.flush(source);
  }
  std::shared_ptr<const TablesView> view(const TablesView* old = nullptr, const TableInstaller::OpenedTables& opened = {}) {
    return installer.make_view(files.version, old, opened, 4000, [](const TablesView&) {}).value();
  }
  void show(std::shared_ptr<const TablesView> tables, int memtables) {
    auto fresh = std::make_shared<TreeView>();
    fresh->tables = std::move(tables);
    for (int i = 0; i < memtables; ++i) fresh->memtables.push_back(std::make_shared<MemTable>(4096));
    for (int i = memtables - 1; i > 0; --i) tree.frozen.push_back({fresh->memtables[static_cast<std::size_t>(i)], 1, 1});
    tree.view_owner = fresh;
  }
  void merge() {
    REQUIRE(files.run(files.merge_of(0, 1, {files.version->runs.back().id, files.version->runs.back().level})).is_ok());
  }
};

const OpenTable& table(const TablesView& view, std::size_t run) { return *view.runs.at(run).tables().front(); }

TEST_CASE("table list changes: the new view keeps open tables, opens new ones, and takes over tables that a job has opened") {
  Bed bed;
  const auto before = bed.view();
  REQUIRE(before->runs.size() == 2);
  CHECK(before->file_bytes > 2 * 800);
  CHECK((before->memory_bytes != 0 && before->level0_runs == 2));
  bed.flush();
  const FileMeta& meta = *bed.files.version->runs.front().files.front();
  auto reader = bed.installer.open(meta).value();
  const auto after = bed.view(before.get(), {{meta.metadata_file, reader}});
  CHECK(table(*after, 0).reader == reader);
  CHECK(&table(*after, 1) == &table(*before, 0));
  CHECK(&table(*after, 2) == &table(*before, 1));
  CHECK((bed.data_files.empty() && bed.ledger.leaving().empty()));
}

TEST_CASE("level 0 is empty: the view counts 0 runs of level 0, although level 1 has runs") {
  Bed bed;
  const RunId first = bed.files.version->runs[0].id, second = bed.files.version->runs[1].id;
  for (const RunId run : {second, first}) {
    const auto at =
        std::find_if(bed.files.version->runs.begin(), bed.files.version->runs.end(), [&](const Run& r) { return r.id == run; });
    Move move{run, {at->files.front()->data_file}, {0, 1}};
    REQUIRE(bed.files.run({.action = std::move(move)}).is_ok());
  }
  REQUIRE(bed.files.version->runs.front().level == 1);
  CHECK(bed.view()->level0_runs == 0);
  bed.flush();
  CHECK(bed.view()->level0_runs == 1);
}

TEST_CASE("merge replaces tables: the purge ledger lists their files and the oldest pending birth until the last view ends") {
  Bed bed;
  auto before = bed.view();
  const FileNum data_file = table(*before, 0).meta->data_file;
  bed.merge();
  const auto after = bed.view(before.get());
  CHECK(table(*before, 0).obsolete);
  CHECK(table(*before, 0).floor == 4000);
  const auto leaving = bed.ledger.leaving();
  CHECK(leaving.size() == 4);  // two tables, each with two files
  for (const PurgeLedger::Leaving& file : leaving) CHECK(file.floors == PurgeLedger::Floors{{1, 4000}});
  CHECK(bed.data_files.empty());
  before.reset();
  CHECK((bed.data_files.size() == 2 && bed.metadata_files.size() == 2));
  CHECK(std::find(bed.data_files.begin(), bed.data_files.end(), data_file) != bed.data_files.end());
}

TEST_CASE("metadata file of a table is replaced: the table keeps its data file") {
  Bed bed;
  Source source;
  for (int i = 0; i < 8; ++i) source.entries.push_back(entry("b" + std::to_string(i), ++bed.files.context.visible_seq));
  bed.files.flush(source);
  auto before = bed.view();
  const Run& run = bed.files.version->runs.front();
  Drop drop;
  drop.pages.push_back({run.id, run.files.front()->data_file, {0}, {}});
  REQUIRE(bed.files.run({.action = std::move(drop)}).is_ok());
  const auto after = bed.view(before.get());
  CHECK(table(*after, 0).data == table(*before, 0).data);
  before.reset();
  CHECK((bed.metadata_files.size() == 1 && bed.data_files.empty()));
}

TEST_CASE("files are quarantined: the view lists them, and marks their key ranges as frozen") {
  Bed bed;
  TreeEdit edit;
  edit.tree = 1;
  edit.quarantined.emplace_back(bed.files.version->runs.back().files.front()->data_file, "damaged");
  bed.files.install(edit);
  const auto view = bed.view();
  CHECK((view->quarantined.size() == 1 && view->frozen.size() == 1));
  CHECK(view->level0_runs == 0);  // no file of the level may be merged
}

TEST_CASE("tables are installed: in one step readers get the new tables and lose the flushed memtables") {
  Bed bed;
  bed.show(bed.view(), 3);
  const auto active = bed.tree.view_owner->memtables.front();
  bed.flush();
  const auto tables = bed.installer.install(bed.tree, {}, 1);
  REQUIRE((tables.is_ok() && *tables == bed.tree.view_owner->tables));
  CHECK(bed.tree.view_owner->tables->runs.size() == 3);
  CHECK((bed.tree.view_owner->memtables.size() == 2 && bed.tree.view_owner->memtables.front() == active));
  CHECK((bed.tree.frozen.size() == 1 && bed.tree.frozen.front().memtable == bed.tree.view_owner->memtables.back()));
  CHECK(bed.fit_later.empty());
  bed.fitted = false;
  REQUIRE(bed.installer.install(bed.tree, {}, 0).is_ok());
  CHECK(bed.fit_later == std::vector<TreeId>{1});
}

TEST_CASE("tables are installed during log replay: the installer does not wait for a fence, and does not size filters") {
  Bed bed;
  bed.show(bed.view(), 3);
  bed.flush();
  bed.fitted = false;
  bed.installer.install_replayed(bed.tree, {}, 2);
  CHECK((bed.tree.view_owner->tables->runs.size() == 3 && bed.tree.view_owner->memtables.size() == 1 && bed.tree.frozen.empty()));
  CHECK((bed.fences == 0 && bed.fit_later.empty()));
}

TEST_CASE("tree was dropped: installing tables returns kAborted") {
  Bed bed;
  CHECK(bed.installer.install(bed.tree, {}, 0).status().code() == Code::kAborted);
}

TEST_CASE("tree is dropped: the purge ledger lists the files of its tables, and they are removed when its last view ends") {
  Bed bed;
  auto view = bed.view();
  bed.installer.retire(*view, 3000);
  CHECK(bed.ledger.leaving().size() == 4);
  view.reset();
  CHECK(bed.data_files.size() == 2);
}

TEST_CASE("job reads tables that are open already: it uses these readers, and its outputs stay open for the next view") {
  Bed bed;
  const auto view = bed.view();
  TableInstaller::OpenedTables opened;
  const std::atomic<bool> abort{false};
  const Run& newest = bed.files.version->runs.front();
  const std::vector<PlanInput> inputs = {{newest.id, {newest.files.front()->data_file}}, {newest.id + 100, {kNoFile}}};
  const CompactionEnv env = bed.installer.compaction_env(view, inputs, &abort, &opened);
  const FileMeta meta = *newest.files.front(), other = *bed.files.version->runs.back().files.front();
  CHECK(env.open_table(meta).value() == table(*view, 0).reader);
  CHECK(env.open_table(other).value() == table(*view, 1).reader);  // it is not among the inputs that the job announced
  CHECK(opened.empty());
  bed.flush();
  const FileMeta fresh = *bed.files.version->runs.front().files.front();
  const auto reader = env.open_table(fresh).value();
  CHECK(opened.at(fresh.metadata_file) == reader);
  CHECK(env.open_table(fresh).value() == reader);
}

TEST_CASE("table is unreadable: its reader returns the reason for every read") {
  Bed bed;
  const auto reader = bed.installer.open_unreadable(*bed.files.version->runs.front().files.front(), Status::corruption("gone"));
  CHECK(reader->unreadable().code() == Code::kCorruption);
}

}  // namespace TEST_FILE
