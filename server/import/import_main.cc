// ebbtide-import: copies the keys of an RDB file, of an append-only file, or of a running Redis into a running Ebbtide.
//
// Exit status: 0 all keys were imported; 1 the import stopped; 2 wrong use; 3 the import is complete, but some keys are missing
// and listed.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <set>

#include <unistd.h>

#include "import/arguments.h"
#include "import/command_steps.h"
#include "import/file_import.h"
#include "import/import_state.h"
#include "import/key_walk.h"
#include "import/known_keys.h"
#include "import/live_copy.h"

namespace {

using namespace ebbtide;

constexpr const char* kTool = "ebbtide-import";
constexpr const char* kExamples =
    "Examples:\n"
    "  ebbtide-import --check dump.rdb             what is in the file; needs no server\n"
    "  ebbtide-import dump.rdb                     into the server at 127.0.0.1:6379\n"
    "  ebbtide-import appendonlydir/appendonly.aof.manifest\n"
    "  ebbtide-import --from 10.0.0.7:6379 --passes 3 --wait   from a running Redis or Valkey, 7.0 or later\n"
    "\n"
    "A file is read twice: first it is checked as a whole, then sent, so a damaged file changes nothing. Keys of types that the "
    "server does not\n"
    "have, such as streams, and keys that it refuses, are listed with the reason; the exit status is then 3.\n"
    "\n"
    "From a running server, each pass after the first sends what has changed meanwhile, and says how much. Stop writers before "
    "the last\n"
    "pass; if it reports no change, both servers have the same keys. --list FILE has every key that is missing.\n";

struct Options {
  Endpoint target, from;
  std::string password_file, from_password_file, from_address, path, list, resume;
  FileImport source;
  bool replace = false, check = false, wait = false;
  int passes = 2;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using ListFile = std::unique_ptr<std::FILE, CloseFile>;

Result<ListFile> open_list(const std::string& path) {
  if (path.empty()) return ListFile();
  ListFile file(std::fopen(path.c_str(), "wbx"));
  if (file == nullptr) return Status::io_error(path + ": " + std::strerror(errno) + "; --list makes a new file");
  return file;
}

/// Opens the file of --list for the rest of an interrupted import. Removes lines that were written after its last state.
Result<ListFile> continue_list(const std::string& path, std::uint64_t bytes) {
  if (path.empty()) return ListFile();
  ListFile file(std::fopen(path.c_str(), "r+b"));
  if (file == nullptr || ::ftruncate(::fileno(file.get()), static_cast<off_t>(bytes)) != 0 ||
      std::fseek(file.get(), 0, SEEK_END) != 0) {
    return Status::io_error(path + ": " + std::strerror(errno) + "; --list needs the file of the interrupted import");
  }
  return file;
}

void print(const TransferReport& report, const char* taken, std::uint64_t commands) {
  std::fputs(report.text(taken).c_str(), stdout);
  if (commands != 0) std::printf("append-only files: %s commands read\n", with_commas(commands).c_str());
}

Result<int> status_of(const TransferReport& report, const std::string& list) {
  if (!report.list_is_whole()) return Status::io_error(list + " could not be written completely: " + std::strerror(errno));
  return report.lost_any() ? 3 : 0;
}

/// The state of an import, and the file of --resume that stores it; without --resume there is no file.
struct Progress {
  std::string path;
  ImportState state;
  bool resumed = false;  // continues an interrupted import

