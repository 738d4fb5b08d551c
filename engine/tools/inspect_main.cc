// ebbtide-inspect: what the engine has written, printed.
//
// Exit status: 0 clean, 1 damage (told on standard error, or under "errors" in JSON), 2 wrong use.
#include <CLI/CLI.hpp>
#include <cstdio>

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
  std::string path, format = "text";
  bool values = false;
  const auto command = [&](const char* name, const char* about, const char* path_about) {
    CLI::App* sub = app.add_subcommand(name, about);
    sub->add_option("PATH", path, path_about)->required();
    sub->add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}));
    return sub;
  };
  const CLI::App* tree = command("tree", "Trees, runs and files", "data directory");
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
  const bool json = format == "json";
  if (tree->parsed()) return print(inspect_tree(fs, path), json);
  if (wal->parsed()) return print(inspect_wal(fs, path, values), json);
  if (table->parsed()) return print(inspect_table(fs, path), json);
  if (manifest->parsed()) return print(inspect_manifest(fs, path), json);
  return print(inspect_verify(fs, path), json);
}
