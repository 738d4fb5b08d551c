#include "tools/tune_server.h"

#include <hiredis/hiredis.h>

#include <charconv>
#include <map>
#include <memory>

#include "tools/json.h"
#include "tools/tune_report.h"

namespace ebbtide {
namespace {

using Row = std::vector<std::string>;
using RedisReply = std::unique_ptr<redisReply, void (*)(redisReply*)>;

constexpr int kMostDepth = 8;  // largest depth of nested arrays in a reply

ServedValue copy_of(const redisReply& reply, int depth = 0) {
  ServedValue out;
  if (reply.type == REDIS_REPLY_INTEGER) out.text = std::to_string(reply.integer);
  if (reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS) out.text.assign(reply.str, reply.len);
  out.is_array = reply.type == REDIS_REPLY_ARRAY;
  for (std::size_t i = 0; out.is_array && depth < kMostDepth && i < reply.elements; ++i)
    out.items.push_back(copy_of(*reply.element[i], depth + 1));
  return out;
}

/// Sends a command and returns its reply. An error reply is kInvalidArgument.
Result<ServedValue> call(redisContext* context, const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const std::string& argument : arguments) {
    texts.push_back(argument.data());
    lengths.push_back(argument.size());
  }
  const RedisReply reply(
      static_cast<redisReply*>(redisCommandArgv(context, static_cast<int>(texts.size()), texts.data(), lengths.data())),
      [](redisReply* r) { freeReplyObject(r); });
  if (reply == nullptr) return Status::io_error("connection to " + name + ": " + context->errstr);
  if (reply->type == REDIS_REPLY_ERROR) {
    const std::string error(reply->str, reply->len);
    return Status::invalid_argument(
        name + " answers " + arguments.front() + " with: " + error +
        (error.starts_with("NOAUTH") ? " Give --user and --password-file, or set REDISCLI_AUTH." : ""));
  }
  return copy_of(*reply);
}

/// Reads the fields of a reply's map. Its status is the error of the first field that is missing or wrong.
class Fields {
 public:
  explicit Fields(const ServedValue& map, std::string place = "") : place_(std::move(place)) {
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) fields_[map.items[i].text] = &map.items[i + 1];
  }
  template <typename Number>
  void number(const std::string& name, Number* to) {
    if (const ServedValue* const value = find(name); value != nullptr) parse(name, *value, to);
  }
  /// Does not change `*to` if the field is missing, since servers of 0.1.0 do not send it.
  template <typename Number>
  void newer_number(const std::string& name, Number* to) {
    if (const auto at = fields_.find(name); at != fields_.end()) parse(name, *at->second, to);
  }
  const ServedValue* array(const std::string& name) {
    const ServedValue* const value = find(name);
    if (value != nullptr && !value->is_array) fail(name + " is not an array");
    return value != nullptr && value->is_array ? value : nullptr;
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const ServedValue* find(const std::string& name) {
    const auto at = fields_.find(name);
    if (at == fields_.end()) fail("the field " + name + " is missing");
    return at == fields_.end() ? nullptr : at->second;
  }
  template <typename Number>
  void parse(const std::string& name, const ServedValue& value, Number* to) {
    const char* const begin = value.text.data();
    const char* const end = begin + value.text.size();
    if (const auto [at, error] = std::from_chars(begin, end, *to); value.is_array || error != std::errc() || at != end)
      fail(name + " is \"" + value.text + "\"");
  }
  void fail(const std::string& why) {
    if (status_.is_ok()) status_ = Status::corruption("the reply to TUNE.WORKLOAD: " + place_ + why);
  }

  const std::string place_;
  std::map<std::string, const ServedValue*> fields_;
  Status status_;
};

Result<WorkloadWindow> window_of(const ServedValue& reply) {
  WorkloadWindow window;
  Fields fields(reply, "windows: ");
  fields.number("start-ms", &window.start);
  fields.number("length-ms", &window.length);
  fields.number("empty-reads", &window.counts.empty_reads);
  fields.number("reads", &window.counts.reads);
  fields.number("ranges", &window.counts.ranges);
  fields.number("writes", &window.counts.writes);
  fields.number("range-entries", &window.counts.range_entries);
  fields.newer_number("deletes", &window.counts.deletes);
  fields.newer_number("stamp-deletes", &window.counts.stamp_deletes);
  TRY(fields.status());
  return window;
}

Result<PolicySettings> policy_of(const ServedValue& reply) {
  PolicySettings policy;
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2) {
    const std::string &name = reply.items[i].text, &text = reply.items[i + 1].text;
    if (name == "name") {
      policy.name = text;
      continue;
    }
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      return Status::corruption("the reply to TUNE.WORKLOAD: policy: " + name + " is \"" + text + "\"");
    policy.parameters[name] = value;
  }
  TRY(validate(policy));
  return policy;
}

