// ebbtide-simulate: computes the costs of merge policies without a database.
//
// Exit status: 0 success, 1 a policy failed or a file could not be read, 2 wrong use.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "io/file_system.h"
#include "policy/registry.h"
#include "tools/simulate_arguments.h"
#include "tools/simulate_report.h"

namespace {

using namespace ebbtide;

constexpr std::uint64_t kTellFrom = 100'000;  // simulations of at least this many flushes report progress
constexpr std::uint64_t kMostFlushes = 1'000'000'000;

struct Arguments {
  std::vector<std::string> policies;
  std::string config, at, file_choice, format = "table", metric = "write_amp", sizes = "equal";
  std::map<std::string, double> flags;
  std::uint64_t flushes = 10'000, seed = 1, points = 10;
  std::uint32_t cells = 0;
  double updates = 0, deletes = 0, file_size = 1;
  bool log = false, quiet = false, as_engine = false;
};

std::string policies_text() {
  std::string out = "Policies and their parameters (default; engine/docs/policies.md explains them):\n";
  for (const PolicyInfo& policy : all_policies()) {
    out += "  " + std::string(policy.name) + ":";
    for (const PolicyParameter& parameter : policy.parameters) {
      char text[64];
      std::snprintf(text, sizeof(text), " %s %g..%g (%g)", parameter.name, parameter.min, parameter.max, parameter.fallback);
      out += text;
    }
    out += "\n";
  }
  return out +
         "\nExamples:\n"
         "  ebbtide-simulate --policy binomial --k 6 --flushes 20000 --at 1000,3000,5000 --format csv\n"
         "  ebbtide-simulate --policy tiering,leveling,binomial:k=6 --flushes 20000\n"
         "  ebbtide-simulate --policy exploring:k=4,lambda=1.5,bigtable:k=4 --format svg --metric avg_runs > runs.svg\n"
         "  ebbtide-simulate --config config/ebbtide.yaml --policy tiering --updates 0.5 --deletes 0.1\n";
}

void add_options(CLI::App* app, Arguments* a) {
  app->add_option("--policy", a->policies,
                  "NAME[:parameter=value,...]; for several policies, separate them by commas, or repeat the option");
  app->add_option("--config", a->config,
                  "also simulate tree.policy of this YAML file; the file's tree.file_choice applies to all policies");
  app->add_option("--flushes", a->flushes, "number of flushed memtables")->check(CLI::Range(std::uint64_t{1}, kMostFlushes));
  app->add_option("--at", a->at, "numbers of flushes at which results are printed, for example 1000,3000,5000");
  app->add_option("--points", a->points, "without --at: number of evenly spaced results")->check(CLI::Range(1, 10'000));
  app->add_option("--format", a->format, "table, csv, plot (characters) or svg")
      ->check(CLI::IsMember({"table", "csv", "plot", "svg"}));
  app->add_option("--metric", a->metric,
                  "the result to plot: write_amp (default), avg_runs, max_runs, space_amp or transient_space_amp");
  app->add_flag("--log", a->log, "logarithmic axes, and --points spaced by a constant factor");
  app->add_option("--sizes", a->sizes, "sizes of flushes: equal, or random (0.5 to 1.5 memtables)")
      ->check(CLI::IsMember({"equal", "random"}));
  app->add_option("--updates", a->updates, "fraction of operations that overwrite a random existing key")
      ->check(CLI::Range(0.0, kMostRewrites));
  app->add_option("--deletes", a->deletes, "fraction of operations that delete a random existing key")
      ->check(CLI::Range(0.0, kMostRewrites));
  app->add_option("--seed", a->seed, "seed of random sizes");
  app->add_option(
      "--cells", a->cells,
      "number of cells into which the key space is divided: a power of two up to 4096; 0 (default) = by policy. With 1024 cells, "
      "results are within 3 % of the engine's; with 64 cells, the default of policies that merge file by file, 4 % less is "
      "written");
  app->add_option("--file-size", a->file_size, "size of a table, in memtables (default 1); matters only with more than one cell");
  app->add_option("--file-choice", a->file_choice,
                  "round_robin, least_overlap (default), most_tombstones or oldest; overrides --config. Simulated "
                  "files have no tombstones, so most_tombstones and oldest choose the file with the smallest key");
  app->add_flag("--as-engine", a->as_engine,
                "work as the engine does: write each flush before its merges, and call a policy until it returns no plan");
  app->add_flag("--quiet", a->quiet, "no progress on standard error");
  for (const auto& [name, flags] : parameter_flags()) {
    std::string names;
    for (const std::string& flag : flags) names += (names.empty() ? "--" : ",--") + flag;
    app->add_option_function<double>(
           names, [a, name = name](double value) { a->flags[name] = value; },
           "sets this parameter of every named policy that has it")
        ->group("Parameters");
  }
  app->footer(policies_text());
}

Result<std::string> read_file(const std::string& path) {
  TRY_ASSIGN(file, posix_file_system()->open(path));
  std::string text(file->size(), '\0');
  TRY(file->read(0, text.size(), text.data()));
  return text;
}

struct Choices {
  std::vector<PolicySettings> policies;
  FileChoice file_choice = FileChoice::kLeastOverlap;
};

Result<Choices> choices_of(const Arguments& a) {
  Choices choices;
  if (!a.config.empty()) {
    auto text = read_file(a.config);
    if (!text.is_ok()) return text.status();
    auto tree = parse_tree_choices(*text);
    if (!tree.is_ok()) return tree.status().with_context(a.config);
    choices.policies.push_back(std::move(tree->policy));
    choices.file_choice = tree->file_choice;
  }
  for (const std::string& text : a.policies) {
    TRY_ASSIGN(parsed, parse_policies(text));
    choices.policies.insert(choices.policies.end(), parsed.begin(), parsed.end());
  }
  if (choices.policies.empty())
    return Status::invalid_argument("no policy: give --policy or --config (--help lists the policies)");
  TRY(apply_flags(a.flags, &choices.policies));
  if (!a.file_choice.empty()) {
    TRY_ASSIGN(file_choice, parse_file_choice(a.file_choice));
    choices.file_choice = file_choice;
  }
  return choices;
}

SimulationSettings settings_of(const Arguments& a, const Choices& choices, const PolicySettings& policy) {
  SimulationSettings settings;
  settings.policy = policy;
  settings.workload = {a.sizes == "random", a.updates, a.deletes, a.seed};
  settings.cells = a.cells;
  settings.file_size = a.file_size;
  settings.as_engine = a.as_engine;
  settings.file_choice = choices.file_choice;
  return settings;
}

Result<std::vector<SimulationSeries>> run(const Arguments& a, const Choices& choices, const std::vector<std::uint64_t>& at) {
  const std::vector<PolicySettings>& policies = choices.policies;
  const std::vector<std::string> labels = labels_of(policies);
  std::vector<SimulationSeries> series;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const std::uint64_t total = at.back();
    std::uint64_t told = 0;
    const auto progress = [&](std::uint64_t flushes) {
      const std::uint64_t percent = flushes * 100 / total;
      if (a.quiet || total < kTellFrom || percent < told + 10) return;
      told = percent - percent % 10;
      std::fprintf(stderr, "%s: %llu %% of %llu flushes\n", labels[i].c_str(), static_cast<unsigned long long>(told),
                   static_cast<unsigned long long>(total));
    };
    TRY_ASSIGN(samples, simulate(settings_of(a, choices, policies[i]), at, progress));
    series.push_back({labels[i], std::move(samples)});
  }
  return series;
}

int wrong_use(const std::string& what) {
  std::fprintf(stderr, "ebbtide-simulate: %s\n", what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulates merge policies: write, read and space amplification over time.", "ebbtide-simulate");
  Arguments a;
  add_options(&app, &a);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const SimulationMetric* metric = find_simulation_metric(a.metric);
  if (metric == nullptr)
    return wrong_use("--metric is \"" + a.metric + "\"; allowed: a column of the CSV except policy and flushes");
  if (a.updates + a.deletes > kMostRewrites) return wrong_use("--updates and --deletes together are more than 0.99");
  const auto choices = choices_of(a);
  if (!choices.is_ok()) return wrong_use(choices.status().to_string());
  const bool plots = a.format == "plot" || a.format == "svg";
  // A plot has at least one point per column, unless --at is given.
  Result<std::vector<std::uint64_t>> at =
      a.at.empty() ? spread_moments(a.flushes, plots ? std::max<std::uint64_t>(a.points, 200) : a.points, a.log)
                   : parse_moments(a.at, a.flushes);
  if (!at.is_ok()) return wrong_use(at.status().to_string());
  for (const PolicySettings& policy : choices->policies) {
    if (const auto made = Simulation::make(settings_of(a, *choices, policy)); !made.is_ok())
      return wrong_use(made.status().to_string());
  }
  const auto series = run(a, *choices, *at);
  if (!series.is_ok()) {
    std::fprintf(stderr, "ebbtide-simulate: %s\n", series.status().to_string().c_str());
    return 1;
  }
  std::string out = a.format == "csv"    ? csv_text(*series)
                    : a.format == "plot" ? plot_text(*series, *metric, a.log)
                    : a.format == "svg"  ? svg_text(*series, *metric, a.log)
                                         : table_text(*series);
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
