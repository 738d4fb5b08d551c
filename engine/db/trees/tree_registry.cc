#include "db/trees/tree_registry.h"

#include <algorithm>
#include <tuple>

#include "base/invariant.h"

namespace ebbtide {
namespace {

// Largest number of small frozen memtables of a tree that wait until they are flushed together with a full one. The number is
// small, since readers search each of them.
constexpr std::size_t kMostResting = 6;

/// Returns the settings that determine the filters of existing files.
auto filter_settings(const TreeSettings& s) {
  return std::tuple(s.filter_allocation, s.filter_bits_per_key, s.filter_memory, s.filter_lookups);
}

std::uint64_t largest_memtable_of(const std::vector<TreeSettings>& databases, const TreeRegistry::IndexSettings& indexes) {
  std::uint64_t largest = 0;
  for (const TreeSettings& settings : databases) largest = std::max(largest, settings.memtable_size);
  for (const auto& [number, settings] : indexes) largest = std::max(largest, settings.memtable_size);
  return largest;
}

/// Returns the stamp mode of the index trees of a database. An index entry must have the stamp of the key that it indexes, even
/// if it is written later or expires earlier than the key. So the engine cannot derive this stamp from the index entry.
StampMode index_stamp(StampMode database) { return database == StampMode::kWriteTime ? StampMode::kGiven : StampMode::kExplicit; }

const TreePtr kUnmapped;

}  // namespace

TreeRegistry::TreeRegistry(Env env, std::vector<TreeSettings> settings, IndexSettings index_settings)
    : env_(std::move(env)),
      databases_(static_cast<DatabaseId>(settings.size())),
      settings_(std::move(settings)),
      index_settings_(std::move(index_settings)),
      mapping_(databases_),
      largest_memtable_size_(largest_memtable_of(settings_, index_settings_)) {}

std::vector<TreePtr> TreeRegistry::live_trees() {
  MutexLock lock(commit_mutex);
  std::vector<TreePtr> trees;
  for (const auto& [id, tree] : live_) trees.push_back(tree);
  return trees;
}

TreePtr TreeRegistry::tree_with(TreeId id) {
  MutexLock lock(commit_mutex);
  if (const auto at = live_.find(id); at != live_.end()) return at->second;
  for (const TreePtr& tree : dropped_) {
    if (tree->id == id) return tree;
  }
  return nullptr;
}

TreePtr TreeRegistry::tree_of(DatabaseId database) {
  MutexLock lock(commit_mutex);
  return has_number(database) && !mapping_.empty() ? mapped(database) : nullptr;
}

std::vector<std::pair<DatabaseId, TreeId>> TreeRegistry::mapping() {
  MutexLock lock(commit_mutex);
  std::vector<std::pair<DatabaseId, TreeId>> out;
  for (const DatabaseId number : mapped_numbers()) out.emplace_back(number, mapped(number)->id);
  return out;
}

StampMode TreeRegistry::configured_stamp_mode(DatabaseId database) {
  MutexLock lock(commit_mutex);
  return settings_of(database).stamp;
}

std::string TreeRegistry::configured_policy(DatabaseId database) {
  MutexLock lock(commit_mutex);
  return has_number(database) ? settings_of(database).policy.name : std::string();
}

std::shared_ptr<const TreeView> TreeRegistry::view_of(const Tree& tree) {
  MutexLock lock(state_mutex);
  return tree.view_owner;
}

std::shared_ptr<const TablesView> TreeRegistry::live_tables(TreeId id) {
  const TreePtr tree = tree_with(id);
  MutexLock lock(state_mutex);
  return tree == nullptr || tree->dropped || tree->view_owner == nullptr ? nullptr : tree->view_owner->tables;
}

std::vector<std::shared_ptr<const TablesView>> TreeRegistry::live_tables() {
  const std::vector<TreePtr> trees = live_trees();
  std::vector<std::shared_ptr<const TablesView>> tables;
  MutexLock lock(state_mutex);
  for (const TreePtr& tree : trees) {
    if (tree->view_owner != nullptr) tables.push_back(tree->view_owner->tables);
  }
  return tables;
}

std::shared_ptr<Lease> TreeRegistry::lease(const TreePtr& tree, LeaseRegistry& leases, const std::function<SeqNum()>& visible_seq,
                                           const std::function<Millis()>& now) {
  if (tree == nullptr || tree->dropped) return nullptr;
  MutexLock lock(state_mutex);
  return tree->view_owner == nullptr ? nullptr : leases.lease(tree->view_owner, visible_seq(), now());
}

std::vector<TreeLoad> TreeRegistry::loads(const std::function<bool(TreeId)>& compactions_fail) {
  std::vector<TreeLoad> loads;
  const std::vector<TreePtr> trees = live_trees();
  MutexLock lock(state_mutex);
  for (const TreePtr& tree : trees) {
    if (tree->view_owner == nullptr) continue;
    tree->inherited_runs =
        std::clamp(tree->view_owner->tables->level0_runs - tree->policy->slowdown_runs(), 0, tree->inherited_runs);
    loads.push_back({tree, tree->view_owner, tree->policy, tree->settings.file_size, tree->settings.memtable_size,
                     tree->settings.delete_io_budget, compactions_fail(tree->id), tree->inherited_runs, !tree->deadlines.never(),
                     tree->deadlines.shortest()});
  }
  return loads;
}

// --- databases

TreeSettings TreeRegistry::settings_of(DatabaseId database) const {
  if (!is_index_tree(database)) return settings_[database];
  const DatabaseId owner = owner_of(database);
  const auto own = index_settings_.find(database);
  TreeSettings settings = own == index_settings_.end() ? settings_[owner] : own->second;
  if (own == index_settings_.end()) settings.filter_bits_per_key = 0, settings.filter_memory = 0;
  if (const auto options = index_options_.find(database); options != index_options_.end()) {
    settings.points_at = options->second.points_at;
    if (options->second.policy) settings.policy = *options->second.policy;
  }
  settings.delete_deadline = settings_[owner].delete_deadline;
  settings.stamp = index_stamp(mapping_[owner] == nullptr ? settings_[owner].stamp : mapping_[owner]->stamp);
  return settings;
}

const TreePtr& TreeRegistry::mapped_index(DatabaseId number) const {
  const auto at = indexes_.find(number);
  return at == indexes_.end() ? kUnmapped : at->second;
}

std::vector<DatabaseId> TreeRegistry::mapped_numbers() const {
  std::vector<DatabaseId> numbers;
  for (DatabaseId d = 0; d < mapping_.size(); ++d) {
    if (mapping_[d] != nullptr) numbers.push_back(d);
  }
  for (const auto& [number, tree] : indexes_) numbers.push_back(number);
  return numbers;
}

void TreeRegistry::swap(DatabaseId a, DatabaseId b) {
  std::swap(mapping_[a], mapping_[b]);
  const bool other_filters = filter_settings(settings_[a]) != filter_settings(settings_[b]);
  for (const DatabaseId d : {a, b}) {
    if (mapping_[d] == nullptr) continue;
    adopt_settings(*mapping_[d], d);
    if (other_filters && settled_) env_.filters_changed(mapping_[d]);
  }
}

void TreeRegistry::change_settings(DatabaseId database, const TreeSettings& settings) {
  std::map<DatabaseId, TreeSettings> before;
  for (const auto& [number, tree] : indexes_) {
    if (number == database || owner_of(number) == database) before.emplace(number, settings_of(number));
  }
  if (!is_index_tree(database)) before.emplace(database, settings_[database]);
  (is_index_tree(database) ? index_settings_[database] : settings_[database]) = settings;
  largest_memtable_size_ = largest_memtable_of(settings_, index_settings_);
  for (const auto& [number, old] : before) renew_settings(number, old);
}

void TreeRegistry::set_index_options(DatabaseId tree, const IndexTreeOptions& options) {
  const TreeSettings before = settings_of(tree);
  index_options_[tree] = options;
  renew_settings(tree, before);
}

void TreeRegistry::renew_settings(DatabaseId database, const TreeSettings& before) {
  const TreePtr& tree = mapped(database);
  if (tree == nullptr) return;
  adopt_settings(*tree, database);
  if (filter_settings(before) != filter_settings(settings_of(database))) env_.filters_changed(tree);
}

// Settings belong to the number of a database. A tree that SWAPDB moves to another number takes that number's settings, as it
// would at the next start. Only the stamp mode stays with the tree. The reasons are in
// engine/docs/decisions/0026-settings-go-by-number.md.
void TreeRegistry::adopt_settings(Tree& tree, DatabaseId database) {
  const TreeSettings settings = settings_of(database);
  auto policy = make_policy(settings.policy);
  ASSERT_MSG(policy.is_ok(), "settings were validated when they came in");
  MutexLock lock(state_mutex);
  const PolicySettings &old = tree.settings.policy, &now = settings.policy;
  const bool changed = tree.policy != nullptr && (old.name != now.name || old.parameters != now.parameters);
  tree.settings = settings;
  tree.settings.stamp = tree.stamp;
  tree.memtable_size = tree.settings.memtable_size;
  tree.policy = std::move(policy).value();
  if (changed && tree.view_owner != nullptr) {
    tree.inherited_runs = std::max(0, tree.view_owner->tables->level0_runs - tree.policy->slowdown_runs());
  }
  if (!settled_) return;  // settle() will apply the deadline
  const DeadlineRule before = tree.deadlines;
  tree.deadlines.change(env_.now(), tree.settings.delete_deadline);
  if (tree.deadlines != before) deadlines_changed_ = true;
}

void TreeRegistry::settle() {
  settled_ = true;
  for (const DatabaseId number : mapped_numbers()) {
    MutexLock lock(state_mutex);
    continue_deadlines(*mapped(number), settings_of(number).delete_deadline);
  }
}

// Continues the deadline that is in the manifest, as if there had been no restart. If the configured deadline is another one, the
// change takes effect now.
void TreeRegistry::continue_deadlines(Tree& tree, Millis configured) {
  if (const auto& known = tree.view_owner->tables->version->deadlines; known) tree.deadlines = *known;
  tree.deadlines.change(env_.now(), configured);
}

void TreeRegistry::clear() {
  mapping_.clear();
  indexes_.clear();
  live_.clear();
  dropped_.clear();
}

// --- trees

TreePtr TreeRegistry::live_tree(TreeId id) const {
  const auto at = live_.find(id);
  return at == live_.end() ? nullptr : at->second;
}

TreePtr TreeRegistry::make(TreeId id, DatabaseId database, StampMode stamp) {
  auto tree = std::make_shared<Tree>(*env_.clock);
  tree->id = id;
  tree->stamp = stamp;
  tree->deadlines = DeadlineRule(settings_of(database).delete_deadline);
  adopt_settings(*tree, database);
  auto view = std::make_shared<TreeView>();
  view->tree = id;
  view->stamp = stamp;
  view->recorded = tree->recorded;
  view->lookups = tree->lookups;
  view->memtables.push_back(std::make_shared<MemTable>(tree->memtable_size));
  auto version = std::make_shared<Version>();
  version->tree = id;
  version->stamp = stamp;
  auto tables = std::make_shared<TablesView>();
  tables->version = std::move(version);
  view->tables = std::move(tables);
  tree->active = view->memtables.front().get();
  live_[id] = tree;
  MutexLock lock(state_mutex);
  publish(*tree, std::move(view));
  return tree;
}

void TreeRegistry::drop(TreePtr tree, Millis time) {
  tree->dropped_at = time;
  tree->dropped = true;
  tree->jobs.abort_all();
  {
    MutexLock lock(state_mutex);
    if (!settled_) continue_deadlines(*tree, tree->settings.delete_deadline);
    // The replay of the log does not know the deadline of a tree that is not in the manifest.
    if (settled_ || tree->view_owner->tables->version->deadlines) dropped_deadlines_[tree->id] = tree->deadlines;
  }
  live_.erase(tree->id);
  dropped_.push_back(std::move(tree));
  pending_drops_ += 1;
}

bool TreeRegistry::is_empty(const Tree& tree) {
  if (tree.active_first_seq != 0) return false;
  MutexLock lock(state_mutex);
  return tree.frozen.empty() && tree.view_owner->tables->runs.empty();
}

void TreeRegistry::retire(TreePtr tree) {
  std::shared_ptr<const TreeView> view;
  {
    MutexLock lock(state_mutex);
    tree->work = nullptr;
    tree->frozen.clear();
    view = std::exchange(tree->view_owner, nullptr);
  }
  env_.epoch->retire([tree = std::move(tree), view = std::move(view)] {});
  env_.epoch->collect();
}

// --- memtables

void TreeRegistry::mark_active(TreeId id, SeqNum first, SeqNum last) {
  const auto it = live_.find(id);
  if (it == live_.end()) return;  // a later operation of the same batch empties the database, so the tree is not live
  Tree& tree = *it->second;
  if (tree.active_first_seq == 0) tree.active_first_seq = first;
  tree.active_last_seq = last;
}

void TreeRegistry::freeze(Tree& tree) {
  if (tree.dropped) return;  // the tree's view may be retired
  {
    MutexLock lock(state_mutex);
    tree.frozen_rest = false;
    if (tree.active_first_seq != 0) {
      auto view = std::make_shared<TreeView>(*tree.view_owner);
      freeze_active(tree, view.get());
      publish(tree, std::move(view));
    }
  }
  report_frozen(tree);
}

void TreeRegistry::freeze_quietly(Tree& tree) {
  MutexLock lock(state_mutex);
  auto view = std::make_shared<TreeView>(*tree.view_owner);
  freeze_active(tree, view.get());
  publish(tree, std::move(view));
}

void TreeRegistry::adopt(Tree& tree, std::shared_ptr<MemTable> memtable, SeqNum first, SeqNum last) {
  {
    MutexLock lock(state_mutex);
    const bool may_rest = tree.frozen.empty() || tree.frozen_rest;
    auto view = std::make_shared<TreeView>(*tree.view_owner);
    if (tree.active_first_seq != 0) freeze_active(tree, view.get());
    tree.frozen.push_back({memtable, first, last});
    view->memtables.insert(view->memtables.begin() + 1, std::move(memtable));
    publish(tree, std::move(view));
    std::size_t bytes = 0;
    for (const FrozenMemTable& frozen : tree.frozen) bytes += frozen.memtable->memory_bytes();
    tree.frozen_rest = may_rest && bytes < tree.memtable_size && tree.frozen.size() <= kMostResting;
  }
  report_frozen(tree);
}

void TreeRegistry::freeze_active(Tree& tree, TreeView* view) {
  tree.frozen.push_back({view->memtables.front(), tree.active_first_seq, tree.active_last_seq});
  view->memtables.insert(view->memtables.begin(), std::make_shared<MemTable>(tree.memtable_size));
  tree.active = view->memtables.front().get();
  tree.active_first_seq = tree.active_last_seq = 0;
}

void TreeRegistry::report_frozen(const Tree& tree) {
  if (const auto it = live_.find(tree.id); it != live_.end()) env_.frozen(it->second);
}

void TreeRegistry::publish(Tree& tree, std::shared_ptr<const TreeView> view) {
  std::shared_ptr<const TreeView> old = std::exchange(tree.view_owner, std::move(view));
  tree.view.store(tree.view_owner.get(), std::memory_order_seq_cst);
  if (old != nullptr) env_.epoch->retire([old = std::move(old)] {});
}

// --- the manifest

// Adds the creations of trees before other changes, which may refer to the new trees.
MappingChanges TreeRegistry::collect_changes(const VersionSet& versions, VersionEdit* edit) {
  MutexLock lock(commit_mutex);
  MappingChanges changes;
  if (!mapping_changed()) return changes;
  changes.seq = mapping_seq_;
  changes.dropped = dropped_;
  for (const auto& [id, tree] : live_) {
    if (versions.tree(id) != nullptr) continue;
    TreeEdit create;
    create.tree = id;
    create.create = true;
    create.stamp = tree->stamp;
    edit->trees.push_back(std::move(create));
  }
  for (const TreePtr& tree : changes.dropped) {
    if (versions.tree(tree->id) == nullptr) continue;
    TreeEdit drop;
    drop.tree = tree->id;
    drop.drop = true;
    edit->trees.push_back(std::move(drop));
  }
  std::map<DatabaseId, TreeId> now;
  for (const auto& [number, before] : versions.databases()) now[number] = kNoTree;
  for (const DatabaseId number : mapped_numbers()) now[number] = mapped(number)->id;
  for (const auto& [number, tree] : now) {
    const auto it = versions.databases().find(number);
    if (tree != (it == versions.databases().end() ? kNoTree : it->second)) edit->databases.emplace_back(number, tree);
  }
  edit->databases_seq = edit->last_seq = changes.seq;
  return changes;
}

void TreeRegistry::changes_committed(const MappingChanges& changes) {
  MutexLock lock(commit_mutex);
  committed_seq_ = changes.seq;
  for (const TreePtr& tree : changes.dropped) std::erase(dropped_, tree);
  pending_drops_ -= changes.dropped.size();
}

SeqNum TreeRegistry::oldest_needed(const std::map<const Tree*, std::size_t>& flushed, const MappingChanges& changes) {
  MutexLock commit(commit_mutex);
  MutexLock lock(state_mutex);
  SeqNum oldest = env_.last_seq() + 1;
  const SeqNum committed = std::max(committed_seq_, changes.seq);
  if (committed < mapping_seq_) oldest = committed + 1;
  const auto look_at = [&](const Tree& tree) {
    const auto it = flushed.find(&tree);
    const std::size_t count = it == flushed.end() ? 0 : it->second;
    if (tree.frozen.size() > count) oldest = std::min(oldest, tree.frozen[count].first_seq);
    if (tree.active_first_seq != 0) oldest = std::min(oldest, tree.active_first_seq);
  };
  for (const auto& [id, tree] : live_) look_at(*tree);
  for (const TreePtr& tree : dropped_) {
    if (std::find(changes.dropped.begin(), changes.dropped.end(), tree) == changes.dropped.end()) look_at(*tree);
  }
  return oldest;
}

// --- delete deadlines

void TreeRegistry::add_deadlines(const VersionSet& versions, VersionEdit* edit) {
  deadlines_changed_ = false;  // cleared before the rules are read, so that a concurrent change sets the flag again
  for (const TreePtr& tree : live_trees()) {
    DeadlineRule rule;
    {
      MutexLock lock(state_mutex);
      rule = tree->deadlines;
    }
    const VersionPtr known = versions.tree(tree->id);
    if (known != nullptr && known->deadlines == rule) continue;
    auto change = std::find_if(edit->trees.begin(), edit->trees.end(), [&](const TreeEdit& e) { return e.tree == tree->id; });
    if (change == edit->trees.end()) {
      if (known == nullptr) continue;  // the edit that creates the tree will contain the rule
      change = edit->trees.insert(change, TreeEdit{});
      change->tree = tree->id;
    }
    change->deadlines = rule;
  }
}

void TreeRegistry::forget_deadline_changes(Tree& tree, Millis floor) {
  if (tree.deadlines.forget(floor)) deadlines_changed_ = true;
}

}  // namespace ebbtide
