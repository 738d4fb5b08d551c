// Clocks, the kernel's counts, and output lines for the programs that run the benchmarks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/load/histogram.h"

namespace ebbtide::bench {

/// Prints a message and ends the program.
[[noreturn]] void die(const std::string& why);

/// Returns the parameters of a merge policy that a command line gives as NAME=NUMBER. Ends the program for other texts.
std::map<std::string, double> parameters_of(const std::vector<std::string>& texts);

/// Returns the seconds of a monotonic clock.
double now_seconds();

/// Checks `busy` every 2 ms, and returns once it was false `looks` times in a row. Then no job runs and none is planned.
inline constexpr std::chrono::milliseconds kLookInterval{2};
inline constexpr int kRestLooks = 100;
inline constexpr double kRestSeconds = kRestLooks * 0.002;
template <typename Busy>
void wait_for_rest(int looks, Busy busy) {
  for (int quiet = 0; quiet < looks; ++quiet) {
    std::this_thread::sleep_for(kLookInterval);
    if (busy()) quiet = -1;
  }
}

/// Returns the CPU time of the whole process, with its background threads.
double cpu_seconds();

/// The average time of an operation.
struct PerOperation {
  double per_second = 0;
  double cpu_ns = 0;  ///< CPU time of the whole process
};

class Stopwatch {
 public:
  [[nodiscard]] PerOperation stop(std::uint64_t operations) const;
  [[nodiscard]] double seconds() const { return now_seconds() - wall_; }

 private:
  double wall_ = now_seconds();
  double cpu_ = cpu_seconds();
};

/// The bytes that this process passed to read and write calls of the system. They are independent of the page cache and of the
/// engines' counters. Ends the program if the kernel does not count them.
struct IoBytes {
  std::uint64_t read = 0, written = 0;
  static IoBytes now();
  IoBytes operator-(const IoBytes& before) const { return {read - before.read, written - before.written}; }
};

/// The disk space of a folder's files (blocks, without holes): of tables (.data, .meta, .sst), and of all files.
struct DiskBytes {
  std::uint64_t tables = 0, all = 0;
  static DiskBytes of(const std::string& dir);
};

/// Returns the default directory of databases: a new folder under EBBTIDE_BENCH_DIR or the system's temporary folder.
std::string default_dir();
/// Ends the program now if the disk would be full later.
void need_disk(const std::string& dir, std::uint64_t bytes);
/// Calls `run` while `*dir` is an empty directory, which is removed at the end. If it is "", sets it to default_dir(). Ends the
/// program if the disk has less room than `bytes`.
void in_empty_dir(std::string* dir, std::uint64_t bytes, const std::function<void()>& run);

/// Prints progress as lines `progress: TEXT`, at most a few a second.
class Progress {
 public:
  explicit Progress(std::string what);
  /// Prints `done` of `total`, followed by `more`.
  void at(std::uint64_t done, std::uint64_t total, const std::string& more = "");

 private:
  std::string what_;
  double next_ = 0;
};

/// Builds a JSON object field by field.
class JsonLine {
 public:
  JsonLine& add(const char* name, double value);
  JsonLine& add(const char* name, std::uint64_t value);
  JsonLine& add(const char* name, const std::string& text);
  JsonLine& add(const char* name, const JsonLine& object);
  /// Adds a list of lists of numbers.
  JsonLine& add(const char* name, const std::vector<std::vector<double>>& rows);
  [[nodiscard]] std::string str() const { return "{" + fields_ + "}"; }
  /// Prints a line `figure: {...}`.
  void print() const;

 private:
  JsonLine& raw(const char* name, const std::string& json);
  std::string fields_;
};

/// Returns the quantiles in ms of a histogram of ns.
JsonLine milliseconds(const Histogram& histogram);

}  // namespace ebbtide::bench
