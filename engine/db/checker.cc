// Verify: every block of every table of a database, and what tables and manifest say of each other.
#include "db/db_impl.h"

namespace ebbtide {

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
  const TreeView* view = lease->view();
  if (const std::string wrong = check(*view->tables->version); !wrong.empty()) report.errors.push_back("manifest: " + wrong);
  for (const RunView& run : view->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      if (lease->revoked()) return Status::revoked("verifying took so long that deleted data would have outlived its deadline");
      ++report.files;
      report.bytes += table->meta->data_bytes + table->meta->metadata_bytes;
      table->reader->verify(&report.errors, &report.pages, &report.entries);
      if (!(table->reader->stats() == table->meta->stats)) {
        report.errors.push_back("table " + std::to_string(table->meta->data_file) +
                                ": its properties differ from the manifest's");
      }
      if (closing_) return Status::aborted("the database is closing");
    }
  }
  return report;
}

}  // namespace ebbtide
