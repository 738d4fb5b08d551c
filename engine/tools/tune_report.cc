#include "tools/tune_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/engine_settings.h"

namespace ebbtide {
namespace {

using Row = std::vector<std::string>;

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return formatted(bytes, "%.3g ") + kUnits[unit];
}

std::string percent(double ratio) { return formatted(ratio * 100, "%+.1f %%"); }

std::string runs_text(const std::vector<double>& runs) {
  std::string out;
  for (const double k : runs) out += (out.empty() ? "" : ",") + formatted(k, "%g");
  return out;
}

std::string mix_text(const PerOperation& mix) {
  std::string out;
  for (std::size_t i = 0; i < kOperations; ++i)
    out += (i == 0 ? "" : ", ") + formatted(mix[i] * 100, "%.1f % ") + std::string("% ") +
           operation_name(static_cast<Operation>(i)) + "s";
  return out;
}

void add_costs(const PerOperation& costs, Row* row) {
  for (const double cost : costs) row->push_back(formatted(cost));
}

/// Returns the limit K_i of runs of each level, up to the last level that exists. Equal limits at the end are given once.
std::vector<double> used_runs(const Tuning& tuning, int levels) {
  std::vector<double> runs = tuning.runs;
  if (tuning.layout == Layout::kKlsm && runs.size() > static_cast<std::size_t>(levels))
    runs.resize(static_cast<std::size_t>(levels));
  if (tuning.layout == Layout::kKlsm) {
    while (runs.size() > 1 && runs.back() == runs[runs.size() - 2]) runs.pop_back();
  }
  return runs;
}

std::string levels_table(const CostReport& report, const char* unit) {
  const bool runs = std::string(unit) == "run";  // for single runs, two of the columns are unknown
  std::vector<Row> rows = {{unit, "entries", "filter bits", "false positives"}};
  if (!runs) rows[0].insert(rows[0].end(), {"runs", "writes of an entry"});
  for (int i = 0; i < report.levels; ++i) {
    const LevelCost& level = report.level[static_cast<std::size_t>(i)];
    rows.push_back({std::to_string(report.first_level + i), formatted(level.entries), formatted(level.bits_per_entry, "%.2f"),
                    formatted(level.false_positive_rate, "%.2g")});
    if (!runs) rows.back().insert(rows.back().end(), {formatted(level.runs, "%g"), formatted(level.writes, "%.2f")});
  }
  return aligned_table(rows);
}

/// Prints the costs of each operation, their mean, and the work and space of merges.
std::string report_text(const TuneRequest& request, const Advice& advice) {
  const CostReport& report = advice.report;
  std::vector<Row> rows = {{"operation", "share", "page reads", "part of the mean"}};
  for (std::size_t i = 0; i < kOperations; ++i) {
    rows.push_back({operation_name(static_cast<Operation>(i)), formatted(request.mix[i] * 100, "%.1f %%"),
                    formatted(report.costs[i]),
                    formatted(advice.mean == 0 ? 0 : request.mix[i] * report.costs[i] / advice.mean * 100, "%.1f %%")});
  }
  std::string out = aligned_table(rows) + "\n";
  rows = {{"mean", formatted(advice.mean) + " page reads an operation"}};
  if (request.rho > 0) rows.push_back({"worst within rho", formatted(advice.worst.cost) + " at " + mix_text(advice.worst.mix)});
  rows.push_back({"write amplification", formatted(report.write_amplification, "%.2f")});
  if (report.delete_work > 0) rows.push_back({"deadlines", formatted(report.delete_work) + " page reads of each write"});
  if (request.system.deletes.secondary_per_operation > 0)
    rows.push_back({"delete by stamp", formatted(report.secondary_delete) + " page reads each"});
  rows.push_back({"longest merge", bytes_text(report.longest_merge_bytes)});
  rows.push_back({"space during this merge", formatted(report.transient_space, "%.2f") + " times the data"});
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row[0].size());
  for (const Row& row : rows) out += row[0] + std::string(width + 2 - row[0].size(), ' ') + row[1] + "\n";
  return out;
}

}  // namespace

