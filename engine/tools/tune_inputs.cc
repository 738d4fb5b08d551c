#include "tools/tune_inputs.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "tools/simulate_arguments.h"

namespace ebbtide {
namespace {

constexpr TuneKey kTuneKeys[] = {
    {"entries", "Data", "number of entries, for example 1e10 or 10G (powers of 1000)"},
    {"entry_size", "Data", "bytes of an entry, key and value, for example 1KiB"},
    {"page_size", "Data", "bytes of a page (default 4KiB)"},
    {"memory", "Data", "bytes for filters and buffer (memtable) together, for example 1GiB"},
    {"memory_bits_per_entry", "Data", "instead of memory: bits for filters and buffer together, for each entry, for example 10"},
    {"write_asymmetry", "Device", "cost of writing a page / cost of reading a page (default 1)"},
    {"sequential_cost", "Device", "cost of a page in a sequential access / cost in a random access (default 1)"},
    {"miss_ratios", "Device",
     "fraction of page reads that miss the cache, by level from level 1 on, for example 0,0.2,0.9; the last value holds for all "
     "deeper levels (default 1)"},
    {"filter_curve", "Device",
     "ideal (default): the false positives of an ideal Bloom filter; engine: the false positives of this engine's filters"},
    {"workload", "Operations",
     "shares of empty point reads, point reads, range reads and writes, or percentages, for example 0.33,0.33,0.33,0.01; or w0 "
     "to "
     "w14, an expected workload of Endure (Table 4)"},
    {"range_selectivity", "Operations", "fraction of all entries that a range read returns (default 0)"},
    {"delete_share", "Deletes", "fraction of writes that are deletes (default 0)"},
    {"writes_per_deadline", "Deletes",
     "writes within a delete deadline, that is, write rate times deadline (default 0 = no deadline)"},
    {"entries_per_file", "Deletes", "entries of a table file (default 65536)"},
    {"secondary_deletes", "Deletes", "range deletes by stamp, per operation of the mix (default 0)"},
    {"equations", "Tuning", "engine (default), paper (Endure as printed) or paper_relaxed (as in Endure's tables)"},
    {"layout", "Tuning", "leveling, tiering, lazy_leveling, one_leveling (default), fluid, klsm or garnering"},
    {"policy", "Tuning",
     "instead of a layout, a policy of the engine, which is simulated, for example exploring:k=4,lambda=1.5 "
     "(engine/docs/policies.md)"},
    {"size_ratio", "Tuning", "T, size of a level / size of the level above (default 6)"},
    {"runs", "Tuning",
     "klsm: runs of each level, for example 4,4,1; the last value holds for all deeper levels; fluid: runs of each upper level, "
     "and runs of the last level"},
    {"buffer", "Tuning", "bytes of the memtable; filters get all other memory (default 64MiB, but at most half of the memory)"},
    {"scaling_ratio", "Tuning", "c of garnering, above 0, at most 1 (default 0.8)"},
    {"level0_runs", "Tuning", "flushes that one_leveling and garnering merge down together (default 4)"},
    {"tile_pages", "Tuning", "pages of a delete tile, 1 to 64 (default 1)"},
    {"layouts", "Search", "layouts to search, for example leveling,tiering (default all)"},
    {"size_ratios", "Search", "smallest and largest T to search (default 2,100)"},
    {"rho", "Search", "largest divergence (KL) of the actual mix from the expected mix: 0 (default) none, 0.25 small, 2 large"},
    {"unlikely_workload", "Search", "sets rho to the divergence of this mix from the expected mix"},
    {"workload_low", "Search", "low ends of ranges of shares; with workload_high, sets mix and rho"},
    {"workload_high", "Search", "high ends of ranges of shares; with workload_low, sets mix and rho"},
    {"smallest_buffer", "Search",
     "bytes of the smallest memtable that the search considers (default 1MiB, but at most half of the memory)"},
    {"max_transient_space", "Search",
     "limit of bytes on disk during a merge / bytes of the data, for example 1.5 (default no limit)"},
    {"max_merge", "Search", "limit of bytes that one merge writes, for example 100GiB (default no limit)"},
    {"max_read", "Search", "limit of page reads of a point read, for example 1.2 (default no limit)"},
    {"max_write", "Search", "limit of the cost of a write in page reads, for example 3 (default no limit)"},
};

std::vector<std::string> pieces(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

Status wrong_value(const std::string& key, const std::string& text, const std::string& allowed) {
  return Status::invalid_argument(key + " is \"" + text + "\"; allowed: " + allowed);
}

/// Parses a number and the unit after it, which may be empty.
Result<std::pair<double, std::string>> number_and_unit(const std::string& key, const std::string& text, const char* allowed) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return wrong_value(key, text, allowed);
  std::string unit(end, text.data() + text.size());
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  return std::pair(value, unit);
}

Result<double> scaled(const std::string& key, const std::string& text, const char* allowed,
                      std::span<const std::pair<const char*, double>> units) {
  TRY_ASSIGN(parsed, number_and_unit(key, text, allowed));
  for (const auto& [unit, factor] : units) {
    if (parsed.second == unit) return parsed.first * factor;
  }
  return wrong_value(key, text, allowed);
}

Result<double> parse_plain(const std::string& key, const std::string& text) {
  constexpr std::pair<const char*, double> kNone[] = {{"", 1}};
  return scaled(key, text, "a number", kNone);
}

Result<std::vector<double>> parse_numbers(const std::string& key, const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& part : pieces(text, ',')) {
    TRY_ASSIGN(number, parse_plain(key, part));
    numbers.push_back(number);
  }
  return numbers;
}

template <class T>
Result<T> parse_word(const std::string& key, const std::string& text, std::initializer_list<std::pair<const char*, T>> words) {
  std::string allowed;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(word);
  }
  return wrong_value(key, text, allowed);
}

