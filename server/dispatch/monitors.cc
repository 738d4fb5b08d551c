#include "dispatch/monitors.h"

#include <algorithm>
#include <memory>
#include <string>

namespace ebbtide {
namespace {

/// The most bytes of a command's arguments in a line, so that lines do not keep the loop busy. Quoting makes the bytes up to four
/// times as long.
constexpr std::size_t kShownBytes = 256 << 10;
/// Monitors share one copy of a line that has at least this many bytes.
constexpr std::size_t kSharedLineBytes = 4 << 10;

/// Quotes a text as Redis does: bytes that are not printable become \xhh.
std::string quoted(Bytes text) {
  constexpr char kHex[] = "0123456789abcdef";
  constexpr Bytes kNamed = "\\\"\n\r\t\a\b", kNames = "\\\"nrtab";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t i = kNamed.find(c); i != Bytes::npos) {
      out += {'\\', kNames[i]};
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + "\"";
}

/// Quotes the arguments, each after a space. Beyond kShownBytes it only states the number of omitted bytes, as the slow log does.
std::string quoted_arguments(const Args& args) {
  std::string out;
  std::size_t left = kShownBytes, i = 0;
  for (; i < args.size() && left > 0; ++i) {
    const Bytes shown = args[i].substr(0, left);
    out += " " + quoted(shown);
    if (const std::size_t more = args[i].size() - shown.size(); more > 0) out += "... (" + std::to_string(more) + " more bytes)";
    left -= std::min(left, shown.size() + 3);  // the space and the quotes count, too
  }
  if (i < args.size()) out += "... (" + std::to_string(args.size() - i) + " more arguments)";
  return out;
}

}  // namespace

void Monitors::add(Client& client) {
  std::lock_guard lock(mutex_);
  monitors_[client.id] = client.loop;
  switches_.set(Switches::kMonitors, true);
}

void Monitors::remove(std::uint64_t client_id) {
  std::lock_guard lock(mutex_);
  monitors_.erase(client_id);
  switches_.set(Switches::kMonitors, !monitors_.empty());
}

void Monitors::show(const Args& args, DatabaseId database, const Origin& client, std::uint64_t unix_micros) {
  const std::string fraction = std::to_string(1'000'000 + unix_micros % 1'000'000).substr(1);
  std::string line = "+" + std::to_string(unix_micros / 1'000'000) + "." + fraction + " [" + std::to_string(database) + " " +
                     std::string(client.address) + "]";
  line += quoted_arguments(args) + "\r\n";
  const auto text =
      line.size() < kSharedLineBytes ? std::make_shared<const std::string>(std::move(line)) : texts.share(std::move(line));
  std::lock_guard lock(mutex_);
  for (const auto& [id, loop] : monitors_) {
    const auto deliver = [loop = loop, id = id, text] {
      Client* monitor = loop->find(id);
      if (monitor == nullptr) return;
      text->size() < kSharedLineBytes ? monitor->out.append(*text) : monitor->out.append_shared(text, *text, true);
      monitor->check_push_limit();
      loop->touch(monitor);
    };
    loop == client.loop ? deliver() : loop->post(deliver);
  }
}

}  // namespace ebbtide
