// Tests of fields of hashes that expire, in simulated time. Random commands are compared with a map, and headers with their
// elements. All files are searched after the delete deadline.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <engine/collection_keys.h>

#include "commands/families.h"
#include "server/dispatch/harness.h"
#include "store/collection/large.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

struct Field {
  std::string value;
  Millis expiry = 0;  // 0: never
};
/// The fields of one hash, in the order of their names, as large hashes have them.
using Fields = std::map<std::string, Field>;

constexpr Millis kDeadline = 60'000;

Settings small_with_deadline() {
  Settings s = CommandHarness::small();
  s.tree.delete_deadline = kDeadline;
  s.tree.compression = s.tree.compression_last_level = Compression::kNone;
  return s;
}

void drop_expired(Fields& fields, Millis now) {
  std::erase_if(fields, [now](const auto& each) { return each.second.expiry != 0 && each.second.expiry <= now; });
}

/// A hash as the database stores it.
struct Stored {
  std::optional<LargeHeader> header;
  Millis header_expiry = 0;
  Fields fields;                           // of elements 'f'
  std::map<std::string, Millis> expiries;  // of elements 'x'
};

Stored stored(CommandHarness& server, const std::string& key) {
  Stored out;
  IteratorOptions options;
  options.elements = true;
  options.bounds = {key, key + "\x01"};
  const auto walk = server.db->iterate(server.db->lease(0), options);
  for (walk->seek_to_first(); walk->valid(); walk->next()) {
    const std::string name(walk->key());
    if (main_key_of(walk->key()).size() == name.size()) {
      if (walk->kind() != EntryKind::kHeader) continue;
      const auto header = LargeHeader::decode(walk->value());
      REQUIRE(header.is_ok());
      out.header = *header;
      out.header_expiry = walk->expiry();
      continue;
    }
    REQUIRE(out.header);
    const ElementKeys keys(key, out.header->generation);
    if (!name.starts_with(element_range(key, out.header->generation).start)) continue;  // of an older generation
    const Bytes element = keys.name_of(walk->key());
    if (is_field_expiry(walk->key())) {
      const auto field = expiring_field_of(element);
      REQUIRE(field);
      CHECK(walk->expiry() == field->expiry);
      CHECK(out.expiries.emplace(std::string(field->field), field->expiry).second);
    } else {
      out.fields[std::string(element)] = {std::string(walk->value()), walk->expiry()};
    }
  }
  REQUIRE(walk->status().is_ok());
  return out;
}

/// Checks the elements and the header of a hash against each other.
void check_invariants(CommandHarness& server, const std::string& key) {
  const Stored now = stored(server, key);
  if (!now.header) return;
  std::map<std::string, Millis> expiries;
  Millis latest = 0;
  for (const auto& [name, field] : now.fields) {
    if (field.expiry == 0) continue;
    expiries[name] = field.expiry;
    latest = std::max(latest, field.expiry);
  }
  CHECK(now.expiries == expiries);
  const std::uint64_t persistent = now.fields.size() - expiries.size();
  if (!now.header->expiries) {
    CHECK(now.header->count == now.fields.size());
    CHECK(expiries.empty());
    return;
  }
  const FieldExpiries& header = *now.header->expiries;
  CHECK(header.persistent == persistent);
  CHECK(header.latest == (persistent == 0 ? latest : 0));
  CHECK(now.header_expiry == now.header->entry_expiry(header.key_expiry));
  const bool exact = !now.header->counts_expired(server.db->now());
  CHECK((exact ? now.header->count == now.fields.size() : now.header->count >= now.fields.size()));
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return engine_() % n; }

 private:
  std::mt19937 engine_;
};

std::string reply_of(CommandHarness& server, const std::vector<std::string>& command) { return show(server.raw(command)); }

/// Runs one random command on both.
void step(CommandHarness& server, Random& random, Fields& fields, std::size_t names) {
  const Millis now = server.db->now();
  const auto name = [&] { return "f" + std::to_string(random.below(names)); };
  const std::string field = name(), value = "v" + std::to_string(random.below(1000));
  const Millis expiry = random.below(3) == 0 ? now + 1'000'000 + random.below(5) : now + 1 + random.below(40);
  const std::string at = std::to_string(expiry);
  const auto known = fields.find(field);
  switch (random.below(9)) {
    case 0:
      CHECK(reply_of(server, {"HSET", "h", field, value}) == (known == fields.end() ? "(integer) 1" : "(integer) 0"));
      fields[field] = {value, 0};
      break;
    case 1:
    case 2:
      CHECK(reply_of(server, {"HPEXPIREAT", "h", at, "FIELDS", "1", field}) ==
            (known == fields.end() ? "[(integer) -2]" : "[(integer) 1]"));
      if (known != fields.end()) known->second.expiry = expiry;
      break;
    case 3:
    case 4: {
      const std::string other = name();
      CHECK(reply_of(server, {"HSETEX", "h", "PXAT", at, "FIELDS", "2", field, value, other, value}) == "(integer) 1");
      fields[field] = fields[other] = {value, expiry};
      break;
    }
    case 5:
      CHECK(reply_of(server, {"HDEL", "h", field}) == (known == fields.end() ? "(integer) 0" : "(integer) 1"));
      fields.erase(field);
      break;
    case 6: {
      const bool persists = known != fields.end() && known->second.expiry != 0;
      CHECK(reply_of(server, {"HPERSIST", "h", "FIELDS", "1", field}) == (known == fields.end() ? "[(integer) -2]"
                                                                          : persists            ? "[(integer) 1]"
                                                                                                : "[(integer) -1]"));
      if (known != fields.end()) known->second.expiry = 0;
      break;
    }
    case 7: {
      std::vector<std::string> command{"HGETDEL", "h", "FIELDS", "0"};
      for (std::size_t i = random.below(4); i < names; i += 1 + random.below(names)) command.push_back("f" + std::to_string(i));
      if (command.size() == 4) break;
      command[3] = std::to_string(command.size() - 4);
      reply_of(server, command);
      for (std::size_t i = 4; i < command.size(); ++i) fields.erase(command[i]);
      break;
    }
    default:
      CHECK(reply_of(server, {"HSETEX", "h", "KEEPTTL", "FIELDS", "1", field, value}) == "(integer) 1");
      fields[field].value = value;
  }
}

