#include "resp/parser.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "resp/block_pool.h"
#include "resp/disposal.h"

namespace ebbtide {
namespace {

constexpr std::size_t kNoLine = ~std::size_t{0};
constexpr std::size_t kLongLine = kNoLine - 1;
constexpr std::size_t kBigStart = 1 << 20;  // the first allocation for a big bulk
// Once this many bytes are received, memory for the whole bulk is allocated: moving more bytes to a larger string would keep the
// loop busy.
constexpr std::size_t kBigWhole = 8 << 20;

// Parses a decimal integer like Redis's string2ll: the only sign is '-', and there are no leading zeros and no blanks.
bool parse_integer(const char* p, std::size_t n, std::int64_t* value) {
  if (n == 0 || n > 20) return false;
  if (n == 1 && *p >= '0' && *p <= '9') return *value = *p - '0', true;
  const bool negative = *p == '-';
  if (negative) {
    ++p;
    --n;
  }
  if (n == 0 || *p < '1' || *p > '9' || n > 18) return false;  // numbers of more digits exceed every limit here
  std::int64_t v = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (p[i] < '0' || p[i] > '9') return false;
    v = v * 10 + (p[i] - '0');
  }
  *value = negative ? -v : v;
  return true;
}

// Parses the rest of a line after its type byte, which usually is a plain number of a few digits. Returns the position after the
// line. Returns null for an incomplete or other line, which the general code must parse.
inline const char* parse_short_line(const char* p, const char* end, std::int64_t* value) {
  if (end - p < 3) return nullptr;
  unsigned digit = static_cast<unsigned char>(p[0]) - '0';
  if (digit > 9 || (digit == 0 && p[1] != '\r')) return nullptr;
  std::int64_t v = digit;
  const char* const last = end - p > 8 ? p + 6 : end - 2;  // last position where CR may be, so that LF is received, too
  for (++p; p < last && (digit = static_cast<unsigned char>(*p) - '0') <= 9; ++p) v = v * 10 + digit;
  if (p[0] != '\r' || p[1] != '\n') return nullptr;
  *value = v;
  return p + 2;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool equals_ignoring_case(Bytes a, Bytes lower) {
  if (a.size() != lower.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] + 32) : a[i];
    if (c != lower[i]) return false;
  }
  return true;
}

void drop(std::shared_ptr<const std::string> value) {
  const bool is_long = value->size() >= kDisposedBytes;
  let_go(std::move(value), is_long);
}

// A larger buffer comes from the system: it can grow without a copy, and its memory is returned as soon as it is freed.
constexpr std::size_t kSystemBytes = 1 << 20;

char* allocate_buffer(std::size_t capacity) {
  if (capacity == kBlockBytes) return take_block();
  if (capacity < kSystemBytes) return static_cast<char*>(::operator new(capacity));
  void* const mapped = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(mapped);
}

void free_buffer(char* buffer, std::size_t capacity) {
  if (buffer == nullptr) return;
  if (capacity == kBlockBytes) {
    give_block(buffer);
  } else if (capacity < kSystemBytes) {
    ::operator delete(buffer);
  } else {
    ::munmap(buffer, capacity);
  }
}

/// Moves `bytes` bytes, from offset `from` of `old`, to the front of a buffer of `capacity` bytes. Frees `old`.
char* replace_buffer(char* old, std::size_t old_capacity, std::size_t from, std::size_t bytes, std::size_t capacity) {
  if (old != nullptr && old_capacity >= kSystemBytes && capacity >= old_capacity) {
    if (from != 0) std::memmove(old, old + from, bytes);
    void* const moved = ::mremap(old, old_capacity, capacity, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(moved);
  }
  char* const buffer = allocate_buffer(capacity);
  if (bytes > 0) std::memcpy(buffer, old + from, bytes);
  free_buffer(old, old_capacity);
  return buffer;
}

}  // namespace

RequestParser::~RequestParser() { discard(); }

void RequestParser::discard() {
  if (big_ != nullptr) drop(std::exchange(big_, nullptr));
  for (SharedArg& arg : std::exchange(shared_, {})) drop(std::move(arg.value));
  std::vector<Bytes>().swap(args_);
  big_held_ = 0;
  give_back();
}