std::string shares_text(const OperationFigures& mix) {
  return formatted(mix.empty_read * 100, "%.1f %% empty reads, ") + formatted(mix.read * 100, "%.1f %% reads, ") +
         formatted(mix.range * 100, "%.1f %% ranges, ") + formatted(mix.write * 100, "%.1f %% writes");
}

Row advice_row(const std::string& name, const TunerAdvice& advice) {
  const auto ratio = advice.policy.parameters.find("size_ratio");
  return {name,
          advice.policy.name,
          ratio == advice.policy.parameters.end() ? "-" : formatted(ratio->second, "%g"),
          formatted(static_cast<double>(advice.memtable_bytes) / 0x1p20, "%.3g MiB"),
          formatted(advice.filter_bits_per_key, "%.2f"),
          std::to_string(advice.pages_per_tile),
          formatted(advice.costs.empty_read),
          formatted(advice.costs.read),
          formatted(advice.costs.range),
          formatted(advice.costs.write),
          formatted(advice.mean_cost),
          formatted(advice.worst_cost),
          formatted(advice.transient_space, "%.2f")};
}

bool is_given(const Recommendation& advice, const Proposal& proposal) { return proposal.worthwhile || !advice.today; }

std::string proposal_text(const Workload& workload, const Recommendation& advice, const std::string& title,
                          const Proposal& proposal) {
  std::string out = title + ": " + proposal.verdict + ".\n";
  if (!is_given(advice, proposal)) return out;
  out += "  CONFIG SET";
  for (const auto& [key, value] : database_config(workload.database, proposal.advice)) out += " " + key + " " + value;
  return out + "\n";
}

JsonObject figures_json(const OperationFigures& figures) {
  JsonObject out;
  out.raw("empty-read", json_number(figures.empty_read)).raw("read", json_number(figures.read));
  out.raw("range", json_number(figures.range)).raw("write", json_number(figures.write));
  return out;
}

JsonObject advice_json(const TunerAdvice& advice) {
  JsonObject out, policy;
  policy.add("name", advice.policy.name);
  for (const auto& [name, value] : advice.policy.parameters) policy.raw(name, json_number(value));
  out.add("layout", advice.layout).add("policy", policy).add("memtable-size", advice.memtable_bytes);
  out.raw("filter-bits-per-key", json_number(advice.filter_bits_per_key));
  out.add("pages-per-tile", std::uint64_t{advice.pages_per_tile}).add("costs", figures_json(advice.costs));
  out.raw("delete-work", json_number(advice.delete_work)).raw("stamp-delete-cost", json_number(advice.stamp_delete_cost));
  out.raw("mean-cost", json_number(advice.mean_cost)).raw("worst-cost", json_number(advice.worst_cost));
  out.raw("write-amplification", json_number(advice.write_amplification));
  out.raw("longest-merge-bytes", json_number(advice.longest_merge_bytes));
  out.raw("transient-space", json_number(advice.transient_space));
  return out;
}

std::string proposal_json(const Workload& workload, const Recommendation& advice, const std::optional<Proposal>& proposal) {
  if (!proposal) return "null";
  JsonObject out;
  out.add("verdict", proposal->verdict).add("worthwhile", std::uint64_t{proposal->worthwhile});
  out.raw("saved-per-day", json_number(proposal->saved_per_day));
  out.raw("mean-cost", json_number(proposal->advice.mean_cost)).raw("worst-cost", json_number(proposal->advice.worst_cost));
  if (!is_given(advice, *proposal)) return out.str();
  JsonObject config;
  for (const auto& [key, value] : database_config(workload.database, proposal->advice)) config.add(key, value);
  return out.add("advice", advice_json(proposal->advice)).add("config", config).str();
}

}  // namespace

std::string TuneServer::name() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Status parse_server(const std::string& text, TuneServer* server) {
  const Status wrong = Status::invalid_argument("server is \"" + text +
                                                "\"; allowed: HOST:PORT, [ADDRESS]:PORT or HOST, for example 127.0.0.1:6379");
  std::string host = text, port;
  if (const std::size_t end = text.find(']'); text.starts_with('[') && end != std::string::npos) {
    host = text.substr(1, end - 1);
    if (end + 1 < text.size()) {
      if (text[end + 1] != ':') return wrong;
      port = text.substr(end + 2);
      if (port.empty()) return wrong;
    }
  } else if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return wrong;
  }
  if (host.empty()) return wrong;
  if (!port.empty()) {
    int number = 0;
    const auto [at, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || at != port.data() + port.size() || number < 1 || number > 65535) return wrong;
    server->port = number;
  }
  server->host = host;
  return Status::ok();
}

