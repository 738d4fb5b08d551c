// The console: one page at / of the HTTP port, and the numbers that it shows.
//
// The page (console/page.html with its style and script, put together by the build) loads nothing from anywhere and asks for
// /console.json once a second. It only looks: there is nothing in it that changes the server. What it is sent has no key and no
// value: files have a number and a position in the key space. Texts that users could have written (a reason from the engine, a
// ticket's name) are escaped for JSON here and put into the page as text there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <engine/stats.h>
#include <engine/tree_map.h>

namespace ebbtide {

/// A purge ticket as the console lists it.
struct ConsoleTicket {
  std::string id;
  bool done = false;
  Millis deadline = 0;  ///< 0 = not promised
  std::uint64_t files_left = 0, bytes_left = 0;
};

/// What is shown, at one moment. Counters count since the start; the page makes rates of them.
struct ConsoleSnapshot {
  std::string version;
  std::string not_ready;  ///< empty, or why reads or writes are not taken
  std::uint64_t uptime_ms = 0;
  std::uint64_t clients = 0, commands = 0, errors = 0, net_in_bytes = 0, net_out_bytes = 0;
  std::uint64_t resident_bytes = 0;
  // of the engine, once it is open
  std::optional<Stats> engine;
  std::vector<TreeInfo> trees;  ///< of databases that have one
  std::optional<TreeMap> map;   ///< of the database that was asked for
  std::uint64_t open_tickets = 0;
  std::vector<ConsoleTicket> tickets;  ///< the first of them
  std::uint32_t databases = 0;
};

/// The most cells of a tree that are sent, about: what a wide screen can tell apart.
inline constexpr std::size_t kConsoleCells = 1200;

/// The answer to /console.json.
std::string console_json(const ConsoleSnapshot& snapshot);

/// The whole page, and the Content-Security-Policy that lets it run its own style and script and nothing else.
std::string_view console_page();
std::string_view console_policy();

/// Whether a request with this Host header may see the console of a port bound to `bind`. A page of somebody else's that has its
/// name resolved to 127.0.0.1 must not read it: on loopback, the name must be that of loopback too.
bool console_host_allowed(std::string_view host, std::string_view bind);

}  // namespace ebbtide