std::shared_ptr<const void> RequestParser::take_input() {
  struct Input {
    char* buffer;
    std::size_t capacity;
    std::vector<Bytes> args;
    std::vector<SharedArg> shared;

    Input(char* b, std::size_t n, std::vector<Bytes> a, std::vector<SharedArg> s)
        : buffer(b), capacity(n), args(std::move(a)), shared(std::move(s)) {}
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    ~Input() { free_buffer(buffer, capacity); }
  };
  auto input = std::make_shared<Input>(buffer_, capacity_, std::move(args_), std::move(shared_));
  buffer_ = nullptr;
  give_back();
  return input;
}

void RequestParser::give_back() {
  free_buffer(buffer_, capacity_);
  buffer_ = nullptr;
  capacity_ = start_ = position_ = end_ = 0;
}

// Moves the bytes that are still needed to the front, or to a larger buffer. Adjusts the finished arguments of the incomplete
// command.
void RequestParser::make_room(std::size_t n, const ParserLimits& limits) {
  if (capacity_ - end_ >= n) return;
  const std::size_t kept = end_ - start_;
  const auto old = reinterpret_cast<std::uintptr_t>(buffer_);
  const std::size_t old_capacity = capacity_, moved = start_;
  if (kept + n > capacity_ || kept * 2 > capacity_) {  // grows before the buffer is full, so that bytes are moved rarely
    std::size_t capacity = std::max(std::max(kBlockBytes, capacity_ * (capacity_ == 0 ? 1 : 2)), kept + n);
    if (kept + n <= limits.max_query_buffer)
      capacity = std::max(kept + n, std::min(capacity, limits.max_query_buffer + kBlockBytes));
    buffer_ = replace_buffer(buffer_, capacity_, start_, kept, capacity);
    capacity_ = capacity;
  } else if (kept > 0) {
    std::memmove(buffer_, buffer_ + start_, kept);
  }
  for (std::size_t i = first_arg_; i < args_.size(); ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(args_[i].data());
    if (at >= old && at < old + old_capacity) args_[i] = Bytes(buffer_ + (at - old - moved), args_[i].size());
  }
  position_ -= start_;
  start_ = 0;
  end_ = kept;
}

std::span<char> RequestParser::room(const ParserLimits& limits) {
  if (capacity_ - end_ < capacity_ / 4 || buffer_ == nullptr) make_room(std::max<std::size_t>(capacity_ / 4, 1), limits);
  return {buffer_ + end_, capacity_ - end_};
}

void RequestParser::received(std::size_t n) {
  end_ += n;
  starved_ = false;
}

void RequestParser::feed(Bytes data, const ParserLimits& limits) {
  starved_ = false;
  if (std::size_t n = std::min(big_missing(), data.size()); n > 0 && position_ == end_) {
    append_big(data.substr(0, n));
    data.remove_prefix(n);
  }
  if (data.empty()) return;
  make_room(data.size(), limits);
  std::memcpy(buffer_ + end_, data.data(), data.size());
  end_ += data.size();
}

Args RequestParser::command(std::size_t i) const {
  const Command& c = commands_[i];
  return {std::span(args_).subspan(c.first_arg, c.args), std::span(shared_).subspan(c.first_shared, c.shared), c.refused};
}

void RequestParser::release() {
  commands_.clear();
  if (failure_ != Failure::kNone) return;
  if (first_arg_ > 0) {
    args_.erase(args_.begin(), args_.begin() + first_arg_);
    first_arg_ = 0;
  }
  if (first_shared_ > 0) {
    for (std::size_t i = 0; i < first_shared_; ++i) {
      if (i >= handed_) big_held_ -= shared_[i].value->size();
      drop(std::move(shared_[i].value));
    }
    shared_.erase(shared_.begin(), shared_.begin() + first_shared_);
    first_shared_ = handed_ = 0;
  }
  if (position_ == end_ && !in_array_) {
    give_back();
    constexpr std::size_t kKeptArgs = 256;  // the most arguments for which an idle connection keeps memory
    if (args_.capacity() > kKeptArgs) std::vector<Bytes>().swap(args_);
    if (commands_.capacity() > kKeptArgs) std::vector<Command>().swap(commands_);
  }
}

void RequestParser::hand_over(const std::function<std::shared_ptr<const std::string>(std::shared_ptr<const std::string>)>& take) {
  for (; handed_ < first_shared_; ++handed_) {
    std::shared_ptr<const std::string>& value = shared_[handed_].value;
    big_held_ -= value->size();
    value = take(std::move(value));
  }
}

