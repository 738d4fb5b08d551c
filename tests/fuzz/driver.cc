// The main() of fuzz programs without libFuzzer: replays inputs, then mutates them for the requested time.
//
//   fuzz_resp [--runs N] [--seconds N] [--seed S] [--keep DIRECTORY] [FILE or DIRECTORY]...
//   fuzz_resp --keep DIRECTORY --distil DIRECTORY [FILE or DIRECTORY]...
//
// The default seed is EBBTIDE_SEED, as in the other tests.
//
// With -fsanitize-coverage=trace-pc (g++ supports it), an input that reaches a new pair of places in the code, or a known pair
// more often, is kept and mutated further. --distil goes through the inputs of --keep, shortest first, up to kMaxDistilled
// bytes. It copies the inputs that reach a pair of places that no earlier and no other input reaches.
//
// An input that crashes, takes too long or, under the address sanitizer, too much memory is written to crash-<program> in the
// working directory.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/time.h>
#include <unistd.h>

#include "base/random.h"
#include "fuzz.h"
#include "support/long_run.h"

namespace {

constexpr std::size_t kMaxInput = 64 << 10, kMaxDistilled = 4 << 10;
constexpr std::size_t kMap = 1 << 16;
// The most processor time of one input; a busy machine does not increase it. Sanitizers make code two to ten times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kMaxSeconds = 10;
#else
constexpr unsigned kMaxSeconds = 1;
#endif
constexpr unsigned kMaxWallSeconds = 120;      // wall time, since an input that waits forever takes no processor time
constexpr std::int64_t kMaxBytes = 512 << 20;  // allocated at the same time

// These are plain arrays, since the callback below must not call instrumented code.
std::uint8_t hits[kMap], seen[kMap];
std::uintptr_t last_place = 0;

std::string current;   // the running input
std::string crash_to;  // the file to write it to if it crashes

void keep_crash(int signal) {
  if (std::FILE* file = std::fopen(crash_to.c_str(), "wb"); file != nullptr) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "signal %d; the input is in %s\n", signal, crash_to.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::atomic<std::int64_t> allocated = 0;  // bytes allocated since the start of the input and not freed

#ifdef __SANITIZE_ADDRESS__
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t), void (*)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void*);
// Makes findings raise a signal, so that their inputs are kept.
const char* __asan_default_options() { return "abort_on_error=1"; }
const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }
}

void watch_memory() {
  __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, std::size_t bytes) {
        const auto more = static_cast<std::int64_t>(bytes);
        if (allocated.fetch_add(more) + more <= kMaxBytes) return;
        allocated = -4 * kMaxBytes;  // the message allocates, too
        std::fprintf(stderr, "an input took more than %lld bytes of memory\n", static_cast<long long>(kMaxBytes));
        std::abort();
      },
      [](const volatile void* memory) { allocated -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory)); });
}
#else
void watch_memory() {}
#endif

/// Runs one input. Returns true if it reached a new pair of places or, if `counts_matter`, a known pair more often.
bool run(const std::string& input, bool counts_matter = true) {
  current = input;
  std::memset(hits, 0, sizeof(hits));
  last_place = 0;
  allocated = 0;
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = kMaxSeconds, .tv_usec = 0}};
  (void)setitimer(ITIMER_PROF, &limit, nullptr);
  alarm(kMaxWallSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
  bool fresh = false;
  for (std::size_t i = 0; i < kMap; ++i) {
    if (hits[i] == 0) continue;
    const auto bucket = static_cast<std::uint8_t>(counts_matter ? 1u << (hits[i] < 4 ? hits[i] - 1 : hits[i] < 32 ? 3 : 4) : 1u);
    fresh |= (seen[i] & bucket) == 0;
    seen[i] |= bucket;
  }
  return fresh;
}

std::string mutate(std::string input, const std::vector<std::string>& corpus, ebbtide::Random& random) {
  static constexpr std::array<std::uint64_t, 12> kNumbers{
      0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, ~std::uint64_t{0}};
  for (std::uint64_t n = 1 + random.uniform(6); n > 0; --n) {
    const std::size_t at = input.empty() ? 0 : random.uniform(input.size());
    switch (input.empty() ? 2 : random.uniform(8)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << random.uniform(8)));
        break;
      case 1:
        input[at] = static_cast<char>(random.uniform(256));
        break;
      case 2:
        input.insert(at, 1 + random.uniform(8), static_cast<char>(random.uniform(256)));
        break;
      case 3:
        input.erase(at, 1 + random.uniform(16));
        break;
      case 4: {
        const std::uint64_t number = kNumbers[random.uniform(kNumbers.size())];
        const std::size_t bytes = std::min<std::size_t>(std::size_t{1} << random.uniform(4), input.size() - at);
        std::memcpy(input.data() + at, &number, bytes);
        break;
      }
      case 5:
        input.insert(at, input.substr(random.uniform(input.size()), random.uniform(64)));
        break;
      case 6: {
        const std::string& other = corpus[random.uniform(corpus.size())];
        input = input.substr(0, at) + (other.empty() ? "" : other.substr(random.uniform(other.size())));
        break;
      }
      default: {
        const char* words[] = {"\r\n", "*", "$", ":", "-1", "18446744073709551616", " ", "\"", "\\x", "[", "]", "^", "a-z", "0"};
        input.insert(at, words[random.uniform(std::size(words))]);
      }
    }
  }
  if (input.size() > kMaxInput) input.resize(kMaxInput);
  return input;
}

