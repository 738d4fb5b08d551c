// What the console shows, gathered: snapshots of counters and of one tree.
#include "admin/console.h"
#include "machine.h"
#include "server.h"

namespace ebbtide {

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
  const Db* db = ready_.load();
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
  return console_json(s);
}

}  // namespace ebbtide
