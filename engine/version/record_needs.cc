#include "version/record_needs.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/oldest.h"

namespace ebbtide {
namespace {

// A record subsumed by a newer record is merged into it if their births are close, or if there are many records. Entries that
// only the newer record covers then get the deadline of the older one.
constexpr Millis kSameTime = 60'000;
constexpr std::size_t kFewRecords = 64;

/// Finds the records of one tree that can be removed or merged.
class Tidying {
 public:
  Tidying(const RecordSet& records, const RecordNeeds& needs) : records_(records), needs_(needs) {}

  RecordChanges run(const RecordSuspects& suspects) {
    retire(suspects);
    if (records_.size() - gone_.size() <= kFewRecords) {
      merge_few();
    } else {
      merge_many(suspects.all_merge ? records_.records() : suspects.arrived);
    }
    changes_.removed.insert(changes_.removed.end(), gone_.begin(), gone_.end());
    std::sort(changes_.removed.begin(), changes_.removed.end());
    return std::move(changes_);
  }

 private:
  void retire(const RecordSuspects& suspects) {
    const auto wanted = [this](const RecordPart& part) { return !needs_.needs_all(part); };
    const auto visit = [this](const Record& record) {
      if (!needs_.needs(record)) gone_.insert(record.seq);
    };
    if (suspects.all_needs) return records_.visit_over(0, kMaxDeleteKey, 0, wanted, visit);
    for (const Record& file : suspects.freed) records_.visit_over(file.lo, file.hi - 1, file.seq, wanted, visit);
    for (const Record& record : suspects.arrived) visit(record);
  }

  void merge_few() {
    std::vector<Record> stay = records_.records();
    std::erase_if(stay, [this](const Record& r) { return gone_.contains(r.seq); });
    const std::vector<Record> merged = merge_subsumed(stay, kSameTime);
    auto at = merged.begin();
    for (const Record& record : stay) {
      if (at == merged.end() || at->seq != record.seq) {
        gone_.insert(record.seq);
        continue;
      }
      if (!(*at == record)) change(*at);
      ++at;
    }
  }

  // The newest records come first. If record A subsumes B and B subsumes C, then A subsumes C, so C is examined once.
  void merge_many(std::vector<Record> arrived) {
    std::sort(arrived.begin(), arrived.end(), BySeq::before);
    for (auto at = arrived.rbegin(); at != arrived.rend(); ++at) {
      if (gone_.contains(at->seq)) continue;
      Record record = *at;
      records_.visit_subsumed(record, [&](const Record& subsumed) {
        if (gone_.insert(subsumed.seq).second) record.birth = older(record.birth, subsumed.birth);
      });
      if (!(record == *at)) change(record);
    }
  }

  void change(const Record& record) {
    changes_.removed.push_back(record.seq);
    changes_.added.push_back(record);
  }

  const RecordSet& records_;
  const RecordNeeds& needs_;
  RecordChanges changes_;
  std::unordered_set<SeqNum> gone_;
};

/// The files that edits of one tree remove and add, as intervals, and the records that these edits add.
struct ChangedNeeds {
  std::vector<Record> removed, added, records;

  void note(const TreeEdit& edit, const Version* before) {
    std::set<FileNum> gone;
    for (const auto& [run, file] : edit.removed_files) gone.insert(file);
    // An earlier edit of this tree may have added the file that this edit removes.
    std::erase_if(added, [&](const Record& file) { return gone.erase(file.birth) != 0; });
    for (const FileNum num : gone) {
      Record interval;
      const FileMetaPtr file = before == nullptr ? nullptr : before->find(num);
      if (file != nullptr && RecordNeeds::interval_of(*file, &interval)) removed.push_back(interval);
    }
    for (const auto& [run, file] : edit.added_files) {
      Record interval;
      if (RecordNeeds::interval_of(file, &interval)) added.push_back(interval);
    }
    records.insert(records.end(), edit.added_records.begin(), edit.added_records.end());
  }