Result<Layout> parse_layout_word(const std::string& key, const std::string& text) {
  if (const auto layout = parse_layout(text)) return *layout;
  std::string allowed;
  for (const Layout layout : kLayouts) allowed += (allowed.empty() ? "" : ", ") + std::string(layout_name(layout));
  return wrong_value(key, text, allowed);
}

/// Reads values one by one; keeps the first error, and ignores later values.
class Reader {
 public:
  explicit Reader(const TuneValues& values) : values_(values) {}

  [[nodiscard]] bool has(const char* key) const { return values_.contains(key); }
  template <class T, class Parse>
  void read(const char* key, T* to, Parse parse) {
    const auto found = values_.find(key);
    if (found == values_.end() || !status_.is_ok()) return;
    auto value = parse(std::string(key), found->second);
    if (value.is_ok()) {
      *to = std::move(value).value();
    } else {
      status_ = value.status();
    }
  }
  void need(const char* key, const char* what) {
    if (!has(key) && status_.is_ok()) status_ = Status::invalid_argument(std::string(key) + " is missing: " + what);
  }
  void refuse_both(const char* one, const char* other) {
    if (has(one) && has(other) && status_.is_ok())
      status_ = Status::invalid_argument(std::string(one) + " and " + other + " cannot be given together");
  }
  void require(const char* key, bool right, const char* allowed) {
    if (!right && has(key) && status_.is_ok()) status_ = wrong_value(key, values_.find(key)->second, allowed);
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const TuneValues& values_;
  Status status_;
};

void read_system(Reader* in, System* s) {
  in->need("entries", "give the number of entries");
  in->need("entry_size", "give the bytes of an entry");
  if (in->has("memory_bits_per_entry")) {
    in->refuse_both("memory", "memory_bits_per_entry");
  } else {
    in->need("memory", "give the bytes for filters and memtable, or memory_bits_per_entry");
  }
  in->read("entries", &s->entries, parse_count);
  in->read("entry_size", &s->entry_bytes, parse_bytes);
  in->read("page_size", &s->page_bytes, parse_bytes);
  in->read("memory", &s->memory_bits, parse_bytes);
  s->memory_bits *= 8;
  if (in->has("memory_bits_per_entry")) {
    double bits = 0;
    in->read("memory_bits_per_entry", &bits, parse_plain);
    in->require("memory_bits_per_entry", bits > 0, "a number above 0");
    s->memory_bits = bits * s->entries;
  }
  in->read("write_asymmetry", &s->write_asymmetry, parse_plain);
  in->read("sequential_cost", &s->sequential_cost, parse_plain);
  in->read("range_selectivity", &s->range_selectivity, parse_plain);
  in->read("miss_ratios", &s->miss_ratios, parse_numbers);
  in->read("delete_share", &s->deletes.share, parse_plain);
  in->read("writes_per_deadline", &s->deletes.writes_per_deadline, parse_count);
  in->read("entries_per_file", &s->deletes.entries_per_file, parse_count);
  in->read("secondary_deletes", &s->deletes.secondary_per_operation, parse_plain);
  s->filter_curve = FilterCurve::kIdeal;
  in->read("filter_curve", &s->filter_curve, [](const std::string& key, const std::string& text) {
    return parse_word<FilterCurve>(key, text, {{"engine", FilterCurve::kBlocked}, {"ideal", FilterCurve::kIdeal}});
  });
}

void read_tuning(Reader* in, const System& system, Tuning* t) {
  t->layout = Layout::kOneLeveling;
  t->size_ratio = 6;
  t->scaling_ratio = 0.8;
  t->buffer_bits = std::min(64.0 * 1024 * 1024, system.memory_bits / 16);  // at most half of the memory
  in->read("layout", &t->layout, parse_layout_word);
  in->read("size_ratio", &t->size_ratio, parse_plain);
  in->read("runs", &t->runs, parse_numbers);
  in->read("buffer", &t->buffer_bits, parse_bytes);
  t->buffer_bits *= 8;
  in->read("scaling_ratio", &t->scaling_ratio, parse_plain);
  double level0_runs = t->level0_runs;
  in->read("level0_runs", &level0_runs, parse_plain);
  t->level0_runs = static_cast<int>(std::clamp(level0_runs, 0.0, 1000.0));
  in->read("tile_pages", &t->tile_pages, parse_plain);
  t->filter_bits = system.memory_bits - t->buffer_bits;
  in->require("buffer", t->filter_bits >= 0, "at most the memory");
}

void read_search(Reader* in, TuneRequest* r) {
  in->read("layouts", &r->layouts, [](const std::string& key, const std::string& text) -> Result<std::vector<Layout>> {
    std::vector<Layout> layouts;
    for (const std::string& part : pieces(text, ',')) {
      TRY_ASSIGN(layout, parse_layout_word(key, part));
      layouts.push_back(layout);
    }
    return layouts;
  });
  std::vector<double> ratios = {2, 100};
  in->read("size_ratios", &ratios, [](const std::string& key, const std::string& text) -> Result<std::vector<double>> {
    TRY_ASSIGN(ends, parse_numbers(key, text));
    const bool right = ends.size() == 2 && ends[0] >= 2 && ends[0] <= ends[1] && ends[1] <= kLargestSizeRatio &&
                       std::all_of(ends.begin(), ends.end(), [](double end) { return end == std::floor(end); });
    if (!right) return wrong_value(key, text, "two whole numbers from 2 to 1024, the smaller first");
    return ends;
  });
  r->size_ratio_min = static_cast<int>(ratios[0]);
  r->size_ratio_max = static_cast<int>(ratios[1]);
  double smallest = std::min(r->smallest_buffer_bits, r->system.memory_bits / 2) / 8;
  in->read("smallest_buffer", &smallest, parse_bytes);
  r->smallest_buffer_bits = smallest * 8;
  in->read("max_transient_space", &r->limits.transient_space, parse_plain);
  in->read("max_merge", &r->limits.longest_merge_bytes, parse_bytes);
  in->read("max_read", &r->limits.point_read, parse_plain);
  in->read("max_write", &r->limits.write, parse_plain);
}

/// Sets mix and rho from one of the keys that can set them.
Status read_uncertainty(Reader* in, TuneRequest* r) {
  in->read("workload", &r->mix, parse_workload);
  in->read("rho", &r->rho, parse_plain);
  const int sources = (in->has("rho") ? 1 : 0) + (in->has("unlikely_workload") ? 1 : 0) +
                      (in->has("workload_low") || in->has("workload_high") ? 1 : 0);
  if (sources > 1)
    return Status::invalid_argument("give only one of rho, unlikely_workload, and workload_low with workload_high");
  if (in->has("workload_low") != in->has("workload_high"))
    return Status::invalid_argument("give both workload_low and workload_high, or neither");
  Uncertainty found;
  if (in->has("unlikely_workload")) {
    in->need("workload", "unlikely_workload is compared with workload");
    PerOperation unlikely{};
    in->read("unlikely_workload", &unlikely, parse_workload);
    TRY(in->status());
    TRY_ASSIGN(between, uncertainty_between(r->mix, unlikely));
    found = between;
  } else if (in->has("workload_low")) {
    if (in->has("workload"))
      return Status::invalid_argument(
          "workload cannot be given with workload_low and workload_high, since it is computed from them");
    std::vector<double> low, high;
    in->read("workload_low", &low, parse_numbers);
    in->read("workload_high", &high, parse_numbers);
    TRY(in->status());
    if (low.size() != kOperations || high.size() != kOperations)
      return Status::invalid_argument("workload_low and workload_high have four shares each: empty read, read, range, write");
    PerOperation low_ends{}, high_ends{};
    std::copy(low.begin(), low.end(), low_ends.begin());
    std::copy(high.begin(), high.end(), high_ends.begin());
    TRY_ASSIGN(within, uncertainty_from_ranges(low_ends, high_ends));
    found = within;
  } else {
    if (in->has("rho") && in->has("workload") && r->rho > 0) r->mix = with_smallest_share(r->mix);
    return in->status();
  }
  r->mix = found.expected;
  r->rho = found.rho;
  return Status::ok();
}

}  // namespace

