// Verify: every block of every table of a database, and what tables and manifest say of each other. Scrub: the same for one table
// after another, slowly and all the time, so that what a drive has lost is found while a backup still has it.
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

constexpr const char* kVerifyTookTooLong = "verifying took so long that deleted data would have outlived its deadline";

std::vector<std::string> texts(const std::vector<Status>& errors) {
  std::vector<std::string> out;
  for (const Status& error : errors) out.push_back(error.to_string());
  return out;
}

}  // namespace

std::vector<Status> errors_of_table(const TableInspector& reader, const FileMeta& meta, std::uint64_t* pages,
                                    std::uint64_t* entries, const std::function<bool()>& stopped) {
  std::vector<Status> errors;
  reader.verify(&errors, pages, entries, stopped);
  if (!(reader.stats() == meta.stats)) {
    errors.push_back(
        Status::corruption("table " + std::to_string(meta.data_file) + ": its properties differ from the manifest's"));
  }
  return errors;
}

Result<VerifyReport> DbImpl::verify(DatabaseId database) {
  VerifyReport report;
  TreePtr tree = tree_of(database);
  if (tree == nullptr) return report;
  std::shared_ptr<Lease> lease;  // reading everything takes long: what goes out of the tree meanwhile may be wanted back
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr) return report;
    lease = leases_.lease(tree->view_owner, visible_seq_.load(std::memory_order_acquire), time_.now());
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
      TRY_ASSIGN(errors, verify_table(*view->tables, *table, stopped, &report));
      if (closing_) return Status::aborted("the database is closing");
      if (lease->revoked()) return Status::revoked(kVerifyTookTooLong);  // its files may have gone under it
      report_errors(table->meta->data_file, errors);
      found(texts(errors));
    }
  }
  TRY(take_damage());
  return report;
}

/// A quarantined file that is found whole is quarantined no more.
Result<std::vector<Status>> DbImpl::verify_table(const TablesView& tables, const OpenTable& table,
                                                 const std::function<bool()>& stopped, VerifyReport* report) {
  const auto quarantined = std::find_if(tables.quarantined.begin(), tables.quarantined.end(),
                                        [&](const FileMetaPtr& file) { return file->data_file == table.meta->data_file; });
  if (quarantined == tables.quarantined.end()) {
    return errors_of_table(*table.reader, *table.meta, &report->pages, &report->entries, stopped);
  }
  std::vector<Status> errors = read_whole(**quarantined, stopped, report);
  if (!errors.empty() || stopped()) return errors;
  const FilePlace place = place_of(table.meta->data_file);
  if (place.tree == nullptr || !place.meta->quarantined()) return errors;  // removed, or out of quarantine, meanwhile
  const Status status = end_quarantine(place);
  if (!status.is_ok() && status.code() != Code::kAborted) return status;
  return errors;
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
        if (load.view->tables->is_quarantined(table->meta->data_file)) continue;  // read again by itself
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
    lease = leases_.lease(tree.view_owner, visible_seq_.load(std::memory_order_acquire), time_.now());
  }
  bool there = false;
  for (const RunView& run : lease->view()->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) there |= table->meta->metadata_file == meta.metadata_file;
  }
  if (!there) return;  // merged meanwhile
  VerifyReport unused;
  const std::vector<Status> errors = read_whole(
      meta, [&] { return lease->revoked() || closing_; }, &unused);
  if (lease->revoked() || closing_) return;  // its files may have gone under it
  report_errors(meta.data_file, errors);
  tell_damage("scrub: ", texts(errors));
  scrub_bytes_ += meta.data_bytes + meta.metadata_bytes;
}

}  // namespace ebbtide
