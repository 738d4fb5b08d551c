// ebbtide-export: writes all keys of a running server to an RDB file that Redis loads.
//
// Exit status: 0 success, 1 the server or the file failed, 2 wrong use.
#include <algorithm>
#include <array>
#include <csignal>

#include "import/arguments.h"
#include "import/key_walk.h"
#include "import/rdb_writer.h"
#include "import/report.h"
#include "store/dump.h"

namespace {

using namespace ebbtide;

constexpr const char* kTool = "ebbtide-export";
constexpr const char* kExamples =
    "Examples:\n"
    "  ebbtide-export dump.rdb                     all databases of the server at 127.0.0.1:6379\n"
    "  ebbtide-export -p 7000 --database 0 dump.rdb\n"
    "\n"
    "The file has the RDB version of Redis 4.0. With hashes whose fields expire, Redis loads it only from version 7.4 on.\n"
    "To load it, stop Redis, put the file into its `dir` under its `dbfilename`, "
    "with\n"
    "`appendonly no`, and start Redis. The keys are read one after another with SCAN and DUMP, so the file is no snapshot: what "
    "is\n"
    "written meanwhile may be missing. The file is synced, and has its name only once it is complete.\n";

struct Options {
  Endpoint server;
  std::string password_file, path;
  std::vector<std::uint64_t> databases;
  bool force = false;
};

Status run(const Options& options) {
  TRY_ASSIGN(source, Connection::open(options.server));
  TRY_ASSIGN(info, source->require(std::array<Bytes, 2>{"INFO", "server"}));
  if (info.text.find("ebbtide_version:") == std::string::npos) {
    // SCAN of other servers may return a key twice, and Redis does not load a file that has a key twice.
    return Status::invalid_argument(source->name() + " is no Ebbtide server; SAVE makes an RDB file of a Redis server");
  }
  TRY_ASSIGN(databases, databases_of(*source));
  TransferReport report;
  ProgressLine progress;
  std::uint64_t expected = 0, with_expiring_fields = 0;
  std::erase_if(databases, [&](const DatabaseSize& each) { return !is_wanted(options.databases, each.database); });
  if (databases.empty() && !options.databases.empty()) return Status::not_found("none of these databases has a key");
  for (const DatabaseSize& each : databases) expected += each.keys;
  TRY_ASSIGN(writer, RdbWriter::create(options.path, options.force));
  for (const DatabaseSize& each : databases) {
    TRY(walk_keys(*source, each.database, [&](DumpedKey&& key) {
      TRY(writer->add(key.entry, key.version));
      if (key.version == kFieldExpiryRdbVersion) ++with_expiring_fields;
      report.add(each.database, rdb_type_name(key.entry.type), Fate::kTaken);
      const auto done = static_cast<double>(report.keys());
      progress.show("exporting", report.keys(), std::min(done / static_cast<double>(std::max<std::uint64_t>(expected, 1)), 1.0));
      return Status::ok();
    }));
  }
  TRY(writer->finish());
  progress.end();
  std::printf("%s%s: %s bytes\n", report.text("exported").c_str(), options.path.c_str(), with_commas(writer->bytes()).c_str());
  if (with_expiring_fields != 0) {
    std::fflush(stdout);
    const std::string hashes = with_expiring_fields == 1 ? "1 hash has" : with_commas(with_expiring_fields) + " hashes have";
    std::fprintf(stderr, "%s: warning: %s fields that expire. Redis loads the file from version 7.4 on, and not before.\n", kTool,
                 hashes.c_str());
  }
  return Status::ok();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Writes all keys of a running server to an RDB file that Redis loads, the opposite of ebbtide-import.", kTool);
  app.footer(kExamples);
  app.set_version_flag("--version", std::string(kTool) + " " EBBTIDE_VERSION);
  add_endpoint_flags(&app, &options.server, &options.password_file, "the server");
  app.add_option("--database", options.databases, "only these databases, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N");
  app.add_flag("--force", options.force, "replace the file if it exists");
  app.add_option("FILE", options.path, "the RDB file")->required()->type_name("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const Status read = read_password(options.password_file, "REDISCLI_AUTH", &options.server); !read.is_ok())
    return fail(kTool, 2, read);
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed connection then returns an error
  const Status status = run(options);
  return status.is_ok() ? 0 : fail(kTool, 1, status);
}
