// bench_load: sends GETs and SETs to a Redis-protocol server and measures their latency, in an open loop by default
// (generator.h).
//
// Prints lines of JSON: {"interval": {...}} per interval, {"summary": {...}} at the end. Latencies are in microseconds. The exit
// status is 0 only if the run completed; wrong or failed replies are counted, but do not end the run.
#include <sys/resource.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "generator.h"

namespace ebbtide::bench {
namespace {

std::string number(double value, int digits = 1) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}
std::string micros(std::uint64_t ns) { return number(static_cast<double>(ns) / 1000); }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string percentiles(const Histogram& h) {
  return "\"p50_us\": " + micros(h.quantile(0.5)) + ", \"p90_us\": " + micros(h.quantile(0.9)) +
         ", \"p99_us\": " + micros(h.quantile(0.99)) + ", \"p999_us\": " + micros(h.quantile(0.999)) +
         ", \"max_us\": " + micros(h.max());
}

std::string as_json(const Histogram& h) {
  static constexpr double kCurve[] = {0,     0.25,  0.5,    0.75,   0.9,    0.95,    0.98,    0.99,     0.995,
                                      0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99995, 0.99999, 0.999999, 1};
  std::string text = "{\"count\": " + std::to_string(h.count()) + ", \"mean_us\": " + number(h.mean() / 1000) + ", " +
                     percentiles(h) + ", \"p9999_us\": " + micros(h.quantile(0.9999)) + ", \"curve\": [";
  for (const double q : kCurve)
    text += (q == 0 ? "[" : ", [") + number(q, 6) + ", " + micros(q == 0 ? h.min() : h.quantile(q)) + "]";
  return text + "]}";
}

/// Merges the threads' results of an interval, and prints the result once the last thread has delivered its own.
class TimeLine {
 public:
  explicit TimeLine(const Load& load) : load_(load) {}

  void add(std::size_t interval, const Tally& tally) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[interval];
    entry.tally.merge(tally);
    if (++entry.threads < load_.threads) return;
    print(interval, entry.tally);
    entries_.erase(interval);
  }

 private:
  struct Entry {
    Tally tally;
    unsigned threads = 0;
  };
  void print(std::size_t interval, const Tally& tally) const {
    Histogram all = tally.get;
    all.merge(tally.set);
    std::printf(
        "{\"interval\": {\"at\": %s, \"sent\": %llu, \"done\": %llu, %s, \"lag_p99_us\": %s, \"longest_gap_ms\": %s, \"errors\": "
        "%llu}}\n",
        number(static_cast<double>(interval) * load_.interval - load_.warmup, 3).c_str(),
        static_cast<unsigned long long>(tally.sent), static_cast<unsigned long long>(all.count()), percentiles(all).c_str(),
        micros(tally.lag.quantile(0.99)).c_str(), number(static_cast<double>(tally.longest_gap_ns) / 1e6).c_str(),
        static_cast<unsigned long long>(tally.errors));
    std::fflush(stdout);
  }
  const Load& load_;
  std::mutex mutex_;
  std::map<std::size_t, Entry> entries_;
};

void print_summary(const Load& load, const Tally& total, double seconds, bool overloaded) {
  Histogram all = total.get;
  all.merge(total.set);
  rusage usage{};
  (void)::getrusage(RUSAGE_SELF, &usage);
  const auto cpu = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  const std::uint64_t answered = all.count() - total.unanswered;
  std::string stalls;
  for (const Stall& stall : total.stalls)
    stalls += (stalls.empty() ? "" : ", ") + ("{\"at\": " + number(stall.at_seconds, 3)) + ", \"ms\": " + number(stall.ms) + "}";
  std::printf(
      "{\"summary\": {\"seconds\": %s, \"wanted_rate\": %s, \"rate\": %s, \"sent\": %llu, \"answered\": %llu, \"unanswered\": "
      "%llu, "
      "\"overloaded\": %s, \"errors\": %llu, \"first_error\": %s, \"misses\": %llu, \"wrong\": %llu, \"all\": %s, \"get\": %s, "
      "\"set\": %s, "
      "\"lag\": %s, \"longest_gap_ms\": %s, \"stalls\": [%s], \"generator_cpu_seconds\": %s}}\n",
      number(seconds, 3).c_str(), number(load.rate).c_str(),
      number(seconds > 0 ? static_cast<double>(answered) / seconds : 0).c_str(), static_cast<unsigned long long>(total.sent),
      static_cast<unsigned long long>(answered), static_cast<unsigned long long>(total.unanswered), overloaded ? "true" : "false",
      static_cast<unsigned long long>(total.errors), quoted(total.first_error).c_str(),
      static_cast<unsigned long long>(total.misses), static_cast<unsigned long long>(total.wrong), as_json(all).c_str(),
      as_json(total.get).c_str(), as_json(total.set).c_str(), as_json(total.lag).c_str(),
      number(static_cast<double>(total.longest_gap_ns) / 1e6).c_str(), stalls.c_str(),
      number(cpu(usage.ru_utime) + cpu(usage.ru_stime), 3).c_str());
}

