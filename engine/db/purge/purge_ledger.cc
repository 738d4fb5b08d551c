#include "db/purge/purge_ledger.h"

#include <algorithm>
#include <set>

#include "io/file_names.h"

namespace ebbtide {

void PurgeLedger::leave(Leaving file) {
  MutexLock lock(mutex_);
  entries_.push_back({std::move(file), false, 0});
}

void PurgeLedger::look() {
  std::vector<std::string> there;
  {
    MutexLock lock(mutex_);
    for (const Entry& entry : entries_) {
      if (!entry.unlinked && entry.file.open.expired()) there.push_back(entry.file.name);
    }
  }
  std::set<std::string> gone;
  for (std::string& name : there) {
    if (!fs_.exists(join_path(dir_, name))) gone.insert(std::move(name));
  }
  // Reads the number of removals after the checks of existence, so that it includes the removal of every file found missing.
  const std::uint64_t removals = fs_.removals(), durable = fs_.durable_removals();
  MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.unlinked || gone.count(entry.file.name) == 0) continue;
    entry.unlinked = true;
    entry.removal = removals;
  }
  std::erase_if(entries_, [durable](const Entry& entry) { return entry.unlinked && entry.removal <= durable; });
}

std::vector<PurgeLedger::Leaving> PurgeLedger::leaving() const {
  MutexLock lock(mutex_);
  std::vector<Leaving> files;
  for (const Entry& entry : entries_) files.push_back(entry.file);
  return files;
}

bool PurgeLedger::wants_sync() const {
  const std::uint64_t durable = fs_.durable_removals();
  MutexLock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [durable](const Entry& entry) { return entry.unlinked && entry.removal > durable; });
}

void PurgeLedger::supersede(TreeId tree, Millis floor, Millis now) {
  MutexLock lock(mutex_);
  // emplace() has no effect if the tree has an entry, since the first entry has the oldest floor.
  superseded_.emplace(tree, Superseded{floor, now});
}

void PurgeLedger::rolled(const std::string& old_name, std::uint64_t bytes, const std::map<TreeId, Superseded>& again) {
  MutexLock lock(mutex_);
  Leaving old{old_name, bytes, {}, {}};
  for (const auto& [tree, what] : superseded_) old.floors[tree] = what.floor;
  superseded_ = again;
  if (!old.floors.empty()) entries_.push_back({std::move(old), false, 0});
}

std::map<TreeId, PurgeLedger::Superseded> PurgeLedger::superseded() const {
  MutexLock lock(mutex_);
  return superseded_;
}

}  // namespace ebbtide