void check_replies(CommandHarness& server, const Fields& fields) {
  CHECK(server("HLEN h") == "(integer) " + std::to_string(fields.size()));
  CHECK(server("EXISTS h") == (fields.empty() ? "(integer) 0" : "(integer) 1"));
  std::map<std::string, std::string> expected, found;
  for (const auto& [name, field] : fields) expected[name] = field.value;
  const std::string all = server("HGETALL h");
  for (const auto& [name, value] : expected) CHECK(all.find("\"" + name + "\", \"" + value + "\"") != std::string::npos);
  CHECK(static_cast<std::size_t>(std::count(all.begin(), all.end(), '"')) == 4 * fields.size());
}

/// Returns those of the texts that are in a file.
std::vector<std::string> in_files(CommandHarness& server, const std::vector<std::string>& texts) {
  std::vector<std::string> found;
  const auto names = server.faults().list("data");
  REQUIRE(names.is_ok());
  for (const std::string& name : *names) {
    const auto file = server.faults().open("data/" + name);
    if (!file.is_ok()) continue;
    std::string bytes((*file)->size(), '\0');
    REQUIRE((*file)->read(0, bytes.size(), bytes.data()).is_ok());
    for (const std::string& text : texts) {
      if (bytes.find(text) != std::string::npos) found.push_back(text + " in " + name);
    }
  }
  return found;
}

TEST_CASE("random commands on expiring fields, while time passes: replies equal a model's, and headers fit their elements") {
  const auto names = GENERATE(std::size_t{3}, std::size_t{12}, std::size_t{300});
  const auto seed = GENERATE(range(1u, 7u));
  INFO("names " << names << ", seed " << seed);
  CommandHarness server(command_families(), small_with_deadline());
  Random random(seed);
  Fields fields;
  for (int i = 0; i < 400; ++i) {
    step(server, random, fields, names);
    if (random.below(4) == 0) server.advance(1 + random.below(12));
    if (random.below(60) == 0) REQUIRE(server.db->flush(0).is_ok());
    if (random.below(60) == 0) server.settle();
    if (random.below(100) == 0) server.reopen();
    drop_expired(fields, server.db->now());
    check_replies(server, fields);
    check_invariants(server, "h");
  }
}

TEST_CASE("many fields of a hash expire: the next writes correct the number of fields in the hash's header") {
  CommandHarness server(command_families(), small_with_deadline());
  const auto set = [&](int from, int to, Millis ms) {
    for (int i = from; i < to; ++i) {
      REQUIRE(reply_of(server, {"HSETEX", "h", "PX", std::to_string(ms), "FIELDS", "1", "f" + std::to_string(i), "v"}) ==
              "(integer) 1");
    }
  };
  set(0, 2000, 100'000);
  set(2000, 2200, 1'000'000);
  CHECK(stored(server, "h").header->count == 2200);
  server.advance(200'000);
  CHECK(server("HLEN h") == "(integer) 200");
  CHECK(stored(server, "h").header->count == 2200);
  set(2000, 2200, 1'000'000);  // each write counts again with a chance of 128 in 2200
  CHECK(stored(server, "h").header->count == 200);
  check_invariants(server, "h");
}

TEST_CASE("fields expire or are deleted: after the delete deadline no file has their names and values") {
  const bool flushed = GENERATE(true, false), crash = GENERATE(true, false);
  CommandHarness server(command_families(), small_with_deadline());
  const std::vector<std::string> gone{"name-a", "value-a", "name-b", "value-b", "name-c", "value-c",
                                      "name-d", "value-d", "name-e", "value-e", "name-g", "value-g"};
  for (const char* command :
       {"HSET h name-a value-a keptfield keptvalue", "HSETEX h EX 10000 FIELDS 2 name-b value-b name-c value-c",
        "HSETEX all EX 10000 FIELDS 2 name-d value-d name-e value-e", "HSET past name-g value-g other x"}) {
    REQUIRE(server(command).find("error") == std::string::npos);
  }
  if (flushed) REQUIRE(server.db->flush(0).is_ok());
  for (const char* command : {"HPEXPIRE h 50 FIELDS 2 name-a name-b", "HGETDEL h FIELDS 1 name-c",
                              "HPEXPIRE all 50 FIELDS 2 name-d name-e", "HPEXPIREAT past 1 FIELDS 1 name-g"}) {
    REQUIRE(server(command).find("error") == std::string::npos);
  }
  if (crash) server.reopen();
  CHECK(in_files(server, gone).size() >= gone.size());
  for (Millis passed = 0; passed < kDeadline + 1000; passed += 500) {
    server.db->write_log();  // the log thread does the same, which ends segments
    server.advance(500);
    server.settle();
  }
  CHECK(in_files(server, gone) == std::vector<std::string>{});
  CHECK_FALSE(in_files(server, {"keptvalue"}).empty());
  CHECK(server("HGETALL h") == "[\"keptfield\", \"keptvalue\"]");
  CHECK(server("EXISTS all") == "(integer) 0");
}

}  // namespace TEST_FILE
