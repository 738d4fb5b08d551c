// The public interface: each call is passed to the component that carries it out.
#include <engine/db.h>

#include "base/number_name.h"
#include "db/db_impl.h"
#include "db/read/db_iterator.h"
#include "db/read/expiry_scan.h"
#include "db/read/key_sample.h"
#include "db/read/stamp_scan.h"

namespace ebbtide {

PassGuard::PassGuard(Db& db) : epoch_(&db.impl_->epoch_) { db.impl_->epoch_.enter(); }
PassGuard::~PassGuard() { static_cast<Epoch*>(epoch_)->leave(); }

Db::Db(std::unique_ptr<DbImpl> impl) : impl_(std::move(impl)) {}
Db::~Db() { (void)close(); }

namespace {

// Appends repair advice to an error about damage, unless it has some.
Status with_remedy(const Status& status, const std::string& dir) {
  if (status.code() != Code::kCorruption || status.message().find("ebbtide-inspect") != Bytes::npos) return status;
  return Status::corruption(std::string(status.message()) + ". See if it can be mended without a loss: ebbtide-inspect repair " +
                            dir + ". Otherwise restore a backup, or save the rest of the data: ebbtide-inspect salvage " + dir +
                            " NEW-DIRECTORY");
}

}  // namespace

Result<std::unique_ptr<Db>> Db::open(const Settings& settings, const Components& components) {
  auto impl = std::make_unique<DbImpl>(settings, components);
  if (const Status status = impl->open(); !status.is_ok()) return with_remedy(status, settings.dir);
  return std::unique_ptr<Db>(new Db(std::move(impl)));
}

Status Db::close() { return impl_->close(); }

Status Db::commit(WriteBatch& batch) { return impl_->committer_.commit(batch); }
Status Db::try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms) {
  return impl_->committer_.try_commit(batch, waited, wait_ms);
}

Result<std::unique_ptr<StagedBatch>> DbImpl::stage(WriteBatch&& batch, const std::atomic<bool>* stop) {
  auto impl = std::make_unique<StagedBatch::Impl>();
  TRY(committer_.stage(std::move(batch), stop, impl.get()));
  return std::unique_ptr<StagedBatch>(new StagedBatch(std::move(impl)));
}
Result<std::unique_ptr<StagedBatch>> Db::stage(WriteBatch&& batch, const std::atomic<bool>* stop) {
  return impl_->stage(std::move(batch), stop);
}
Status Db::commit(StagedBatch& staged) { return impl_->committer_.commit(DbImpl::parts_of(staged)); }
Status Db::try_commit(StagedBatch& staged, bool waited, std::uint32_t* wait_ms) {
  return impl_->committer_.try_commit(DbImpl::parts_of(staged), waited, wait_ms);
}
bool Db::write_log() { return impl_->log_->write(); }
SeqNum Db::visible_seq() const { return impl_->published_.visible_seq(); }
SeqNum Db::durable_seq() const { return impl_->log_->durable_seq(); }
Status Db::wait_durable(SeqNum seq) { return impl_->log_->wait_durable(seq); }
Status Db::wait_synced(SeqNum seq) { return impl_->log_->wait_synced(seq); }
void Db::set_durable_listener(std::function<void()> listener) { impl_->log_->set_listener(std::move(listener)); }

Status Db::write_status() const {
  if (!impl_->health_.read_only()) {
    Status log = impl_->log_->status();
    if (!log.is_ok()) return Status::read_only(log.to_string());
    return Status::ok();
  }
  return impl_->health_.write_status();
}

Millis Db::now() const { return impl_->time_.now(); }

Millis Db::stamped(Millis now) const { return impl_->time_.stamped(now); }

ReadView Db::view(DatabaseId database, Millis now, ReadMode mode, MissSet* misses) const {
  // Tree, view and seq belong together if neither the mapping nor the tree's view changed while they were read
  // (write/commit_pipeline.h).
  for (;;) {
    const std::uint64_t mapping = impl_->published_.mapping_version();
    const Tree* tree = impl_->published_.tree(database);
    const TreeView* before = tree == nullptr ? nullptr : tree->view.load(std::memory_order_acquire);
    const SeqNum seq = visible_seq();
    const bool same_view = tree == nullptr || tree->view.load(std::memory_order_acquire) == before;
    if (same_view && impl_->published_.unchanged(mapping)) {
      return ViewParts::pass_view(impl_->reads_, database, before, seq, now, mode, misses);
    }
  }
}

