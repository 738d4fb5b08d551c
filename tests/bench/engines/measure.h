// Clocks, the kernel's counts, and lines for the programs that run the benches.
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

/// Ends the program with a sentence.
[[noreturn]] void die(const std::string& why);

/// Seconds on a clock that only goes forward.
double now_seconds();

/// Returns once `busy` has been false so many times, asked every hundredth of a second: nothing runs, and nothing is planned either.
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

/// What an operation took, on average.
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

/// Bytes that this process has handed to, or got from, the system's read and write calls: the page cache does not hide anything,
/// and nobody's own account is relied on. Wherever the kernel does not say it ends the program.
struct IoBytes {
  std::uint64_t read = 0, written = 0;
  static IoBytes now();
  IoBytes operator-(const IoBytes& before) const { return {read - before.read, written - before.written}; }
};

/// What the files of a folder take on the disk (their blocks, holes left out): tables (.data, .meta, .sst), and all.
struct DiskBytes {
  std::uint64_t tables = 0, all = 0;
  static DiskBytes of(const std::string& dir);
};

/// Where databases go that are given no place: a folder of this process under EBBTIDE_BENCH_DIR, or the system's temporary one.
std::string default_dir();
/// Ends the program rather than fill the disk an hour later.
void need_disk(const std::string& dir, std::uint64_t bytes);

/// Says how far something has come: a line `progress: TEXT` on standard output, a few a second at most.
class Progress {
 public:
  explicit Progress(std::string what);
  /// `done` of `total`; `more` behind it.
  void at(std::uint64_t done, std::uint64_t total, const std::string& more = "");

 private:
  std::string what_;
  double next_ = 0;
};

/// A line of JSON, {"name": value, ...}, put together field by field.
class JsonLine {
 public:
  JsonLine& add(const char* name, double value);
  JsonLine& add(const char* name, std::uint64_t value);
  JsonLine& add(const char* name, const std::string& text);
  JsonLine& add(const char* name, const JsonLine& object);
  /// A list of lists of numbers.
  JsonLine& add(const char* name, const std::vector<std::vector<double>>& rows);
  [[nodiscard]] std::string str() const { return "{" + fields_ + "}"; }
  /// As a line `figure: {...}` on standard output.
  void print() const;

 private:
  JsonLine& raw(const char* name, const std::string& json);
  std::string fields_;
};

/// Quantiles in ms of a histogram of ns.
JsonLine milliseconds(const Histogram& histogram);

}  // namespace ebbtide::bench
