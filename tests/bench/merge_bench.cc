// Measures a merge of one older run and three newer runs, each of which overwrites a quarter of the older one, into a single run.
// Entries have 116 bytes: a key of 16 bytes and a value of 100 bytes that compresses to about half.
//
//   bench_merge <dir> <MiB> [threads] [lz4|zstd|none]
//
// Prints wall and CPU nanoseconds per input entry, and bytes per second. The directory is removed afterwards.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include "base/clock.h"
#include "base/epoch.h"
#include "base/random.h"
#include "compaction/executor.h"
#include "compaction/table_files.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kEntryBytes = 116;

/// Returns ascending keys, `step` apart, which are made on demand.
class Generator final : public InternalIterator {
 public:
  Generator(std::uint64_t count, std::uint64_t step, SeqNum seq) : count_(count), step_(step), seq_(seq), random_(seq) {}
  void seek_to_first() override { place(0); }
  void seek_to_last() override { std::abort(); }
  void seek(Bytes) override { std::abort(); }
  void seek_before(Bytes) override { std::abort(); }
  void next() override { place(at_ + 1); }
  void prev() override { std::abort(); }

 private:
  void place(std::uint64_t i) {
    at_ = i;
    valid_ = i < count_;
    if (!valid_) return;
    std::snprintf(key_, sizeof key_, "user%012llu", static_cast<unsigned long long>(i * step_));
    for (std::size_t b = 0; b < 48; b += 8) {
      const std::uint64_t word = random_.next();
      __builtin_memcpy(value_ + b, &word, 8);
    }
    entry_ = Entry{};
    entry_.key = Bytes(key_, 16);
    entry_.value = Bytes(value_, 100);
    entry_.seq = seq_ + i;
    entry_.delete_key = 1'700'000'000'000 + i / 100;
  }
  const std::uint64_t count_, step_;
  const SeqNum seq_;
  std::uint64_t at_ = 0;
  Random random_;
  char key_[32] = {};
  char value_[100] = {};
};

void die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int run(const std::string& dir, std::uint64_t mib, unsigned threads, Compression compression) {
  FileSystem& fs = *posix_file_system();
  if (Status s = fs.create_dir(dir); !s.is_ok()) die(s);
  Epoch epoch;
  BlockCache cache(std::uint64_t{1} << 20, epoch);
  std::atomic<FileNum> next_file{1};
  CompactionEnv env;
  env.fs = &fs;
  env.dir = dir;
  env.new_file = [&] { return next_file++; };
  std::mutex mutex;
  std::vector<std::pair<FileNum, std::shared_ptr<TableReader>>> open;  // a database has its tables open, too
  env.open_table = [&](const FileMeta& m) -> Result<std::shared_ptr<TableReader>> {
    std::lock_guard lock(mutex);
    for (auto& [file, table] : open) {
      if (file == m.data_file) return table;
    }
    TRY_ASSIGN(table, TableReader::open({&fs, &cache, dir, false}, files_of(m)));
    open.emplace_back(m.data_file, table);
    return table;
  };
  CompactionContext context;
  context.settings.compression = context.settings.compression_last_level = compression;
  context.now = 1'800'000'000'000;

  const std::uint64_t oldest = (mib << 20) / kEntryBytes * 4 / 7;
  auto empty = std::make_shared<Version>();
  empty->tree = 1;
  VersionPtr version = empty;
  SeqNum seq = 1;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t count = i == 0 ? oldest : oldest / 4;
    Generator entries(count, i == 0 ? 1 : 4, seq);
    seq += count;
    context.visible_seq = seq;
    auto flushed = flush_to_run({{&entries, nullptr}}, *version, context, env);
    if (!flushed.is_ok()) die(flushed.status());
    auto next = apply(*version, flushed->edit);
    if (!next.is_ok()) die(next.status());
    version = next.value();
  }

  Merge merge;
  for (const Run& run : version->runs) {
    PlanInput input{run.id, {}};
    for (const FileMetaPtr& file : run.files) input.files.push_back(file->data_file);
    merge.inputs.push_back(std::move(input));
  }
  merge.target = {0, 1};
  Plan plan;
  plan.action = std::move(merge);
  // The calling thread counts as one of the threads.
  std::unique_ptr<ThreadPool> pool;
  if (threads > 1) pool = std::make_unique<ThreadPool>(threads - 1, "merge", 0);
  env.pool = pool.get();
  const std::uint64_t start = system_clock()->mono_ns();
  const double cpu = cpu_seconds();
  auto result = execute(plan, *version, context, env);
  const double seconds = static_cast<double>(system_clock()->mono_ns() - start) * 1e-9;
  const double used = cpu_seconds() - cpu;
  if (!result.is_ok()) die(result.status());
  const auto entries = static_cast<double>(result->entries_in);
  std::printf("threads %u  entries %.1f M in, %.1f M out  %llu parts  %.2f s  %.0f ns/entry  %.0f CPU ns/entry  %.0f MB/s in\n",
              threads, entries * 1e-6, static_cast<double>(result->entries_out) * 1e-6,
              static_cast<unsigned long long>(result->sub_merges), seconds, seconds * 1e9 / entries, used * 1e9 / entries,
              entries * kEntryBytes / seconds * 1e-6);
  open.clear();
  auto names = fs.list(dir);
  if (!names.is_ok()) die(names.status());
  for (const std::string& name : *names) (void)fs.unlink(join_path(dir, name));
  (void)fs.remove_dir(dir);
  return 0;
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_merge <dir> <MiB> [threads] [lz4|zstd|none]\n");
    return 2;
  }
  const std::string compression = argc > 4 ? argv[4] : "lz4";
  return ebbtide::run(argv[1], std::strtoull(argv[2], nullptr, 10), argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1,
                      compression == "zstd"   ? ebbtide::Compression::kZstd
                      : compression == "none" ? ebbtide::Compression::kNone
                                              : ebbtide::Compression::kLz4);
}
