// Files and directories are nodes. Names are edges between them, in two maps per directory. A change of names goes into the
// volatile map at once, and into a list of pending changes; a sync of the directory applies it to the durable map.
//
// Invariants:
// 1. Applying every pending change, in order, to the durable maps gives the volatile maps.
// 2. If a change becomes durable, by a sync or in a crash, each earlier pending change of the same entry becomes durable, too. So
//    the changes of an entry that survive are always a prefix of its history. A rename changes two entries in one step.
// 3. used_ counts the nodes that have a name or are open. A durable name alone does not count, since no program can see it.
#include "io/memory_fs.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <set>
#include <unordered_map>

#include "base/mutex.h"
#include "base/random.h"
#include "io/errno_status.h"
#include "io/memory_file.h"

namespace ebbtide {

namespace {

struct Node;
using NodePtr = std::shared_ptr<Node>;
using Names = std::map<std::string, NodePtr>;

struct Node {
  explicit Node(bool is_directory) : directory(is_directory) {}
  const bool directory;
  // --- members of a file
  MemoryFile file;
  unsigned names = 0;    // number of names in the volatile maps
  unsigned handles = 0;  // number of open files
  bool locked = false;
  // --- members of a directory
  Names entries;
  Names durable;
};

/// Sets one entry to `node`, or removes it.
struct NameChange {
  NodePtr dir;
  std::string name;
  NodePtr node;
};
/// Changes that are applied as a whole or not at all.
using Change = std::vector<NameChange>;
using Entry = std::pair<const Node*, std::string>;

/// A resolved path: its parent directory, its name there, and its node.
struct Place {
  NodePtr dir;
  std::string name;  // "" if the path is a root
  NodePtr node;      // null if there is no such file or directory
};

std::vector<std::string> parts_of(Bytes path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const Bytes part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

/// Builds the tree of a clone from the names that survive a crash.
class Cloner {
 public:
  Cloner(CrashMode mode, std::uint64_t seed) : mode_(mode), random_(seed) {}

  void choose_names(const std::vector<Change>& pending) {
    // Each crash chooses the probability with which a change is kept, so that some crashes keep few changes and others most.
    const std::uint64_t kept_of_8 = random_.uniform(9);
    std::set<Entry> lost;
    for (const Change& change : pending) {
      const bool follows_lost = std::any_of(change.begin(), change.end(),
                                            [&](const NameChange& c) { return lost.contains(Entry(c.dir.get(), c.name)); });
      const bool lucky = random_.uniform(8) < kept_of_8;
      const bool keep = mode_ == CrashMode::kEverything || (mode_ == CrashMode::kRandom && lucky && !follows_lost);
      for (const NameChange& c : change) {
        if (keep) {
          set_name(&names_of(*c.dir), c);
        } else {
          lost.emplace(c.dir.get(), c.name);
        }
      }
    }
  }

  NodePtr clone(const Node& node) {
    if (const auto known = clones_.find(&node); known != clones_.end()) return known->second;
    auto copy = std::make_shared<Node>(node.directory);
    clones_.emplace(&node, copy);
    if (!node.directory) {
      copy->file = mode_ == CrashMode::kNothing      ? node.file.durable_copy()
                   : mode_ == CrashMode::kEverything ? node.file.volatile_copy()
                                                     : node.file.torn_copy(random_);
      return copy;
    }
    for (const auto& [name, child] : names_of(node)) {
      NodePtr child_copy = clone(*child);
      ++child_copy->names;
      copy->entries.emplace(name, std::move(child_copy));
    }
    copy->durable = copy->entries;
    return copy;
  }

  static void set_name(Names* names, const NameChange& change) {
    if (change.node == nullptr) {
      names->erase(change.name);
    } else {
      (*names)[change.name] = change.node;
    }
  }

  [[nodiscard]] std::uint64_t allocated_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [original, copy] : clones_) bytes += copy->file.allocated_bytes();
    return bytes;
  }

 private:
  Names& names_of(const Node& dir) { return names_.try_emplace(&dir, dir.durable).first->second; }

  const CrashMode mode_;
  Random random_;
  std::unordered_map<const Node*, Names> names_;  // for each directory, the names that survive the crash
  std::unordered_map<const Node*, NodePtr> clones_;
};

}  // namespace