  /// Leaves out files that are removed and added unchanged, as when they are moved to another run.
  void leave_out_moved() {
    const auto before = [](const Record& a, const Record& b) {
      return std::tie(a.birth, a.lo, a.hi, a.seq) < std::tie(b.birth, b.lo, b.hi, b.seq);
    };
    std::sort(removed.begin(), removed.end(), before);
    std::sort(added.begin(), added.end(), before);
    std::vector<Record> gone, fresh;
    std::set_difference(removed.begin(), removed.end(), added.begin(), added.end(), std::back_inserter(gone), before);
    std::set_difference(added.begin(), added.end(), removed.begin(), removed.end(), std::back_inserter(fresh), before);
    removed = std::move(gone);
    added = std::move(fresh);
  }
};

void add_changes(const RecordChanges& changes, TreeEdit* edit) {
  // If the edit adds a record that is also to be removed, the edit does not add it, and needs no removal.
  const std::unordered_set<SeqNum> removed(changes.removed.begin(), changes.removed.end());
  std::unordered_set<SeqNum> never_added;
  std::erase_if(edit->added_records, [&](const Record& record) {
    if (!removed.contains(record.seq)) return false;
    never_added.insert(record.seq);
    return true;
  });
  for (const SeqNum seq : changes.removed) {
    if (!never_added.contains(seq)) edit->removed_records.push_back(seq);
  }
  edit->added_records.insert(edit->added_records.end(), changes.added.begin(), changes.added.end());
}

VersionPtr tree_in(const std::map<TreeId, VersionPtr>& trees, TreeId id) {
  const auto at = trees.find(id);
  return at == trees.end() ? nullptr : at->second;
}

}  // namespace

bool RecordNeeds::interval_of(const FileMeta& file, Record* out) {
  const TableStats& stats = file.stats;
  const DeleteKey max = std::min(stats.max_delete_key, kMaxDeleteKey);
  if (stats.min_delete_key > max) return false;
  *out = {stats.min_delete_key, max + 1, std::max(stats.min_seq, stats.applied_seq), file.data_file};
  return true;
}

RecordNeeds::RecordNeeds(const Version& version) {
  std::vector<Record> files;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      Record interval;
      if (interval_of(*file, &interval)) files.push_back(interval);
    }
  }
  files_ = files_.changed({}, std::move(files));
}

RecordNeeds RecordNeeds::changed(std::vector<Record> removed, std::vector<Record> added) const {
  RecordNeeds out;
  out.files_ = files_.changed(std::move(removed), std::move(added));
  return out;
}

bool RecordNeeds::needs_over(DeleteKey lo, DeleteKey hi, SeqNum seq) const {
  return files_.walk([&](const RecordPart& p) { return p.min_lo < hi && lo < p.max_hi && p.min_seq < seq; },
                     [&](const Record& file) { return file.lo < hi && lo < file.hi && file.seq < seq; });
}

RecordChanges tidy_records(const RecordSet& records, const RecordNeeds& needs, const RecordSuspects& suspects) {
  return records.empty() ? RecordChanges{} : Tidying(records, needs).run(suspects);
}

RecordChanges tidy_records(const Version& version) {
  return tidy_records(*version.records, RecordNeeds(version), {.all_needs = true, .all_merge = true});
}

bool RecordKeeper::plan(const std::map<TreeId, VersionPtr>& before, const std::map<TreeId, VersionPtr>& after,
                        std::vector<TreeEdit>* edits) {
  planned_.clear();
  bool changes = false;
  std::set<TreeId> done;
  for (auto last = edits->rbegin(); last != edits->rend(); ++last) {
    const TreeId id = last->tree;
    if (!done.insert(id).second) continue;
    const VersionPtr now = tree_in(after, id), was = tree_in(before, id);
    const auto known = needs_.find(id);
    if (now == nullptr) {
      planned_.push_back({id, true, {}});
      continue;
    }
    if (known == needs_.end() && now->records->empty()) continue;
    RecordSuspects suspects;
    RecordNeeds needs;
    ChangedNeeds changed;
    for (const TreeEdit& edit : *edits) {
      if (edit.tree == id) changed.note(edit, was.get());
    }
    changed.leave_out_moved();
    std::erase_if(changed.records, [&](const Record& record) { return now->records->find(record.seq) == nullptr; });
    suspects.arrived = std::move(changed.records);
    suspects.all_merge = was == nullptr || was->records->size() <= kFewRecords;  // few records: mergeable ones may remain
    suspects.all_needs = known == needs_.end();
    suspects.freed = changed.removed;
    needs = suspects.all_needs ? RecordNeeds(*now) : known->second.changed(std::move(changed.removed), std::move(changed.added));
    const RecordChanges found = tidy_records(*now->records, needs, suspects);
    changes |= !found.removed.empty();
    add_changes(found, &*last);
    planned_.push_back({id, false, std::move(needs)});
  }
  return changes;
}

void RecordKeeper::note_committed() {
  for (Planned& planned : planned_) {
    if (planned.dropped) {
      needs_.erase(planned.tree);
    } else {
      needs_[planned.tree] = std::move(planned.needs);
    }
  }
  planned_.clear();
}

}  // namespace ebbtide
