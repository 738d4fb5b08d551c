// A command is data plus a function.
//
// Its CommandSpec is all that the server knows about it. Dispatch reads arity, keys and flags; COMMAND and COMMAND DOCS print the
// rest; ACL categories are derived from flags and group. Specs are constexpr, listed explicitly per family (commands/families.h),
// and never change. Container commands (CLIENT, CONFIG, COMMAND) have a spec for each subcommand, whose arity counts both words.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <engine/status.h>

namespace ebbtide {

struct Ctx;

/// Maps (view, arguments) to (reply, batch). A handler has no other effect, except through Ctx, so dispatch may run it several
/// times and keep the last attempt. If the Status is not OK, it becomes the reply (error_reply in dispatcher.h), and the
/// attempt's writes are dropped.
using Handler = Status (*)(Ctx&);

/// Flags for dispatch and for COMMAND INFO. Printed flags have Redis's names.
enum CommandFlags : std::uint32_t {
  kWrite = 1u << 0,
  kReadOnly = 1u << 1,
  kDenyOom = 1u << 2,  ///< only for COMMAND INFO: "denyoom"; WriteBatch::adds_data() decides which writes are refused
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
  kSentinel = 1u << 16,  ///< only for COMMAND INFO: Redis's table has this flag
  // These are not printed:
  /// The command may have very many arguments: each round of its loop processes some of them (Ctx::end_slice).
  kSliced = 1u << 17,
  kOnLoop = 1u << 18,     ///< keeps state with its connection, so it never runs on an offload thread
  kRunsQueue = 1u << 19,  ///< EXEC
  kImmediate = 1u << 20,  ///< runs at once inside MULTI, instead of being queued
  /// For kOffload: the command may wait for other threads, so MULTI refuses it. It runs on administrative threads: commands of
  /// the group kConnection on OffloadClass::kClients, others on kControl.
  kNeverInline = 1u << 21,
  kSubscriber = 1u << 22,  ///< allowed on a RESP2 connection with a subscription
  kAnyThread = 1u << 23,   ///< the command reads no keys, so inside EXEC it may run on any thread
  kDangerous = 1u << 24,   ///< in the ACL category @dangerous, although not in @admin
  kOffload = 1u << 25,  ///< may read for long: it always runs on an offload thread with a leased view, while its connection waits
  kLockAll = 1u << 26,  ///< while the command runs, no other command may be between its read and its write of a key
  kLong = 1u << 28,     ///< for kOffload: the command has no time bound, so it runs on threads apart from short work
  kReplySynced = 1u << 27,  ///< the reply waits until the log is synced past the command's batch, in every fsync mode
  /// The command is a read for clients, but may write: PFCOUNT stores its result. So it locks its keys.
  kMayReplicate = 1u << 29,
  /// The command uses no keys, and runs on its loop unless Ctx::work() fails. Off the loop its effects are delivered when it
  /// ends.
  kMayLeave = 1u << 30,
  kRunsScript = 1u << 31,  ///< EVAL and similar commands: a script that runs other commands (script_calls.h)
};

/// The positions of the keys among the arguments; argument 0 is the name. first = 0: no keys. last = 0: the same as first;
/// negative: counted from the end, -1 is the last argument.
struct KeySpec {
  /// The access to the keys, as COMMAND INFO prints it.
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
  /// A command with exactly this many arguments overwrites its keys without a read, although `access` says kRw.
  int blind_argc = 0;
  /// Index of the argument with the number of keys after it: 1 in ZUNION 2 a b. 0: none. `first` is the argument after the
  /// number or, if one more key stands before the number, that key. `last` and `step` are unused. next_key() and last_key()
  /// (command_keys.h) visit the keys.
  int count_at = 0;
  /// One more key is the argument after the last option STORE, as in SORT. The command writes to that key, and without the option
  /// writes nothing. Then `first` is the only other key.
  bool has_store = false;
  /// With has_store: the index at which the options begin, if STOREDIST names a key, too, as in GEORADIUS. 0: only STORE does, as
  /// in SORT.
  int store_from = 0;
  /// For COMMAND INFO: this part of the keys (CommandSpec::key_specs) is the argument after this word. The search for the word
  /// begins at argument `first`.
  std::string_view keyword = {};
  /// For COMMAND INFO: a note about this part of the keys (CommandSpec::key_specs), whose positions are unknown. Then `first` is
  /// 0.
  std::string_view notes = {};

