#include "store/numbers.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ebbtide {
namespace {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

std::optional<std::int64_t> parse_integer(Bytes text) {
  Bytes digits = text;
  if (!digits.empty() && digits.front() == '-') digits.remove_prefix(1);
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return std::nullopt;
  if (digits.front() == '0' && text.size() > 1) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_unsigned(Bytes text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<long double> parse_long_double(Bytes text) {
  constexpr std::size_t kMaxChars = 5 * 1024;  // Redis's MAX_LONG_DOUBLE_CHARS
  if (text.empty() || text.size() >= kMaxChars) return std::nullopt;
  const char first = text.front();
  if (first == ' ' || (first >= '\t' && first <= '\r')) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const long double value = std::strtold(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || std::isnan(value)) return std::nullopt;
  // Redis compares with the double HUGE_VAL, which equals the infinite long double.
  if (errno == ERANGE && (std::isinf(value) || std::fpclassify(value) == FP_ZERO)) return std::nullopt;
  return value;
}

std::optional<double> parse_double(Bytes text) {
  if (text.empty() || text.front() == ' ' || (text.front() >= '\t' && text.front() <= '\r')) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || std::isnan(value)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(value) || std::fpclassify(value) == FP_ZERO)) return std::nullopt;
  return value;
}

std::string to_text(std::int64_t value) {
  char buffer[24];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  (void)error;
  return std::string(buffer, end);
}

std::string to_text(long double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const int length = std::snprintf(nullptr, 0, "%.17Lf", value);
  std::string text(static_cast<std::size_t>(length), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.17Lf", value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

bool equal_ignoring_case(Bytes a, Bytes b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

std::string to_lower(Bytes text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string to_upper(Bytes text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return out;
}

}  // namespace ebbtide
