// ebbtide-inspect: what the engine has written, printed.
//
// Exit status: 0 clean, 1 damage (told on standard error, or under "errors" in JSON), 2 wrong use.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "tools/inspect.h"

namespace {

using ebbtide::Inspection;

int print(Inspection found, bool json) {
  if (json) {
    ebbtide::JsonArray errors;
    for (const std::string& error : found.errors) errors.add(ebbtide::json_string(error));
    found.json.add("errors", errors);
    std::printf("%s\n", found.json.str().c_str());
  } else {
    std::fwrite(found.text.data(), 1, found.text.size(), stdout);
    for (const std::string& error : found.errors) std::fprintf(stderr, "%s\n", error.c_str());
  }
  return found.errors.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prints what is in the files of an Ebbtide data directory. Reads only.", "ebbtide-inspect");
  app.require_subcommand(1);
  std::string path, format = "text", deadline = "0s";
  bool values = false, json_flag = false;
  ebbtide::DeletesQuery query;
  const auto command = [&](const char* name, const char* about, const char* path_about) {
    CLI::App* sub = app.add_subcommand(name, about);
    sub->add_option("PATH", path, path_about)->required();
    sub->add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}));
    sub->add_flag("--json", json_flag, "short for --format json");
    return sub;
  };
  const CLI::App* tree = command("tree", "Trees, runs and files", "data directory");
  CLI::App* deletes = command("deletes", "What is owed to deletes: tombstones, ages, deadlines", "data directory");
  deletes->add_option("--deadline", deadline, "Another deadline than what the manifest says was promised, like 24h");
  deletes->add_option("--files", query.files, "how many files are listed, of each tree");
  CLI::App* wal = command("wal", "Batches and operations of the log", "segment NNNNNN.wal, or data directory");
  wal->add_flag("--values", values, "print values too, not only their lengths");
  const CLI::App* table = command("table", "Properties, tiles and pages of a table", "NNNNNN.data or NNNNNN.meta");
  const CLI::App* manifest = command("manifest", "Edits of a manifest", "MANIFEST-NNNNNN, or data directory");
  command("verify", "Checks every file against its checksums and the manifest", "data directory");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  ebbtide::FileSystem& fs = *ebbtide::posix_file_system();
  const bool json = json_flag || format == "json";
  if (deletes->parsed()) {
    const auto parsed = ebbtide::parse_duration(deadline);
    if (!parsed.is_ok()) {
      std::fprintf(stderr, "--deadline: %s\n", std::string(parsed.status().message()).c_str());
      return 2;
    }
    query.deadline = *parsed;
    query.wall_ms = ebbtide::system_clock()->wall_ms();
    return print(inspect_deletes(fs, path, query), json);
  }
  if (tree->parsed()) return print(inspect_tree(fs, path), json);
  if (wal->parsed()) return print(inspect_wal(fs, path, values), json);
  if (table->parsed()) return print(inspect_table(fs, path), json);
  if (manifest->parsed()) return print(inspect_manifest(fs, path), json);
  return print(inspect_verify(fs, path), json);
}
