#include "import/report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <vector>

namespace ebbtide {
namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::string printable(Bytes bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      char text[5];
      std::snprintf(text, sizeof text, "\\x%02x", byte);
      out += text;
    }
  }
  return out + "\"";
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

void TransferReport::add_lost(std::uint64_t database, const std::string& type, Fate fate, Bytes key, const std::string& why) {
  add(database, type, fate);
  add_line("database " + std::to_string(database) + ", " + type + " " + printable(key) + ": " + why);
}

void TransferReport::add_in_doubt(std::uint64_t database, const std::string& type, Bytes key) {
  add(database, type, Fate::kTaken);
  ++in_doubt_;
  if (list_ == nullptr) return;
  std::fprintf(list_, "database %llu, %s %s: exists; the interrupted import may have sent it\n",
               static_cast<unsigned long long>(database), type.c_str(), printable(key).c_str());
}

void TransferReport::add_other(const std::string& what, const std::string& why) { add_line(what + ": " + why); }

void TransferReport::add_line(const std::string& line) {
  if (++lost_ <= kShown) lines_ += "  " + line + "\n";
  if (list_ != nullptr) std::fprintf(list_, "%s\n", line.c_str());
}

std::uint64_t TransferReport::total(Fate fate) const {
  std::uint64_t sum = 0;
  for (const auto& [name, counts] : counts_) sum += counts[static_cast<std::size_t>(fate)];
  return sum;
}

std::uint64_t TransferReport::keys() const {
  return total(Fate::kTaken) + total(Fate::kExpired) + total(Fate::kUnsupported) + total(Fate::kRefused);
}

std::string TransferReport::text(const char* taken) const {
  std::vector<std::array<std::string, 6>> rows = {{"database", "type", taken, "expired", "unsupported", "refused"}};
  std::array<std::uint64_t, 4> sums{};
  const auto add_row = [&](const std::string& database, const std::string& type, const std::array<std::uint64_t, 4>& counts) {
    rows.push_back(
        {database, type, with_commas(counts[0]), with_commas(counts[1]), with_commas(counts[2]), with_commas(counts[3])});
  };
  for (const auto& [name, counts] : counts_) {
    add_row(std::to_string(name.first), name.second, counts);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += counts[i];
  }
  add_row("all", "", sums);
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    out += right(row[0], widths[0]) + "  " + row[1] + std::string(widths[1] - row[1].size(), ' ');
    for (std::size_t i = 2; i < row.size(); ++i) out += "  " + right(row[i], widths[i]);
    out += "\n";
  }
  if (in_doubt_ != 0) {
    out += "\n" + with_commas(in_doubt_) +
           " of these exist, and the interrupted import may have sent them; they were kept as they are. --list FILE lists them\n";
  }
  if (unseen_ != 0) {
    out += "\n" + with_commas(unseen_) +
           " commands have run, and the interruption lost their replies: errors of these are not listed\n";
  }
  if (lost_ == 0) return out;
  out += "\nnot " + std::string(taken) + ":\n" + lines_;
  if (lost_ > kShown) out += "  and " + with_commas(lost_ - kShown) + " more; --list FILE lists all\n";
  return out;
}

std::string TransferReport::save() const {
  std::ostringstream out;
  out << "lost " << lost_ << "\nin_doubt " << in_doubt_ << "\n";
  if (unseen_ != 0) out << "unseen " << unseen_ << "\n";
  for (const auto& [name, counts] : counts_) {
    out << "count " << name.first;
    for (const std::uint64_t count : counts) out << " " << count;
    out << " " << name.second << "\n";
  }
  std::istringstream lines(lines_);
  for (std::string line; std::getline(lines, line);) out << "line " << line << "\n";
  return out.str();
}

Status TransferReport::restore(const std::string& saved) {
  std::istringstream lines(saved);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "lost") {
      words >> lost_;
    } else if (kind == "in_doubt") {
      words >> in_doubt_;
    } else if (kind == "unseen") {
      words >> unseen_;
    } else if (kind == "count") {
      std::uint64_t database = 0;
      std::array<std::uint64_t, 4> counts{};
      words >> database;
      for (std::uint64_t& count : counts) words >> count;
      std::string type;
      std::getline(words >> std::ws, type);
      counts_[{database, type}] = counts;
    } else if (kind == "line") {
      lines_ += line.substr(kind.size() + 1) + "\n";
    } else {
      words.setstate(std::ios::failbit);
    }
    if (words.fail()) return Status::corruption("a line of the report is not understood: " + printable(line));
  }
  return Status::ok();
}

Result<std::uint64_t> TransferReport::list_bytes() const {
  if (list_ == nullptr) return std::uint64_t{0};
  const long at = list_is_whole() ? std::ftell(list_) : -1;
  if (at < 0) return Status::io_error(std::string("the file of --list: ") + std::strerror(errno));
  return static_cast<std::uint64_t>(at);
}

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1), begun_ns_(now_ns()), shown_ns_(begun_ns_) {}

ProgressLine::~ProgressLine() { end(); }

void ProgressLine::show(const std::string& doing, std::uint64_t keys, double share) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t now = now_ns();
  if (now - shown_ns_ < (terminal_ ? 1 : 10) * kSecond) return;
  shown_ns_ = now;
  const double seconds = static_cast<double>(now - begun_ns_) / static_cast<double>(kSecond);
  char text[160];
  if (share > 0) {
    std::snprintf(text, sizeof text, "%s %5.1f %%, %s keys, %.0f keys/s, %.0f s left", doing.c_str(), 100 * share,
                  with_commas(keys).c_str(), static_cast<double>(keys) / seconds, seconds / share - seconds);
  } else {
    std::snprintf(text, sizeof text, "%s %s keys, %.0f keys/s", doing.c_str(), with_commas(keys).c_str(),
                  static_cast<double>(keys) / seconds);
  }
  std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", text);
  open_ = terminal_;
}

void ProgressLine::end() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace ebbtide
