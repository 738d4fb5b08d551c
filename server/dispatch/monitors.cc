#include "dispatch/monitors.h"

#include <memory>
#include <string>

namespace ebbtide {
namespace {

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

void Monitors::show(const Args& args, DatabaseId database, const Client& client, std::uint64_t unix_micros) {
  const std::string fraction = std::to_string(1'000'000 + unix_micros % 1'000'000).substr(1);
  std::string line = "+" + std::to_string(unix_micros / 1'000'000) + "." + fraction + " [" + std::to_string(database) + " " +
                     client.address + "]";
  for (const Bytes argument : args) line += " " + quoted(argument);
  line += "\r\n";
  const auto text = std::make_shared<const std::string>(std::move(line));
  std::lock_guard lock(mutex_);
  for (const auto& [id, loop] : monitors_) {
    const auto deliver = [loop = loop, id = id, text] {
      Client* monitor = loop->find(id);
      if (monitor == nullptr) return;
      monitor->out.append(*text);
      monitor->check_push_limit();
      loop->touch(monitor);
    };
    loop == client.loop ? deliver() : loop->post(deliver);
  }
}

}  // namespace ebbtide
