// ebbtide-tune: computes the costs of operations under a tuning, and finds the tuning with the lowest costs. Needs no database;
// can also read the workload of a running server.
//
// Exit status: 0 success, 1 a file or server could not be read, 2 wrong use.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "io/file_system.h"
#include "model/engine_settings.h"
#include "tools/tune_compare.h"
#include "tools/tune_device.h"
#include "tools/tune_inputs.h"
#include "tools/tune_json.h"
#include "tools/tune_report.h"
#include "tools/tune_server.h"
#include "tools/tune_simulated.h"

namespace {

using namespace ebbtide;

constexpr const char* kIntroduction =
    "Computes what operations cost under a tuning, and finds the tuning that costs least. It needs no database and changes "
    "none.\n"
    "\n"
    "Costs are page reads: a read that finds its page costs 1, a write costs a share of the merges that it causes. Give the "
    "data, "
    "the memory for\n"
    "filters and memtable, and the mix of operations; all other values have defaults.";
constexpr const char* kExamples =
    "Start with `explain` for the tuning that you have, then `advise`, then `yaml`:\n"
    "  ebbtide-tune explain --entries 100M --entry-size 200 --memory 512MiB --workload 0.2,0.4,0.1,0.3 --layout one_leveling "
    "--size-ratio 6\n"
    "  ebbtide-tune advise --entries 100M --entry-size 200 --memory 512MiB --workload 0.2,0.4,0.1,0.3 --rho 0.5\n"
    "  ebbtide-tune yaml --file workload.yaml --rho 0.5 --max-transient-space 1.5 > tuned.yaml\n"
    "  ebbtide-server --config tuned.yaml --check\n"
    "\n"
    "A file has the same keys as the flags, with _ for -:\n"
    "  entries: 100M\n"
    "  entry_size: 200\n"
    "  memory: 512MiB\n"
    "  workload: {empty_read: 0.2, read: 0.4, range: 0.1, write: 0.3}\n"
    "\n"
    "`--help` of each subcommand has examples. engine/docs/tuner.md explains the equations and how to choose rho.\n";
constexpr const char* kExplainExamples =
    "The first table has the page reads of each kind of operation, the last table a row per level:\n"
    "  ebbtide-tune explain --entries 100M --entry-size 200 --memory 512MiB --workload 0.2,0.4,0.1,0.3 --layout klsm --runs 3,1 "
    "--size-ratio 8\n"
    "  ebbtide-tune explain --file workload.yaml --policy binomial:k=6     a policy of stacks, by simulation\n";
constexpr const char* kAdviseExamples =
    "Each kind of operation has at least 1 % of an uncertain workload (rho above 0). Examples:\n"
    "  ebbtide-tune advise --workload 0.25,0.25,0.25,0.25 --rho 0.5 --entries 10000000 --entry-size 1024 "
    "--memory-bits-per-entry 10\n"
    "  ebbtide-tune advise --workload w11 --layouts leveling,tiering --entries 10G --entry-size 1KiB --memory-bits-per-entry 10\n"
    "  ebbtide-tune advise --file workload.yaml --history windows.csv --format json\n"
    "  ebbtide-tune advise --server 127.0.0.1:6379 --database 3\n"
    "\n"
    "With --server, data, memory, mix and rho are those of a database of a running server, from its history of up to a week. "
    "The\n"
    "answer is the same as of TUNE.ADVISE: what operations cost now, the best settings for the mean mix (nominal) and for all "
    "mixes\n"
    "within rho (robust), and whether a change is worth it. --rho, --workload and --memory replace the measured values. The "
    "user\n"
    "needs permission for TUNE.WORKLOAD. The password comes from --password-file, or from the variable REDISCLI_AUTH.\n"
    "\n"
    "In JSON, policy is a layout, and engine has the settings for a server. A tuning of whole levels with few runs may rewrite\n"
    "the database in one merge: --max-merge and --max-transient-space limit the size of a merge.\n";
constexpr const char* kYamlExamples =
    "Only tunings that the engine accepts are considered. Example:\n"
    "  ebbtide-tune yaml --workload w7 --rho 0.5 --entries 10M --entry-size 1KiB --memory-bits-per-entry 10 > tuned.yaml\n"
    "  ebbtide-server --config tuned.yaml\n";
constexpr const char* kCompareExamples =
    "Endure's uncertainty benchmark: 15 expected workloads, each tuned for itself and for each rho, judged by 10,000 workloads:\n"
    "  ebbtide-tune compare --entries 10G --entry-size 1KiB --memory-bits-per-entry 10 --layouts leveling,tiering "
    "--equations paper_relaxed\n"
    "Two workloads, for which a given tuning, such as a server's, is compared with the advised tunings:\n"
    "  ebbtide-tune compare --file workload.yaml --workloads w7,w11 --rhos 0.5 --layout one_leveling --size-ratio 6\n";
constexpr const char* kDeviceExamples =
    "The output is a file with page_size, write_asymmetry and sequential_cost. Several files may be given to the other "
    "subcommands:\n"
    "  ebbtide-tune device /var/lib/ebbtide > device.yaml\n"
    "  ebbtide-tune advise --file device.yaml --file workload.yaml\n"
    "A server's own advice (TUNE.ADVISE, tuning.auto) takes both costs from its keys tuning.write_asymmetry and\n"
    "tuning.sequential_cost.\n";
constexpr const char* kWhatIfExamples =
    "Each --change is evaluated separately. Example:\n"
    "  ebbtide-tune what-if --file workload.yaml --change memory=1GiB --change entries=1G --change workload=0.1,0.1,0.1,0.7\n";
constexpr const char* kMonkeyExamples =
    "--max-read and --max-write leave out designs whose point reads or writes cost more. --size-ratios and --layouts restrict "
    "the "
    "designs of Algorithm 5.\n"
    "Examples, with a limit on the cost of a write, and with the memory for leveling with T = 10:\n"
    "  ebbtide-tune monkey --file workload.yaml --max-write 0.5\n"
    "  ebbtide-tune monkey --file workload.yaml --size-ratios 10,10 --layouts leveling\n";

struct Arguments {
  std::string server, user, password_file;
  DatabaseId database = 0;
  std::vector<std::string> files;
  std::string history;
  std::string device_dir, device_size = "256MiB";
  std::string format = "table";
  std::vector<std::string> workloads;
  std::vector<double> rhos = {0.25, 0.5, 1, 2};
  BenchmarkSample sample;
  [[nodiscard]] bool json() const { return format == "json"; }
  std::vector<std::string> changes;
  TuneValues flags;
};

/// Adds a flag for each key of `groups`, and for each key of `keys`.
void add_flags(CLI::App* app, Arguments* a, const std::vector<std::string>& groups, const std::vector<std::string>& keys = {}) {
  app->add_option("--file", a->files,
                  "a YAML file with values; values in later files replace values in earlier files, and flags replace both")
      ->take_all();
  for (const TuneKey& key : tune_keys()) {
    const bool whole_group = std::find(groups.begin(), groups.end(), key.group) != groups.end();
    if (!whole_group && std::find(keys.begin(), keys.end(), key.name) == keys.end()) continue;
    std::string flag = std::string("--") + key.name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    app->add_option_function<std::string>(
           flag, [a, name = std::string(key.name)](const std::string& value) { a->flags[name] = value; }, key.help)
        ->type_name("")
        ->group(key.group);
  }
}

Result<std::string> read_text(const std::string& path) {
  TRY_ASSIGN(file, posix_file_system()->open(path));
  std::string text(file->size(), '\0');
  TRY(file->read(0, text.size(), text.data()));
  return text;
}

int fail(int status, const Status& why) {
  std::fprintf(stderr, "ebbtide-tune: %s\n", why.to_string().c_str());
  return status;
}

int print(const std::string& text) { return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1; }

int run_explain(const TuneInputs& in, bool json) {
  if (in.policy) {
    if (json) return fail(2, Status::invalid_argument("the format json is allowed only for a layout, not for a policy"));
    const auto report =
        simulated_costs(in.request.system, *in.policy, in.tuning.filter_bits, in.tuning.buffer_bits, in.request.mix);
    return report.is_ok() ? print(simulated_text(in, *report)) : fail(2, report.status());
  }
  if (const Status right = check_tuning(in.tuning); !right.is_ok()) return fail(2, right);
  const Advice advice = assess(in.request, in.tuning);
  return print(json ? explain_json(in.request, advice) : model_text(in.request, advice));
}

int run_advise(const TuneInputs& in, bool json) {
  const auto advices = tune(in.request);
  if (!advices.is_ok()) return fail(2, advices.status());
  return print(json ? advices_json(in.request, *advices) : advices_text(in.request, *advices));
}

/// Returns the first line of the file, or REDISCLI_AUTH if there is no file.
Result<std::string> read_password(const std::string& file) {
  if (file.empty()) {
    const char* const given = std::getenv("REDISCLI_AUTH");
    return std::string(given == nullptr ? "" : given);
  }
  TRY_ASSIGN(text, read_text(file));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return Status::invalid_argument(file + ": the first line has no password");
  return text;
}

/// Returns the values of flags that replace the server's measurements. kInvalidArgument: a flag cannot be used with --server.
Result<RecommendOptions> server_options(const Arguments& a) {
  RecommendOptions options;
  if (!a.files.empty() || !a.history.empty())
    return Status::invalid_argument("--file and --history cannot be used with --server, which gives data and history");
  for (const auto& [key, value] : a.flags) {
    if (value.empty()) continue;
    if (key == "workload") {
      TRY_ASSIGN(mix, parse_workload(key, value));
      options.workload = OperationFigures{mix[kEmptyRead], mix[kRead], mix[kRange], mix[kWrite]};
    } else if (key == "rho") {
      TRY_ASSIGN(rho, parse_count(key, value));
      options.rho = rho;
    } else if (key == "memory") {
      TRY_ASSIGN(bytes, parse_bytes(key, value));
      options.memory_bytes = bytes;
    } else {
      return Status::invalid_argument(key + " cannot be used with --server; allowed: rho, workload, memory");
    }
  }
  return options;
}

int run_server_advise(const Arguments& a) {
  TuneServer server;
  if (const Status right = parse_server(a.server, &server); !right.is_ok()) return fail(2, right);
  const auto options = server_options(a);
  if (!options.is_ok()) return fail(2, options.status());
  auto password = read_password(a.password_file);
  if (!password.is_ok()) return fail(1, password.status());
  server.user = a.user;
  server.password = std::move(password).value();
  server.database = a.database;
  const auto workload = fetch_workload(server);
  if (!workload.is_ok()) return fail(1, workload.status());
  const auto advice = recommend(*workload, *options);
  if (!advice.is_ok()) return fail(2, advice.status());
  return print(a.json() ? recommendation_json(*workload, *advice) : recommendation_text(*workload, *advice));
}

/// Prints the settings of the best tuning that the engine accepts.
int run_yaml(TuneInputs in) {
  in.request.size_ratio_max = std::min(in.request.size_ratio_max, engine_size_ratio_max());
  const auto advices = tune(in.request);
  if (!advices.is_ok()) return fail(2, advices.status());
  Status refused;
  for (const Advice& advice : *advices) {
    const Status accepted = check_engine_settings(in.request, advice.tuning);
    if (accepted.is_ok())
      return print("# Advice of ebbtide-tune: " + tuning_text(advice.tuning, in.request.system) + ".\n" +
                   yaml_text(in.request, advice.tuning));
    if (refused.is_ok()) refused = accepted;
  }
  return fail(2, refused);
}

int run_monkey(const TuneInputs& in) {
  const MonkeyBounds bounds{in.request.limits.point_read, in.request.limits.write};
  const auto design = monkey_design(in.request.system, in.request.mix, bounds);
  if (!design.is_ok()) return fail(2, design.status());
  const auto has = [&](Layout layout) {
    return std::find(in.request.layouts.begin(), in.request.layouts.end(), layout) != in.request.layouts.end();
  };
  const MonkeyRange range{in.request.size_ratio_min, in.request.size_ratio_max, has(Layout::kLeveling), has(Layout::kTiering)};
  if (!range.leveling && !range.tiering)
    return fail(2, Status::invalid_argument("layouts has neither leveling nor tiering, the two layouts of Monkey"));
  return print(monkey_text(in.request, *design, monkey_navigation(in.request.system, in.request.mix, range, bounds)));
}

int run_what_if(const TuneInputs& in, const std::vector<std::string>& changes) {
  if (in.policy) return fail(2, Status::invalid_argument("what-if takes a layout, not a policy"));
  std::vector<Answer> answers;
  for (const std::string& text : changes) {
    auto change = parse_change(text);
    if (!change.is_ok()) return fail(2, change.status());
    auto effect = what_if(in.request, in.tuning, *change);
    if (!effect.is_ok()) return fail(2, effect.status().with_context(text));
    answers.push_back({text, changed(in.request, *change), std::move(effect).value()});
  }
  return print(what_if_text(in.request, answers));
}

volatile std::sig_atomic_t stop_requested = 0;

int run_device(const Arguments& a) {
  const auto size = parse_bytes("size", a.device_size);
  if (!size.is_ok()) return fail(2, size.status());
  DeviceTest test;
  test.dir = a.device_dir;
  test.file_bytes = static_cast<std::uint64_t>(std::clamp(*size, 0.0, 0x1p50));
  test.progress = [](const std::string& line) { std::fprintf(stderr, "ebbtide-tune: %s\n", line.c_str()); };
  // The test file must not stay when the user ends the program.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, [](int) { stop_requested = 1; });
  test.stopped = [] { return stop_requested != 0; };
  const auto figures = measure_device(*posix_file_system(), *system_clock(), test);
  if (!figures.is_ok()) return fail(figures.status().code() == Code::kInvalidArgument ? 2 : 1, figures.status());
  return print(a.json() ? device_json(*figures) : device_yaml(*figures));
}

/// Compares tunings for the workloads of --workloads. Without --workloads, for the given workload; without a given workload, for
/// the 15 workloads of Endure.
int run_compare(const TuneInputs& in, const Arguments& a, bool has_workload, bool has_layout) {
  CompareQuestion question{in.request, {}, a.rhos, std::nullopt, a.sample};
  if (has_layout) question.given = in.tuning;
  if (has_layout && in.policy) return fail(2, Status::invalid_argument("compare takes a layout, not a policy"));
  for (const std::string& name : a.workloads) {
    const auto mix = parse_workload("workloads", name);
    if (!mix.is_ok()) return fail(2, mix.status());
    question.expected.emplace_back(name, *mix);
  }
  if (a.workloads.empty() && has_workload) question.expected.emplace_back("workload", in.request.mix);
  if (question.expected.empty()) {
    for (std::size_t i = 0; i < std::size(kEndureWorkloads); ++i)
      question.expected.emplace_back("w" + std::to_string(i), kEndureWorkloads[i]);
  }
  if (question.given) {
    if (const Status right = check_tuning(*question.given); !right.is_ok()) return fail(2, right);
  }
  const auto compared = compare(question);
  if (!compared.is_ok()) return fail(2, compared.status());
  return print(a.json() ? compare_json(question, *compared) : compare_text(question, *compared));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kIntroduction, "ebbtide-tune");
  app.footer(kExamples);
  app.require_subcommand(1);
  Arguments a;
  CLI::App* explain =
      app.add_subcommand("explain", "Prints the cost of each operation under a given tuning, level by level.")->alias("model");
  CLI::App* advise =
      app.add_subcommand("advise", "Prints the best tuning of each layout, the cheapest first, and its settings.")->alias("tune");
  CLI::App* yaml = app.add_subcommand("yaml", "Prints the best tuning as a configuration of ebbtide-server.");
  CLI::App* compare_command = app.add_subcommand("compare",
                                                 "Compares nominal and robust tunings over sampled workloads: Endure's "
                                                 "uncertainty benchmark. ./dev bench paper endure draws it.");
  CLI::App* device =
      app.add_subcommand("device", "Measures a device for the cost model: page size, cost of writes, and of reads in sequence.");
  device->add_option("DIR", a.device_dir, "directory for the test file, which is removed at the end")->required();
  device->add_option("--size", a.device_size,
                     "bytes of the test file, at least 1MiB (default 256MiB); should be larger than the device's own cache");
  device->footer(kDeviceExamples);
  CLI::App* what_if_command = app.add_subcommand("what-if", "Prints how the costs change with memory, data, device or mix.");
  CLI::App* monkey = app.add_subcommand(
      "monkey",
      "Prints two designs by Monkey for the given data and mix: layout, size ratio T, and memory of buffer and filters. The "
      "cheapest by Algorithm 1, with a searched division of the memory; and the cheapest with a whole T, by Algorithm 5.");
  add_flags(monkey, &a, {"Data", "Device", "Operations"}, {"max_read", "max_write", "size_ratios", "layouts"});
  add_flags(explain, &a, {"Data", "Device", "Operations", "Deletes", "Tuning"});
  add_flags(advise, &a, {"Data", "Device", "Operations", "Deletes", "Search"});
  add_flags(compare_command, &a, {"Data", "Device", "Deletes", "Tuning"},
            {"workload", "range_selectivity", "layouts", "size_ratios", "smallest_buffer", "max_transient_space", "max_merge",
             "max_read", "max_write"});
  compare_command->add_option("--workloads", a.workloads, "expected workloads, for example w7,w11 (default w0 to w14)")
      ->delimiter(',');
  compare_command->add_option("--rhos", a.rhos, "the rho of each robust tuning (default 0.25,0.5,1,2)")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e6));
  compare_command->add_option("--samples", a.sample.size, "number of sampled workloads (default 10000)")
      ->check(CLI::Range(1, 10'000'000));
  compare_command->add_option("--seed", a.sample.seed, "seed of the sampled workloads (default 1)");
  compare_command->footer(kCompareExamples);
  add_flags(yaml, &a, {"Data", "Device", "Operations", "Deletes", "Search"});
  add_flags(what_if_command, &a, {"Data", "Device", "Operations", "Deletes", "Tuning", "Search"});
  explain->footer(kExplainExamples);
  advise->footer(kAdviseExamples);
  yaml->footer(kYamlExamples);
  what_if_command->footer(kWhatIfExamples);
  monkey->footer(kMonkeyExamples);
  for (CLI::App* command : {explain, advise, compare_command, device})
    command->add_option("--format", a.format, "table (default; device: YAML) or json")->check(CLI::IsMember({"table", "json"}));
  explain
      ->add_option_function<std::string>(
          "--rho", [&a](const std::string& value) { a.flags["rho"] = value; },
          "also print the worst mix within this divergence (default 0)")
      ->type_name("")
      ->group("Operations");
  advise
      ->add_option_function<std::string>(
          "--equations", [&a](const std::string& value) { a.flags["equations"] = value; },
          "engine (default), paper (Endure as printed) or paper_relaxed (as in Endure's tables)")
      ->type_name("")
      ->group("Search");
  for (CLI::App* command : {advise, yaml}) {
    command
        ->add_option("--history", a.history,
                     "take mix and rho from a CSV file with a line per window: counts of empty reads, reads, ranges and writes")
        ->group("Search");
  }
  advise->add_option("--server", a.server, "take data, memory, mix and rho from a running server")
      ->type_name("HOST:PORT")
      ->group("Server");
  advise->add_option("--database", a.database, "the server's database (default 0)")->type_name("N")->group("Server");
  advise->add_option("--user", a.user, "user to log in as (default: the default user)")->type_name("NAME")->group("Server");
  advise->add_option("--password-file", a.password_file, "file with the password (default: the variable REDISCLI_AUTH)")
      ->type_name("FILE")
      ->group("Server");
  what_if_command->add_option("--change", a.changes, "KEY=VALUE; each --change is a question of its own")->required()->take_all();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (device->parsed()) return run_device(a);
  if (!a.server.empty()) return run_server_advise(a);
  TuneValues values;
  for (const std::string& file : a.files) {
    const auto text = read_text(file);
    if (!text.is_ok()) return fail(1, text.status());
    auto parsed = parse_tune_file(*text);
    if (!parsed.is_ok()) return fail(2, parsed.status().with_context(file));
    for (auto& [key, value] : *parsed) values[key] = std::move(value);
  }
  for (const auto& [key, value] : a.flags) {
    if (!value.empty()) values[key] = value;
  }
  std::optional<Uncertainty> measured;
  if (!a.history.empty()) {
    const auto text = read_text(a.history);
    if (!text.is_ok()) return fail(1, text.status());
    const auto windows = parse_history(*text);
    if (!windows.is_ok()) return fail(2, windows.status().with_context(a.history));
    const auto found = uncertainty_from_history(*windows);
    if (!found.is_ok()) return fail(2, found.status().with_context(a.history));
    measured = *found;
    for (const char* key : {"workload", "rho"}) values.erase(key);
  }
  auto inputs = parse_tune_inputs(values);
  if (!inputs.is_ok()) return fail(2, inputs.status());
  if (measured) {
    inputs->request.mix = measured->expected;
    inputs->request.rho = measured->rho;
  }
  if (compare_command->parsed()) return run_compare(*inputs, a, values.contains("workload"), values.contains("layout"));
  if (const Status right = check_mix(inputs->request.mix); !right.is_ok())
    return fail(
        2, Status::invalid_argument("workload is missing: give --workload, --workload-low and --workload-high, or --history"));
  if (explain->parsed()) return run_explain(*inputs, a.json());
  if (advise->parsed()) return run_advise(*inputs, a.json());
  if (yaml->parsed()) return run_yaml(*inputs);
  if (monkey->parsed()) return run_monkey(*inputs);
  return run_what_if(*inputs, a.changes);
}
