#include "compaction/page_drop_job.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "base/oldest.h"
#include "compaction/page_drops.h"
#include "compaction/plan_inputs.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "table/metadata.h"
#include "tree/apply.h"

namespace ebbtide {
namespace {

class DropJob {
 public:
  DropJob(const Plan& plan, const Version& version, const CompactionContext& context, const CompactionEnv& env)
      : plan_(plan), drop_(std::get<Drop>(plan.action)), version_(version), context_(context), env_(env) {}

  Result<CompactionResult> run() {
    result_.edit.tree = version_.tree;
    TRY_ASSIGN(inputs, resolve_inputs(plan_, version_));
    gone_ = drop_.inputs;
    for (const PlanInput& input : drop_.inputs) {
      for (const FileNum file : input.files) result_.edit.removed_files.emplace_back(input.run, file);
    }
    Status status;
    for (const PageSet& pages : drop_.pages) {
      const auto file = std::find_if(inputs.files.begin(), inputs.files.end(),
                                     [&](const InputFile& f) { return f.meta->data_file == pages.file; });
      status = drop_pages_of(pages, *file);
      if (!status.is_ok()) break;
    }
    if (status.is_ok() && !result_.redescribed.empty()) status = env_.fs->sync_dir(env_.dir);
    if (!status.is_ok()) {
      for (const FileMeta& file : result_.redescribed)
        (void)env_.fs->unlink(join_path(env_.dir, metadata_file_name(file.metadata_file)));
      return status;
    }
    for (const PlanInput& input : gone_) result_.dropped.insert(result_.dropped.end(), input.files.begin(), input.files.end());
    Plan files;
    files.action = Drop{gone_, {}};
    result_.edit.removed_runs = removed_runs(version_.shape(), files);
    return std::move(result_);
  }

 private:
  Status drop_pages_of(const PageSet& pages, const InputFile& file) {
    if (env_.abort != nullptr && env_.abort->load(std::memory_order_relaxed)) return Status::aborted("");
    if (env_.may_write) TRY(env_.may_write(file.meta->metadata_bytes));
    TRY_ASSIGN(table, env_.open_table(*file.meta));
    if (pages.whole.empty() && pages.parts.empty() && pages.renew_names) return renew_names_of(*table, file);
    TRY_ASSIGN(birth, oldest_birth_of(pages, *table, file.meta->stats));
    bool still_covered = covers_others(*table, pages, file.meta->stats.applied_seq);
    PageDropRequest request{.whole = pages.whole, .parts = pages.parts};
    request.judge = [&](const PageFence& page, const Entry& entry) {
      const EntryVerdict verdict = judge(*table, file, page, entry);
      still_covered |= verdict.fate == EntryFate::kStays && version_.records->covers(entry.delete_key, entry.seq, kMaxSeqNum);
      return verdict;
    };
    request.applied_seq = [&] { return still_covered ? SeqNum{0} : version_.records->newest(); };
    request.renew_names = pages.renew_names;
    const FileNum number = env_.new_file();
    TRY_ASSIGN(outcome, drop_pages(*table, request, *env_.fs, env_.dir, number));
    take(std::move(outcome), file, number, birth, !pages.parts.empty());
    return Status::ok();
  }

  /// Returns the oldest birth of the deletes that the drop purges. Returns kInvalidArgument if the table lacks one of the pages.
  /// A page with delete debts may also have older versions of the same keys, whose births are the births of the debts.
  [[nodiscard]] Result<Millis> oldest_birth_of(const PageSet& pages, const TableInspector& table, const TableStats& stats) const {
    Millis birth = 0;
    for (const auto* list : {&pages.whole, &pages.parts}) {
      for (const std::uint32_t p : *list) {
        if (p >= table.page_count())
          return Status::invalid_argument("a plan names page " + std::to_string(p) + ", which its table does not have");
        const PageFence page = table.page_fence(p);
        birth = older(birth, birth_of(page, *version_.records, context_.now));
        if ((page.flags & kPageHasDebts) != 0) birth = older(birth, stats.oldest_debt);
      }
    }
    return birth;
  }

  /// Judges an entry of a page that is dropped in part. A tombstone is not needed if older runs' filters deny the key.
  EntryVerdict judge(const TableInspector& table, const InputFile& file, const PageFence& page, const Entry& entry) {
    const bool nothing_older = page.single_versions && finality_below_run(file.run).is_final(table.tile_range(page.tile));
    EntryVerdict verdict = judge_entry(entry, *version_.records, context_.visible_seq, nothing_older);
    const bool hides = verdict.fate == EntryFate::kBecomesTombstone;
    if (hides && page.single_versions && absent_below(file.run, entry.key)) verdict = {EntryFate::kGoes, 0};
    return verdict;
  }

