#include "resp/reply.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace ebbtide {
namespace {

constexpr std::size_t kMaxHeader = 24;  // bytes of a type, 20 digits and CRLF

char* put_crlf(char* p) {
  p[0] = '\r';
  p[1] = '\n';
  return p + 2;
}

char* put_integer(char* p, std::int64_t value) {
  if (value >= 0 && value < 10) [[likely]] {
    *p = static_cast<char>('0' + value);
    return p + 1;
  }
  return std::to_chars(p, p + 20, value).ptr;
}

char* put_header(char* p, char type, std::int64_t n) {
  *p++ = type;
  return put_crlf(put_integer(p, n));
}

// Sets the shortest digits of a positive finite number, and `*exponent` to the power of ten of the last digit: value = digits *
// 10^exponent. Returns the number of digits.
int shortest_digits(double value, char* digits, int* exponent) {
  char text[40];
  const char* end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr;
  int count = 0;
  const char* p = text;
  for (; p < end && *p != 'e'; ++p) {
    if (*p != '.') digits[count++] = *p;
  }
  int e = 0;
  const char* number = p + 1;
  if (*number == '+') ++number;
  std::from_chars(number, end, e);
  while (count > 1 && digits[count - 1] == '0') --count;
  *exponent = e - (count - 1);
  return count;
}

}  // namespace

std::size_t format_integer(std::int64_t value, char* out) { return static_cast<std::size_t>(put_integer(out, value) - out); }

// Redis 7.2 writes an integer up to half of int64 with all its digits. Other numbers have the layout of fpconv_dtoa: plain digits
// if the decimal point is near them, else an exponent.
std::size_t format_double(double value, char* out) {
  if (std::isnan(value)) return std::memcpy(out, "nan", 3), 3;
  char* p = out;
  if (std::signbit(value)) {
    *p++ = '-';
    value = -value;
  }
  if (std::isinf(value)) {
    std::memcpy(p, "inf", 3);
    return static_cast<std::size_t>(p + 3 - out);
  }
  if (value == 0) {
    *p++ = '0';
    return static_cast<std::size_t>(p - out);
  }
  constexpr auto kMostInteger = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 2);
  if (value <= kMostInteger && value == std::trunc(value)) {
    return static_cast<std::size_t>(put_integer(p, static_cast<std::int64_t>(value)) - out);
  }
  char digits[32];
  int k = 0;
  int n = shortest_digits(value, digits, &k);
  const int exponent = k + n - 1;
  const int distance = exponent < 0 ? -exponent : exponent;
  if (k >= 0 && distance < n + 7) {  // an integer
    std::memcpy(p, digits, static_cast<std::size_t>(n));
    std::memset(p + n, '0', static_cast<std::size_t>(k));
    return static_cast<std::size_t>(p + n + k - out);
  }
  if (k < 0 && (k > -7 || distance < 4)) {  // the decimal point is among the digits or shortly before them
    int before = n + k;
    if (before <= 0) {
      *p++ = '0';
      *p++ = '.';
      std::memset(p, '0', static_cast<std::size_t>(-before));
      p += -before;
      std::memcpy(p, digits, static_cast<std::size_t>(n));
      p += n;
    } else {
      std::memcpy(p, digits, static_cast<std::size_t>(before));
      p += before;
      *p++ = '.';
      std::memcpy(p, digits + before, static_cast<std::size_t>(n - before));
      p += n - before;
    }
    return static_cast<std::size_t>(p - out);
  }
  *p++ = digits[0];
  if (n > 1) {
    *p++ = '.';
    std::memcpy(p, digits + 1, static_cast<std::size_t>(n - 1));
    p += n - 1;
  }
  *p++ = 'e';
  *p++ = exponent < 0 ? '-' : '+';
  p = std::to_chars(p, p + 4, distance).ptr;
  return static_cast<std::size_t>(p - out);
}

void Reply::header(char type, std::int64_t n) {
  char* start = out_->reserve(kMaxHeader);
  out_->advance(static_cast<std::size_t>(put_header(start, type, n) - start));
}

void Reply::end_array(std::uint64_t hole, std::size_t n) {
  char text[kMaxHeader];
  const char* end = put_header(text, '*', static_cast<std::int64_t>(n));
  out_->fill_hole(hole, Bytes(text, static_cast<std::size_t>(end - text)));
}

