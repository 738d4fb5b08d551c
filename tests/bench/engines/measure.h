// Clocks, the kernel's counts, and output lines for the programs that run the benches.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/load/histogram.h"

namespace ebbtide::bench {

/// Prints a message and ends the program.
[[noreturn]] void die(const std::string& why);

/// Seconds of a monotonic clock.
double now_seconds();

/// Returns once `busy` was false so many times in a row, asked every 10 ms. So nothing runs and nothing is planned.
inline constexpr int kRestLooks = 20;
inline constexpr double kRestSeconds = kRestLooks * 0.01;
template <typename Busy>
void wait_for_rest(int looks, Busy busy) {
  for (int quiet = 0; quiet < looks; ++quiet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (busy()) quiet = -1;
  }
}

/// CPU time of the whole process, its background threads included.
double cpu_seconds();

/// Average time of an operation.
struct PerOperation {
  double per_second = 0;
  double cpu_ns = 0;  ///< of the whole process
};

class Stopwatch {
 public:
  [[nodiscard]] PerOperation stop(std::uint64_t operations) const;
  [[nodiscard]] double seconds() const { return now_seconds() - wall_; }

 private:
  double wall_ = now_seconds();
  double cpu_ = cpu_seconds();
};

/// Bytes that this process passed to read and write calls of the system: independent of the page cache and of the engines'
/// counters. Ends the program if the kernel does not count them.
struct IoBytes {
  std::uint64_t read = 0, written = 0;
  static IoBytes now();
  IoBytes operator-(const IoBytes& before) const { return {read - before.read, written - before.written}; }
};

/// Disk space of a folder's files (blocks, without holes): tables (.data, .meta, .sst), and all.
struct DiskBytes {
  std::uint64_t tables = 0, all = 0;
  static DiskBytes of(const std::string& dir);
};

/// Default directory of databases: a new folder under EBBTIDE_BENCH_DIR or the system's temporary folder.
std::string default_dir();
/// Ends the program now if the disk would later be full.
void need_disk(const std::string& dir, std::uint64_t bytes);

/// Prints progress as lines `progress: TEXT`, at most a few a second.
class Progress {
 public:
  explicit Progress(std::string what);
  /// `done` of `total`, followed by `more`.
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
  /// A list of lists of numbers.
  JsonLine& add(const char* name, const std::vector<std::vector<double>>& rows);
  [[nodiscard]] std::string str() const { return "{" + fields_ + "}"; }
  /// Prints a line `figure: {...}`.
  void print() const;

 private:
  JsonLine& raw(const char* name, const std::string& json);
  std::string fields_;
};

/// Quantiles in ms of a histogram of ns.
JsonLine milliseconds(const Histogram& histogram);

}  // namespace ebbtide::bench
