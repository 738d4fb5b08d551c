// Fuzzes the users file: any input is accepted or refused with a reason. Accepted users can be printed and read again.
#include "acl/users.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebbtide;
  static const AclCatalog kCommands({{.name = "get", .categories = 2},
                                     {.name = "config", .subcommands = {2, 3}, .categories = 4},
                                     {.name = "config|get", .container = 1, .categories = 4},
                                     {.name = "config|set", .container = 1, .categories = 6},
                                     {.name = "select", .categories = 8}});
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto users = Users::parse(text, "fuzz.acl", kCommands);
  if (!users.is_ok()) {
    FUZZ_CHECK(!users.status().message().empty());
    return 0;
  }
  std::string printed;
  for (const std::string& line : users->lines()) printed += line + "\n";
  const auto again = Users::parse(printed, "fuzz.acl", kCommands);
  FUZZ_CHECK(again.is_ok());
  FUZZ_CHECK(again->lines() == users->lines());
  FUZZ_CHECK(again->names_changed_in(*users).empty());
  for (std::uint32_t command = 0; command < kCommands.commands().size(); ++command) {
    const Bytes arguments[] = {"name", "key"};
    const AclRequest::Key keys[] = {{1, kAclRead}};
    AclRequest request;
    request.command = command;
    request.arguments = arguments;
    request.keys = keys;
    for (const std::string& name : users->names()) {
      const User &first = *users->find(name), &second = *again->find(name);
      AclBudget no_limit;
      const AclVerdict verdict = first.check(request, no_limit).value();
      FUZZ_CHECK(verdict.denial == second.check(request, no_limit).value().denial);
      FUZZ_CHECK(!first.unrestricted() || verdict.allowed());
    }
  }
  return 0;
}
