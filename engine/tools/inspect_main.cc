// ebbtide-inspect: prints, verifies, copies, repairs and salvages the engine's files.
//
// Exit status: 0 no damage, 1 damage (printed on standard error, or under "errors" in JSON), 2 wrong use. Exit status of salvage:
// 0 all data was saved, 1 data was lost, 2 refused or failed. Progress is printed on standard error if that is a terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>

#include "base/clock.h"
#include "tools/inspect.h"
#include "tools/inspect_progress.h"
#include "tools/inspect_stream.h"
#include "tools/inspect_versions.h"

namespace {

using ebbtide::Inspection;

void write_out(ebbtide::Bytes piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); }

void tell(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) std::fprintf(stderr, "%s\n", error.c_str());
}

int print(Inspection found, bool json) {
  if (json) {
    found.json.add("errors", ebbtide::json_strings(found.errors)).add("warnings", ebbtide::json_strings(found.warnings));
    std::printf("%s\n", found.json.str().c_str());
  } else {
    write_out(found.text);
    for (const std::string& warning : found.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
    tell(found.errors);
  }
  return found.errors.empty() ? 0 : 1;
}

std::atomic<bool> stop_asked{false};

int run_salvage(ebbtide::FileSystem& fs, const std::string& path, const std::string& target, bool include, bool json) {
  // After the first SIGINT, salvage stops and removes the new files. The second SIGINT ends the process at once and leaves a new
  // directory that does not open.
  std::signal(SIGINT, [](int) {
    stop_asked = true;
    std::signal(SIGINT, SIG_DFL);
  });
  ebbtide::SalvageOutcome outcome = inspect_salvage(fs, path, target, {include, &stop_asked});
  print(std::move(outcome.report), json);
  return outcome.exit_status;
}

constexpr const char* kStream = "-";

/// Writes a backup to standard output; the report goes to standard error.
int run_send(ebbtide::FileSystem& fs, const std::string& path) {
  if (::isatty(STDOUT_FILENO) != 0) {
    std::fprintf(stderr, "standard output is a terminal: pipe the stream to a file or a program\n");
    return 2;
  }
  Inspection found = send_database(fs, path, [](ebbtide::Bytes piece) {
    return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0
               ? ebbtide::Status::ok()
               : ebbtide::Status::io_error("standard output cannot be written");
  });
  std::fputs(found.text.c_str(), stderr);
  tell(found.errors);
  return found.errors.empty() ? 0 : 1;
}

/// Restores from a backup stream on standard input.
Inspection receive(ebbtide::FileSystem& fs, const std::string& target) {
  return receive_database(
      fs,
      [](char* buffer, std::size_t size) -> ebbtide::Result<std::size_t> {
        const std::size_t bytes = std::fread(buffer, 1, size, stdin);
        if (bytes == 0 && std::ferror(stdin) != 0) return ebbtide::Status::io_error("standard input cannot be read");
        return bytes;
      },
      target);
}

/// The options of the command `table`.
class TableCommand {
 public:
  void add_options(CLI::App* app) {
    CLI::Option* const entries =
        app->add_flag("--entries", entries_,
                      "print the entries too, by key, the newest version first, each with the first 64 bytes of its value");
    const auto add = [&](const char* name, auto& value, const char* type, const char* about) {
      return app->add_option(name, value, about)->type_name(type)->needs(entries);
    };
    add("--from", from_, "KEY",
        "print only entries of this key and later keys; a text in double quotes is read as a key in printed form");
    add("--to", to_, "KEY", "print only entries of keys before this key");
    add("--limit", query_.limit, "N", "print at most N entries")->check(not_negative);
  }

  int run(ebbtide::FileSystem& fs, const std::string& path, bool json) {
    if (!entries_) return print(inspect_table(fs, path), json);
    if (!parse("--from", from_, &query_.keys.start) || !parse("--to", to_, &query_.keys.end)) return 2;
    if (!to_.empty() && query_.keys.end.empty()) query_.limit = 0;  // an empty end excludes every key
    const auto errors = inspect_entries(fs, path, query_, json, write_out);
    if (!json) tell(errors);
    return errors.empty() ? 0 : 1;
  }

 private:
  /// CLI11 would read -1 as the largest number.
  static std::string not_negative(const std::string& text) { return text.starts_with('-') ? "negative: " + text : ""; }
  static bool parse(const char* option, const std::string& text, std::string* key) {
    const auto parsed = ebbtide::parse_key_argument(text);
    if (!parsed.is_ok()) return std::fprintf(stderr, "%s: %s\n", option, std::string(parsed.status().message()).c_str()), false;
    *key = *parsed;
    return true;
  }

  bool entries_ = false;
  std::string from_, to_;
  ebbtide::EntriesQuery query_;
};

/// The arguments of all commands.
struct Arguments {
  std::string path, target, format = "text", deadline = "0s";
  bool values = false, json_flag = false, link = false, write = false, include = false;
  ebbtide::DeletesQuery query;
  TableCommand table;

  [[nodiscard]] bool json() const { return json_flag || format == "json"; }
};

int run_deletes(ebbtide::FileSystem& fs, Arguments& a) {
  const auto parsed = ebbtide::parse_duration(a.deadline);
  if (!parsed.is_ok()) {
    std::fprintf(stderr, "--deadline: %s\n", std::string(parsed.status().message()).c_str());
    return 2;
  }
  a.query.deadline = *parsed;
  a.query.wall_ms = ebbtide::system_clock()->wall_ms();
  return print(inspect_deletes(fs, a.path, a.query), a.json());
}

/// The subcommands. Each subcommand has its options and the function that runs it.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {
    app.require_subcommand(1);
    add_printing();
    add_copying();
    add_mending();
  }
  /// Runs the command that was parsed. Returns the exit status.
  int run(ebbtide::FileSystem& fs) { return runs_.at(app_.get_subcommands().front())(fs, a_); }

 private:
  using Run = int (*)(ebbtide::FileSystem& fs, Arguments& a);

  CLI::App* add(const char* name, const char* about, const char* path_about, Run run) {
    CLI::App* const sub = app_.add_subcommand(name, about);
    sub->add_option("PATH", a_.path, path_about)->required();
    sub->add_option("--format", a_.format, "print text or json")->check(CLI::IsMember({"text", "json"}));
    sub->add_flag("--json", a_.json_flag, "short for --format json");
    runs_[sub] = run;
    return sub;
  }

  void add_printing() {
    add("tree", "Prints trees, runs and files", "data directory",
        [](ebbtide::FileSystem& fs, Arguments& a) { return print(inspect_tree(fs, a.path), a.json()); });
    CLI::App* const deletes =
        add("deletes", "Prints pending deletes with their ages and deadlines", "data directory", run_deletes);
    deletes->add_option("--deadline", a_.deadline, "use this deadline, such as 24h, instead of the deadline in the manifest");
    deletes->add_option("--files", a_.query.files, "list this number of files of each tree");
    CLI::App* const wal =
        add("wal", "Prints batches and operations of the log", "segment NNNNNN.wal, or data directory",
            [](ebbtide::FileSystem& fs, Arguments& a) { return print(inspect_wal(fs, a.path, a.values), a.json()); });
    wal->add_flag("--values", a_.values, "print values too, not only their lengths");
    CLI::App* const table = add("table", "Prints properties, tiles and pages of a table, and with --entries its entries",
                                "NNNNNN.data or NNNNNN.meta",
                                [](ebbtide::FileSystem& fs, Arguments& a) { return a.table.run(fs, a.path, a.json()); });
    a_.table.add_options(table);
    add("manifest", "Prints the edits of a manifest", "MANIFEST-NNNNNN, or data directory",
        [](ebbtide::FileSystem& fs, Arguments& a) { return print(inspect_manifest(fs, a.path), a.json()); });
    add("verify", "Checks every file against the file's checksums and the manifest", "data directory",
        [](ebbtide::FileSystem& fs, Arguments& a) { return print(inspect_verify(fs, a.path), a.json()); });
    add("versions", "Prints the format versions of the files, and the first release that opens all files",
        "data directory, or backup",
        [](ebbtide::FileSystem& fs, Arguments& a) { return print(inspect_versions(fs, a.path), a.json()); });
  }

  void add_copying() {
    CLI::App* const restore =
        add("restore", "Verifies a backup and makes a data directory from the backup",
            "backup, or - for a stream from standard input", [](ebbtide::FileSystem& fs, Arguments& a) {
              return print(a.path == kStream ? receive(fs, a.target) : copy_database(fs, a.path, a.target, a.link), a.json());
            });
    CLI::App* const backup =
        add("backup", "Makes a backup of a stopped server (for a running server use BGSAVE)",
            "data directory, or a backup of BGSAVE", [](ebbtide::FileSystem& fs, Arguments& a) {
              return a.target == kStream ? run_send(fs, a.path) : print(copy_database(fs, a.path, a.target, a.link), a.json());
            });
    restore->add_option("TO", a_.target, "data directory, new or empty")->required();
    backup->add_option("TO", a_.target, "backup, new or empty; or - for standard output: a tar archive, compressed by zstd")
        ->required();
    for (CLI::App* const sub : {restore, backup}) {
      sub->add_flag("--link", a_.link, "make hard links of tables instead of copies, if the file system allows hard links");
    }
  }

  void add_mending() {
    CLI::App* const repair = add("repair", "Prints the steps that repair a directory that does not open; no step loses data",
                                 "data directory of a stopped server", [](ebbtide::FileSystem& fs, Arguments& a) {
                                   return print(inspect_repair(fs, a.path, a.write), a.json());
                                 });
    repair->add_flag("--write", a_.write, "carry out the steps");
    CLI::App* const salvage =
        add("salvage",
            "Makes a new database of all readable data of a damaged database, and lists the lost parts by file, offset and keys. "
            "Never writes to PATH.\n\n"
            "A lost part may have had deletes. Keys that a lost part may have deleted go to OUT-possibly-deleted, a second "
            "database:\n"
            "  a lost page or table:  older versions of the keys in the range of the page or table\n"
            "  a lost part of the log:  every key whose newest version is older than the operations after the part, of each "
            "database whose tables do not have all operations up to the end of the part\n"
            "  a lost end of the log, or a lost manifest:  every key\n\n"
            "Exit status: 0 all data was saved, 1 data was lost, 2 refused or failed, and nothing was written.",
            "data directory of a stopped server, or backup",
            [](ebbtide::FileSystem& fs, Arguments& a) { return run_salvage(fs, a.path, a.target, a.include, a.json()); });
    salvage->add_option("OUT", a_.target, "data directory, new or empty")->required();
    salvage->add_flag("--include-possibly-deleted", a_.include, "write all keys to OUT: deleted keys and values may return");
  }

  CLI::App& app_;
  Arguments a_;
  std::map<const CLI::App*, Run> runs_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Prints the contents of an Ebbtide data directory. Writes nothing, except backup, restore, salvage and repair "
      "--write.",
      "ebbtide-inspect");
  Commands commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  ebbtide::InspectProgress progress(*ebbtide::posix_file_system(), *ebbtide::system_clock(),
                                    [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  return commands.run(::isatty(STDERR_FILENO) != 0 ? progress : *ebbtide::posix_file_system());
}
