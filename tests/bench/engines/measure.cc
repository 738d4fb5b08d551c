#include "bench/engines/measure.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ebbtide::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

void die(const std::string& why) {
  std::fflush(stdout);
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

std::map<std::string, double> parameters_of(const std::vector<std::string>& texts) {
  std::map<std::string, double> out;
  for (const std::string& text : texts) {
    const std::size_t equal = text.find('=');
    char* end = nullptr;
    const double value = equal == std::string::npos ? 0 : std::strtod(text.c_str() + equal + 1, &end);
    if (end == nullptr || *end != '\0' || end == text.c_str() + equal + 1) die("--set: '" + text + "' is not NAME=NUMBER");
    out[text.substr(0, equal)] = value;
  }
  return out;
}

double now_seconds() { return seconds_of(CLOCK_MONOTONIC); }
double cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

PerOperation Stopwatch::stop(std::uint64_t operations) const {
  const double n = static_cast<double>(operations);
  return {n / (now_seconds() - wall_), (cpu_seconds() - cpu_) * 1e9 / n};
}

IoBytes IoBytes::now() {
  std::ifstream file("/proc/self/io");
  IoBytes bytes;
  bool read = false, written = false;
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == "rchar:") bytes.read = value, read = true;
    if (name == "wchar:") bytes.written = value, written = true;
  }
  if (!read || !written) die("/proc/self/io has no counts of bytes read and written");
  return bytes;
}

DiskBytes DiskBytes::of(const std::string& dir) {
  DiskBytes bytes;
  std::error_code ignored;  // files may be removed meanwhile
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const auto size = static_cast<std::uint64_t>(info.st_blocks) * 512;
    const std::string kind = entry.path().extension();
    bytes.all += size;
    if (kind == ".data" || kind == ".meta" || kind == ".sst") bytes.tables += size;
  }
  return bytes;
}

std::string default_dir() {
  const char* where = std::getenv("EBBTIDE_BENCH_DIR");
  const std::filesystem::path folder = where != nullptr ? std::filesystem::path(where) : std::filesystem::temp_directory_path();
  return folder / ("ebbtide-bench-" + std::to_string(::getpid()));
}

void need_disk(const std::string& dir, std::uint64_t bytes) {
  std::filesystem::create_directories(dir);
  const std::uint64_t free = std::filesystem::space(dir).available;
  if (bytes > free) {
    die("this needs about " + std::to_string(bytes >> 20) + " MiB of disk; " + dir + " has " + std::to_string(free >> 20) +
        " MiB free");
  }
}

void in_empty_dir(std::string* dir, std::uint64_t bytes, const std::function<void()>& run) {
  if (dir->empty()) *dir = default_dir();
  need_disk(*dir, bytes);
  std::filesystem::remove_all(*dir);
  std::filesystem::create_directories(*dir);
  run();
  std::filesystem::remove_all(*dir);
}

Progress::Progress(std::string what) : what_(std::move(what)) { at(0, 1); }

void Progress::at(std::uint64_t done, std::uint64_t total, const std::string& more) {
  const double now = now_seconds();
  if (now < next_) return;
  next_ = now + 0.3;
  std::printf("progress: %s, %.0f %%%s%s\n", what_.c_str(), 100.0 * static_cast<double>(done) / static_cast<double>(total),
              more.empty() ? "" : ", ", more.c_str());
  std::fflush(stdout);
}

JsonLine& JsonLine::raw(const char* name, const std::string& json) {
  fields_ += (fields_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + json;
  return *this;
}
JsonLine& JsonLine::add(const char* name, double value) { return raw(name, number(value)); }
JsonLine& JsonLine::add(const char* name, std::uint64_t value) { return raw(name, std::to_string(value)); }
JsonLine& JsonLine::add(const char* name, const std::string& text) {
  if (text.find_first_of("\"\\\n") != std::string::npos) die("a text that JSON would have escaped: " + text);
  return raw(name, "\"" + text + "\"");
}
JsonLine& JsonLine::add(const char* name, const JsonLine& object) { return raw(name, object.str()); }
JsonLine& JsonLine::add(const char* name, const std::vector<std::vector<double>>& rows) {
  std::string text;
  for (const std::vector<double>& row : rows) {
    text += text.empty() ? "[" : ", [";
    for (std::size_t i = 0; i < row.size(); ++i) text += (i ? ", " : "") + number(row[i]);
    text += "]";
  }
  return raw(name, "[" + text + "]");
}
void JsonLine::print() const {
  std::printf("figure: %s\n", str().c_str());
  std::fflush(stdout);
}

JsonLine milliseconds(const Histogram& histogram) {
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
  JsonLine line;
  line.add("p50_ms", ms(histogram.quantile(0.5))).add("p99_ms", ms(histogram.quantile(0.99)));
  line.add("p999_ms", ms(histogram.quantile(0.999))).add("max_ms", ms(histogram.max()));
  return line;
}

}  // namespace ebbtide::bench
