// Tests of SPATIAL.*: searches find the records that are there, and wrong arguments give errors.
#include <catch2/catch.hpp>

#include <string>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

const std::string kCreate = "SPATIAL.CREATE places PREFIX city: LON lon LAT lat";

void add_cities(CommandHarness& server) {
  server("HSET city:palermo lon 13.361389 lat 38.115556");
  server("HSET city:catania lon 15.087269 lat 37.502669");
  server("HSET city:suva lon 178.44 lat -18.14");
  server("HSET city:apia lon -171.77 lat -13.83");
}

TEST_CASE("records with places are written, moved and deleted: searches find the records that exist, at their present places") {
  for (const char* comparator : {"", " COMPARATOR hilbert", " COMPARATOR zorder", " COMPARATOR simple"}) {
    CommandHarness server(command_families());
    server("HSET city:palermo lon 13.361389 lat 38.115556");
    CHECK(server(kCreate + comparator) == "OK");
    CHECK(server("SPATIAL.SEARCH places BOX 0 0 20 40").starts_with("(error) ERR the index 'places' is being built"));
    server.build_indexes();
    add_cities(server);
    CHECK(server("SPATIAL.COUNT places BOX -180 -90 180 90") == "(integer) 4");
    CHECK(server("SPATIAL.SEARCH places RADIUS 15 37 200 km WITHDIST COUNT 1000").find("190.4424") != std::string::npos);
    CHECK(server("SPATIAL.COUNT places RADIUS 15 37 200 km") == "(integer) 2");
    CHECK(server("SPATIAL.COUNT places RADIUS 15 37 100 km") == "(integer) 1");
    CHECK(server("SPATIAL.COUNT places BOX 170 -20 -170 0") == "(integer) 2");  // across the antimeridian
    CHECK(server("SPATIAL.SEARCH places NEAREST 15 37 3") == R"(["0", ["city:catania", "city:palermo", "city:apia"]])");
    CHECK(server("SPATIAL.SEARCH places NEAREST 15 37 1 WITHDIST WITHCOORD") ==
          R"(["0", [["city:catania", "56441.3401", ["15.087269", "37.502669"]]]])");
    server("HSET city:palermo lat -38.115556");
    server("DEL city:catania");
    server("HSET city:suva lon 1000");
    server("HDEL city:apia lat");
    CHECK(server("SPATIAL.SEARCH places BOX -180 -90 180 90") == R"(["0", ["city:palermo"]])");
    CHECK(server("SPATIAL.SEARCH places BOX 0 0 20 40") == R"(["0", []])");
    CHECK(server("SPATIAL.DROP places") == "OK");
    CHECK(server("SPATIAL.LIST") == "[]");
  }
}

TEST_CASE("search is limited by COUNT: calls with the returned cursors return each record once") {
  CommandHarness server(command_families());
  server(kCreate);
  server.build_indexes();
  add_cities(server);
  std::string cursor = "0", all;
  int calls = 0;
  do {
    const std::string reply = server("SPATIAL.SEARCH places BOX -180 -90 180 90 COUNT 1 CURSOR " + cursor);
    cursor = reply.substr(2, reply.find('"', 2) - 2);
    all += reply.substr(reply.find('[', 1));
    ++calls;
  } while (cursor != "0" && calls < 10);
  CHECK(calls == 4);
  for (const char* city : {"palermo", "catania", "suva", "apia"}) CHECK(all.find(city) != std::string::npos);
}

TEST_CASE("SPATIAL command has wrong arguments: it replies with an error and changes nothing") {
  CommandHarness server(command_families());
  CHECK(server("SPATIAL.CREATE places PREFIX city: LON lon LAT") ==
        "(error) ERR wrong number of arguments for 'spatial.create' command");
  CHECK(server("SPATIAL.CREATE places PREFIX city: LON lon LON lat") == "(error) ERR syntax error");
  CHECK(server(kCreate + " POLICY peano").starts_with("(error) ERR "));
  CHECK(server(kCreate + " POLICY binomial k 0").starts_with("(error) ERR "));
  CHECK(server(kCreate + " POLICY binomial k x") == "(error) ERR value is not a valid float");
  CHECK(server(kCreate + " COMPARATOR peano") == "(error) ERR unknown comparator. It is hilbert, zorder or simple");
  CHECK(server("SPATIAL.SEARCH places BOX 0 0 1 1") == "(error) ERR there is no index 'places'");
  CHECK(server(kCreate) == "OK");
  CHECK(server(kCreate) == "(error) ERR there is an index 'places' already");
  server.build_indexes();
  CHECK(server("INDEX.RANGE places - +").find("use SPATIAL.SEARCH") != std::string::npos);
  CHECK(server("SPATIAL.SEARCH places BOX 0 2 1 1").starts_with("(error) ERR a box is"));
  CHECK(server("SPATIAL.SEARCH places BOX 0 nan 1 1") == "(error) ERR value is not a valid float");
  CHECK(server("SPATIAL.SEARCH places RADIUS 181 0 1 km").starts_with("(error) ERR a longitude is"));
  CHECK(server("SPATIAL.SEARCH places RADIUS 0 0 -1 km") == "(error) ERR radius cannot be negative");
  CHECK(server("SPATIAL.SEARCH places RADIUS 0 0 1 parsec") == "(error) ERR unsupported unit provided. please use M, KM, FT, MI");
  CHECK(server("SPATIAL.SEARCH places BOX 0 0 1 1 WITHDIST") == "(error) ERR WITHDIST needs RADIUS or NEAREST");
  CHECK(server("SPATIAL.SEARCH places BOX 0 0 1 1 CURSOR xyz") == "(error) ERR invalid cursor");
  CHECK(server("SPATIAL.SEARCH places NEAREST 0 0 1 COUNT 2") == "(error) ERR syntax error");
  CHECK(server("SPATIAL.SEARCH places CIRCLE 0 0 1 km") == "(error) ERR syntax error");
  CHECK(server("INDEX.CREATE towns PREFIX city: FIELD town") == "OK");
  CHECK(server("SPATIAL.SEARCH towns BOX 0 0 1 1").find("no index of places") != std::string::npos);
  CHECK(server("SPATIAL.DROP towns").find("no index of places") != std::string::npos);
  CHECK(server("SPATIAL.LIST") == "[\"places\"]");
}

TEST_CASE("server is restarted: the spatial index has its records and its comparator") {
  CommandHarness server(command_families());
  server(kCreate + " COMPARATOR simple POLICY binomial k 4");
  server.build_indexes();
  add_cities(server);
  server.reopen();
  CHECK(server("SPATIAL.COUNT places BOX 0 0 20 40") == "(integer) 2");
  CHECK(server("SPATIAL.INFO places").find("\"simple\"") != std::string::npos);
  CHECK(server("SPATIAL.INFO places").find("binomial") != std::string::npos);
}

}  // namespace TEST_FILE
