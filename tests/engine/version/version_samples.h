// Makes random and simple edits, files and records for the tests of this layer.
#pragma once

#include <string>

#include "base/random.h"
#include "version/version_set.h"
#include "version/version_state.h"

namespace ebbtide::test {

/// Returns random bytes, at most `max`.
inline std::string bytes_up_to(Random& random, std::uint64_t max) {
  std::string out;
  for (std::uint64_t n = random.uniform(max + 1); n > 0; --n) out += static_cast<char>(random.uniform(256));
  return out;
}

/// Returns a number of any magnitude.
inline std::uint64_t any_number(Random& random) { return random.next() >> random.uniform(64); }

inline FileMeta random_file_meta(Random& random) {
  FileMeta file;
  file.data_file = any_number(random) / 4 | 1;
  file.metadata_file = any_number(random) / 4 | 1;
  file.data_bytes = any_number(random);
  file.metadata_bytes = any_number(random);
  file.data_checksum = any_number(random);
  file.metadata_checksum = any_number(random);
  for (std::uint64_t n = random.uniform(4); n > 0; --n) {
    Entry entry;
    const std::string key = bytes_up_to(random, 12);
    entry.key = key;
    entry.seq = any_number(random) & kMaxSeqNum;
    entry.kind = random.one_in(3) ? EntryKind::kTombstone : EntryKind::kValue;
    entry.delete_key = random.one_in(3) && entry.kind == EntryKind::kValue ? kNoStamp : any_number(random) / 2;
    entry.expiry = random.one_in(2) ? 0 : any_number(random);
    entry.debt = random.one_in(2) ? 0 : any_number(random);
    file.stats.add_entry(entry);
  }
  if (random.one_in(2) && file.data_bytes != 0) {
    file.dead_bytes = 1 + random.uniform(file.data_bytes);
    file.punched_bytes = random.uniform(file.dead_bytes + 1);
    file.lingering_birth = any_number(random);
    file.dead_birth = any_number(random);
  }
  if (random.one_in(3)) file.stats.add_range_tombstone({"b", random.one_in(2) ? "" : "c", 7, any_number(random)});
  return file;
}

inline TreeEdit random_tree_edit(Random& random) {
  TreeEdit edit;
  edit.tree = static_cast<TreeId>(1 + random.uniform(0xffffffff));
  edit.create = random.one_in(2);
  if (edit.create) edit.stamp = static_cast<StampMode>(random.uniform(3));
  edit.drop = random.one_in(4);
  const auto level = [&] { return static_cast<int>(random.uniform(kMaxLevel + 1)); };
  for (auto n = random.uniform(3); n > 0; --n)
    edit.added_runs.push_back({any_number(random), level(), any_number(random), random.one_in(2)});
  for (auto n = random.uniform(3); n > 0; --n) edit.removed_files.emplace_back(any_number(random), any_number(random));
  for (auto n = random.uniform(3); n > 0; --n) edit.added_files.emplace_back(any_number(random), random_file_meta(random));
  for (auto n = random.uniform(3); n > 0; --n) edit.punched.emplace_back(any_number(random), any_number(random));
  for (auto n = random.uniform(3); n > 0; --n) edit.removed_runs.push_back(any_number(random));
  for (auto n = random.uniform(3); n > 0; --n) edit.relabeled.emplace_back(any_number(random), level());
  for (auto n = random.uniform(3); n > 0; --n) edit.cursors.emplace_back(level(), bytes_up_to(random, 8));
  for (auto n = random.uniform(3); n > 0; --n) edit.removed_records.push_back(any_number(random) & kMaxSeqNum);
  for (auto n = random.uniform(3); n > 0; --n) {
    const DeleteKey lo = any_number(random) & (kMaxDeleteKey >> 1);
    edit.added_records.push_back(
        {lo, lo + 1 + (any_number(random) & (kMaxDeleteKey >> 1)), any_number(random) & kMaxSeqNum, any_number(random)});
  }
  if (random.one_in(2)) edit.flushed_seq = any_number(random) & kMaxSeqNum;
  if (random.one_in(2)) edit.flushes = any_number(random);
  if (random.one_in(2)) edit.levels = level();
  if (random.one_in(2)) edit.flush_share = static_cast<std::uint32_t>(random.uniform(FlushShare::kMost + 1));
  if (random.one_in(2)) {
    std::vector<DeadlineRule::Earlier> earlier;
    for (auto n = random.uniform(DeadlineRule::kMostChanges + 1); n > 0; --n) {
      earlier.push_back({(earlier.empty() ? 0 : earlier.back().until) + random.uniform(3), any_number(random)});
    }
    edit.deadlines = DeadlineRule(any_number(random), std::move(earlier));
  }
  if (random.one_in(2)) edit.key_space = bytes_up_to(random, 12);
  if (random.one_in(2)) edit.next_run = any_number(random);
  return edit;
}

inline VersionEdit random_edit(Random& random) {
  VersionEdit edit;
  for (auto n = random.uniform(3); n > 0; --n) edit.trees.push_back(random_tree_edit(random));
  for (auto n = random.uniform(3); n > 0; --n) {
    edit.databases.emplace_back(static_cast<DatabaseId>(random.next()), static_cast<TreeId>(random.next()));
  }
  if (random.one_in(2)) edit.next_file = any_number(random) / 4;
  if (random.one_in(2)) edit.next_tree = static_cast<TreeId>(random.next());
  if (random.one_in(2)) edit.oldest_log = any_number(random) / 4;
  if (random.one_in(2)) edit.last_seq = any_number(random) & kMaxSeqNum;
  if (random.one_in(2)) edit.complete_seq = any_number(random) & kMaxSeqNum;
  if (random.one_in(2)) edit.newest_log = any_number(random) / 4;
  if (random.one_in(2)) edit.time_mark = any_number(random);
  if (random.one_in(2)) edit.boot_mark = BootMark{any_number(random), any_number(random)};
  return edit;
}

/// Returns a file with keys [smallest, largest] and seqs [lo, hi].
inline FileMeta plain_file(FileNum num, const std::string& smallest, const std::string& largest, SeqNum lo = 1, SeqNum hi = 1) {
  FileMeta file;
  file.data_file = num;
  file.metadata_file = num + 1;
  file.data_bytes = 1000;
  file.metadata_bytes = 100;
  file.data_checksum = num * 7;
  file.metadata_checksum = num * 11;
  for (const auto& [key, seq] : {std::pair{smallest, lo}, std::pair{largest, hi}}) {
    Entry entry;
    entry.key = key;
    entry.seq = seq;
    file.stats.add_entry(entry);
  }
  return file;
}

/// Returns the content of a version set as text, without the numbers that always grow.
inline std::string describe(const VersionSet& set) {
  VersionState state;
  state.trees = set.trees();
  state.databases = set.databases();
  state.oldest_log = set.oldest_log();
  state.newest_log = set.newest_log();
  state.last_seq = set.last_seq();
  state.time_mark = set.time_mark();
  state.boot_mark = set.boot_mark();
  return snapshot(state).to_text();
}

}  // namespace ebbtide::test