void RequestParser::refuse_big() {
  refused_ = true;
  const auto empty = std::make_shared<const std::string>();
  for (std::size_t i = first_shared_; i < shared_.size(); ++i) {
    big_held_ -= shared_[i].value->size();
    args_[first_arg_ + shared_[i].index] = Bytes();
    drop(std::exchange(shared_[i].value, empty));
  }
  big_done_ = big_largest_ = 0;
  if (big_ != nullptr) drop(std::exchange(big_, std::make_shared<std::string>()));
}

void RequestParser::append_big(Bytes data) {
  big_received_ += data.size();
  if (refused_) return;
  const std::size_t size = big_->size() + data.size();
  if (size > big_->capacity()) {
    const std::size_t more = big_->capacity() < kBigWhole ? std::max({size, big_->capacity() * 8, kBigStart}) : big_length_;
    big_->reserve(std::min(big_length_, more));
  }
  big_->append(data);
}

RequestParser::Step RequestParser::fail(Failure failure, std::string error) {
  failure_ = failure;
  error_ = std::move(error);
  return Step::kFailed;
}

std::size_t RequestParser::parse(const ParserLimits& limits, std::size_t max_commands) {
  while (failure_ == Failure::kNone && commands_.size() < max_commands) {
    if (parse_one(limits) == Step::kNeedMore) {
      starved_ = true;
      break;
    }
  }
  const std::size_t free_of_charge = std::max(big_largest_, big_ ? big_->size() : 0);
  if (failure_ == Failure::kNone && end_ - start_ + big_bytes() - free_of_charge > limits.max_query_buffer && commands_.empty()) {
    fail(Failure::kQueryBuffer, {});
  }
  return commands_.size();
}

RequestParser::Step RequestParser::parse_one(const ParserLimits& limits) {
  if (!in_array_) {
    start_ = position_;
    if (position_ == end_) return Step::kNeedMore;
    const char first = buffer_[position_];
    if (!first_byte_seen_) {
      first_byte_seen_ = true;
      if (first == 0x00 || first == 0x16) return fail(Failure::kNotResp, {});
    }
    if (first != '*') return parse_inline();
    if (parse_whole(limits)) [[likely]]
      return finish_command();
    const Step step = parse_count(limits);
    if (step != Step::kCommand) return step;
  }
  while (args_missing_ > 0) {
    const Step step = parse_bulk(limits);
    if (step != Step::kCommand) return step;
  }
  in_array_ = false;
  return finish_command();
}

// The fast path, for nearly all commands: a few short arguments that are completely received. Incomplete, invalid or large input
// is left to the general code, which remembers its position and reports errors. So a command of many arguments that is received
// in parts is not parsed from its start with each part.
bool RequestParser::parse_whole(const ParserLimits& limits) {
  constexpr std::int64_t kFewArgs = kStrangerArgs;
  constexpr std::int64_t kShort = kStrangerBulk;
  const char* p = buffer_ + position_ + 1;
  const char* const end = buffer_ + end_;
  std::int64_t count = 0;
  p = parse_short_line(p, end, &count);
  if (p == nullptr || count < 1 || count > std::min(kFewArgs, limits.max_args)) return false;
  const std::size_t before = args_.size();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = 0;
    const char* const bytes = p < end && *p == '$' ? parse_short_line(p + 1, end, &size) : nullptr;
    if (bytes == nullptr || size > std::min(kShort, limits.max_bulk) || end - bytes < size + 2 || bytes[size] != '\r' ||
        bytes[size + 1] != '\n') {
      args_.resize(before);
      return false;
    }
    args_.emplace_back(bytes, static_cast<std::size_t>(size));
    p = bytes + size + 2;
  }
  position_ = static_cast<std::size_t>(p - buffer_);
  searched_ = 0;
  return true;
}