int run(const Load& load) {
  const Requests requests(load.value_bytes, load.compressible, load.seed);
  TimeLine time_line(load);
  Shared shared;
  shared.deliver = [&](std::size_t interval, const Tally& tally) { time_line.add(interval, tally); };
  std::vector<std::unique_ptr<Generator>> generators;
  for (unsigned i = 0; i < load.threads; ++i) {
    generators.push_back(std::make_unique<Generator>(load, i, requests, shared));
    if (const std::string error = generators.back()->connect(); !error.empty()) {
      std::fprintf(stderr, "bench_load: %s\n", error.c_str());
      return 1;
    }
  }
  shared.begin_ns = now_ns() + 1'000'000;
  std::vector<std::string> errors(load.threads);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < load.threads; ++i) {
    threads.emplace_back([&, i] {
      errors[i] = generators[i]->run();
      if (!errors[i].empty()) shared.stop = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto total = std::make_unique<Tally>();
  std::int64_t last = 0;
  int status = 0;
  for (unsigned i = 0; i < load.threads; ++i) {
    total->merge(generators[i]->total());
    last = std::max(last, generators[i]->last_answer_ns());
    if (errors[i].empty()) continue;
    std::fprintf(stderr, "bench_load: %s\n", errors[i].c_str());
    status = 1;
  }
  print_summary(load, *total, static_cast<double>(last) / 1e9, shared.overloaded);
  return status;
}

constexpr const char* kFooter = R"(Examples:
  bench_load --port 6379 --set --order shuffled --keys 1000000 --requests 1000000 --rate 0 --depth 32     fill, each key once, as fast as it goes
  bench_load --port 6379 --rate 20000 --gets 0.5 --seconds 60                                          half GET, half SET, 20,000 a second
  bench_load --port 6379 --rate 0 --connections 16 --seconds 10                                        closed loop, 16 requests at a time)";

}  // namespace
}  // namespace ebbtide::bench

int main(int argc, char** argv) {
  using namespace ebbtide::bench;
  Load load;
  bool only_sets = false;
  std::string arrivals = "poisson";
  CLI::App app{"Load for a server of the Redis protocol: open loop, latency counted from the intended start of each request."};
  app.footer(kFooter);
  app.add_option("--host", load.host, "IPv4 address")->capture_default_str();
  app.add_option("--port", load.port)->capture_default_str();
  app.add_option("--connections", load.connections)->check(CLI::Range(1, 20000))->capture_default_str();
  app.add_option("--threads", load.threads, "threads of the generator, which share the connections and the rate")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--rate", load.rate, "requests per second; 0: closed loop, as fast as replies arrive")->capture_default_str();
  app.add_option("--arrivals", arrivals, "poisson: random gaps; constant: equal gaps")
      ->check(CLI::IsMember({"poisson", "constant"}))
      ->capture_default_str();
  app.add_option("--depth", load.depth, "closed loop: requests that a connection sends at once")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--seconds", load.seconds, "duration; 0: until --requests are done")->capture_default_str();
  app.add_option("--requests", load.requests, "ends the run after so many requests; 0: --seconds end it")->capture_default_str();
  app.add_option("--warmup", load.warmup, "seconds before the run that are not counted")->capture_default_str();
  app.add_option("--interval", load.interval, "seconds per line of the time line")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--keys", load.keys, "number of keys: key:000000000000 and so on")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--first-key", load.first_key, "number of the first key")->capture_default_str();
  app.add_option("--value-bytes", load.value_bytes)->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--compressible", load.compressible, "fraction of a value's bytes that compress away")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--gets", load.gets, "fraction of GETs; the rest are SETs")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_flag("--set", only_sets, "SETs only");
  app.add_flag("--absent", load.absent, "GETs of absent keys, each next to an existing one");
  app.add_flag("--verify", load.verify, "check that each value is one that this program writes for its key");
  app.add_option("--order", load.order, "uniform: random keys; sequential, shuffled: each key once per --keys requests")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Order>{
          {"uniform", Order::kUniform}, {"sequential", Order::kSequential}, {"shuffled", Order::kShuffled}}));
  app.add_option("--seed", load.seed)->capture_default_str();
  app.add_option("--stall-ms", load.stall_ms, "shortest time without a reply that is listed as a stall")->capture_default_str();
  app.add_option("--drain", load.drain, "seconds to wait for the last replies")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  load.poisson = arrivals == "poisson";
  if (only_sets) load.gets = 0;
  load.threads = std::min(load.threads, load.connections);
  if (load.requests != 0 && app.count("--seconds") == 0) load.seconds = 0;
  if (load.requests == 0 && load.seconds <= 0) {
    std::fprintf(stderr, "bench_load: --seconds 0 needs --requests\n");
    return 2;
  }
  return run(load);
}