std::span<const TuneKey> tune_keys() { return kTuneKeys; }

Result<double> parse_bytes(const std::string& key, const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10},
                                                       {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  return scaled(key, text, "bytes, or a number with KiB, MiB, GiB or TiB", kUnits);
}

Result<double> parse_count(const std::string& key, const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  return scaled(key, text, "a number, or one with K, M, G or T (powers of 1000)", kUnits);
}

Result<PerOperation> parse_workload(const std::string& key, const std::string& text) {
  for (std::size_t i = 0; i < std::size(kEndureWorkloads); ++i) {
    if (text == "w" + std::to_string(i)) return kEndureWorkloads[i];
  }
  const char* allowed = "four shares: empty read, read, range, write; or w0 to w14";
  if (text.starts_with("w")) return wrong_value(key, text, allowed);
  TRY_ASSIGN(shares, parse_numbers(key, text));
  if (shares.size() != kOperations) return wrong_value(key, text, allowed);
  PerOperation mix{};
  double sum = 0;
  for (std::size_t i = 0; i < kOperations; ++i) {
    if (!(shares[i] >= 0)) return wrong_value(key, text, "shares of 0 or more");
    sum += mix[i] = shares[i];
  }
  // 0.33,0.33,0.33,0.01 and 33,33,33,1 must be accepted, so the sum may differ a little from 1 or 100.
  if (std::abs(sum - 1) > 0.011 && std::abs(sum - 100) > 1.1)
    return wrong_value(key, text, "shares that sum to 1, or percentages that sum to 100");
  return mix_of_counts(mix);
}