void write_input(const std::filesystem::path& path, const std::string& input) {
  std::ofstream out(path, std::ios::binary);
  out << input;
  if (out.flush()) return;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  std::exit(2);
}

/// Writes to `directory` those of `inputs`, shortest first, that reach a pair of places that no earlier input reaches.
void distil(std::vector<std::string> inputs, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::erase_if(inputs, [](const std::string& input) { return input.size() > kMaxDistilled; });
  std::stable_sort(inputs.begin(), inputs.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::size_t kept = 0;
  for (const std::string& input : inputs) {
    if (run(input, false)) write_input(directory / ("kept" + std::to_string(kept++)), input);
  }
  std::printf("%zu of %zu inputs are enough\n", kept, inputs.size());
}

void read_inputs(const std::filesystem::path& path, std::vector<std::string>* inputs) {
  if (std::filesystem::is_directory(path)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) read_inputs(file, inputs);
    return;
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  inputs->emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace

extern "C" __attribute__((no_sanitize_coverage, no_sanitize_address, no_sanitize_undefined)) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const std::uintptr_t mixed = (place >> 1) * 0x9e3779b97f4a7c15u >> 40;
  auto& hit = hits[(mixed ^ last_place) % kMap];
  if (hit != 255) ++hit;
  last_place = mixed >> 1;
}

int main(int argc, char** argv) {
  std::uint64_t runs = 0, seconds = 0, seed = ebbtide::first_seed(1);
  std::vector<std::string> corpus, kept;
  std::filesystem::path keep, distilled;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&] { return ++i < argc ? std::strtoull(argv[i], nullptr, 10) : 0; };
    if (argument == "--runs") {
      runs = number();
    } else if (argument == "--seconds") {
      seconds = number();
    } else if (argument == "--seed") {
      seed = number();
    } else if (argument == "--keep" && i + 1 < argc) {
      keep = argv[++i];
      std::filesystem::create_directories(keep);
      read_inputs(keep, &kept);
    } else if (argument == "--distil" && i + 1 < argc) {
      distilled = argv[++i];
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(
          stderr,
          "usage: %s [--runs N] [--seconds N] [--seed S] [--keep DIRECTORY] [--distil DIRECTORY] [FILE or DIRECTORY]...\n",
          argv[0]);
      return 2;
    } else {
      read_inputs(argument, &corpus);
    }
  }
  crash_to = "crash-" + std::filesystem::path(argv[0]).filename().string();
  for (const int signal : {SIGPROF, SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, keep_crash);
  watch_memory();
  if (!distilled.empty()) {
    for (const std::string& input : corpus) (void)run(input, false);
    distil(std::move(kept), distilled);
    return 0;
  }
  corpus.insert(corpus.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  for (const std::string& input : corpus) (void)run(input);
  std::printf("%zu inputs replayed; seed %llu\n", corpus.size(), static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // the seed repeats a later crash
  if (corpus.empty()) corpus.emplace_back();

  ebbtide::Random random(seed);
  const auto begin = std::chrono::steady_clock::now();
  auto told = begin;
  std::uint64_t done = 0;
  for (; runs == 0 ? seconds != 0 : done < runs; ++done) {
    std::string input = mutate(corpus[random.uniform(corpus.size())], corpus, random);
    if (run(input)) {
      if (!keep.empty()) write_input(keep / (std::to_string(seed) + "-" + std::to_string(done)), input);
      corpus.push_back(std::move(input));
    }
    if (done % 64 != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (seconds != 0 && now - begin >= std::chrono::seconds(seconds)) break;
    if (now - told < std::chrono::seconds(10)) continue;
    told = now;
    std::printf("%llu runs, %zu inputs kept\n", static_cast<unsigned long long>(done), corpus.size());
    std::fflush(stdout);
  }
  std::printf("%llu runs, %zu inputs kept, seed %llu\n", static_cast<unsigned long long>(done), corpus.size(),
              static_cast<unsigned long long>(seed));
  return 0;
}