RequestParser::Step RequestParser::finish_command() {
  const Command command{first_arg_, static_cast<std::uint32_t>(args_.size()) - first_arg_, first_shared_,
                        static_cast<std::uint32_t>(shared_.size()) - first_shared_, std::exchange(refused_, false)};
  const Bytes name = args_[first_arg_];
  if ((name.size() == 4 && equals_ignoring_case(name, "post")) || (name.size() == 5 && equals_ignoring_case(name, "host:"))) {
    return fail(Failure::kSecurity, {});
  }
  commands_.push_back(command);
  big_done_ = big_largest_ = 0;
  first_arg_ = static_cast<std::uint32_t>(args_.size());
  first_shared_ = static_cast<std::uint32_t>(shared_.size());
  start_ = position_;
  return Step::kCommand;
}

std::size_t RequestParser::find_line(char terminator) {
  const char* line = buffer_ + position_;
  const std::size_t available = end_ - position_;
  const std::size_t window = std::min(available, kMaxLine + 1);
  if (searched_ < window) {
    const void* found = std::memchr(line + searched_, terminator, window - searched_);
    if (found != nullptr) {
      searched_ = 0;
      return static_cast<std::size_t>(static_cast<const char*>(found) - line);
    }
    searched_ = window;
  }
  return available > kMaxLine ? kLongLine : kNoLine;
}

// Parses "*<count>\r\n". Returns kCommand if the count was parsed, and arguments follow.
RequestParser::Step RequestParser::parse_count(const ParserLimits& limits) {
  std::int64_t count = 0;
  const char* line = buffer_ + position_;
  std::size_t line_bytes = 0;
  if (const char* next = parse_short_line(line + 1, buffer_ + end_, &count); next != nullptr) [[likely]] {
    line_bytes = static_cast<std::size_t>(next - line);
  } else {
    const std::size_t length = find_line('\r');
    if (length == kLongLine) return fail(Failure::kProtocol, "Protocol error: too big mbulk count string");
    if (length == kNoLine || position_ + length + 1 >= end_) return Step::kNeedMore;
    line_bytes = length + 2;
    if (line[length + 1] != '\n' || !parse_integer(line + 1, length - 1, &count)) {
      return fail(Failure::kProtocol, "Protocol error: invalid multibulk length");
    }
  }
  if (count > limits.max_args) return fail(Failure::kProtocol, "Protocol error: invalid multibulk length");
  if (limits.stranger && count > kStrangerArgs) {
    return fail(Failure::kProtocol, "Protocol error: unauthenticated multibulk length");
  }
  position_ += line_bytes;
  searched_ = 0;
  if (count <= 0) return Step::kNothing;
  in_array_ = true;
  args_missing_ = count;
  bulk_length_ = -1;
  return Step::kCommand;
}

// Parses "$<length>\r\n<bytes>\r\n". Returns kCommand if one argument was parsed.
RequestParser::Step RequestParser::parse_bulk(const ParserLimits& limits) {
  if (bulk_length_ < 0) {
    if (position_ == end_) return Step::kNeedMore;
    const char* line = buffer_ + position_;
    if (*line != '$') return fail(Failure::kProtocol, std::string("Protocol error: expected '$', got '") + *line + "'");
    std::int64_t size = 0;
    std::size_t line_bytes = 0;
    if (const char* next = parse_short_line(line + 1, buffer_ + end_, &size); next != nullptr) [[likely]] {
      line_bytes = static_cast<std::size_t>(next - line);
    } else {
      const std::size_t length = find_line('\r');
      if (length == kLongLine) return fail(Failure::kProtocol, "Protocol error: too big bulk count string");
      if (length == kNoLine || position_ + length + 1 >= end_) return Step::kNeedMore;
      line_bytes = length + 2;
      if (line[length + 1] != '\n' || !parse_integer(line + 1, length - 1, &size)) {
        return fail(Failure::kProtocol, "Protocol error: invalid bulk length");
      }
    }
    if (size < 0 || size > limits.max_bulk) return fail(Failure::kProtocol, "Protocol error: invalid bulk length");
    if (limits.stranger && size > kStrangerBulk) {
      return fail(Failure::kProtocol, "Protocol error: unauthenticated bulk length");
    }
    position_ += line_bytes;
    searched_ = 0;
    bulk_length_ = size;
  }
  const std::size_t size = static_cast<std::size_t>(bulk_length_);
  const std::size_t available = end_ - position_;
  const bool big = size > kBigBulk;
  if (big && begin_big(available) == Step::kNeedMore) return Step::kNeedMore;
  const std::size_t here = big ? 0 : size;  // bytes of the argument that are in the buffer
  // A bulk that does not end with CRLF is an error as soon as its wrong end is received.
  const std::size_t rest = end_ - position_;
  if ((rest > here && buffer_[position_ + here] != '\r') || (rest > here + 1 && buffer_[position_ + here + 1] != '\n')) {
    return fail(Failure::kProtocol, "Protocol error: expected CRLF after bulk");
  }
  if (rest < here + 2) return Step::kNeedMore;
  if (big) {
    shared_.push_back({args_.size() - first_arg_, big_});
    args_.push_back(*big_);
    big_done_ += big_->size();
    big_held_ += big_->size();
    big_largest_ = std::max(big_largest_, big_->size());
    big_.reset();
  } else {
    args_.emplace_back(buffer_ + position_, size);
  }
  position_ += here + 2;
  bulk_length_ = -1;
  --args_missing_;
  return Step::kCommand;
}

