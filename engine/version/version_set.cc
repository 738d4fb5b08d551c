#include "version/version_set.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "io/file_names.h"
#include "version/manifest.h"
#include "version/record_needs.h"

namespace ebbtide {
namespace {

// A manifest is rolled (replaced) when its size exceeds both limits. The first limit keeps small manifests from being rolled. A
// roll writes one snapshot. With a factor of 4, the edits since the last roll are at least three times as large as the last
// snapshot.
constexpr std::uint64_t kRollBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kRollFactor = 4;
// open() refuses a directory that has a file with this number or a greater one. The 2^48 numbers from here on are left for new
// files, which is more than a process can use.
constexpr FileNum kLastFileNum = kMaxFileNum - (FileNum{1} << 48);

}  // namespace

struct VersionSet::Impl {
  FileSystem& fs;
  const std::string dir;
  VersionState state;
  RecordKeeper records;
  std::atomic<FileNum> next_file{1};
  std::atomic<TreeId> next_tree{1};
  FileNum manifest = kNoFile;  ///< the manifest that CURRENT named when CURRENT was last read or written
  std::uint64_t manifest_bytes = 0;
  std::uint64_t snapshot_bytes = 0;
  std::unique_ptr<ManifestWriter> writer;  ///< null: the next commit begins a new manifest
  std::vector<FileNum> leftovers;          ///< other manifests in the directory; CURRENT may name one of them after a failed roll
  Status bad;
  std::string torn_tail;

  Impl(FileSystem& files, std::string directory) : fs(files), dir(std::move(directory)) {}

  /// Marks the numbers of all files in the directory as used, and collects the manifests to unlink.
  Status look_around() {
    TRY_ASSIGN(names, fs.list(dir));
    for (const std::string& name : names) {
      FileKind kind{};
      FileNum file = kNoFile;
      if (!parse_file_name(name, &kind, &file) || file == kNoFile) continue;
      if (file >= kLastFileNum)
        return Status::corruption(join_path(dir, name) + ": file number is so large that none are left for new files");
      mark_used(file);
      if (kind == FileKind::kManifest && file != manifest) leftovers.push_back(file);
    }
    return Status::ok();
  }
  void mark_used(FileNum file) {
    if (file >= next_file.load()) next_file.store(file + 1);
  }
  [[nodiscard]] bool outgrown() const { return manifest_bytes > kRollBytes && manifest_bytes > kRollFactor * snapshot_bytes; }

  std::string snapshot_record() {
    state.next_file = std::max(state.next_file, next_file.load());
    state.next_tree = std::max(state.next_tree, next_tree.load());
    std::string record;
    VersionEdit edit = snapshot(state);
    edit.writer = EBBTIDE_VERSION;
    edit.encode(&record);
    return record;
  }

  Status roll() {
    const FileNum file = next_file.fetch_add(1);
    writer.reset();
    auto created = ManifestWriter::create(fs, dir, file, snapshot_record());
    if (!created.is_ok()) {
      leftovers.push_back(file);  // create() may have failed to unlink the file: then the next roll unlinks it
      return bad = created.status().with_context("new manifest");
    }
    if (Status status = write_current(fs, dir, file); !status.is_ok()) {
      // CURRENT names the old manifest or this manifest. Both have the same state, and no more edits are written to either. If
      // CURRENT was not replaced, as on a full disk, the new manifest is removed at once; the next try creates another manifest.
      created = Status(status);
      const auto named = read_current(fs, dir);
      const bool replaced = !(manifest == kNoFile ? named.status().is_not_found() : named.is_ok() && *named == manifest);
      if (replaced || !unlink_manifest(file)) leftovers.push_back(file);
      return bad = status.with_context("new manifest");
    }
    if (manifest != kNoFile) leftovers.push_back(manifest);
    manifest = file;
    writer = std::move(created).value();
    manifest_bytes = snapshot_bytes = writer->size();
    bad = Status::ok();
    unlink_leftovers();
    return Status::ok();
  }

  /// Unlinks old manifests; CURRENT is durable by now. Files that cannot be unlinked are tried again at the next roll.
  void unlink_leftovers() {
    std::erase_if(leftovers, [this](FileNum file) { return unlink_manifest(file); });
  }
  bool unlink_manifest(FileNum file) {
    const Status status = fs.unlink(join_path(dir, manifest_file_name(file)));
    return status.is_ok() || status.is_not_found();
  }

