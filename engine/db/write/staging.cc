#include "db/write/staging.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/oldest.h"

namespace ebbtide {
namespace {

constexpr std::uint32_t kLookEvery = 1024;  // operations between two checks of `stop`
// Memory per key that the batch writes once: its node, its version, and its slots in the hash index and in the ordered index.
constexpr std::size_t kBytesPerEntry = 96;
// The constructor of MemTable takes a size in bytes, and makes its hash index large enough for one key per this many bytes.
constexpr std::size_t kBytesPerKey = 256;

bool changes_mapping(OpKind kind) {
  return kind == OpKind::kFlushDatabase || kind == OpKind::kSwapDatabases || kind == OpKind::kCreateTree;
}

bool comes_later(OpKind kind) { return kind == OpKind::kRangeTombstone || kind == OpKind::kSecondaryDelete; }

// few_large_values() is true for a batch with at most kFewOperations operations, some with large values. Such a batch gets no
// memtable of its own: inserting its operations takes almost no time, and flushing them alone would make a small run.
constexpr std::uint32_t kFewOperations = 64;
bool few_large_values(const WriteBatch& batch) { return batch.count() <= kFewOperations && batch.shared_bytes() != 0; }

Status stopped() { return Status::aborted("staging a batch was stopped"); }

/// Makes the parts, each with an empty memtable of the right size, and the list of operations that are inserted later.
Result<StagedEntries> count_parts(const WriteBatch& batch, const std::atomic<bool>* stop) {
  StagedEntries out;
  const bool all_later = few_large_values(batch);
  std::map<DatabaseId, std::uint32_t> part_of;
  std::vector<std::size_t> entries;
  std::size_t cursor = 0, before = 0;
  std::uint32_t index = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op); before = cursor, ++index) {
    if (changes_mapping(op.kind)) return Status::unsupported("a batch that empties or swaps databases is not staged");
    if (index % kLookEvery == 0 && stop != nullptr && stop->load(std::memory_order_relaxed)) return stopped();
    const auto [at, fresh] = part_of.try_emplace(op.tree, static_cast<std::uint32_t>(out.parts.size()));
    if (fresh) {
      out.parts.push_back({.database = op.tree, .memtable = nullptr, .named = op.tree});
      entries.push_back(0);
    }
    StagedEntries::Part& part = out.parts[at->second];
    part.records += op.kind == OpKind::kSecondaryDelete ? 1 : 0;
    part.deletes |= op.kind == OpKind::kTombstone || op.debt || comes_later(op.kind);
    keep_oldest(&part.min_expiry, op.expiry);
    keep_oldest(&part.oldest_birth, op.birth);
    if (all_later || comes_later(op.kind)) {
      out.later.push_back({before, index, at->second});
    } else {
      entries[at->second] += 1;
    }
  }
  for (std::size_t i = 0; i < entries.size() && !all_later; ++i) {
    out.parts[i].memtable = std::make_shared<MemTable>(std::max<std::size_t>(entries[i], 1) * kBytesPerKey);
  }
  return out;
}

}  // namespace

std::size_t StagedEntries::memory_bytes() const {
  std::size_t bytes = later.capacity() * sizeof(Later);
  for (const Part& part : parts) bytes += part.memtable == nullptr ? 0 : part.memtable->memory_bytes();
  return bytes;
}

std::size_t staged_bytes_expected(const WriteBatch& batch) {
  return batch.payload_bytes() - batch.shared_bytes() + batch.count() * kBytesPerEntry;
}

Result<StagedEntries> stage_entries(const WriteBatch& batch, const std::atomic<bool>* stop) {
  TRY_ASSIGN(out, count_parts(batch, stop));
  if (out.later.size() == batch.count()) return out;
  std::size_t cursor = 0;
  std::uint32_t index = 0;
  std::size_t last = 0;  // adjacent operations usually have the same database
  for (WriteBatch::Op op; batch.next_op(&cursor, &op); ++index) {
    if (index % kLookEvery == 0 && stop != nullptr && stop->load(std::memory_order_relaxed)) return stopped();
    if (comes_later(op.kind)) continue;
    if (out.parts[last].database != op.tree) {
      const auto part = std::find_if(out.parts.begin(), out.parts.end(), [&](const auto& p) { return p.database == op.tree; });
      last = static_cast<std::size_t>(part - out.parts.begin());
    }
    Entry entry;
    if (operation_entry(op, index, &entry)) out.parts[last].memtable->insert({op.key, hash_key(op.key)}, entry);
  }
  return out;
}

StagedBatch::StagedBatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StagedBatch::~StagedBatch() = default;
const WriteBatch& StagedBatch::batch() const { return impl_->batch; }
bool StagedBatch::committed() const { return impl_->committed; }
std::size_t StagedBatch::memory_bytes() const { return impl_->charged; }

void StagedParts::release() {
  if (account != nullptr) account->release(MemoryAccount::Kind::kCommands, std::exchange(charged, 0));
}

}  // namespace ebbtide