Result<TuneValues> parse_tune_file(const std::string& yaml) {
  TuneValues values;
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (!root.IsMap()) return Status::invalid_argument("not a map of keys and values");
    for (const auto& item : root) {
      const auto key = item.first.as<std::string>();
      if (std::none_of(std::begin(kTuneKeys), std::end(kTuneKeys), [&](const TuneKey& known) { return key == known.name; }))
        return Status::invalid_argument("unknown key " + key + "; --help lists the keys");
      if (item.second.IsScalar()) {
        values[key] = item.second.as<std::string>();
      } else if (item.second.IsSequence()) {
        for (const auto& part : item.second) values[key] += (values[key].empty() ? "" : ",") + part.as<std::string>();
      } else if (item.second.IsMap() && key.find("workload") != std::string::npos) {
        PerOperation ignored{};
        if (item.second.size() != ignored.size())
          return wrong_value(key, "a map", "empty_read, read, range and write, each once");
        for (const char* operation : {"empty_read", "read", "range", "write"})
          values[key] += (values[key].empty() ? "" : ",") + item.second[operation].as<std::string>();
      } else {
        return Status::invalid_argument(key + " is neither a value nor a list");
      }
    }
  } catch (const YAML::Exception& error) {
    return Status::invalid_argument(error.what());
  }
  return values;
}