/// The state of the file system. Every public function locks the mutex once.
class MemoryFileSystem::Disk {
 public:
  std::shared_ptr<Disk> crash(std::uint64_t seed, CrashMode mode) {
    MutexLock lock(mutex_);
    Cloner cloner(mode, seed);
    cloner.choose_names(pending_);
    auto clone = std::make_shared<Disk>();
    clone->adopt(cloner.clone(*relative_root_), cloner.clone(*absolute_root_), cloner);
    return clone;
  }

  void set_capacity(std::uint64_t bytes) {
    MutexLock lock(mutex_);
    capacity_ = bytes;
  }
  std::uint64_t used_bytes() {
    MutexLock lock(mutex_);
    return used_;
  }
  DiskSpace space() {
    MutexLock lock(mutex_);
    const std::uint64_t total = capacity_ == 0 ? kUnlimitedBytes : capacity_;
    return {.total_bytes = total, .free_bytes = free_bytes()};
  }

  // Names ----------------------------------------------------------------------------------------------------------------------

  Result<NodePtr> create(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, find("create", path));
    if (place.node != nullptr) return errno_status("create", path, EEXIST);
    auto node = std::make_shared<Node>(false);
    ++node->handles;
    commit({{place.dir, place.name, node}});
    return node;
  }

  Result<NodePtr> open(Bytes operation, const std::string& path, bool lock_it = false) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, find(operation, path));
    NodePtr node = place.node;
    if (node == nullptr && !lock_it) return errno_status(operation, path, ENOENT);
    if (node != nullptr && node->directory) {
      if (lock_it) return errno_status(operation, path, EISDIR);
      return Status::corruption(std::string(operation) + " " + path + ": a directory");
    }
    if (node == nullptr) {
      node = std::make_shared<Node>(false);
      commit({{place.dir, place.name, node}});
    }
    if (lock_it && node->locked) return Status::busy("lock " + path + ": held by another process, or open twice in this one");
    node->locked = node->locked || lock_it;
    ++node->handles;
    return node;
  }

  void close(Node* node, bool unlock) {
    MutexLock lock(mutex_);
    if (unlock) node->locked = false;
    --node->handles;
    release(*node);
  }

  Status rename(const std::string& from, const std::string& to) {
    MutexLock lock(mutex_);
    const std::string both = from + " to " + to;
    TRY_ASSIGN(source, find("rename", from, both));
    if (source.node == nullptr) return errno_status("rename", both, ENOENT);
    if (source.name.empty()) return errno_status("rename", both, EBUSY);
    TRY_ASSIGN(target, find("rename", to, both, source.node.get()));
    if (target.node == source.node) return Status::ok();  // POSIX: a rename between two names of one file changes nothing
    if (target.node != nullptr) {
      if (target.node->directory != source.node->directory)
        return errno_status("rename", both, source.node->directory ? ENOTDIR : EISDIR);
      if (!target.node->entries.empty()) return errno_status("rename", both, ENOTEMPTY);
    }
    commit({{source.dir, source.name, nullptr}, {target.dir, target.name, source.node}});
    return Status::ok();
  }

  Status unlink(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, find("unlink", path));
    if (place.node == nullptr) return errno_status("unlink", path, ENOENT);
    if (place.node->directory) return errno_status("unlink", path, EISDIR);
    commit({{place.dir, place.name, nullptr}});
    return Status::ok();
  }

  Status link(const std::string& from, const std::string& to) {
    MutexLock lock(mutex_);
    const std::string both = from + " to " + to;
    TRY_ASSIGN(source, find("link", from, both));
    if (source.node == nullptr) return errno_status("link", both, ENOENT);
    if (source.node->directory) return errno_status("link", both, EPERM);
    TRY_ASSIGN(target, find("link", to, both));
    if (target.node != nullptr) return errno_status("link", both, EEXIST);
    commit({{target.dir, target.name, source.node}});
    return Status::ok();
  }

  Result<std::uint64_t> link_count(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, find("stat", path));
    if (place.node == nullptr) return errno_status("stat", path, ENOENT);
    return std::uint64_t{place.node->names};
  }

  Status create_dir(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, find("create directory", path));
    if (place.node != nullptr) return place.node->directory ? Status::ok() : errno_status("create directory", path, EEXIST);
    commit({{place.dir, place.name, std::make_shared<Node>(true)}});
    return Status::ok();
  }

  Status remove_dir(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, directory("remove directory", path));
    if (place.name.empty()) return errno_status("remove directory", path, EBUSY);
    if (!place.node->entries.empty()) return errno_status("remove directory", path, ENOTEMPTY);
    commit({{place.dir, place.name, nullptr}});
    return Status::ok();
  }

  Status sync_dir(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, directory("sync directory", path));
    // Goes from the last change to the first: if a change becomes durable, each earlier change of the same entries must, too.
    std::set<Entry> needed_entries;
    std::vector<bool> needed(pending_.size());
    for (std::size_t i = pending_.size(); i-- > 0;) {
      needed[i] = std::any_of(pending_[i].begin(), pending_[i].end(), [&](const NameChange& c) {
        return c.dir == place.node || needed_entries.contains(Entry(c.dir.get(), c.name));
      });
      if (!needed[i]) continue;
      for (const NameChange& c : pending_[i]) needed_entries.emplace(c.dir.get(), c.name);
    }
    std::vector<Change> still_pending;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (needed[i]) {
        for (const NameChange& c : pending_[i]) Cloner::set_name(&c.dir->durable, c);
      } else {
        still_pending.push_back(std::move(pending_[i]));
      }
    }
    pending_ = std::move(still_pending);
    return Status::ok();
  }

  Result<std::vector<std::string>> list(const std::string& path) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, directory("list", path));
    std::vector<std::string> names;
    for (const auto& [name, node] : place.node->entries) names.push_back(name);
    return names;
  }

  bool exists(const std::string& path) {
    MutexLock lock(mutex_);
    const auto place = find("stat", path);
    return place.is_ok() && place->node != nullptr;
  }

  std::vector<std::string> tree() {
    MutexLock lock(mutex_);
    std::vector<std::string> paths;
    add_tree(*relative_root_, "", &paths);
    add_tree(*absolute_root_, "/", &paths);
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  // Contents -------------------------------------------------------------------------------------------------------------------

  /// Appends all bytes, or as many as the capacity has room for; then returns kNoSpace.
  Status append(Node* node, std::span<const Bytes> pieces, const std::string& path, std::uint64_t* size) {
    MutexLock lock(mutex_);
    const std::uint64_t before = node->file.allocated_bytes();
    bool full = false;
    for (const Bytes piece : pieces) {
      const std::uint64_t taken = node->file.allocated_bytes() - before;
      const std::uint64_t fits = node->file.appendable(piece.size(), free_bytes() - std::min(free_bytes(), taken));
      node->file.append(piece.substr(0, fits));
      *size += fits;
      full = fits < piece.size();
      if (full) break;
    }
    used_ += node->file.allocated_bytes() - before;
    return full ? errno_status("write", path, ENOSPC) : Status::ok();
  }

  Status read(const Node* node, std::uint64_t offset, std::size_t length, char* buffer, const std::string& path) {
    MutexLock lock(mutex_);
    const Bytes data = node->file.data();
    if (offset > data.size() || length > data.size() - offset) {
      return length == 0 ? Status::ok() : ends_early(path, offset, length, data.size());
    }
    data.substr(offset, length).copy(buffer, length);
    return Status::ok();
  }

  void sync(Node* node) {
    MutexLock lock(mutex_);
    node->file.sync();
  }

  std::uint64_t size(const Node* node) {
    MutexLock lock(mutex_);
    return node->file.size();
  }

  /// Runs `change` on the file `path`, and updates the used bytes.
  template <typename Function>
  Status with_file(Bytes operation, const std::string& path, Function change) {
    MutexLock lock(mutex_);
    TRY_ASSIGN(place, find(operation, path));
    if (place.node == nullptr) return errno_status(operation, path, ENOENT);
    if (place.node->directory) return errno_status(operation, path, EISDIR);
    const std::uint64_t before = place.node->file.allocated_bytes();
    change(place.node->file);
    used_ += place.node->file.allocated_bytes() - before;  // the difference may be negative: unsigned arithmetic wraps around
    return Status::ok();
  }

 private:
  static constexpr std::uint64_t kUnlimitedBytes = std::uint64_t{1} << 50;

  void adopt(NodePtr relative_root, NodePtr absolute_root, const Cloner& cloner) {
    MutexLock lock(mutex_);
    relative_root_ = std::move(relative_root);
    absolute_root_ = std::move(absolute_root);
    used_ = cloner.allocated_bytes();
  }

  [[nodiscard]] std::uint64_t free_bytes() const REQUIRES(mutex_) {
    const std::uint64_t total = capacity_ == 0 ? kUnlimitedBytes : capacity_;
    return total > used_ ? total - used_ : 0;
  }

  /// Resolves a path. Returns kNotFound or ENOTDIR if a directory on the way is missing or is not a directory. `shown` is the
  /// path in error messages. A path through `not_below` is refused, since a directory cannot move into itself.
  Result<Place> find(Bytes operation, const std::string& path, Bytes shown = {}, const Node* not_below = nullptr)
      REQUIRES(mutex_) {
    if (shown.empty()) shown = path;
    NodePtr dir = path.starts_with('/') ? absolute_root_ : relative_root_;
    const std::vector<std::string> parts = parts_of(path);
    if (parts.empty()) return Place{.dir = dir, .name = {}, .node = dir};
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto next = dir->entries.find(parts[i]);
      if (next == dir->entries.end()) return errno_status(operation, shown, ENOENT);
      if (!next->second->directory) return errno_status(operation, shown, ENOTDIR);
      dir = next->second;
      if (dir.get() == not_below) return errno_status(operation, shown, EINVAL);
    }
    const auto last = dir->entries.find(parts.back());
    return Place{.dir = dir, .name = parts.back(), .node = last == dir->entries.end() ? nullptr : last->second};
  }

  Result<Place> directory(Bytes operation, const std::string& path) REQUIRES(mutex_) {
    TRY_ASSIGN(place, find(operation, path));
    if (place.node == nullptr) return errno_status(operation, path, ENOENT);
    if (!place.node->directory) return errno_status(operation, path, ENOTDIR);
    return place;
  }

  void commit(Change change) REQUIRES(mutex_) {
    std::vector<NodePtr> replaced;
    for (const NameChange& c : change) {
      if (const auto old = c.dir->entries.find(c.name); old != c.dir->entries.end()) {
        --old->second->names;
        replaced.push_back(old->second);
      }
      if (c.node != nullptr) ++c.node->names;
      Cloner::set_name(&c.dir->entries, c);
    }
    // Releases replaced nodes last: during a rename the file has no name for a moment, but must not be freed.
    for (const NodePtr& node : replaced) release(*node);
    pending_.push_back(std::move(change));
  }

  void release(Node& node) REQUIRES(mutex_) {
    if (node.directory || node.names != 0 || node.handles != 0) return;
    used_ -= node.file.allocated_bytes();
  }

  static void add_tree(const Node& dir, const std::string& prefix, std::vector<std::string>* paths) {
    for (const auto& [name, node] : dir.entries) {
      const std::string path = prefix + name + (node->directory ? "/" : "");
      paths->push_back(path);
      if (node->directory) add_tree(*node, path, paths);
    }
  }

  Mutex mutex_;
  NodePtr relative_root_ GUARDED_BY(mutex_) = std::make_shared<Node>(true);
  NodePtr absolute_root_ GUARDED_BY(mutex_) = std::make_shared<Node>(true);
  std::vector<Change> pending_ GUARDED_BY(mutex_);  // volatile changes that are not durable yet, in order
  std::uint64_t capacity_ GUARDED_BY(mutex_) = 0;
  std::uint64_t used_ GUARDED_BY(mutex_) = 0;
};

class MemoryFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::shared_ptr<Disk> disk, NodePtr node, std::string path)
      : disk_(std::move(disk)), node_(std::move(node)), path_(std::move(path)) {}
  ~Writer() override {
    if (open_) disk_->close(node_.get(), false);
  }

  Status append(std::span<const Bytes> pieces) override {
    if (!open_) return errno_status("write", path_, EBADF);
    std::uint64_t size = size_.load();
    const Status status = disk_->append(node_.get(), pieces, path_, &size);
    size_.store(size);
    return status;
  }
  Status sync() override {
    if (!open_) return errno_status("sync", path_, EBADF);
    disk_->sync(node_.get());
    return Status::ok();
  }
  Status close() override {
    if (open_) disk_->close(node_.get(), false);
    open_ = false;
    return Status::ok();
  }
  [[nodiscard]] std::uint64_t size() const override { return size_.load(); }

 private:
  const std::shared_ptr<Disk> disk_;
  const NodePtr node_;
  const std::string path_;
  bool open_ = true;
  std::atomic<std::uint64_t> size_{0};
};

class MemoryFileSystem::Reader final : public RandomAccessFile {
 public:
  Reader(std::shared_ptr<Disk> disk, NodePtr node, std::string path)
      : disk_(std::move(disk)), node_(std::move(node)), path_(std::move(path)), size_(disk_->size(node_.get())) {}
  ~Reader() override { disk_->close(node_.get(), false); }