  /// Writes the state file: `state`, the report, and the length of the --list file.
  Status record(const TransferReport& report, bool sync = true) {
    if (path.empty()) return Status::ok();
    TRY_ASSIGN(bytes, report.list_bytes());
    state.list_bytes = bytes;
    state.report = report.save();
    return write_import_state(path, state, sync);
  }
};

/// Returns a name for this import: the source, the target and the options. The same command line has the same name, unless the
/// source file has changed.
std::string name_of(const Options& options, std::string name) {
  name += " to " + options.target.name() + (options.replace ? " --replace" : "");
  for (const std::uint64_t database : options.source.databases) name += " --database " + std::to_string(database);
  return name + (options.list.empty() ? "" : " --list " + options.list);
}

/// Returns the progress at which to begin: that of an interrupted import, or none.
Result<Progress> begin_progress(const Options& options, const std::string& source) {
  Progress progress;
  progress.path = options.resume;
  progress.state.import = name_of(options, source);
  if (progress.path.empty()) return progress;
  TRY_ASSIGN(found, read_import_state(progress.path));
  if (!found) return progress;
  if (found->import != progress.state.import) {
    return Status::invalid_argument(progress.path + " belongs to another import (" + found->import + "); this one is " +
                                    progress.state.import +
                                    ". Repeat the interrupted command, or remove the file to begin again");
  }
  progress.state = std::move(*found);
  progress.resumed = true;
  return progress;
}

Result<ListFile> list_of(const Options& options, const Progress& progress) {
  return progress.resumed ? continue_list(options.list, progress.state.list_bytes) : open_list(options.list);
}

/// Imports the files, from where an interrupted import stopped or from their beginning.
Status import_rest(const Options& options, Progress* progress, CommandSteps* commands, Connection& target,
                   TransferReport* report) {
  Importer importer(target, *report, options.replace);
  TRY(importer.begin());
  ImportState& state = progress->state;
  if (progress->resumed) {
    std::fprintf(stderr, "continues after %s keys\n", with_commas(state.entries).c_str());
    importer.doubt(ImportState::kMostEntries);
  }
  TRY(progress->record(*report));
  const auto record = [&](std::uint64_t entries) {
    state.entries = entries;
    return progress->record(*report);
  };
  const auto begin_commands = [&](std::uint64_t entries) -> Status {
    if (state.commands) return commands->resume(*state.commands);
    TRY(commands->begin());
    state.commands = 0;
    return record(entries);
  };
  ProgressLine line;
  std::uint64_t read = 0;
  const ImportSteps steps{.skipped = state.entries, .record = record, .begin_commands = begin_commands, .commands = commands};
  TRY(import_files(
      options.source, &importer, report, &read, [&](std::uint64_t done, double share) { line.show("importing", done, share); },
      &steps));
  line.end();
  return Status::ok();
}

/// Imports files, so that the same command line continues after an interruption. `crc` and `commands`: results of check_files().
Result<int> import_in_steps(const Options& options, std::uint64_t crc, std::uint64_t commands) {
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(crc));
  TRY_ASSIGN(progress, begin_progress(options, std::string("crc ") + hex));
  TRY_ASSIGN(target, Connection::open(options.target));
  TRY_ASSIGN(list, list_of(options, progress));
  TransferReport report(list.get());
  if (const Status status = report.restore(progress.state.report); !status.is_ok()) return status.with_context(options.resume);
  std::uint64_t synced = 0;
  CommandSteps steps(*target, report, std::string("ebbtide-import:") + hex, [&](std::uint64_t ran) {
    const bool sync = ran - synced >= ImportState::kMostEntries;
    if (sync) synced = ran;
    progress.state.commands = ran;
    return progress.record(report, sync);
  });
  if (!progress.state.complete) TRY(import_rest(options, &progress, &steps, *target, &report));
  if (progress.state.commands) {
    progress.state.complete = true;  // from here on, the import's key may be missing
    TRY(progress.record(report));
    TRY(steps.end());
  }
  print(report, "imported", commands);
  std::remove(options.resume.c_str());
  return status_of(report, options.list);
}

Result<int> import_from_files(Options& options) {
  TRY_ASSIGN(files, files_of(options.path));
  options.source.files = std::move(files);
  const bool steps = !options.resume.empty();
  if (steps && options.path == "-") return Status::invalid_argument("--resume needs a file, which can be read again");
  std::uint64_t commands = 0, crc = 0;
  if (options.path != "-") {
    TRY_ASSIGN(list, open_list(options.check ? options.list : ""));
    TransferReport contents(list.get());
    ProgressLine progress;
    TRY(check_files(
        options.source, &contents, &commands, [&](std::uint64_t done, double share) { progress.show("checking ", done, share); },
        &crc));
    progress.end();
    if (options.check) {
      print(contents, "importable", commands);
      return status_of(contents, options.list);
    }
  }
  if (options.check) return Status::invalid_argument("--check needs a file");
  if (steps) return import_in_steps(options, crc, commands);
  TRY_ASSIGN(target, Connection::open(options.target));
  TRY_ASSIGN(list, open_list(options.list));
  TransferReport report(list.get());
  Importer importer(*target, report, options.replace);
  TRY(importer.begin());
  ProgressLine progress;
  TRY(import_files(options.source, &importer, &report, &commands,
                   [&](std::uint64_t done, double share) { progress.show("importing", done, share); }));
  progress.end();
  print(report, "imported", commands);
  return status_of(report, options.list);
}

Status check_empty(Connection& target, std::uint64_t database) {
  TRY_ASSIGN(sizes, databases_of(target));
  for (const DatabaseSize& each : sizes) {
    if (each.database == database && each.keys != 0) {
      return Status::exists("database " + std::to_string(database) + " of " + target.name() +
                            " has keys; give --replace to write into it");
    }
  }
  return Status::ok();
}

/// Adds the databases of the source that have keys to `databases`. Returns the number of their keys.
Result<std::uint64_t> add_databases(const Options& options, Connection& source, Connection& target,
                                    std::set<std::uint64_t>* databases) {
  TRY_ASSIGN(found, databases_of(source));
  std::uint64_t keys = 0;
  for (const DatabaseSize& each : found) {
    if (!is_wanted(options.source.databases, each.database)) continue;
    keys += each.keys;
    if (databases->count(each.database) != 0) continue;
    if (!options.replace) TRY(check_empty(target, each.database));
    databases->insert(each.database);
  }
  return keys;
}

void print_pass(std::uint64_t number, const CopyPass& pass, const TransferReport& report) {
  std::printf("pass %llu: %s keys", static_cast<unsigned long long>(number), with_commas(pass.keys).c_str());
  if (number > 1)
    std::printf("; since the pass before %s written, %s removed", with_commas(pass.changed).c_str(),
                with_commas(pass.removed).c_str());
  std::printf("\n%s\n", report.text("copied").c_str());
  std::fflush(stdout);
}

/// Runs the pass in `progress`, and records that it is complete.
Status run_pass(const Options& options, Connection& source, Connection& target, KnownKeys* known, std::FILE* list,
                Progress* progress) {
  ImportState& state = progress->state;
  TransferReport report(list);
  if (const Status status = report.restore(state.report); !status.is_ok()) return status.with_context(options.resume);
  // Databases that the source has begun to use since the pass before.
  TRY_ASSIGN(expected, add_databases(options, source, target, &state.databases));
  const auto record = [&](std::uint64_t removed) {
    state.known_from = known->from();
    state.known_to = known->to();
    state.removed = removed;
    return progress->record(report);
  };
  TRY(record(state.removed));
  ProgressLine line;
  LiveCopy copy(source, target, *known);
  const auto show = [&](std::uint64_t keys) {
    const auto share = static_cast<double>(keys) / static_cast<double>(std::max<std::uint64_t>(expected, 1));
    line.show("pass " + std::to_string(state.pass), keys, std::min(share, 1.0));
  };
  TRY_ASSIGN(done, copy.pass(state.databases, &report, state.removed, show, record));
  line.end();
  print_pass(state.pass, done, report);
  TRY_ASSIGN(status, status_of(report, options.list));
  state.missing |= status != 0;
  ++state.pass;
  state.known_from = known->from();
  state.known_to = known->to();
  state.removed = 0;
  return progress->record(TransferReport(list));
}

Result<int> import_from_server(const Options& options) {
  TRY_ASSIGN(progress, begin_progress(options, "from " + options.from.name()));
  ImportState& state = progress.state;
  TRY_ASSIGN(source, Connection::open(options.from));
  TRY_ASSIGN(target, Connection::open(options.target));
  TRY_ASSIGN(list, list_of(options, progress));
  const std::string hashes = options.resume.empty() ? "" : options.resume + ".keys";
  TRY_ASSIGN(known, progress.resumed ? KnownKeys::resume(hashes, state.known_from, state.known_to) : KnownKeys::create(hashes));
  if (progress.resumed)
    std::fprintf(stderr, "continues pass %llu: keys that were already copied are only compared\n",
                 static_cast<unsigned long long>(state.pass));
  const auto passes = static_cast<std::uint64_t>(options.passes);
  while (state.pass <= passes) {
    if (options.wait && state.pass == passes && passes > 1) {
      std::fprintf(stderr, "Stop the writers, then press Enter for the last pass.\n");
      for (int c = std::getchar(); c != '\n' && c != EOF;) c = std::getchar();
    }
    TRY(run_pass(options, *source, *target, &known, list.get(), &progress));
  }
  if (!options.resume.empty()) {
    std::remove(options.resume.c_str());
    std::remove(hashes.c_str());
  }
  return state.missing ? 3 : 0;
}

/// Splits "HOST:PORT".
Status parse_address(const std::string& text, Endpoint* endpoint) {
  if (text.find('/') != std::string::npos) {
    endpoint->unixsocket = text;
    return Status::ok();
  }
  const std::size_t colon = text.rfind(':');
  endpoint->host = text.substr(0, colon);
  if (colon == std::string::npos) return Status::ok();
  char* end = nullptr;
  const unsigned long port = std::strtoul(text.c_str() + colon + 1, &end, 10);
  if (*end != '\0' || port == 0 || port > 65535 || endpoint->host.empty()) {
    return Status::invalid_argument("--from " + text +
                                    ": HOST:PORT is expected, such as 127.0.0.1:6379, or the path of a Unix socket");
  }
  endpoint->port = static_cast<int>(port);
  return Status::ok();
}

Result<int> run(Options& options) {
  TRY(read_password(options.password_file, "REDISCLI_AUTH", &options.target));
  if (options.from_address.empty()) return import_from_files(options);
  TRY(parse_address(options.from_address, &options.from));
  TRY(read_password(options.from_password_file, "EBBTIDE_IMPORT_FROM_AUTH", &options.from));
  return import_from_server(options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Brings the keys of an RDB file, of an append-only file, or of a running Redis into a running Ebbtide server.",
               kTool);
  app.footer(kExamples);
  app.set_version_flag("--version", std::string(kTool) + " " EBBTIDE_VERSION);
  add_endpoint_flags(&app, &options.target, &options.password_file, "the server that receives the keys");
  app.add_option("--database", options.source.databases, "only keys of these databases, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N");
  app.add_flag("--replace", options.replace, "replace keys that exist; without it they are listed as refused");
  app.add_option("--list", options.list, "new file for all keys that are not imported, a line each with the reason")
      ->type_name("FILE");
  auto* const file =
      app.add_option("FILE", options.path, "an RDB file, an append-only file, its manifest, or - for standard input")
          ->type_name("");
  auto* const check = app.add_flag("--check", options.check, "read the file and show what it contains; send nothing");
  app.add_option(
         "--resume", options.resume,
         "file that records how far the import is. The same command continues after an interruption; at the end the file is "
         "removed")
      ->type_name("FILE")
      ->excludes(check);
  auto* const from = app.add_option("--from", options.from_address, "a running server to copy from, instead of a file")
                         ->type_name("HOST:PORT")
                         ->excludes(file);
  app.add_option("--from-user", options.from.user, "user at that server")->type_name("NAME")->needs(from);
  app.add_option("--from-password-file", options.from_password_file,
                 "file with that user's password; default: the environment variable EBBTIDE_IMPORT_FROM_AUTH")
      ->type_name("FILE")
      ->needs(from);
  app.add_option("--passes", options.passes, "number of passes over the running server")
      ->capture_default_str()
      ->check(CLI::Range(1, 100))
      ->type_name("N")
      ->needs(from);
  app.add_flag("--wait", options.wait, "wait for Enter before the last pass, so that writers can be stopped")->needs(from);
  try {
    app.parse(argc, argv);
    if (options.path.empty() && options.from_address.empty()) throw CLI::RequiredError("FILE or --from");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed connection then returns an error
  try {
    const auto status = run(options);
    return status.is_ok() ? *status : fail(kTool, 1, status.status());
  } catch (const std::bad_alloc&) {
    return fail(kTool, 1, Status::out_of_memory("a value is larger than the memory that this program may use"));
  }
}