// Moves the received part of a big bulk from the buffer into its string. Returns kNeedMore until the bulk is complete.
RequestParser::Step RequestParser::begin_big(std::size_t available) {
  if (big_ == nullptr) {
    big_ = std::make_shared<std::string>();
    big_length_ = static_cast<std::size_t>(bulk_length_);
    big_received_ = 0;
  }
  const std::size_t n = std::min(available, big_length_ - big_received_);
  if (n > 0) {
    append_big(Bytes(buffer_ + position_, n));
    position_ += n;
    // Later input moves to where these bytes were, so that no byte is in memory twice.
    std::memmove(buffer_ + position_ - n, buffer_ + position_, end_ - position_);
    position_ -= n;
    end_ -= n;
  }
  return big_received_ == big_length_ ? Step::kCommand : Step::kNeedMore;
}

RequestParser::Step RequestParser::parse_inline() {
  const std::size_t length = find_line('\n');
  if (length == kLongLine) return fail(Failure::kProtocol, "Protocol error: too big inline request");
  if (length == kNoLine) return Step::kNeedMore;
  char* line = buffer_ + position_;
  char* end = line + length;
  if (end > line && end[-1] == '\r') --end;
  if (void* nul = std::memchr(line, '\0', static_cast<std::size_t>(end - line)); nul != nullptr) end = static_cast<char*>(nul);
  if (!split_inline(line, end)) return fail(Failure::kProtocol, "Protocol error: unbalanced quotes in request");
  position_ += length + 1;
  if (args_.size() == first_arg_) return Step::kNothing;
  return finish_command();
}

// Splits a line like Redis's sdssplitargs: blanks separate arguments, "..." may contain escapes, '...' only \', and a closing
// quote ends the argument. Unescaping only shortens arguments, so it is done in place.
bool RequestParser::split_inline(char* p, char* end) {
  while (true) {
    while (p < end && is_space(*p)) ++p;
    if (p == end) return true;
    char* out = p;
    char* const first = p;
    bool in_double = false, in_single = false, done = false;
    while (!done) {
      if (p == end) {
        if (in_double || in_single) return false;
        break;
      }
      const char c = *p;
      if (in_double) {
        if (c == '\\' && end - p >= 4 && p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
          *out++ = static_cast<char>(hex_digit(p[2]) * 16 + hex_digit(p[3]));
          p += 4;
        } else if (c == '\\' && end - p >= 2) {
          const char e = p[1];
          *out++ = e == 'n' ? '\n' : e == 'r' ? '\r' : e == 't' ? '\t' : e == 'b' ? '\b' : e == 'a' ? '\a' : e;
          p += 2;
        } else if (c == '"') {
          ++p;
          if (p < end && !is_space(*p)) return false;
          done = true;
        } else {
          *out++ = c;
          ++p;
        }
      } else if (in_single) {
        if (c == '\\' && end - p >= 2 && p[1] == '\'') {
          *out++ = '\'';
          p += 2;
        } else if (c == '\'') {
          ++p;
          if (p < end && !is_space(*p)) return false;
          done = true;
        } else {
          *out++ = c;
          ++p;
        }
      } else if (is_space(c)) {
        done = true;
      } else if (c == '"') {
        in_double = true;
        ++p;
      } else if (c == '\'') {
        in_single = true;
        ++p;
      } else {
        *out++ = c;
        ++p;
      }
    }
    args_.emplace_back(first, static_cast<std::size_t>(out - first));
  }
}

}  // namespace ebbtide
