#include "model/tuning.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "model/number_text.h"

namespace ebbtide {
namespace {

constexpr std::array<std::pair<Layout, std::string_view>, 7> kLayoutNames = {{{Layout::kLeveling, "leveling"},
                                                                              {Layout::kTiering, "tiering"},
                                                                              {Layout::kLazyLeveling, "lazy_leveling"},
                                                                              {Layout::kOneLeveling, "one_leveling"},
                                                                              {Layout::kFluid, "fluid"},
                                                                              {Layout::kKlsm, "klsm"},
                                                                              {Layout::kGarnering, "garnering"}}};

Status out_of_range(const char* name, double value, const char* allowed) {
  return Status::invalid_argument(std::string(name) + " is " + number_text(value) + "; allowed: " + allowed);
}
bool within(double value, double low, double high) { return value >= low && value <= high; }
constexpr double kMost = 1e30;  // keeps sums and products finite

}  // namespace

std::string_view layout_name(Layout layout) {
  for (const auto& [value, name] : kLayoutNames) {
    if (value == layout) return name;
  }
  return "";
}

std::optional<Layout> parse_layout(std::string_view name) {
  for (const auto& [value, text] : kLayoutNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

Status check_system(const System& s) {
  if (!within(s.entries, 1, kMost)) return out_of_range("entries", s.entries, "1 or more");
  if (!within(s.entry_bytes, 1, 1e12)) return out_of_range("entry_bytes", s.entry_bytes, "1 or more");
  if (!within(s.page_bytes, 1, 1e12)) return out_of_range("page_bytes", s.page_bytes, "1 or more");
  if (!within(s.memory_bits, 1, kMost)) return out_of_range("memory", s.memory_bits / 8, "bytes for buffer and filters, above 0");
  if (!within(s.write_asymmetry, 0, 1e6)) return out_of_range("write_asymmetry", s.write_asymmetry, "0 to 1000000");
  if (!within(s.sequential_cost, 0, 1e6)) return out_of_range("sequential_cost", s.sequential_cost, "0 to 1000000");
  if (!within(s.range_selectivity, 0, 1)) return out_of_range("range_selectivity", s.range_selectivity, "0 to 1");
  for (const double ratio : s.miss_ratios) {
    if (!within(ratio, 0, 1)) return out_of_range("miss_ratios", ratio, "0 to 1");
  }
  if (!within(s.deletes.share, 0, 1)) return out_of_range("deletes.share", s.deletes.share, "0 to 1");
  if (!within(s.deletes.writes_per_deadline, 0, kMost))
    return out_of_range("deletes.writes_per_deadline", s.deletes.writes_per_deadline, "0 or more");
  if (!within(s.deletes.entries_per_file, 1, kMost))
    return out_of_range("deletes.entries_per_file", s.deletes.entries_per_file, "1 or more");
  if (!within(s.deletes.secondary_per_operation, 0, 1))
    return out_of_range("deletes.secondary_per_operation", s.deletes.secondary_per_operation, "0 to 1");
  return Status::ok();
}

Status check_tuning(const Tuning& t) {
  if (!within(t.size_ratio, 2, 1e6)) return out_of_range("size_ratio", t.size_ratio, "2 to 1000000");
  if (!within(t.filter_bits, 0, kMost)) return out_of_range("filter memory", t.filter_bits / 8, "0 bytes or more");
  if (!within(t.buffer_bits, 1, kMost)) return out_of_range("buffer", t.buffer_bits / 8, "bytes, above 0");
  const std::size_t needed = t.layout == Layout::kFluid ? 2 : t.layout == Layout::kKlsm ? 1 : 0;
  if (t.runs.size() < needed)
    return Status::invalid_argument("runs has " + std::to_string(t.runs.size()) + " values; " +
                                    std::string(layout_name(t.layout)) + " needs " + std::to_string(needed) + " at least");
  for (const double runs : t.runs) {
    if (!within(runs, 1, 1e6)) return out_of_range("runs", runs, "1 to T - 1");
  }
  if (!(t.scaling_ratio > 0 && t.scaling_ratio <= 1)) return out_of_range("scaling_ratio", t.scaling_ratio, "above 0, at most 1");
  if (!within(t.level0_runs, 1, 64)) return out_of_range("level0_runs", t.level0_runs, "1 to 64");
  if (!within(t.tile_pages, 1, 64)) return out_of_range("tile_pages", t.tile_pages, "1 to 64");
  return Status::ok();
}

}  // namespace ebbtide
