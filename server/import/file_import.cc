#include "import/file_import.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "import/aof_reader.h"
#include "import/import_state.h"
#include "import/input_file.h"
#include "import/key_walk.h"
#include "import/rdb_reader.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

// Commands that no server writes to an append-only file. They would break an import: replies would no longer match the commands,
// or the target would stop.
constexpr Bytes kForeign[] = {"auth",       "blmove",   "blmpop",       "blpop",     "brpop",        "brpoplpush", "bzmpop",
                              "bzpopmax",   "bzpopmin", "client",       "debug",     "discard",      "hello",      "monitor",
                              "psubscribe", "psync",    "punsubscribe", "quit",      "replconf",     "replicaof",  "reset",
                              "shutdown",   "slaveof",  "ssubscribe",   "subscribe", "sunsubscribe", "sync",       "unsubscribe",
                              "unwatch",    "wait",     "waitaof",      "watch",     "xread",        "xreadgroup"};

/// Returns a number that is different for other CRCs, and for another order of the CRCs.
std::uint64_t joined_crc(std::uint64_t before, std::uint64_t crc) { return before * 0x9e3779b97f4a7c15 + crc; }

/// Reads the files of a source in order, and passes on each key and command.
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
      crc_ = joined_crc(crc_, input->crc());
    }
    if (in_transaction_) return Status::corruption(source_.files.back() + " ends within a transaction: MULTI without EXEC");
    return Status::ok();
  }
  [[nodiscard]] std::uint64_t commands() const { return commands_; }
  [[nodiscard]] std::uint64_t crc() const { return crc_; }

 protected:
  virtual Status on_key(RdbEntry&& entry, unsigned version) = 0;
  virtual Status on_command(AofCommand&& command, const InputFile& input) = 0;
  static std::string place_of(const AofCommand& command, const InputFile& input) {
    return input.name() + ", command at byte " + std::to_string(command.offset) + ", " +
           printable(Bytes(command.arguments[0]).substr(0, 32));
  }

  const FileImport& source_;
  TransferReport& report_;
  std::uint64_t keys_ = 0;     // keys read so far, of the chosen databases
  std::uint64_t skipped_ = 0;  // how many of them, from the first on, are neither sent nor reported

 private:
  Status read_file(InputFile& input) {
    TRY_ASSIGN(first, input.peek());
    if (!first && source_.files.size() == 1) return Status::invalid_argument(input.name() + " is empty");
    if (!first) return Status::ok();  // a part of an append-only file may have no commands
    if (*first == 'R' && commands_ != 0) return Status::invalid_argument(input.name() + ": an RDB file after commands");
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
      if (!more) break;
      ++commands_;
      show(input);
      TRY_ASSIGN(changes_data, check_command(input, command));
      if (changes_data) TRY(on_command(std::move(command), input));
    }
    return Status::ok();
  }

  /// Returns false for MULTI and EXEC, which are skipped.
  Result<bool> check_command(const InputFile& input, const AofCommand& command) {
    const Bytes name = command.arguments[0];
    if (std::any_of(std::begin(kForeign), std::end(kForeign),
                    [&](Bytes foreign) { return equal_ignoring_case(name, foreign); })) {
      return Status::invalid_argument(place_of(command, input) + " does not belong in an append-only file");
    }
    if (!source_.databases.empty()) {
      return Status::invalid_argument(place_of(command, input) +
                                      ": --database is for RDB files; commands of append-only files are sent as they stand");
    }
    const bool begins = equal_ignoring_case(name, "multi"), ends = equal_ignoring_case(name, "exec");
    if (begins || ends) in_transaction_ = begins;
    return !begins && !ends;
  }

  Status read_rdb(InputFile& input) {
    RdbReader reader(input, [this, &input](const std::string& what, std::uint64_t offset) {
      if (keys_ < skipped_) return;  // already reported before the interruption
      report_.add_other(what + " at byte " + std::to_string(offset) + " of " + input.name(), "the server does not have this");
    });
    TRY(reader.begin());
    RdbEntry entry;
    for (;;) {
      TRY_ASSIGN(more, reader.next(&entry));
      if (!more) return Status::ok();
      show(input);
      if (!is_wanted(source_.databases, entry.database)) continue;
      if (++keys_ <= skipped_) continue;
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
  std::uint64_t before_ = 0, commands_ = 0, crc_ = 0;
  bool in_transaction_ = false;
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
  Status on_command(AofCommand&& /*command*/, const InputFile& /*input*/) override { return Status::ok(); }
};

class Sending final : public FileReader {
 public:
  Sending(const FileImport& source, Importer* importer, TransferReport* report, const OnProgress& progress,
          const ImportSteps* steps)
      : FileReader(source, report, progress), importer_(*importer), steps_(steps) {
    if (steps_ != nullptr) skipped_ = recorded_ = steps_->skipped;
  }

 private:
  Status on_key(RdbEntry&& entry, unsigned version) override {
    bytes_ += entry.value.size();
    TRY(importer_.add(std::move(entry), version));
    if (steps_ == nullptr || (keys_ - recorded_ < ImportState::kMostEntries && bytes_ < ImportState::kMostBytes))
      return Status::ok();
    recorded_ = keys_;
    bytes_ = 0;
    TRY(importer_.drain());
    return steps_->record(keys_);
  }
  Status on_command(AofCommand&& command, const InputFile& input) override {
    std::string place = place_of(command, input);
    if (steps_ == nullptr) return importer_.add_command(command.arguments, std::move(place));
    if (!commands_begun_) {
      commands_begun_ = true;
      TRY(importer_.drain());
      TRY(steps_->begin_commands(keys_));
    }
    return steps_->commands->add(std::move(command.arguments), std::move(place));
  }

  Importer& importer_;
  const ImportSteps* const steps_;
  std::uint64_t recorded_ = 0, bytes_ = 0;
  bool commands_begun_ = false;
};

}  // namespace

Result<std::vector<std::string>> files_of(const std::string& path) {
  constexpr Bytes kManifest = ".manifest";
  if (!path.ends_with(kManifest)) return std::vector<std::string>{path};
  TRY_ASSIGN(input, InputFile::open(path));
  return read_aof_manifest(*input);
}

Status check_files(const FileImport& source, TransferReport* report, std::uint64_t* commands, const OnProgress& progress,
                   std::uint64_t* crc) {
  Checking reader(source, report, progress);
  const Status status = reader.read();
  if (crc != nullptr) *crc = reader.crc();
  *commands = reader.commands();
  return status;
}

Status import_files(const FileImport& source, Importer* importer, TransferReport* report, std::uint64_t* commands,
                    const OnProgress& progress, const ImportSteps* steps) {
  Sending reader(source, importer, report, progress, steps);
  TRY(reader.read());
  *commands = reader.commands();
  TRY(importer->drain());
  return steps == nullptr ? Status::ok() : steps->commands->flush();
}

}  // namespace ebbtide
