// Fuzzes the libraries of Lua scripts that take bytes of clients: cmsgpack, cjson and struct. Any input is decoded or refused; what
// was decoded is the same after it was encoded and decoded again.
//
// The first byte chooses the library. For struct, the second byte is the length of the format, which follows; the rest is data.
#include <iterator>
#include <string>
#include <vector>

#include "commands/families.h"
#include "fuzz.h"
#include "server/dispatch/harness.h"

namespace {

using namespace ebbtide;

/// Compares values. A key that is a table is not found in another table, so it is left out.
const std::string kSame = R"(
local function same(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b or (a ~= a and b ~= b) end
  for k, v in pairs(a) do
    if type(k) ~= 'table' and not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if type(k) ~= 'table' and a[k] == nil then return false end
  end
  return true
end
)";

// The first encoding may lose something: cmsgpack leaves out deep tables, cjson rounds numbers. The second one may not.
const std::string kLibraries[] = {kSame + R"(
local function all(...) return {...} end
local ok, first = pcall(function() return all(cmsgpack.unpack(cmsgpack.pack(unpack(all(cmsgpack.unpack(ARGV[1])))))) end)
if not ok then return 'refused' end
local again
ok, again = pcall(function() return all(cmsgpack.unpack(cmsgpack.pack(unpack(first)))) end)
if not ok then return 'refused' end
assert(same(first, again))
pcall(cmsgpack.unpack_one, ARGV[1], #ARGV[1] % 7)
pcall(cmsgpack.unpack_limit, ARGV[1], 3, 0)
return 'ok')",
                                  kSame + R"(
local ok, first = pcall(function() return cjson.decode(cjson.encode(cjson.decode(ARGV[1]))) end)
if not ok then return 'refused' end
assert(same(first, cjson.decode(cjson.encode(first))))
return 'ok')",
                                  kSame + R"(
pcall(struct.size, ARGV[1])
local values = {pcall(struct.unpack, ARGV[1], ARGV[2])}
if not values[1] then return 'refused' end
table.remove(values, 1)
values[#values] = nil
for _, value in ipairs(values) do
  if type(value) == 'number' and math.abs(value) > 2 ^ 53 then return 'beyond the integers of Lua' end
end
local ok, packed = pcall(struct.pack, ARGV[1], unpack(values))
if not ok then return 'refused' end
local again = {struct.unpack(ARGV[1], packed)}
again[#again] = nil
assert(same(values, again))
return 'ok')"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static test::CommandHarness server(command_families());
  fuzz::Input input(data, size);
  const std::size_t library = input.byte() % std::size(kLibraries);
  std::vector<std::string> command{"EVAL", kLibraries[library], "0"};
  if (library == 2) command.emplace_back(input.text(input.byte()));
  command.emplace_back(input.rest());
  const std::string reply = test::show(server.raw(command));
  if (reply.starts_with("(error)")) std::fprintf(stderr, "%s\n", reply.c_str());
  FUZZ_CHECK(!reply.starts_with("(error)"));
  return 0;
}