  /// Returns true if a command of `argc` arguments overwrites its keys without reading them.
  [[nodiscard]] constexpr bool blind(std::size_t argc) const {
    return (access & kOw) != 0 || (blind_argc != 0 && argc == static_cast<std::size_t>(blind_argc));
  }
  [[nodiscard]] constexpr int last_of(int argc) const {
    if (first == 0) return 0;
    return last == 0 ? first : last > 0 ? last : argc + last;
  }
};

/// Keys that a command uses without naming each one. The user needs the right to all keys of this scope (permissions.h).
enum class KeyScope : std::uint8_t {
  kNone,
  kRange,   ///< keys from argument 1 to argument 2; - and + mean no bound
  kPrefix,  ///< keys that begin with argument 1
  kAll,
  /// SORT: keys that the patterns of its options BY and GET make from elements. With such options, the handler checks that the
  /// user may read all keys.
  kPatterns,
};

/// The event for keyspace notifications of a key that the command has changed.
struct EventSpec {
  std::string_view name = {};  ///< "": the name is derived from the command (notifications.cc)
  char letter = 0;             ///< the letter of the event's class in notify-keyspace-events
  /// For a command that may delete the key. True: it has removed the last element, so this event is sent, then "del". False: only
  /// "del" is sent.
  bool before_delete = false;
};

/// Redis's form of arity: positive is exact, negative means "at least". The name counts.
constexpr int exactly(int arguments) { return arguments; }
constexpr int at_least(int arguments) { return -arguments; }

/// The group of a command in COMMAND DOCS. kExtension ("ebbtide") is for commands that Redis does not have.
enum class Group : std::uint8_t {
  kConnection,
  kString,
  kGeneric,
  kServer,
  kExtension,
  kBitmap,
  kHyperLogLog,
  kTransactions,
  kPubSub,
  kHash,
  kSet,
  kSortedSet,
  kList,
  kGeo,
  kScripting
};

/// One argument in COMMAND DOCS. redis-cli derives its hints from them.
struct ArgDoc {
  enum class Type : std::uint8_t { kString, kInteger, kDouble, kKey, kPattern, kUnixTime, kPureToken, kOneOf, kBlock };
  enum Flags : std::uint8_t { kOptional = 1, kMultiple = 2, kMultipleToken = 4 };

  std::string_view name;
  Type type = Type::kString;
  std::string_view token = {};
  std::uint8_t flags = 0;
  std::string_view since = {};
  std::span<const ArgDoc> arguments = {};  ///< the choices of kOneOf, or the arguments of kBlock
  std::uint8_t key_spec = 0;               ///< index of the key specification; for kKey, and for a kPattern that selects keys
  std::string_view display = {};           ///< the text that is shown; empty: the name
};

struct CommandSpec {
  std::string_view name;  ///< in lower case; of a subcommand, only the second word
  int arity = 0;
  KeySpec keys = {};
  std::uint32_t flags = 0;
  Handler run = nullptr;  ///< null for a container command that cannot run without a subcommand
  std::string_view since = {};
  std::string_view complexity = {};
  std::string_view summary = {};
  Group group = Group::kGeneric;
  std::span<const ArgDoc> arguments = {};
  std::span<const CommandSpec> subcommands = {};
  std::string_view container = {};  ///< of a subcommand: the name of its container
  /// Categories besides those derived from flags and group; in the group generic they replace @keyspace.
  std::string_view extra_acl = {};
  /// For COMMAND INFO, if the command does not access all keys alike: the parts of `keys`, each with its own access.
  std::span<const KeySpec> key_specs = {};
  KeyScope scope = KeyScope::kNone;
  EventSpec event = {};

  [[nodiscard]] constexpr bool has(std::uint32_t flag) const { return (flags & flag) != 0; }
  /// Returns true if the command reads, or may read, a whole database.
  [[nodiscard]] constexpr bool walks() const { return has(kOffload) && has(kReadOnly) && keys.first == 0; }
  /// Returns true if the command empties or swaps databases, and does nothing else.
  [[nodiscard]] constexpr bool changes_databases() const { return has(kLockAll) && has(kAnyThread); }
  /// Returns true if the command may move from its event loop to an offload thread when it proves to be long.
  [[nodiscard]] constexpr bool may_leave_loop() const {
    const bool locks_unknown_keys = has(kLockAll) && keys.first == 0;  // the keys of COPY and MOVE are known
    return !has(kOnLoop | kRunsQueue | kReplySynced | kImmediate | kNeverInline) && !locks_unknown_keys &&
           has(kReadOnly | kWrite | kMayLeave | kOffload | kRunsScript);
  }
  [[nodiscard]] constexpr bool arity_ok(std::size_t argc) const {
    const long long n = static_cast<long long>(argc);
    return arity >= 0 ? n == arity : n >= -static_cast<long long>(arity);
  }
};

}  // namespace ebbtide
