#include "import/file_import.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "import/aof_reader.h"
#include "import/input_file.h"
#include "import/rdb_reader.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kStateEvery = 20'000;  // keys

/// The position of a run in an RDB file.
struct State {
  std::uint64_t size = 0, offset = 0, database = 0;
};

Result<State> read_state(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Status::io_error(path + ": " + std::strerror(errno));
  State state;
  const int fields = std::fscanf(file, "ebbtide-import 1\nsize %" SCNu64 "\noffset %" SCNu64 "\ndatabase %" SCNu64 "\n",
                                 &state.size, &state.offset, &state.database);
  std::fclose(file);
  if (fields != 3) return Status::invalid_argument(path + " is not the state of an import; remove it or give another --state");
  return state;
}

Status write_state(const std::string& path, const State& state) {
  const std::string part = path + ".part";
  std::FILE* const file = std::fopen(part.c_str(), "wb");
  if (file == nullptr) return Status::io_error(part + ": " + std::strerror(errno));
  std::fprintf(file, "ebbtide-import 1\nsize %" PRIu64 "\noffset %" PRIu64 "\ndatabase %" PRIu64 "\n", state.size, state.offset,
               state.database);
  const bool good = std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0;
  std::fclose(file);
  if (!good || std::rename(part.c_str(), path.c_str()) != 0) return Status::io_error(path + ": " + std::strerror(errno));
  return Status::ok();
}

/// Reads the files of a source in order, and hands each key and command on.
class FileReader {
 public:
  FileReader(const FileImport& source, TransferReport* report, const OnProgress& progress)
      : source_(source), report_(*report), progress_(progress) {}
  virtual ~FileReader() = default;

  Status read() {
    for (const std::string& path : source_.files) {
      TRY_ASSIGN(input, InputFile::open(path));
      total_ = input->size() && total_ ? std::optional(*total_ + *input->size()) : std::nullopt;
    }
    for (const std::string& path : source_.files) {
      TRY_ASSIGN(input, InputFile::open(path));
      TRY(read_file(*input));
      before_ += input->offset();
    }
    return Status::ok();
  }
  [[nodiscard]] std::uint64_t commands() const { return commands_; }

 protected:
  virtual Status begin_rdb(RdbReader* reader, const InputFile& /*input*/) { return reader->begin(); }
  virtual Status on_key(RdbEntry&& entry, unsigned version) = 0;
  /// Called before each key: everything before the offset is handed on.
  virtual Status reached(const RdbEntry& /*next*/, const InputFile& /*input*/) { return Status::ok(); }
  virtual Status on_command(const std::vector<std::string>& arguments, const std::string& place) = 0;

  const FileImport& source_;
  TransferReport& report_;

 private:
  Status read_file(InputFile& input) {
    TRY_ASSIGN(first, input.peek());
    if (!first) return Status::ok();  // an append-only file without commands
    if (*first == 'R') TRY(read_rdb(input));
    TRY_ASSIGN(next, input.peek());
    if (!next) return Status::ok();
    if (*next != '*' && *next != '#') {
      return Status::invalid_argument(
          input.name() + ", byte " + std::to_string(input.offset()) +
          (*first == 'R' ? ": something follows the end of the RDB file" : ": neither an RDB file nor an append-only file"));
    }
    AofCommand command;
    for (;;) {
      TRY_ASSIGN(more, read_aof_command(input, &command));
      if (!more) return Status::ok();
      ++commands_;
      show(input);
      TRY(on_command(command.arguments, input.name() + ", command at byte " + std::to_string(command.offset) + ", " +
                                            printable(Bytes(command.arguments[0]).substr(0, 32))));
    }
  }