ReadView Db::lease(DatabaseId database) const {
  const Millis now = impl_->time_.now();
  EpochGuard guard(impl_->epoch_);
  for (;;) {
    const std::uint64_t mapping = impl_->published_.mapping_version();
    const Tree* tree = impl_->published_.tree(database);
    std::shared_ptr<const TreeView> owner;
    SeqNum seq = 0;
    if (tree != nullptr) {
      MutexLock lock(impl_->trees_.state_mutex);
      owner = tree->view_owner;  // null: FLUSHDB has just dropped the tree, and the database has another tree
      seq = visible_seq();
    } else {
      seq = visible_seq();
    }
    if (!impl_->published_.unchanged(mapping)) continue;
    if (tree == nullptr) return ViewParts::pass_view(impl_->reads_, database, nullptr, seq, now, ReadMode::kBlocking, nullptr);
    if (owner == nullptr) continue;
    return ViewParts::leased_view(impl_->reads_, database, impl_->leases_.lease(std::move(owner), seq, impl_->time_.now()), now);
  }
}

std::unique_ptr<Iterator> Db::iterate(const ReadView& view, const IteratorOptions& options) const {
  ThreadCounters::add(impl_->reads_.counters.mine().iterators, 1);
  if (view.has_tree()) ThreadCounters::add(ViewParts::tree(view)->lookups->mine().iterators, 1);
  const RangeTally tally{&impl_->reads_.counters, view.database()};
  const bool is_pass_view = view.has_tree() && ViewParts::lease(view) == nullptr;
  if (options.resident && is_pass_view && view.mode() == ReadMode::kResident) return new_resident_iterator(view, options, tally);
  const std::shared_ptr<Lease> held = ViewParts::lease(is_pass_view ? lease(view.database()) : view);
  return new_db_iterator(held, view.now(), options, tally, impl_->reads_.values);
}

bool Db::fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue) {
  ThreadCounters::add(impl_->reads_.counters.mine().fetches, 1);
  return impl_->fetcher_->fetch(misses, std::move(done), queue);
}

std::unique_ptr<FetchQueue> Db::new_fetch_queue() {
  return impl_->settings_.io_uring ? impl_->fetcher_->new_queue(impl_->fs_) : nullptr;
}

Status Db::flush(DatabaseId database) { return impl_->requested_work_.flush(database); }
Status Db::compact(DatabaseId database, const KeyRange& range) { return impl_->requested_work_.compact(database, range); }
Result<VerifyReport> Db::verify(DatabaseId database) { return impl_->verify(database); }
Result<Workload> Db::workload(DatabaseId database) const { return impl_->workload(database); }
Result<CheckpointReport> Db::checkpoint(const std::string& target) { return impl_->checkpoint(target); }

Result<std::uint64_t> Db::count(DatabaseId database, const KeyRange& range) {
  IteratorOptions options;
  options.bounds = range;
  auto walk = iterate(lease(database), options);
  std::uint64_t keys = 0;
  for (walk->seek_to_first(); walk->valid(); walk->next()) ++keys;
  TRY(walk->status());
  return keys;
}

std::uint64_t Db::estimate_keys(DatabaseId database, const KeyRange& range) const {
  const ReadView view = lease(database);
  return view.has_tree() ? ebbtide::estimate_keys(*ViewParts::tree(view), range) : 0;
}

Result<std::uint64_t> Db::sample_keys(DatabaseId database, std::uint64_t seed) const {
  const ReadView view = lease(database);
  return view.has_tree() ? ebbtide::sample_keys(view, seed) : std::uint64_t{0};
}

Result<StampedKeys> Db::scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from, std::size_t max_keys,
                                    std::uint64_t max_pages) const {
  return ebbtide::scan_stamps(lease, lo, hi, from, max_keys, max_pages);
}

std::uint64_t Db::estimate_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi) const {
  return ebbtide::estimate_stamps(lease(database), lo, hi);
}

Result<Millis> Db::expiring_keys(DatabaseId database, Millis after, Millis until, std::size_t limit,
                                 std::vector<ExpiringKey>* out) const {
  const ReadView view = lease(database);
  return view.has_tree() ? ebbtide::expiring_keys(view, after, until, limit, out) : until;
}

void DbImpl::apply_deadlines() {
  reaper_.hurry();  // the reaper computed its present pause from the old deadline
  if (!trees_.deadlines_changed()) return;
  MutexLock manifest(manifest_.mutex);
  // If this fails, the next tick tries again or reports that the database is read-only.
  (void)manifest_.commit_deadlines();
}

