#include "import/key_walk.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "import/report.h"
#include "store/rdb.h"

namespace ebbtide {
namespace {

constexpr Bytes kScanCount = "500";
constexpr std::size_t kFooterBytes = 10;  // bytes of version and CRC at the end of a payload

/// Calls `visit` with the names that each call of SCAN returns.
Status scan(Connection& source, std::uint64_t database, const std::function<Status(std::vector<ServerReply>&&)>& visit) {
  const std::string number = std::to_string(database);
  TRY(source.require(std::array<Bytes, 2>{"SELECT", number}).status());
  std::string cursor = "0";
  do {
    TRY_ASSIGN(step, source.require(std::array<Bytes, 4>{"SCAN", cursor, "COUNT", kScanCount}));
    if (step.array.size() != 2)
      return Status::io_error("unexpected reply to SCAN from " + source.name() + ": not a cursor and a list of keys");
    cursor = step.array[0].text;
    TRY(visit(std::move(step.array[1].array)));
  } while (cursor != "0");
  return Status::ok();
}

Status refused(const Connection& source, Bytes command, const std::string& key, const ServerReply& reply) {
  return Status::io_error(source.name() + " answers " + std::string(command) + " of the key " + printable(key) +
                          " with: " + reply.text);
}

}  // namespace

Result<std::vector<DatabaseSize>> databases_of(Connection& source) {
  TRY_ASSIGN(info, source.require(std::array<Bytes, 2>{"INFO", "keyspace"}));
  std::vector<DatabaseSize> databases;
  // A line of INFO keyspace: db0:keys=12,expires=3,...
  for (std::size_t at = info.text.find("\ndb"); at != std::string::npos; at = info.text.find("\ndb", at + 1)) {
    DatabaseSize found;
    const char* const end = info.text.data() + info.text.size();
    const auto number = std::from_chars(info.text.data() + at + 3, end, found.database);
    const std::size_t keys = info.text.find("keys=", at);
    if (number.ec != std::errc() || *number.ptr != ':' || keys == std::string::npos) continue;
    std::from_chars(info.text.data() + keys + 5, end, found.keys);
    databases.push_back(found);
  }
  return databases;
}

bool is_wanted(const std::vector<std::uint64_t>& databases, std::uint64_t database) {
  return databases.empty() || std::find(databases.begin(), databases.end(), database) != databases.end();
}

Status walk_keys(Connection& source, std::uint64_t database, const std::function<Status(DumpedKey&&)>& visit) {
  return scan(source, database, [&](std::vector<ServerReply>&& names) -> Status {
    for (const ServerReply& name : names) {
      source.send(std::array<Bytes, 2>{"DUMP", name.text});
      source.send(std::array<Bytes, 2>{"PEXPIRETIME", name.text});
    }
    for (ServerReply& name : names) {
      TRY_ASSIGN(dump, source.receive());
      TRY_ASSIGN(expiry, source.receive());
      if (dump.is_error()) return refused(source, "DUMP", name.text, dump);
      if (expiry.is_error()) return refused(source, "PEXPIRETIME (since Redis 7.0)", name.text, expiry);
      constexpr std::int64_t kGone = -2, kForever = -1;
      if (dump.kind != ServerReply::Kind::kText || expiry.integer == kGone) continue;  // the key was removed meanwhile
      if (dump.text.size() <= kFooterBytes) return refused(source, "DUMP", name.text, dump);
      DumpedKey key;
      const Bytes payload = dump.text;
      key.version = static_cast<unsigned>(load_little(payload.substr(payload.size() - kFooterBytes, 2)));
      key.entry.database = database;
      key.entry.type = static_cast<unsigned char>(payload.front());
      key.entry.value = payload.substr(1, payload.size() - kFooterBytes - 1);
      key.entry.key = std::move(name.text);
      if (expiry.integer != kForever) key.entry.expiry_ms = expiry.integer;
      TRY(visit(std::move(key)));
    }
    return Status::ok();
  });
}

Status walk_names(Connection& source, std::uint64_t database, const std::function<Status(const std::string&)>& visit) {
  return scan(source, database, [&](std::vector<ServerReply>&& names) -> Status {
    for (const ServerReply& name : names) TRY(visit(name.text));
    return Status::ok();
  });
}

}  // namespace ebbtide