  Status read_rdb(InputFile& input) {
    RdbReader reader(input, [this, &input](const std::string& what, std::uint64_t offset) {
      report_.add_other(what + " at byte " + std::to_string(offset) + " of " + input.name(), "the server does not have this");
    });
    TRY(begin_rdb(&reader, input));
    RdbEntry entry;
    for (;;) {
      TRY_ASSIGN(more, reader.next(&entry));
      if (!more) return Status::ok();
      show(input);
      if (std::find(source_.databases.begin(), source_.databases.end(), entry.database) == source_.databases.end() &&
          !source_.databases.empty())
        continue;
      TRY(reached(entry, input));
      ++keys_;
      TRY(on_key(std::move(entry), reader.version()));
    }
  }

  void show(const InputFile& input) {
    const double share =
        total_ && *total_ != 0 ? static_cast<double>(before_ + input.offset()) / static_cast<double>(*total_) : -1;
    progress_(keys_ + commands_, share);
  }

  const OnProgress& progress_;
  std::optional<std::uint64_t> total_ = 0;
  std::uint64_t before_ = 0, keys_ = 0, commands_ = 0;
};

class Checking final : public FileReader {
 public:
  using FileReader::FileReader;

 private:
  Status on_key(RdbEntry&& entry, unsigned /*version*/) override {
    const std::string type = rdb_type_name(entry.type);
    if (rdb_type_is_supported(entry.type)) {
      report_.add(entry.database, type, Fate::kTaken);
    } else {
      report_.add_lost(entry.database, type, Fate::kUnsupported, entry.key, "the server does not have this type");
    }
    return Status::ok();
  }
  Status on_command(const std::vector<std::string>& /*arguments*/, const std::string& /*place*/) override { return Status::ok(); }
};

class Sending final : public FileReader {
 public:
  Sending(const FileImport& source, Importer* importer, TransferReport* report, const OnProgress& progress)
      : FileReader(source, report, progress), importer_(*importer) {}

 private:
  Status begin_rdb(RdbReader* reader, const InputFile& input) override {
    if (!has_state(source_)) return reader->begin();
    TRY_ASSIGN(state, read_state(source_.state));
    if (input.size() != state.size || state.offset > state.size) {
      return Status::invalid_argument(source_.state + " is of a file of " + std::to_string(state.size) + " bytes, and " +
                                      input.name() + " has another size; remove the state to begin at the start");
    }
    return reader->resume(state.offset, state.database);
  }
  Status reached(const RdbEntry& next, const InputFile& input) override {
    if (source_.state.empty() || ++since_state_ < kStateEvery) return Status::ok();
    since_state_ = 0;
    TRY(importer_.drain());
    return write_state(source_.state, {input.size().value_or(0), next.offset, next.database});
  }
  Status on_key(RdbEntry&& entry, unsigned version) override { return importer_.add(std::move(entry), version); }
  Status on_command(const std::vector<std::string>& arguments, const std::string& place) override {
    return importer_.add_command(arguments, place);
  }

  Importer& importer_;
  std::uint64_t since_state_ = 0;
};

}  // namespace

Result<std::vector<std::string>> files_of(const std::string& path) {
  constexpr Bytes kManifest = ".manifest";
  if (!path.ends_with(kManifest)) return std::vector<std::string>{path};
  TRY_ASSIGN(input, InputFile::open(path));
  return read_aof_manifest(*input);
}

bool has_state(const FileImport& source) { return !source.state.empty() && ::access(source.state.c_str(), F_OK) == 0; }

Status check_files(const FileImport& source, TransferReport* report, std::uint64_t* commands, const OnProgress& progress) {
  Checking reader(source, report, progress);
  const Status status = reader.read();
  *commands = reader.commands();
  return status;
}

Status import_files(const FileImport& source, Importer* importer, TransferReport* report, std::uint64_t* commands,
                    const OnProgress& progress) {
  Sending reader(source, importer, report, progress);
  TRY(reader.read());
  *commands = reader.commands();
  TRY(importer->drain());
  if (!source.state.empty()) (void)std::remove(source.state.c_str());
  return Status::ok();
}

}  // namespace ebbtide