  Status read(std::uint64_t offset, std::size_t length, char* buffer) const override {
    return disk_->read(node_.get(), offset, length, buffer, path_);
  }
  Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const override {
    TRY(disk_->read(node_.get(), offset, length, buffer, path_));
    return true;
  }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  const std::shared_ptr<Disk> disk_;
  const NodePtr node_;
  const std::string path_;
  const std::uint64_t size_;
};

class MemoryFileSystem::Lock final : public FileLock {
 public:
  Lock(std::shared_ptr<Disk> disk, NodePtr node) : disk_(std::move(disk)), node_(std::move(node)) {}
  ~Lock() override { disk_->close(node_.get(), true); }

 private:
  const std::shared_ptr<Disk> disk_;
  const NodePtr node_;
};

MemoryFileSystem::MemoryFileSystem() : MemoryFileSystem(std::make_shared<Disk>()) {}
MemoryFileSystem::MemoryFileSystem(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}
MemoryFileSystem::~MemoryFileSystem() = default;

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::crash_clone(std::uint64_t seed, CrashMode mode) const {
  return std::unique_ptr<MemoryFileSystem>(new MemoryFileSystem(disk_->crash(seed, mode)));
}
void MemoryFileSystem::set_capacity(std::uint64_t bytes) { disk_->set_capacity(bytes); }
std::uint64_t MemoryFileSystem::used_bytes() const { return disk_->used_bytes(); }
std::vector<std::string> MemoryFileSystem::tree() const { return disk_->tree(); }

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::create(const std::string& path, const OpenOptions&) {
  TRY_ASSIGN(node, disk_->create(path));
  return std::unique_ptr<WritableFile>(new Writer(disk_, std::move(node), path));
}
Result<std::unique_ptr<RandomAccessFile>> MemoryFileSystem::open(const std::string& path, const OpenOptions&) {
  TRY_ASSIGN(node, disk_->open("open", path));
  return std::unique_ptr<RandomAccessFile>(new Reader(disk_, std::move(node), path));
}
Status MemoryFileSystem::rename(const std::string& from, const std::string& to) { return disk_->rename(from, to); }
Status MemoryFileSystem::unlink(const std::string& path) { return disk_->unlink(path); }
Status MemoryFileSystem::link(const std::string& from, const std::string& to) { return disk_->link(from, to); }
Status MemoryFileSystem::truncate(const std::string& path, std::uint64_t size) {
  return disk_->with_file("truncate", path, [&](MemoryFile& file) { file.truncate(size); });
}
Status MemoryFileSystem::sync_file(const std::string& path) {
  return disk_->with_file("sync", path, [](MemoryFile& file) { file.sync(); });
}
Status MemoryFileSystem::sync_dir(const std::string& dir) { return disk_->sync_dir(dir); }
Status MemoryFileSystem::create_dir(const std::string& dir) { return disk_->create_dir(dir); }
Status MemoryFileSystem::remove_dir(const std::string& dir) { return disk_->remove_dir(dir); }
Result<std::vector<std::string>> MemoryFileSystem::list(const std::string& dir) { return disk_->list(dir); }
Result<std::uint64_t> MemoryFileSystem::file_size(const std::string& path) {
  std::uint64_t size = 0;
  TRY(disk_->with_file("stat", path, [&](const MemoryFile& file) { size = file.size(); }));
  return size;
}
bool MemoryFileSystem::exists(const std::string& path) { return disk_->exists(path); }
Status MemoryFileSystem::punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  return disk_->with_file("punch", path, [&](MemoryFile& file) { file.punch(offset, length); });
}
Result<std::uint64_t> MemoryFileSystem::allocated_bytes(const std::string& path) {
  std::uint64_t bytes = 0;
  TRY(disk_->with_file("stat", path, [&](const MemoryFile& file) { bytes = file.allocated_bytes(); }));
  return bytes;
}
Result<std::uint64_t> MemoryFileSystem::link_count(const std::string& path) { return disk_->link_count(path); }
Result<DiskSpace> MemoryFileSystem::disk_space(const std::string&) { return disk_->space(); }
Result<std::unique_ptr<FileLock>> MemoryFileSystem::lock(const std::string& path) {
  TRY_ASSIGN(node, disk_->open("lock", path, true));
  return std::unique_ptr<FileLock>(new Lock(disk_, std::move(node)));
}

}  // namespace ebbtide
