#include "db/background/scrubber.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {
namespace {

constexpr const char* kVerifyTookTooLong = "verifying took so long that deleted data would have outlived its deadline";

std::vector<std::string> texts(const std::vector<Status>& errors) {
  std::vector<std::string> out;
  for (const Status& error : errors) out.push_back(error.to_string());
  return out;
}

}  // namespace

void Scrubber::log_errors(const char* finder, const std::vector<std::string>& errors) {
  for (const std::string& error : errors) env_.report_error(finder + error);
  errors_ += errors.size();
}

void Scrubber::tick(const std::vector<TreeTables>& trees) {
  const Millis interval = interval_, now = env_.now();
  MutexLock lock(mutex_);
  if (interval == 0 || env_.closing() || reading_ || !walk_.due(now, interval)) return;
  struct Place {
    TreeId tree;
    FileMetaPtr meta;  // the metadata only: a reference to the open table would keep replaced files on disk
  };
  std::vector<ScrubWalk::Table> tables;
  std::vector<Place> places;
  for (const TreeTables& tree : trees) {
    for (const RunView& run : tree.tables->runs) {
      for (const OpenTablePtr& table : run.tables()) {
        if (tree.tables->is_quarantined(table->meta->data_file)) continue;
        tables.push_back({table->meta->data_file, table->meta->data_bytes + table->meta->metadata_bytes});
        places.push_back({tree.tree, table->meta});
      }
    }
  }
  const ScrubWalk::Table* next = walk_.next(tables, now);
  if (next == nullptr) return;
  reading_ = true;
  env_.submit([this, place = places[static_cast<std::size_t>(next - tables.data())]] {
    scrub(place.tree, *place.meta);
    reading_ = false;
  });
}

void Scrubber::scrub(TreeId tree, const FileMeta& meta) {
  const std::shared_ptr<Lease> lease = env_.lease(tree);  // the lease keeps the files until the table is read
  if (lease == nullptr) return;
  bool there = false;
  for (const RunView& run : lease->view()->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) there |= table->meta->metadata_file == meta.metadata_file;
  }
  if (!there) return;  // a merge has replaced the table since the task was submitted
  TableCheck unused;
  const auto stopped = [&] { return lease->revoked() || env_.closing(); };
  const std::vector<Status> errors = env_.read(meta, stopped, &unused);
  if (stopped()) return;  // the files may be removed by now, so an error need not mean damage
  env_.report_damage(meta.data_file, errors);
  log_errors("scrub: ", texts(errors));
  bytes_read_ += meta.data_bytes + meta.metadata_bytes;
}

Result<VerifyReport> Scrubber::verify(const Lease& lease) {
  VerifyReport report;
  const TablesView& tables = *lease.view()->tables;
  const auto stopped = [&] { return lease.revoked() || env_.closing(); };
  const auto found = [&](std::vector<std::string> errors) {
    log_errors("verify: ", errors);  // logged at once, since the lease may be revoked before the last table
    std::move(errors.begin(), errors.end(), std::back_inserter(report.errors));
  };
  if (const std::string wrong = check(*tables.version); !wrong.empty()) found({"manifest: " + wrong});
  for (const RunView& run : tables.runs) {
    for (const OpenTablePtr& table : run.tables()) {
      if (lease.revoked()) return Status::revoked(kVerifyTookTooLong);
      ++report.files;
      report.bytes += table->meta->data_bytes + table->meta->metadata_bytes;
      TRY_ASSIGN(errors, verify_table(tables, *table, stopped, &report));
      if (env_.closing()) return Status::aborted("the database is closing");
      if (lease.revoked()) return Status::revoked(kVerifyTookTooLong);  // files may be removed by now, so errors may be no damage
      env_.report_damage(table->meta->data_file, errors);
      found(texts(errors));
    }
  }
  TRY(env_.take_damage());
  return report;
}

Result<std::vector<Status>> Scrubber::verify_table(const TablesView& tables, const OpenTable& table,
                                                   const std::function<bool()>& stopped, VerifyReport* report) {
  const auto quarantined = std::find_if(tables.quarantined.begin(), tables.quarantined.end(),
                                        [&](const FileMetaPtr& file) { return file->data_file == table.meta->data_file; });
  const bool is_quarantined = quarantined != tables.quarantined.end();
  TableCheck read;
  std::vector<Status> errors =
      is_quarantined ? env_.read(**quarantined, stopped, &read) : errors_of_table(*table.reader, *table.meta, stopped, &read);
  if (!is_quarantined && errors.empty()) {
    if (Status missing = env_.find_files(*table.meta); !missing.is_ok()) errors.push_back(std::move(missing));
  }
  report->pages += read.pages;
  report->entries += read.entries;
  if (is_quarantined && errors.empty() && !stopped()) TRY(env_.found_whole(table.meta->data_file));
  return errors;
}

}  // namespace ebbtide