  /// Adds the result of one file's drop to the edit. `number` is the number of its new metadata file. `in_part`: some pages were
  /// to be dropped in part.
  void take(PageDropOutcome outcome, const InputFile& file, FileNum number, Millis birth, bool in_part) {
    result_.bytes_read += outcome.reads.bytes_read;
    const bool unchanged = outcome.entries_gone == 0;  // the pages to drop in part had no dead entry
    if (in_part && !outcome.nothing_left) result_.parts_done.push_back(unchanged ? file.meta->metadata_file : number);
    if (unchanged) return;
    result_.pages_whole += outcome.pages_whole;
    result_.pages_in_part += outcome.pages_in_part;
    result_.edit.removed_files.emplace_back(file.run_id, file.meta->data_file);
    if (outcome.nothing_left) return gone(file);
    FileMeta after = described(*file.meta, outcome);
    after.dead_birth = older(file.meta->dead_birth, birth);
    if (!outcome.names_renewed) after.lingering_birth = file.meta->lingering_birth;
    if (outcome.names_may_linger) after.lingering_birth = older(after.lingering_birth, birth);
    redescribe(file, std::move(after), std::move(outcome.table));
  }

  /// Returns true if records above `applied_seq` may cover an entry in a page that is not in `pages`.
  [[nodiscard]] bool covers_others(const TableInspector& table, const PageSet& pages, SeqNum applied_seq) const {
    const auto has = [](const std::vector<std::uint32_t>& list, std::uint32_t p) {
      return std::binary_search(list.begin(), list.end(), p);
    };
    for (std::uint32_t p = 0; p < table.page_count(); ++p) {
      if (has(pages.whole, p) || has(pages.parts, p)) continue;
      const PageFence page = table.page_fence(p);
      if (page.entries != 0 && some_covered(page, *version_.records, applied_seq)) return true;
    }
    return false;
  }

  /// Returns true if no table of an older run has a version of the key, according to bounds and filters. Does no I/O: a filter
  /// that is not in memory denies nothing.
  [[nodiscard]] bool absent_below(std::size_t run, Bytes key) const {
    const LookupKey lookup{key, hash_key(key)};
    for (++run; run < version_.runs.size(); ++run) {
      const auto& files = version_.runs[run].files;
      auto file =
          std::partition_point(files.begin(), files.end(), [&](const FileMetaPtr& f) { return f->stats.ends_before(key); });
      for (; file != files.end() && Bytes((*file)->stats.smallest) <= key; ++file) {
        std::shared_ptr<TableReader> table;
        if (env_.find_table) {
          table = env_.find_table(**file);
        } else if (auto opened = env_.open_table(**file); opened.is_ok()) {
          table = std::move(opened).value();
        }
        if (table == nullptr || table->may_contain(lookup, *table->filter())) return false;
      }
    }
    return true;
  }

  Status renew_names_of(const TableReader& table, const InputFile& file) {
    TRY_ASSIGN(outcome, renew_names(table, *env_.fs, env_.dir, env_.new_file()));
    result_.bytes_read += outcome.reads.bytes_read;
    result_.edit.removed_files.emplace_back(file.run_id, file.meta->data_file);
    FileMeta after = described(*file.meta, outcome);
    after.dead_birth = file.meta->dead_birth;
    redescribe(file, std::move(after), std::move(outcome.table));
    return Status::ok();
  }

  void redescribe(const InputFile& file, FileMeta after, std::shared_ptr<TableReader> table) {
    if (env_.keep_table) env_.keep_table(after, std::move(table));
    result_.bytes_written += after.metadata_bytes;
    result_.redescribed.push_back(std::move(after));
    result_.edit.added_files.emplace_back(file.run_id, result_.redescribed.back());
  }

  void gone(const InputFile& file) {
    const auto input = std::find_if(gone_.begin(), gone_.end(), [&](const PlanInput& i) { return i.run == file.run_id; });
    if (input == gone_.end()) {
      gone_.push_back({file.run_id, {file.meta->data_file}});
    } else {
      input->files.push_back(file.meta->data_file);
    }
  }

  static FileMeta described(const FileMeta& before, const PageDropOutcome& outcome) {
    FileMeta after = meta_of(outcome.built);
    after.punched_bytes = before.punched_bytes;
    return after;
  }

  /// Returns the Finality of a run: the ranges without files in older runs. The first call for a run takes O(files), so it is
  /// made only when an entry of the run is judged.
  const Finality& finality_below_run(std::size_t run) {
    const auto at = finality_.find(run);
    return at != finality_.end() ? at->second : finality_.emplace(run, finality_below(version_, run)).first->second;
  }

  const Plan& plan_;
  const Drop& drop_;
  const Version& version_;
  const CompactionContext& context_;
  const CompactionEnv& env_;
  std::vector<PlanInput> gone_;               // files that are dropped as a whole
  std::map<std::size_t, Finality> finality_;  // by index of a run: the results of finality_below_run()
  CompactionResult result_;
};

}  // namespace

Result<CompactionResult> execute_drop(const Plan& plan, const Version& version, const CompactionContext& context,
                                      const CompactionEnv& env) {
  return DropJob(plan, version, context, env).run();
}

}  // namespace ebbtide
