// Commits. write/commit_pipeline.h has the order of things; CommitEnv is what it needs of the database.
#include <bit>
#include <utility>

#include "db/db_impl.h"

namespace ebbtide {
namespace {
/// A thread that has committed this part of the budget measures the memory.
constexpr std::uint64_t kMeasuredPart = 64;
constexpr std::uint64_t kLateTickNs = 200'000'000;  // two ticks
}  // namespace

// The pipeline holds the commit mutex in all calls but insert(). The analysis of locks does not follow it there.
Status CommitEnv::writable() { return db->health_.read_only() ? db->health_.write_status() : Status::ok(); }
Millis CommitEnv::now() { return db->time_.now(); }
Millis CommitEnv::stamped(Millis now) { return db->time_.stamped(now); }
TreeId CommitEnv::place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time,
                        Inserts* inserts) NO_THREAD_SAFETY_ANALYSIS {
  return db->placer_.place(batch, at, op, time, inserts);
}
void CommitEnv::change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts,
                               LogNotes* notes) NO_THREAD_SAFETY_ANALYSIS {
  db->placer_.change_mapping(batch, at, op, time, inserts, notes);
}
void CommitEnv::mapping_changed(SeqNum last) NO_THREAD_SAFETY_ANALYSIS {
  db->trees_.note_mapping(last);
  db->manifest_.schedule_mapping();
}
void CommitEnv::sequenced(TreeId tree, SeqNum first, SeqNum last) NO_THREAD_SAFETY_ANALYSIS {
  db->trees_.mark_active(tree, first, last);
}
void CommitEnv::log(const WriteBatch& batch, std::span<const LogNote> notes) { db->log_->enqueue(batch, notes); }
void CommitEnv::insert(const Inserts::Target& target, const WriteBatch::Op& op, SeqNum seq, Millis time) {
  insert_operation(*target.memtable, op, seq, time, target.stamp);
}

Status DbImpl::refuse(const WriteBatch& batch) {
  TRY(check_batch(batch, settings_.databases));
  if (log_->failed()) return Status::read_only(log_->status().to_string());
  if (health_.read_only()) TRY(health_.write_status());
  return writes_.refuse(batch, disk_.full(log_->bytes_written()));
}

Status DbImpl::commit(WriteBatch& batch) {
  if (batch.empty()) return Status::ok();
  TRY(refuse(batch));
  TRY(writes_.await(batch));
  return commit_admitted(batch, true);
}

Status DbImpl::try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms) {
  *wait_ms = 0;
  if (batch.empty()) return Status::ok();
  TRY(refuse(batch));
  *wait_ms = writes_.delay_ms(batch, waited);
  if (*wait_ms != 0) return Status::busy("writes wait for flushes and compactions");
  return commit_admitted(batch, false);
}

Status DbImpl::commit_admitted(WriteBatch& batch, bool may_wait) {
  const bool large_values =
      batch.payload_bytes() >= StagedBatch::kLeastBytes && batch.flushes() == 0;  // which go to the log in pieces
  if (large_values || StagedBatch::pays_for(batch)) [[unlikely]] {
    auto entries = stage_entries(batch, nullptr);
    if (entries.is_ok()) return commit_at_once(batch, &*entries, may_wait);
    if (entries.status().code() != Code::kUnsupported) return entries.status();
  }
  TRY(pipeline_.commit(batch));
  if (batch.payload_bytes() > kLargeValueBytes) [[unlikely]]
    memory_->lower_limit(batch.payload_bytes() - batch.shared_bytes());
  count_commit(batch);
  return Status::ok();
}

void DbImpl::count_commit(const WriteBatch& batch) {
  ThreadCounters& mine = reads_.counters.mine();
  ThreadCounters::add(mine.commits, 1);
  ThreadCounters::add(mine.operations, batch.count());
  if (batch.secondary_deletes() != 0) ThreadCounters::add(mine.secondary_deletes, batch.secondary_deletes());
  const std::uint64_t before = mine.user_bytes.load(std::memory_order_relaxed);
  ThreadCounters::add(mine.user_bytes, batch.payload_bytes() - WriteBatch::kHeaderBytes);
  // In steps of a power of two, to save divisions.
  const int step = std::bit_width(budget_.bytes() / kMeasuredPart);
  if (before >> step != mine.user_bytes.load(std::memory_order_relaxed) >> step) [[unlikely]]
    measure_memory();
}

// Ticks do the same. They come late while the log thread waits for a sync: the memtables of that time would exceed the budget.
void DbImpl::measure_memory() {
  const bool late = clock_.mono_ns() - ticked_ns_.load(std::memory_order_relaxed) > kLateTickNs;
  if (late) relief_.relieve_memory();
  writes_.try_measure(late);
}

}  // namespace ebbtide
