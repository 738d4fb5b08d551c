// Measures how long a database of many tables takes to open after a clean stop, and the memory of its open tables.
//
//   bench_start <dir> <tables> [entries per table] [rounds]
//
// Writes one run of tables of 100-byte values unless the directory exists. Then opens and closes the database `rounds` times.
// Each round prints the seconds until Db::open() returns, and those of the first lookup of a key in the last table. It also
// prints the bytes of open tables and of the process. The directory stays.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <engine/db.h>
#include "base/clock.h"
#include "compaction/table_files.h"
#include "version/version_set.h"

namespace ebbtide {
namespace {

void die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

std::string key_of(std::uint64_t i) {
  char key[32];
  std::snprintf(key, sizeof key, "user%012llu", static_cast<unsigned long long>(i));
  return key;
}

/// Creates a database of one run.
void write(const std::string& dir, std::uint64_t tables, std::uint64_t entries) {
  FileSystem& fs = *posix_file_system();
  if (Status s = fs.create_dir(dir); !s.is_ok()) die(s);
  auto versions = VersionSet::create(fs, dir);
  if (!versions.is_ok()) die(versions.status());
  VersionEdit edit;
  TreeEdit& tree = edit.trees.emplace_back();
  tree.tree = (*versions)->new_tree();
  tree.create = true;
  tree.added_runs.push_back({1, 6, 0});
  tree.next_run = 2;
  SeqNum seq = 0;
  const std::string value(100, 'v');
  for (std::uint64_t t = 0; t < tables; ++t) {
    TableBuilderOptions options;
    options.fs = &fs;
    options.dir = dir;
    options.data_file = (*versions)->new_file();
    options.metadata_file = (*versions)->new_file();
    TableBuilder builder(options);
    for (std::uint64_t i = t * entries; i < (t + 1) * entries; ++i) {
      const std::string key = key_of(i);
      Entry entry;
      entry.key = key;
      entry.value = value;
      entry.seq = ++seq;
      entry.delete_key = 1'700'000'000'000 + i / 100;
      if (Status s = builder.add(entry); !s.is_ok()) die(s);
    }
    auto built = builder.finish();
    if (!built.is_ok()) die(built.status());
    tree.added_files.emplace_back(1, meta_of(*built));
  }
  tree.flushed_seq = seq;
  edit.databases.emplace_back(0, tree.tree);
  if (Status s = (*versions)->commit(std::move(edit)); !s.is_ok()) die(s);
}

double seconds_since(std::uint64_t start_ns) { return static_cast<double>(system_clock()->mono_ns() - start_ns) * 1e-9; }

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * 4096;
}

void open(const std::string& dir, std::uint64_t keys) {
  Settings settings;
  settings.dir = dir;
  settings.memory_budget = std::uint64_t{4} << 30;
  settings.max_open_files = 900;
  const std::uint64_t start = system_clock()->mono_ns();
  auto db = Db::open(settings, {});
  if (!db.is_ok()) die(db.status());
  const double opened = seconds_since(start);
  const std::uint64_t asked = system_clock()->mono_ns();
  {
    PassGuard guard(**db);
    const ReadView view = (*db)->view(0, (*db)->now(), ReadMode::kBlocking, nullptr);
    const std::string key = key_of(keys - 1);
    Found found;
    if (Status s = view.get({key, hash_key(key)}, &found); !s.is_ok()) die(s);
  }
  const double read = seconds_since(asked);
  const Stats stats = (*db)->stats();
  std::printf("open %.3f s, first lookup %.6f s, tables %.1f MB, process %.1f MB", opened, read,
              static_cast<double>(stats.table_bytes) * 1e-6, static_cast<double>(resident_bytes()) * 1e-6);
  const std::uint64_t closing = system_clock()->mono_ns();
  if (Status s = (*db)->close(); !s.is_ok()) die(s);
  std::printf(", close %.3f s\n", seconds_since(closing));
  std::fflush(stdout);
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s <dir> <tables> [entries per table] [rounds]\n", argv[0]);
    return 2;
  }
  const std::string dir = argv[1];
  const std::uint64_t tables = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t entries = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 500;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 3;
  if (!std::filesystem::exists(dir)) ebbtide::write(dir, tables, entries);
  for (int round = 0; round < rounds; ++round) ebbtide::open(dir, tables * entries);
  return 0;
}