  Status read() {
    StateBuilder builder;
    std::uint64_t last = 0;
    const auto on_record = [&](Bytes payload, std::uint64_t offset) -> Status {
      TRY_ASSIGN(edit, VersionEdit::decode(payload));
      last = offset;
      return builder.add(edit);
    };
    TRY_ASSIGN(end, read_manifest(fs, dir, manifest, on_record));
    Result<VersionState> read = builder.finish();
    if (!read.is_ok()) {
      return read.status().with_context(manifest_file_name(manifest) + ": after the record at " + std::to_string(last));
    }
    state = std::move(read).value();
    manifest_bytes = end.bytes;
    torn_tail = end.torn;
    next_file = std::max(state.next_file, manifest + 1);
    next_tree = state.next_tree;
    if (state.next_file > kLastFileNum) {
      return Status::corruption(manifest_file_name(manifest) + ": record at " + std::to_string(last) +
                                ": no file numbers are left; the next one is " + std::to_string(state.next_file));
    }
    return Status::ok();
  }
};

VersionSet::VersionSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
VersionSet::~VersionSet() = default;

Result<std::unique_ptr<VersionSet>> VersionSet::create(FileSystem& fs, const std::string& dir) {
  if (fs.exists(join_path(dir, kCurrentFileName))) return Status::exists(join_path(dir, kCurrentFileName) + " exists");
  auto impl = std::make_unique<Impl>(fs, dir);
  TRY(impl->look_around());
  TRY(impl->roll());
  return std::unique_ptr<VersionSet>(new VersionSet(std::move(impl)));
}

Result<std::unique_ptr<VersionSet>> VersionSet::open(FileSystem& fs, const std::string& dir) {
  auto impl = std::make_unique<Impl>(fs, dir);
  TRY_ASSIGN(manifest, read_current(fs, dir));
  impl->manifest = manifest;
  const std::string path = join_path(dir, manifest_file_name(manifest));
  if (!fs.exists(path))
    return Status::corruption(join_path(dir, kCurrentFileName) + ": offset 0: names " + path + ", which does not exist");
  TRY(impl->read());
  TRY(impl->look_around());
  // If the last process was killed between a write and its sync, the content read here may be only in the system page cache.
  // Files that the manifest does not name are about to be unlinked, so the manifest must be durable first.
  TRY(fs.sync_file(path));
  TRY(fs.sync_dir(dir));
  return std::unique_ptr<VersionSet>(new VersionSet(std::move(impl)));
}

Status VersionSet::commit(VersionEdit edit) {
  Impl& self = *impl_;
  if (!self.bad.is_ok()) return self.bad.with_context("an earlier write of the manifest failed");
  edit.next_file = std::max(edit.next_file.value_or(0), self.next_file.load());
  edit.next_tree = std::max(edit.next_tree.value_or(0), self.next_tree.load());
  for (TreeEdit& tree : edit.trees) {
    if (const auto at = self.state.trees.find(tree.tree); at != self.state.trees.end()) renumber_added_runs(*at->second, &tree);
  }
  TRY_ASSIGN(next, apply(self.state, edit));
  if (self.records.plan(self.state.trees, next.trees, &edit.trees)) {
    TRY_ASSIGN(without, apply(self.state, edit));
    next = std::move(without);
  }
  if (self.writer == nullptr || self.outgrown()) TRY(self.roll());
  // The roll may have used a file number.
  edit.next_file = next.next_file = std::max(*edit.next_file, self.next_file.load());
  std::string payload;
  edit.encode(&payload);
  if (Status status = self.writer->append(payload); !status.is_ok()) {
    self.writer.reset();
    return self.bad = status;
  }
  self.state = std::move(next);
  self.records.note_committed();
  // The record is durable. Without its seal the file takes no more records, so the next commit begins another manifest.
  if (!self.writer->seal().is_ok()) {
    self.writer.reset();
    return Status::ok();
  }
  self.manifest_bytes = self.writer->size();
  return Status::ok();
}

Status VersionSet::roll() { return impl_->roll(); }
std::string VersionSet::snapshot_record() { return impl_->snapshot_record(); }

const std::map<TreeId, VersionPtr>& VersionSet::trees() const { return impl_->state.trees; }
VersionPtr VersionSet::tree(TreeId id) const {
  const auto at = impl_->state.trees.find(id);
  return at == impl_->state.trees.end() ? nullptr : at->second;
}
const std::map<DatabaseId, TreeId>& VersionSet::databases() const { return impl_->state.databases; }
FileNum VersionSet::oldest_log() const { return impl_->state.oldest_log; }
FileNum VersionSet::newest_log() const { return impl_->state.newest_log; }
SeqNum VersionSet::last_seq() const { return impl_->state.last_seq; }
SeqNum VersionSet::databases_seq() const { return impl_->state.databases_seq; }
const VersionState& VersionSet::state() const { return impl_->state; }
Millis VersionSet::time_mark() const { return impl_->state.time_mark; }
const BootMark& VersionSet::boot_mark() const { return impl_->state.boot_mark; }
FileNum VersionSet::manifest_file() const { return impl_->manifest; }
std::uint64_t VersionSet::manifest_bytes() const { return impl_->manifest_bytes; }
const Status& VersionSet::status() const { return impl_->bad; }
const std::string& VersionSet::torn_tail() const { return impl_->torn_tail; }

FileNum VersionSet::new_file() { return impl_->next_file.fetch_add(1); }
TreeId VersionSet::new_tree() { return impl_->next_tree.fetch_add(1); }
TreeId VersionSet::tree_limit() const { return impl_->next_tree.load(); }
void VersionSet::mark_file_used(FileNum file) { impl_->mark_used(file); }
void VersionSet::mark_tree_used(TreeId tree) {
  constexpr TreeId kLast = std::numeric_limits<TreeId>::max();
  if (tree >= impl_->next_tree.load() && tree < kLast) impl_->next_tree.store(tree + 1);
}

}  // namespace ebbtide
