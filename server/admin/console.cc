#include "admin/console.h"

#include <cmath>
#include <cstdio>
#include <type_traits>

namespace ebbtide {
namespace {

/// Writes JSON values in the order of the calls, with commas between them.
class Json {
 public:
  Json& key(std::string_view name) {
    comma();
    quote(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  Json& open(char bracket) {
    comma();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  template <typename T>
  Json& value(const T& v) {
    comma();
    if constexpr (std::is_same_v<T, bool>) {
      text_ += v ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      char number[32];
      std::snprintf(number, sizeof(number), "%.6g", std::isfinite(v) ? static_cast<double>(v) : 0.0);
      text_ += number;
    } else if constexpr (std::is_integral_v<T>) {
      text_ += std::to_string(v);
    } else {
      quote(v);
    }
    return *this;
  }
  template <typename T>
  Json& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  // Escapes bytes above ASCII one by one, so that any bytes become valid JSON. Escapes '<', too, in case a browser shows the JSON
  // as HTML.
  void quote(std::string_view bytes) {
    static const char kHex[] = "0123456789abcdef";
    text_ += '"';
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\' && c != '<') {
        text_ += c;
      } else {
        text_ += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      }
    }
    text_ += '"';
  }
  std::string text_;
  bool fresh_ = true;
};

void write_service(const ConsoleSnapshot& s, Json& json) {
  json.field("version", s.version).field("not_ready", s.not_ready).field("uptime_ms", s.uptime_ms);
  json.field("clients", s.clients).field("commands", s.commands).field("errors", s.errors);
  json.field("net_in_bytes", s.net_in_bytes).field("net_out_bytes", s.net_out_bytes);
}

void write_engine(const Stats& e, std::uint64_t resident, Json& json) {
  json.field("now_ms", e.engine_time);
  json.field("writes", e.writes).field("gets", e.gets).field("get_hits", e.get_hits);
  json.field("user_bytes_written", e.user_bytes_written).field("wal_bytes_written", e.wal_bytes_written);
  json.field("flush_bytes_written", e.flush_bytes_written).field("compaction_bytes_read", e.compaction_bytes_read);
  json.field("compaction_bytes_written", e.compaction_bytes_written).field("compactions", e.compactions);
  json.field("flushes", e.flushes).field("files_dropped", e.files_dropped).field("compactions_running", e.compactions_running);
  json.field("cache_hits", e.cache_hits).field("cache_misses", e.cache_misses);
  json.field("filter_negatives", e.filter_negatives).field("filter_false_positives", e.filter_false_positives);
  json.field("snapshots", e.snapshots).field("read_only", e.read_only);
  json.key("stalls").open('{').field("stopped", e.write_stalled).field("memtable_us", e.stall_micros_memtable);
  json.field("runs_us", e.stall_micros_runs).field("pending_us", e.stall_micros_pending_bytes);
  json.field("deadline_us", e.stall_micros_deadline).close('}');
  json.key("missed").open('{').field("down", e.deadlines_missed_down).field("clock", e.deadlines_missed_clock);
  json.field("disk", e.deadlines_missed_disk).field("damage", e.deadlines_missed_damage);
  json.field("load", e.deadlines_missed_load).close('}');
  json.key("memory").open('{').field("budget", e.memory_budget).field("resident", resident);
  json.field("memtables", e.memtable_bytes).field("cache", e.cache_bytes).field("tables", e.table_bytes);
  json.field("clients", e.connection_bytes)
      .field("other", e.large_value_bytes + e.pinned_page_bytes + e.command_bytes)
      .close('}');
  json.key("disk").open('{').field("tables", e.table_live_bytes).field("wal", e.wal_live_bytes).close('}');
}

/// `index`: the index that the tree belongs to; null for a database.
void write_database(const TreeInfo& tree, const IndexTree* index, Json& json) {
  std::uint64_t files = 0, bytes = 0, tombstones = 0, last_bytes = 0;
  int last = 0;
  for (const RunInfo& run : tree.runs) {
    files += run.files;
    bytes += run.bytes;
    tombstones += run.tombstones + run.range_tombstones;
    last_bytes = run.level == last ? last_bytes + run.bytes : run.bytes;
    last = run.level;
  }
  json.open('{').field("db", tree.database);
  if (index != nullptr)
    json.field("owner", owner_of(tree.database)).field("index", index->name).field("building", index->building);
  json.field("files", files).field("bytes", bytes).field("runs", tree.runs.size());
  json.field("keys", tree.estimated_keys).field("tombstones", tombstones);
  json.field("oldest_birth", tree.oldest_obligation).field("oldest_deadline", tree.oldest_obligation_deadline);
  json.field("deadline_ms", tree.delete_deadline).field("pending_bytes", tree.pending_compaction_bytes);
  json.field("last_level_bytes", last_bytes).close('}');
}

void write_cell(const TreeMapCell& cell, Json& json) {
  json.open('{').field("f", cell.file).field("n", cell.files).field("x0", cell.start).field("x1", cell.end);
  json.field("b", cell.bytes).field("e", cell.entries);
  if (cell.tombstones != 0) json.field("t", cell.tombstones);
  if (cell.range_tombstones != 0) json.field("r", cell.range_tombstones);
  if (cell.oldest_birth != 0) json.field("o", cell.oldest_birth);
  if (cell.busy) json.field("busy", true);
  json.close('}');
}

void write_map(const TreeMap& map, Json& json) {
  json.key("tree").open('{').field("db", map.database).field("id", map.tree).field("policy", map.policy);
  json.field("deadline_ms", map.delete_deadline);
  json.key("memtables").open('[');
  for (const TreeMapMemTable& m : map.memtables) {
    json.open('{').field("bytes", m.bytes).field("entries", m.entries).field("tombstones", m.tombstones);
    json.field("o", m.oldest_birth).field("frozen", m.frozen).close('}');
  }
  json.close(']').key("runs").open('[');
  for (const TreeMapRun& run : map.runs) {
    json.open('{').field("id", run.id).field("level", run.level).field("files", run.files).field("bytes", run.bytes);
    json.key("cells").open('[');
    for (const TreeMapCell& cell : run.cells) write_cell(cell, json);
    json.close(']').close('}');
  }
  json.close(']').key("jobs").open('[');
  for (const TreeMapJob& job : map.jobs) {
    json.open('{').field("kind", job.kind).field("reason", job.reason).field("files", job.files).field("bytes", job.bytes);
    json.field("from", job.from_level).field("to", job.to_level).field("urgent", job.urgent).close('}');
  }
  json.close(']').close('}');
}

void write_workload(const WorkloadSummary& summary, Json& json) {
  const OperationFigures& mix = summary.mean;
  json.key("workload").open('{').field("operations", summary.total.total());
  json.field("empty_read", mix.empty_read).field("read", mix.read).field("range", mix.range).field("write", mix.write);
  json.field("known", summary.enough).field("divergence", summary.divergence).field("rho", summary.rho).close('}');
}

}  // namespace

std::string console_json(const ConsoleSnapshot& s) {
  Json json;
  json.open('{');
  write_service(s, json);
  if (s.engine) write_engine(*s.engine, s.resident_bytes, json);
  json.field("database_count", s.databases).key("databases").open('[');
  for (const TreeInfo& tree : s.trees) write_database(tree, nullptr, json);
  for (const IndexTree& index : s.index_trees) write_database(index.info, &index, json);
  json.close(']').field("open_tickets", s.open_tickets).key("tickets").open('[');
  for (const ConsoleTicket& t : s.tickets) {
    json.open('{').field("id", t.id).field("done", t.done).field("deadline", t.deadline);
    json.field("files_left", t.files_left).field("bytes_left", t.bytes_left).close('}');
  }
  json.close(']');
  if (s.workload) write_workload(*s.workload, json);
  if (!s.tuning.empty()) json.field("tuning", s.tuning);
  if (s.map) write_map(*s.map, json);
  return json.close('}').take();
}

bool console_host_allowed(std::string_view host, std::string_view bind) {
  const auto is_loopback = [](std::string_view name) {
    return name == "localhost" || name == "::1" || name.substr(0, 4) == "127.";
  };
  if (!is_loopback(bind)) return true;  // the names under which other machines reach this host are unknown
  std::string_view name = host;
  if (!name.empty() && name[0] == '[') {
    name = name.substr(1, name.find(']') == std::string_view::npos ? 0 : name.find(']') - 1);
  } else if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    name = name.substr(0, colon);
  }
  // "127.evil.example" is a name, not an address.
  const bool number = name.find_first_not_of("0123456789.:") == std::string_view::npos;
  return name == "localhost" || (number && is_loopback(name));
}

}  // namespace ebbtide