Result<TuneInputs> parse_tune_inputs(const TuneValues& values) {
  TuneInputs out;
  Reader in(values);
  read_system(&in, &out.request.system);
  in.read("equations", &out.request.equations, [](const std::string& key, const std::string& text) {
    return parse_word<Equations>(
        key, text, {{"engine", Equations::kEngine}, {"paper", Equations::kPaper}, {"paper_relaxed", Equations::kPaperRelaxed}});
  });
  read_tuning(&in, out.request.system, &out.tuning);
  if (in.has("policy") && in.has("layout")) return Status::invalid_argument("policy and layout cannot be given together");
  in.read("policy", &out.policy, [](const std::string& key, const std::string& text) -> Result<std::optional<PolicySettings>> {
    TRY_ASSIGN(policies, parse_policies(text));
    if (policies.size() != 1) return wrong_value(key, text, "one policy");
    return std::optional<PolicySettings>(policies.front());
  });
  out.request.level0_runs = std::clamp(out.tuning.level0_runs, 1, 64);
  read_search(&in, &out.request);
  TRY(read_uncertainty(&in, &out.request));
  TRY(in.status());
  TRY(check_system(out.request.system));
  return out;
}

Result<Change> parse_change(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return Status::invalid_argument("change \"" + text + "\" has no =; for example memory=2GiB");
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  Change change;
  using Parse = Result<double> (*)(const std::string&, const std::string&);
  const std::tuple<const char*, std::optional<double>*, Parse> numbers[] = {
      {"memory", &change.memory_bits, parse_bytes},
      {"entries", &change.entries, parse_count},
      {"entry_size", &change.entry_bytes, parse_bytes},
      {"page_size", &change.page_bytes, parse_bytes},
      {"write_asymmetry", &change.write_asymmetry, parse_plain},
      {"sequential_cost", &change.sequential_cost, parse_plain},
      {"range_selectivity", &change.range_selectivity, parse_plain}};
  if (key == "workload") {
    TRY_ASSIGN(mix, parse_workload(key, value));
    change.mix = mix;
    return change;
  }
  std::string allowed = "workload";
  for (const auto& [name, to, parse] : numbers) {
    allowed += std::string(", ") + name;
    if (key != name) continue;
    TRY_ASSIGN(number, parse(key, value));
    *to = number;
    if (key == "memory") *change.memory_bits *= 8;
    return change;
  }
  return Status::invalid_argument("\"" + key + "\" cannot change; allowed: " + allowed);
}

Result<std::vector<PerOperation>> parse_history(const std::string& csv) {
  std::vector<PerOperation> windows;
  int number = 0;
  for (const std::string& line : pieces(csv, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#' || line[0] == '\r' || std::isalpha(static_cast<unsigned char>(line[0])) != 0) continue;
    std::string text = line;
    if (text.back() == '\r') text.pop_back();
    const std::string place = "line " + std::to_string(number);
    TRY_ASSIGN(counts, parse_numbers(place, text));
    if (counts.size() != kOperations) return wrong_value(place, text, "four counts: empty reads, reads, ranges, writes");
    PerOperation window{};
    std::copy(counts.begin(), counts.end(), window.begin());
    windows.push_back(window);
  }
  return windows;
}

}  // namespace ebbtide