Status Db::reconfigure(const Settings& settings) {
  TRY(check_settings(settings));
  if (settings.databases != impl_->settings_.databases) {
    return Status::invalid_argument("server.databases cannot change while running: it is " +
                                    std::to_string(impl_->settings_.databases));
  }
  impl_->log_->set_fsync(settings.fsync);
  impl_->budget_.set_bytes(settings.memory_budget);
  impl_->open_files_->set_limit(settings.max_open_files);
  impl_->scrubber_.set_interval(settings.scrub_interval);
  impl_->file_watch_.set_scrub_interval(settings.scrub_interval);
  {
    MutexLock lock(impl_->trees_.commit_mutex);
    for (DatabaseId d = 0; d < settings.databases; ++d) impl_->trees_.change_settings(d, settings.tree_for(d));
    for (auto own = settings.overrides.lower_bound(kMaxDatabases); own != settings.overrides.end(); ++own)
      impl_->trees_.change_settings(own->first, own->second);
  }
  impl_->writes_.measure();
  impl_->apply_deadlines();
  return Status::ok();
}

Status Db::set_tree_settings(DatabaseId database, const TreeSettings& settings) {
  TRY(validate(settings));
  TRY(make_policy(settings.policy).status());
  if (!impl_->trees_.has_number(database)) return Status::invalid_argument("there is no " + number_name(database));
  {
    MutexLock commit_lock(impl_->trees_.commit_mutex);
    impl_->trees_.change_settings(database, settings);
  }
  impl_->apply_deadlines();
  return Status::ok();
}

Status Db::set_index_options(DatabaseId tree, const IndexTreeOptions& options) {
  if (!is_index_tree(tree) || !impl_->trees_.has_number(tree))
    return Status::invalid_argument("there is no " + number_name(tree));
  TreeSettings checked;
  checked.points_at = options.points_at;
  if (options.policy) checked.policy = *options.policy;
  TRY(validate(checked));
  TRY(make_policy(checked.policy).status());
  MutexLock commit_lock(impl_->trees_.commit_mutex);
  impl_->trees_.set_index_options(tree, options);
  return Status::ok();
}

void Db::pause_compactions() { impl_->scheduler_.pause(); }
void Db::resume_compactions() {
  impl_->scheduler_.resume();
  for (const TreePtr& tree : impl_->trees_.live_trees()) impl_->scheduler_.schedule(tree);
}

PurgeTicket Db::purge_ticket(SeqNum* up_to) { return {impl_->surveyor_.fence(up_to), {}}; }
Result<PurgeStatus> Db::purge_status(const PurgeTicket& ticket) { return impl_->purges_.status(ticket); }
void Db::note_ticket(const PurgeTicket& ticket) { impl_->purges_.note_ticket(ticket); }
std::vector<PurgeTicket> Db::open_tickets() { return impl_->purges_.open_tickets(); }

// Makes the pending deletes of the ticket overdue. Planners then plan merges for them, and the next tick flushes memtables.
Status Db::purge_now(const PurgeTicket& ticket) {
  TRY(impl_->purges_.status(ticket).status());
  impl_->surveyor_.make_overdue(ticket);
  impl_->reaper_.hurry();
  impl_->retention_.look_soon();
  for (const TreePtr& tree : impl_->trees_.live_trees()) impl_->scheduler_.schedule(tree);
  return Status::ok();
}

void Db::tick() { impl_->maintenance_.tick(); }

// Returns false also for a stop that cannot end: the database is read-only, or the log or compactions fail. Then commits fail
// instead of waiting for ever.
bool Db::writes_stopped() const {
  return impl_->writes_.stopped() && !impl_->writes_.stuck() && !impl_->health_.read_only() && !impl_->log_->failed();
}
void Db::set_resident_source(std::function<std::uint64_t()> resident) { impl_->budget_.set_resident_source(std::move(resident)); }

MemoryAccount& Db::memory() const { return *impl_->memory_; }
bool Db::try_charge(MemoryAccount::Kind kind, std::uint64_t bytes) { return impl_->budget_.try_charge(kind, bytes); }
BudgetRoom Db::memory_room(std::uint64_t bytes) { return impl_->budget_.room(bytes); }
Stats Db::stats() const { return impl_->stats(); }
std::vector<std::string> Db::damage() const { return impl_->damage(); }
Result<TreeInfo> Db::tree_info(DatabaseId database) const { return impl_->tree_info(database); }
Result<TreeMap> Db::tree_map(DatabaseId database, std::size_t max_cells) const { return impl_->tree_map(database, max_cells); }
const Settings& Db::settings() const { return impl_->settings_; }

StampMode Db::stamp_mode(DatabaseId database) const {
  MutexLock lock(impl_->trees_.commit_mutex);
  const TreePtr& tree = impl_->trees_.mapped(database);
  return tree != nullptr ? tree->stamp : impl_->trees_.settings_of(database).stamp;
}

StampMode Db::configured_stamp_mode(DatabaseId database) const { return impl_->trees_.configured_stamp_mode(database); }

}  // namespace ebbtide
