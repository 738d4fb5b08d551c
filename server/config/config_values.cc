// Sizes and durations as text.
#include <charconv>
#include <span>

#include "config/config.h"

namespace ebbtide {
namespace {

struct Unit {
  Bytes name;
  std::uint64_t factor;
};

constexpr Unit kSizes[] = {{"TiB", std::uint64_t{1} << 40},
                           {"GiB", std::uint64_t{1} << 30},
                           {"MiB", std::uint64_t{1} << 20},
                           {"KiB", std::uint64_t{1} << 10},
                           {"B", 1}};
constexpr Unit kTimes[] = {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}};
constexpr Unit kRedisSizes[] = {{"", 1},          {"b", 1},        {"k", 1'000},         {"kb", 1 << 10},
                                {"m", 1'000'000}, {"mb", 1 << 20}, {"g", 1'000'000'000}, {"gb", 1 << 30}};

bool equal_ignoring_case(Bytes a, Bytes b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

Result<std::uint64_t> parse_with_units(Bytes text, std::span<const Unit> units, bool any_case, const char* expected) {
  const auto wrong = [&] { return Status::invalid_argument("'" + std::string(text) + "' is not " + expected); };
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return wrong();
  const Bytes unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty() && value == 0) return std::uint64_t{0};
  for (const Unit& u : units) {
    if (any_case ? !equal_ignoring_case(unit, u.name) : unit != u.name) continue;
    if (value > ~std::uint64_t{0} / u.factor) return wrong();
    return value * u.factor;
  }
  return wrong();
}

std::string format_with_units(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& u : units) {
    if (value != 0 && value % u.factor == 0) return std::to_string(value / u.factor) + std::string(u.name);
  }
  return std::to_string(value) + std::string(units.back().name);
}

}  // namespace

Result<std::uint64_t> parse_size(Bytes text) {
  return parse_with_units(text, kSizes, false, "a size: a whole number with B, KiB, MiB, GiB or TiB");
}
std::string format_size(std::uint64_t bytes) { return format_with_units(bytes, kSizes); }

Result<std::uint64_t> parse_duration_ms(Bytes text) {
  return parse_with_units(text, kTimes, false, "a duration: a whole number with ms, s, m, h or d");
}
std::string format_duration_ms(std::uint64_t ms) { return ms == 0 ? "0s" : format_with_units(ms, kTimes); }

Result<std::uint64_t> parse_redis_memory(Bytes text) {
  if (auto size = parse_size(text); size.is_ok()) return size;
  return parse_with_units(text, kRedisSizes, true, "a memory value");
}

}  // namespace ebbtide
