// Verify: every block of every table of a database, and what tables and manifest say of each other. Scrub: the same for one table
// after another, slowly and all the time, so that what a drive has lost is found while a backup still has it.
#include <functional>
#include <iterator>
#include <utility>

#include "compaction/table_files.h"
#include "db/db_impl.h"

namespace ebbtide {
namespace {

/// All that is wrong with a table, or, once it is stopped, what was found until then.
std::vector<std::string> errors_of(const TableReader& reader, const FileMeta& meta, std::uint64_t* pages, std::uint64_t* entries,
                                   const std::function<bool()>& stopped) {
  std::vector<std::string> errors;
  reader.verify(&errors, pages, entries, stopped);
  if (!(reader.stats() == meta.stats)) {
    errors.push_back("table " + std::to_string(meta.data_file) + ": its properties differ from the manifest's");
  }
  return errors;
}

constexpr const char* kVerifyTookTooLong = "verifying took so long that deleted data would have outlived its deadline";

}  // namespace

Result<VerifyReport> DbImpl::verify(DatabaseId database) {
  VerifyReport report;
  TreePtr tree = tree_of(database);
  if (tree == nullptr) return report;
  std::shared_ptr<Lease> lease;  // reading everything takes long: what goes out of the tree meanwhile may be wanted back
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr) return report;
    lease = make_lease(tree->view_owner, visible_seq_.load(std::memory_order_acquire));
  }
  const auto stopped = [&] { return lease->revoked() || closing_; };
  const TreeView* view = lease->view();
  const auto found = [&](std::vector<std::string> errors) {
    tell_damage("verify: ", errors);  // at once: the view may be revoked before the last table
    std::move(errors.begin(), errors.end(), std::back_inserter(report.errors));
  };
  if (const std::string wrong = check(*view->tables->version); !wrong.empty()) found({"manifest: " + wrong});
  for (const RunView& run : view->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      if (lease->revoked()) return Status::revoked(kVerifyTookTooLong);
      ++report.files;
      report.bytes += table->meta->data_bytes + table->meta->metadata_bytes;
      std::vector<std::string> errors = errors_of(*table->reader, *table->meta, &report.pages, &report.entries, stopped);
      if (closing_) return Status::aborted("the database is closing");
      if (lease->revoked()) return Status::revoked(kVerifyTookTooLong);  // its files may have gone under it
      found(std::move(errors));
    }
  }
  return report;
}

// Whoever finds it: who looks at the figure wants to know whether a drive has lost something.
void DbImpl::tell_damage(const char* finder, const std::vector<std::string>& errors) {
  for (const std::string& error : errors) say(Severity::kError, finder + error);
  scrub_errors_ += errors.size();
}

void DbImpl::scrub(const std::vector<TreeLoad>& loads) {
  const Millis interval = scrub_interval_, now = time_.now();
  if (interval == 0 || closing_ || scrubbing_ || !scrub_walk_.due(now, interval)) return;
  struct Place {
    TreePtr tree;
    FileMetaPtr meta;  // not the open table: until its turn comes, nothing is kept for it
  };
  std::vector<ScrubWalk::Table> tables;
  std::vector<Place> places;
  for (const TreeLoad& load : loads) {
    for (const RunView& run : load.view->tables->runs) {
      for (const OpenTablePtr& table : run.tables()) {
        tables.push_back({table->meta->data_file, table->meta->data_bytes + table->meta->metadata_bytes});
        places.push_back({load.tree, table->meta});
      }
    }
  }
  const ScrubWalk::Table* next = scrub_walk_.next(tables, now);
  if (next == nullptr) return;
  scrubbing_ = true;
  submit(Priority::kLow, [this, place = places[static_cast<std::size_t>(next - tables.data())]] {
    scrub_table(*place.tree, *place.meta);
    scrubbing_ = false;
  });
}

// Opened anew, past the system's page cache: what the drive has is what counts, and nothing that is in use is pushed out of memory.
void DbImpl::scrub_table(const Tree& tree, const FileMeta& meta) {
  std::shared_ptr<Lease> lease;  // its files stay until it has been read
  {
    MutexLock lock(state_mutex_);
    if (tree.view_owner == nullptr || tree.dropped) return;
    lease = make_lease(tree.view_owner, visible_seq_.load(std::memory_order_acquire));
  }
  bool there = false;
  for (const RunView& run : lease->view()->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) there |= table->meta->metadata_file == meta.metadata_file;
  }
  if (!there) return;  // merged meanwhile
  std::vector<std::string> errors;
  std::uint64_t pages = 0, entries = 0;
  const auto reader = TableReader::open({&fs_, nullptr, settings_.dir, true}, files_of(meta));
  if (reader.is_ok()) {
    errors = errors_of(**reader, meta, &pages, &entries, [&] { return lease->revoked() || closing_; });
  } else {
    errors.push_back(reader.status().to_string());
  }
  if (lease->revoked() || closing_) return;  // its files may have gone under it
  tell_damage("scrub: ", errors);
  scrub_bytes_ += meta.data_bytes + meta.metadata_bytes;
}

}  // namespace ebbtide