Result<Workload> workload_of(const ServedValue& reply) {
  Workload out;
  Fields fields(reply);
  fields.number("database", &out.database);
  fields.number("table-entries", &out.table_entries);
  fields.number("table-bytes", &out.table_bytes);
  fields.number("cache-miss-ratio", &out.cache_miss_ratio);
  fields.number("page-size", &out.settings.page_size);
  fields.number("memtable-size", &out.settings.memtable_size);
  fields.number("filter-bits-per-key", &out.settings.filter_bits_per_key);
  fields.number("filter-memory", &out.settings.filter_memory);
  fields.newer_number("pages-per-tile", &out.settings.pages_per_tile);
  fields.newer_number("pages-per-tile-now", &out.pages_per_tile);
  fields.newer_number("pages-per-tile-measured", &out.measured_pages_per_tile);
  fields.newer_number("delete-deadline-ms", &out.settings.delete_deadline);
  fields.newer_number("entries-per-file", &out.entries_per_file);
  fields.newer_number("write-asymmetry", &out.device.write_asymmetry);
  fields.newer_number("sequential-cost", &out.device.sequential_cost);
  const ServedValue* const policy = fields.array("policy");
  const ServedValue* const windows = fields.array("windows");
  TRY(fields.status());
  TRY_ASSIGN(settings, policy_of(*policy));
  out.settings.policy = std::move(settings);
  for (const ServedValue& item : windows->items) {
    TRY_ASSIGN(window, window_of(item));
    out.windows.push_back(window);
  }
  return out;
}

Result<Workload> fetch_workload(const TuneServer& server) {
  constexpr timeval kConnect{10, 0}, kReply{60, 0};
  const std::string name = server.name();
  const std::unique_ptr<redisContext, void (*)(redisContext*)> context(
      redisConnectWithTimeout(server.host.c_str(), server.port, kConnect), redisFree);
  if (context == nullptr) return Status::out_of_memory("no memory for a connection to " + name);
  if (context->err != 0) return Status::io_error("connection to " + name + ": " + context->errstr);
  redisSetTimeout(context.get(), kReply);
  if (!server.password.empty() || !server.user.empty()) {
    std::vector<std::string> login = {"AUTH"};
    if (!server.user.empty()) login.push_back(server.user);
    login.push_back(server.password);
    TRY(call(context.get(), name, login).status());
  }
  if (server.database != 0) TRY(call(context.get(), name, {"SELECT", std::to_string(server.database)}).status());
  TRY_ASSIGN(reply, call(context.get(), name, {"TUNE.WORKLOAD", "65536"}));
  return workload_of(reply);
}

std::string recommendation_text(const Workload& workload, const Recommendation& advice) {
  const WorkloadSummary& summary = advice.summary;
  std::string out = "Database " + std::to_string(workload.database) + ": " +
                    formatted(static_cast<double>(summary.total.total())) + " operations in " +
                    std::to_string(workload.windows.size()) + " windows, " + formatted(summary.operations_per_day) + " a day\n";
  if (!advice.nominal) return out + advice.verdict + ".\n";
  out += "Expected: " + shares_text(advice.question.workload) + "; rho = " + formatted(advice.question.rho, "%.3g") + "\n\n";
  std::vector<Row> rows = {{"", "policy", "T", "memtable", "filter bits", "tile", "empty read", "read", "range", "write", "mean",
                            "worst", "space in merges"}};
  if (advice.today) rows.push_back(advice_row("today", *advice.today));
  if (is_given(advice, *advice.nominal)) rows.push_back(advice_row("nominal", advice.nominal->advice));
  if (advice.robust && is_given(advice, *advice.robust)) rows.push_back(advice_row("robust", advice.robust->advice));
  out += aligned_table(rows) + "\n" + proposal_text(workload, advice, "Nominal", *advice.nominal);
  if (advice.robust) out += proposal_text(workload, advice, "Robust", *advice.robust);
  return out;
}

std::string recommendation_json(const Workload& workload, const Recommendation& advice) {
  JsonObject out;
  out.add("verdict", advice.verdict).add("database", std::uint64_t{workload.database});
  out.add("workload", figures_json(advice.question.workload)).raw("rho", json_number(advice.question.rho));
  out.raw("memory", json_number(advice.question.memory_bytes));
  out.raw("operations-per-day", json_number(advice.summary.operations_per_day));
  out.raw("apply-cost", json_number(advice.judged() != nullptr ? advice.judged()->change_cost : 0));
  out.raw("today", advice.today ? advice_json(*advice.today).str() : "null");
  out.raw("nominal", proposal_json(workload, advice, advice.nominal));
  out.raw("robust", proposal_json(workload, advice, advice.robust));
  return out.str() + "\n";
}

}  // namespace ebbtide
