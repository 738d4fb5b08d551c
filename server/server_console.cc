// What the console shows, gathered: snapshots of counters and of one tree.
#include "admin/console.h"
#include "machine.h"
#include "server.h"

namespace ebbtide {

namespace {

/// Tickets that are shown: those born first, which are due first.
constexpr std::size_t kShownTickets = 3;

void add_tickets(Db& db, ConsoleSnapshot* s) {
  const std::vector<PurgeTicket> open = db.open_tickets();
  s->open_tickets = open.size();
  for (std::size_t i = 0; i < open.size() && i < kShownTickets; ++i) {
    const auto status = db.purge_status(open[i]);
    if (status.is_ok()) {
      s->tickets.push_back({format_ticket(open[i]), status->done, status->deadline, status->files(), status->bytes()});
    }
  }
}

}  // namespace

std::optional<std::string> Server::console(DatabaseId database) const {
  if (database >= engine_settings_.databases) return std::nullopt;
  ConsoleSnapshot s;
  s.version = EBBTIDE_VERSION;
  s.not_ready = not_ready();
  s.uptime_ms = (unix_micros() - start_micros_) / 1000;
  s.databases = engine_settings_.databases;
  s.clients = net_.clients;
  const NetTotals net = net_totals();
  s.net_in_bytes = net.in;
  s.net_out_bytes = net.out;
  const TotalCounts totals = stats_.totals();
  s.commands = totals.commands;
  s.errors = totals.errors;
  s.resident_bytes = resident_bytes();
  Db* db = ready_.load();
  if (db == nullptr) return console_json(s);
  s.engine = db->stats();
  const Config config = config_.get();
  for (DatabaseId i = 0; i < engine_settings_.databases; ++i) {
    auto tree = db->tree_info(i);
    if (!tree.is_ok() || tree->tree == kNoTree) continue;
    s.trees.push_back(std::move(tree).value());
    s.delete_deadlines.push_back(config.engine.tree_for(i).delete_deadline);
  }
  if (auto map = db->tree_map(database, kConsoleCells); map.is_ok()) s.map = std::move(map).value();
  add_tickets(*db, &s);
  return console_json(s);
}

}  // namespace ebbtide