std::string formatted(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string aligned_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i == 0 ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string tuning_text(const Tuning& tuning, const System& system) {
  std::string out = std::string(layout_name(tuning.layout)) + ", T = " + formatted(tuning.size_ratio, "%g");
  if (tuning.layout == Layout::kFluid || tuning.layout == Layout::kKlsm) out += ", runs " + runs_text(tuning.runs);
  if (tuning.layout == Layout::kGarnering) out += ", c = " + formatted(tuning.scaling_ratio, "%g");
  if (tuning.tile_pages > 1) out += ", tiles of " + formatted(tuning.tile_pages, "%g") + " pages";
  return out + ", buffer " + bytes_text(tuning.buffer_bits / 8) + ", filters " +
         formatted(tuning.filter_bits / system.entries, "%.2f") + " bits an entry";
}

std::string model_text(const TuneRequest& request, const Advice& advice) {
  return tuning_text(advice.tuning, request.system) + "\n\n" + report_text(request, advice) + "\n" +
         levels_table(advice.report, "level");
}

std::string simulated_text(const TuneInputs& inputs, const CostReport& report) {
  Advice advice;
  advice.report = report;
  advice.worst = worst_case(inputs.request.mix, report.costs, inputs.request.rho);
  advice.mean = report.mean(inputs.request.mix, inputs.request.system.deletes.secondary_per_operation);
  std::string out = inputs.policy->name;
  for (const auto& [name, value] : inputs.policy->parameters) out += ", " + name + " = " + formatted(value, "%g");
  out += ", buffer " + bytes_text(inputs.tuning.buffer_bits / 8) + ", filters " +
         formatted(inputs.tuning.filter_bits / inputs.request.system.entries, "%.2f") + " bits an entry\n";
  out += "Simulated: averages over the second half of the flushes.\n\n";
  return out + report_text(inputs.request, advice) + "\n" + levels_table(report, "run");
}

std::string yaml_text(const TuneRequest& request, const Tuning& tuning) {
  const EngineSettings settings = engine_settings(request.system, tuning, request.equations);
  std::string out = "tree:\n  memtable_size: " + std::to_string(settings.memtable_bytes / 1024) + "KiB\n";
  out += "  policy:\n    name: " + settings.policy.name + "\n";
  for (const auto& [name, value] : settings.policy.parameters) out += "    " + name + ": " + formatted(value, "%g") + "\n";
  if (request.system.page_bytes != TreeSettings{}.page_size)
    out += "  page_size: " + formatted(request.system.page_bytes, "%.0f") + "B\n";
  if (settings.pages_per_tile > 1) out += "  pages_per_tile: " + std::to_string(settings.pages_per_tile) + "\n";
  return out + "  filters:\n    bits_per_key: " + formatted(settings.filter_bits_per_key, "%.2f") + "\n";
}

Status check_engine_settings(const TuneRequest& request, const Tuning& tuning) {
  const EngineSettings settings = engine_settings(request.system, tuning, request.equations);
  TRY(validate(settings.policy));
  constexpr std::uint64_t kSmallest = std::uint64_t{16} << 10, kLargest = std::uint64_t{16} << 30;  // range of tree.memtable_size
  if (settings.memtable_bytes < kSmallest || settings.memtable_bytes > kLargest)
    return Status::invalid_argument("tree.memtable_size is " + bytes_text(static_cast<double>(settings.memtable_bytes)) +
                                    "; allowed: 16KiB to 16GiB");
  const double page = request.system.page_bytes;
  if (page < 1024 || page > 65536)
    return Status::invalid_argument("page_size is " + bytes_text(page) + "; the engine's pages have 1KiB to 64KiB");
  return Status::ok();
}

std::string settings_text(const TuneRequest& request, const Tuning& tuning) {
  std::string out = "Settings (ebbtide.yaml):\n" + yaml_text(request, tuning);
  if (const Status accepted = check_engine_settings(request, tuning); !accepted.is_ok())
    out += "The engine refuses these settings: " + accepted.to_string() + "\n";
  return out;
}

std::string advices_text(const TuneRequest& request, const std::vector<Advice>& advices) {
  const bool robust = request.rho > 0;
  std::string out = "Expected: " + mix_text(request.mix) + "\n";
  if (robust) out += "Uncertainty: rho = " + formatted(request.rho, "%.3g") + "\n";
  std::vector<Row> rows = {{"layout", "T", "runs", "c", "buffer", "filter bits", "levels"}};
  for (const char* column : {"empty read", "read", "range", "write", "mean"}) rows[0].emplace_back(column);
  if (robust) rows[0].emplace_back("worst");
  rows[0].emplace_back("longest merge");
  for (const Advice& advice : advices) {
    const Tuning& t = advice.tuning;
    const bool has_runs = t.layout == Layout::kFluid || t.layout == Layout::kKlsm;
    Row row = {std::string(layout_name(t.layout)),
               formatted(t.size_ratio, "%g"),
               has_runs ? runs_text(used_runs(t, advice.report.levels)) : "-",
               t.layout == Layout::kGarnering ? formatted(t.scaling_ratio, "%g") : "-",
               bytes_text(t.buffer_bits / 8),
               formatted(t.filter_bits / request.system.entries, "%.2f"),
               formatted(advice.report.level_count, "%.3g")};
    add_costs(advice.report.costs, &row);
    row.push_back(formatted(advice.mean));
    if (robust) row.push_back(formatted(advice.worst.cost));
    row.push_back(bytes_text(advice.report.longest_merge_bytes));
    rows.push_back(std::move(row));
  }
  out += "\n" + aligned_table(rows) + "\n";
  if (robust) out += "Worst mix of the first layout: " + mix_text(advices.front().worst.mix) + "\n\n";
  return out + settings_text(request, advices.front().tuning);
}

std::string monkey_text(const TuneRequest& request, const MonkeyDesign& design, const Result<MonkeyDesign>& navigated) {
  const auto table = [&](const MonkeyDesign& one) {
    return aligned_table({{"policy", "T", "levels", "buffer", "filter bits", "point read", "range", "write", "mean"},
                          {one.tiering ? "tiering" : "leveling", formatted(one.size_ratio), formatted(one.levels, "%.3g"),
                           bytes_text(one.buffer_bits / 8), formatted(one.filter_bits / request.system.entries, "%.2f"),
                           formatted(one.point_read), formatted(one.range), formatted(one.write), formatted(one.cost)}});
  };
  return "Expected: " + mix_text(request.mix) + "\n\n" + table(design) +
         "\nWith a whole T, and the memory divided by Algorithm 5:\n" +
         (navigated.is_ok() ? table(*navigated) : std::string(navigated.status().message()) + "\n");
}

std::string what_if_text(const TuneRequest& request, const std::vector<Answer>& answers) {
  std::vector<Row> rows = {{"", "empty read", "read", "range", "write", "mean", "change"}};
  const Advice& now = answers.front().effect.before;
  Row first = {"now"};
  add_costs(now.report.costs, &first);
  first.push_back(formatted(now.mean));
  rows.push_back(std::move(first));
  std::string tunings;
  for (const Answer& answer : answers) {
    Row row = {answer.question};
    add_costs(answer.effect.after.report.costs, &row);
    row.push_back(formatted(answer.effect.after.mean));
    row.push_back(percent(answer.effect.after.mean / now.mean - 1));
    rows.push_back(std::move(row));
    if (!answer.effect.retuned) continue;
    const Advice& best = *answer.effect.retuned;
    row = {"  tuned for this change"};
    add_costs(best.report.costs, &row);
    row.push_back(formatted(best.mean));
    row.push_back(percent(best.mean / now.mean - 1));
    rows.push_back(std::move(row));
    tunings += answer.question + ": " + tuning_text(best.tuning, answer.after.system) + "\n";
  }
  return tuning_text(now.tuning, request.system) + "\n\n" + aligned_table(rows) + "\n" + tunings;
}

}  // namespace ebbtide
