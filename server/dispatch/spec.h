// A command is data plus a function.
//
// Everything the server knows of a command stands in its CommandSpec: dispatch reads arity, keys and flags, COMMAND and COMMAND
// DOCS print the rest, ACL categories follow from flags and group. Specs are constexpr, listed explicitly a family at a time
// (commands/families.h), and are never changed. Container commands (CLIENT, CONFIG, COMMAND) hold their subcommands as specs of
// their own, whose arity counts both words.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <engine/status.h>

namespace ebbtide {

struct Ctx;

/// Maps (view, arguments) to (reply, batch). Pure but for what it asks of Ctx: dispatch may run it several times before one run
/// counts. A Status that is not ok becomes the reply (see reply_status in dispatch.h) and drops whatever was written.
using Handler = Status (*)(Ctx&);

/// What dispatch and COMMAND INFO need to know. The names of the latter are Redis's.
enum CommandFlags : std::uint32_t {
  kWrite = 1u << 0,
  kReadOnly = 1u << 1,
  kDenyOom = 1u << 2,  ///< refused when the memory budget is spent
  kAdmin = 1u << 3,
  kPubSub = 1u << 4,
  kNoScript = 1u << 5,
  kBlocking = 1u << 6,
  kLoading = 1u << 7,  ///< allowed while the database is being opened
  kStale = 1u << 8,
  kSkipSlowlog = 1u << 9,
  kFast = 1u << 10,
  kNoAuth = 1u << 11,  ///< allowed before AUTH
  kNoMulti = 1u << 12,
  kMovableKeys = 1u << 13,
  kAllowBusy = 1u << 14,
  kNoAsyncLoading = 1u << 15,
  kSentinel = 1u << 16,  ///< printed only: Redis's own table has it
  // Not printed:
  kSliced = 1u << 17,       ///< of very many arguments it deals with some in each of its loop's rounds (Ctx::end_slice)
  kOnLoop = 1u << 18,       ///< keeps state with its connection: never runs on an offload thread
  kRunsQueue = 1u << 19,    ///< EXEC
  kImmediate = 1u << 20,    ///< runs at once inside MULTI, where others are queued
  kNeverInline = 1u << 21,  ///< with kOffload: may wait for other threads, and is refused inside MULTI
  kSubscriber = 1u << 22,   ///< allowed to a RESP2 connection that has subscribed
  kAnyThread = 1u << 23,    ///< reads and writes no keys, and inside EXEC it may run on any thread
  kDangerous = 1u << 24,    ///< @dangerous without being @admin
  kOffload = 1u << 25,      ///< may read for long: runs on an offload thread with a leased view, its connection waits
  kLockAll = 1u << 26,      ///< no key command may be between its read and its write while this one runs
  kLong = 1u << 28,         ///< with kOffload: unbounded; runs on threads that short work does not wait for
  kReplySynced = 1u << 27,  ///< the reply leaves after the log is synced past the batch, in every fsync mode
  /// A command that only reads by what it means, but may write: PFCOUNT keeps what it has computed. It holds its keys' locks.
  kMayReplicate = 1u << 29,
};

/// Where the keys are among the arguments (argument 0 is the name). first = 0: none. last = 0: the same as first; negative:
/// counted from the end, -1 is the last argument.
struct KeySpec {
  /// What is done to the keys, as COMMAND INFO prints it.
  enum Access : std::uint16_t {
    kRo = 1,
    kRw = 2,
    kOw = 4,
    kRm = 8,
    kAccess = 16,
    kInsert = 32,
    kUpdate = 64,
    kDelete = 128,
    kVariableFlags = 256,
  };
  int first = 0;
  int last = 0;
  int step = 1;
  std::uint16_t access = 0;
  int blind_argc = 0;  ///< with exactly so many arguments the keys are overwritten unseen, though `access` says kRw

  /// Whether a command of `argc` arguments overwrites its keys without looking at them.
  [[nodiscard]] constexpr bool blind(std::size_t argc) const {
    return (access & kOw) != 0 || (blind_argc != 0 && argc == static_cast<std::size_t>(blind_argc));
  }
  [[nodiscard]] constexpr int last_of(int argc) const {
    if (first == 0) return 0;
    return last == 0 ? first : last > 0 ? last : argc + last;
  }
};

/// As Redis counts: positive is exact, negative is "at least"; the name counts.
constexpr int exactly(int arguments) { return arguments; }
constexpr int at_least(int arguments) { return -arguments; }

/// Families, as COMMAND DOCS names them; kExtension is this server's own ("ebbtide").
enum class Group : std::uint8_t {
  kConnection,
  kString,
  kGeneric,
  kServer,
  kExtension,
  kBitmap,
  kHyperLogLog,
  kTransactions,
  kPubSub
};

/// One argument in COMMAND DOCS; redis-cli makes its hints from these.
struct ArgDoc {
  enum class Type : std::uint8_t { kString, kInteger, kDouble, kKey, kPattern, kUnixTime, kPureToken, kOneOf, kBlock };
  enum Flags : std::uint8_t { kOptional = 1, kMultiple = 2, kMultipleToken = 4 };

  std::string_view name;
  Type type = Type::kString;
  std::string_view token = {};
  std::uint8_t flags = 0;
  std::string_view since = {};
  std::span<const ArgDoc> arguments = {};  ///< of kOneOf and kBlock
  std::uint8_t key_spec = 0;               ///< of kKey: which of the command's key specifications
};

struct CommandSpec {
  std::string_view name;  ///< lower case; of a subcommand, only its second word
  int arity = 0;
  KeySpec keys = {};
  std::uint32_t flags = 0;
  Handler run = nullptr;  ///< null for a container that means nothing without a subcommand
  std::string_view since = {};
  std::string_view complexity = {};
  std::string_view summary = {};
  Group group = Group::kGeneric;
  std::span<const ArgDoc> arguments = {};
  std::span<const CommandSpec> subcommands = {};
  std::string_view container = {};  ///< name of the container, of a subcommand
  std::string_view extra_acl = {};  ///< categories that do not follow from flags and group; generic: in place of @keyspace
  /// Where not all keys are treated alike: each part of `keys`, which spans them all, with its own access. For COMMAND INFO.
  std::span<const KeySpec> key_specs = {};

  [[nodiscard]] constexpr bool has(std::uint32_t flag) const { return (flags & flag) != 0; }
  /// Whether it reads a whole database, or may.
  [[nodiscard]] constexpr bool walks() const { return has(kOffload) && has(kReadOnly) && keys.first == 0; }
  [[nodiscard]] constexpr bool arity_ok(std::size_t argc) const {
    const long long n = static_cast<long long>(argc);
    return arity >= 0 ? n == arity : n >= -static_cast<long long>(arity);
  }
};

}  // namespace ebbtide
