// The console: one page at / of the HTTP port, and the data that it shows.
//
// The page (console/page.html with its style and script, joined by the build) loads nothing else, and requests /console.json once
// a second. It is read-only. The JSON contains no keys or values: files have a number and a position in the key space. Texts that
// may come from users, such as an engine's reason or a ticket's name, are escaped for JSON here. The page inserts them as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <engine/stats.h>
#include <engine/tree_map.h>
#include <engine/tuner.h>

#include "metrics/metrics.h"

namespace ebbtide {

/// A purge ticket as the console lists it.
struct ConsoleTicket {
  std::string id;
  bool done = false;
  Millis deadline = 0;  ///< 0 = no promise
  std::uint64_t files_left = 0, bytes_left = 0;
};

/// The console's data at one moment. Counters count since the start; the page computes rates.
struct ConsoleSnapshot {
  std::string version;
  std::string not_ready;  ///< "", or why the server refuses reads or writes
  std::uint64_t uptime_ms = 0;
  std::uint64_t clients = 0, commands = 0, errors = 0, net_in_bytes = 0, net_out_bytes = 0;
  std::uint64_t resident_bytes = 0;
  // Data of the engine, once it is open.
  std::optional<Stats> engine;
  std::vector<TreeInfo> trees;  ///< one per database that has a tree
  std::vector<IndexTree> index_trees;
  std::optional<TreeMap> map;  ///< map of the requested database or index
  std::uint64_t open_tickets = 0;
  std::vector<ConsoleTicket> tickets;  ///< the first open tickets; the others are only in open_tickets
  std::uint32_t databases = 0;
  std::optional<WorkloadSummary> workload;  ///< workload of the requested database, from its history
  std::string tuning;  ///< the newest decision of tuning.auto for the requested database; "": tuning.auto is off
};

/// About how many cells of a tree map are sent at most: as many as a wide screen can show.
inline constexpr std::size_t kConsoleCells = 1200;

/// Returns the body of the reply to /console.json.
std::string console_json(const ConsoleSnapshot& snapshot);

/// Return the whole page, and the Content-Security-Policy that allows only the page's own style and script.
std::string_view console_page();
std::string_view console_policy();

/// Returns true if a request with this Host header may read the console of a port that is bound to `bind`. If the port is on
/// loopback, the Host must be a name of loopback. Otherwise a foreign page whose name resolves to 127.0.0.1 could read the
/// console (DNS rebinding).
bool console_host_allowed(std::string_view host, std::string_view bind);

}  // namespace ebbtide