void Reply::simple(Bytes text) {
  char* p = out_->reserve(1);
  *p = '+';
  out_->advance(1);
  out_->append(text);
  out_->append("\r\n");
}

void Reply::error(Bytes text) {
  ++errors_;
  out_->append("-");
  while (!text.empty()) {
    const std::size_t clean = std::min(text.find_first_of("\r\n"), text.size());
    out_->append(text.substr(0, clean));
    text.remove_prefix(clean);
    if (!text.empty()) {
      out_->append(" ");
      text.remove_prefix(1);
    }
  }
  out_->append("\r\n");
}

void Reply::integer(std::int64_t value) { header(':', value); }

void Reply::bulk(Bytes value) {
  constexpr std::size_t kInOnePiece = 4096;
  if (value.size() <= kInOnePiece) [[likely]] {
    char* start = out_->reserve(kMaxHeader + value.size() + 2);
    char* p = put_header(start, '$', static_cast<std::int64_t>(value.size()));
    if (!value.empty()) std::memcpy(p, value.data(), value.size());
    out_->advance(static_cast<std::size_t>(put_crlf(p + value.size()) - start));
    return;
  }
  header('$', static_cast<std::int64_t>(value.size()));
  out_->append(value);
  out_->append("\r\n");
}

void Reply::bulk_shared(std::shared_ptr<const void> owner, Bytes value) {
  if (owner == nullptr || value.size() < kSharedBytes) return bulk(value);
  header('$', static_cast<std::int64_t>(value.size()));
  out_->append_shared(std::move(owner), value);
  out_->append("\r\n");
}

void Reply::bulk_message(std::shared_ptr<const void> owner, Bytes value_and_end) {
  header('$', static_cast<std::int64_t>(value_and_end.size() - 2));
  out_->append_shared(std::move(owner), value_and_end, true);
}

void Reply::null() { out_->append(protocol_ == 3 ? Bytes("_\r\n") : Bytes("$-1\r\n")); }
void Reply::null_array() { out_->append(protocol_ == 3 ? Bytes("_\r\n") : Bytes("*-1\r\n")); }

void Reply::array(std::size_t n) { header('*', static_cast<std::int64_t>(n)); }
void Reply::map(std::size_t n) {
  protocol_ == 3 ? header('%', static_cast<std::int64_t>(n)) : header('*', static_cast<std::int64_t>(2 * n));
}
void Reply::set(std::size_t n) { header(protocol_ == 3 ? '~' : '*', static_cast<std::int64_t>(n)); }
void Reply::push(std::size_t n) { header(protocol_ == 3 ? '>' : '*', static_cast<std::int64_t>(n)); }
void Reply::attribute(std::size_t n) { header('|', static_cast<std::int64_t>(n)); }

void Reply::double_(double value) {
  char text[40];
  if (protocol_ == 2) return bulk(Bytes(text, format_double(value, text)));
  text[0] = ',';
  const std::size_t size = 1 + format_double(value, text + 1);
  put_crlf(text + size);
  out_->append(Bytes(text, size + 2));
}

void Reply::double_text(Bytes text) {
  if (protocol_ == 2) return bulk(text);
  out_->append(",");
  out_->append(text);
  out_->append("\r\n");
}

void Reply::boolean(bool value) {
  if (protocol_ == 2) return integer(value ? 1 : 0);
  out_->append(value ? Bytes("#t\r\n") : Bytes("#f\r\n"));
}

void Reply::verbatim(Bytes format, Bytes text) {
  if (protocol_ == 2) return bulk(text);
  header('=', static_cast<std::int64_t>(text.size() + 4));
  out_->append(format.substr(0, 3));
  out_->append(":");
  out_->append(text);
  out_->append("\r\n");
}

void Reply::verbatim_in_parts(Bytes format, std::deque<std::string> parts) {
  std::size_t bytes = 0;
  for (const std::string& part : parts) bytes += part.size();
  header(protocol_ == 2 ? '$' : '=', static_cast<std::int64_t>(protocol_ == 2 ? bytes : bytes + 4));
  if (protocol_ != 2) {
    out_->append(format.substr(0, 3));
    out_->append(":");
  }
  for (; !parts.empty(); parts.pop_front()) out_->append(parts.front());
  out_->append("\r\n");
}

void Reply::big_number(Bytes digits) {
  if (protocol_ == 2) return bulk(digits);
  out_->append("(");
  out_->append(digits);
  out_->append("\r\n");
}

}  // namespace ebbtide
