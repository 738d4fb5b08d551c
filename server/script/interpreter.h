// Runs Lua scripts for EVAL. Each thread has one interpreter, in which each script finds the same clean state.
//
// The Lua library is built as C++, so its errors are exceptions: when an error unwinds C++ frames, their objects are destroyed.
//
// An execution may be abandoned at any point: a page is missing, the execution takes too long for an event loop, its memory does
// not fit, or it was killed. The script cannot catch that: from then on every instruction outside a protected call raises an
// error, so the script ends. An execution has no effect outside its transaction, so an abandoned execution can be repeated.
//
// No script may leave anything for the next script, which may belong to another user. All tables that outlive an execution are
// behind proxies that refuse writes (sandbox.cc). A Lua state whose memory has grown is closed after the execution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <engine/result.h>

#include <lua5.1/lua.hpp>

#include "dispatch/context.h"
#include "dispatch/script_cache.h"
#include "dispatch/script_calls.h"

namespace ebbtide {

/// The settings of cjson. In Redis a script's settings stay for later scripts; here they end with the execution.
struct JsonSettings {
  int encode_depth = 1000, decode_depth = 1000;
  int precision = 14;
  bool sparse_convert = false;
  int sparse_ratio = 2, sparse_safe = 10;
  int encode_invalid = 0;  ///< how to encode NaN and infinity: 0: an error; 1: as numbers; 2: as null
  bool decode_invalid = true;
};

/// The state of one execution of a script.
struct ScriptRun {
  Ctx* ctx = nullptr;
  ScriptCalls* calls = nullptr;
  bool read_only = false;
  std::string sha = {};
  std::uint64_t begun = 0;  ///< when the execution began, in monotonic ns
  int protocol = 2;         ///< RESP version that redis.setresp has set
  Status failure;           ///< not OK: the execution is abandoned for this reason
  bool out_of_memory = false;
  std::uint64_t random = 0;
  std::optional<ScriptCache::Running> running;
  JsonSettings json;
};

class Interpreter {
 public:
  Interpreter() = default;
  ~Interpreter() { close(); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Runs the script with its keys and arguments, and writes the reply. `first_key`: index of the first key in the arguments of
  /// ctx.
  Status run(Ctx& ctx, const Script& script, std::size_t first_key, std::size_t keys, bool read_only);
  /// Returns an error if the script cannot be compiled.
  Status check(Ctx& ctx, const Script& script);

  /// Returns the interpreter of a Lua state.
  static Interpreter& of(lua_State* lua);
  /// Returns the state of the current execution.
  [[nodiscard]] ScriptRun& current() { return *run_; }
  /// Abandons the execution: raises a Lua error, and further ones if the script catches it. Does not return.
  int abandon(lua_State* lua, Status why);
  /// Counts work of the execution (Ctx::work). Abandons the execution if that fails.
  void work(lua_State* lua, std::uint64_t bytes);
  /// Like work(), and also abandons the execution if it was killed, or takes too long for a loop. The hook and the library
  /// functions call this for instructions or steps.
  void tick(lua_State* lua, std::uint64_t bytes);
  /// Counts steps of a library function, about a nanosecond each. Calls tick() every kStepsAtOnce steps.
  void took_steps(lua_State* lua, std::uint64_t steps) {
    steps_ += steps;
    if (steps_ >= kStepsAtOnce) tick(lua, std::exchange(steps_, 0));
  }
  [[nodiscard]] bool on_loop() const { return run_->ctx->off_loop == nullptr; }

 private:
  static void* allocate(void* self, void* block, std::size_t old_bytes, std::size_t new_bytes);
  static void on_count(lua_State* lua, lua_Debug*);
  /// While the script runs on an event loop, counts a large allocation as work. The allocator calls this first. Returns false if the
  /// script must go on off the event loop: then the allocation fails, which ends this execution.
  bool count_allocation(std::size_t bytes);
  /// Charges the memory of the Lua state. Returns false if the budget has no room.
  bool charge_up_to(std::size_t bytes);
  Status open();
  void close();
  /// Compiles the script if needed, and pushes its function on the stack. Returns the error if that fails.
  Status load(const Script& script);
  /// Sets KEYS and ARGV.
  void set_arguments(std::size_t first_key, std::size_t keys);
  void write_failure(Ctx& ctx, const Script& script);
  void end_run();

  lua_State* lua_ = nullptr;
  std::unordered_map<std::string, int> compiled_;  ///< references to the functions of compiled scripts, by name
  ScriptRun* run_ = nullptr;
  static constexpr std::uint64_t kStepsAtOnce = 4096;
  std::uint64_t steps_ = 0;
  std::size_t used_ = 0;  ///< memory of the Lua state, in bytes
  std::size_t charged_ = 0;
  MemoryCharge charge_;
};

/// Returns the interpreter of this thread.
Interpreter& interpreter();

/// The flags in a script's first line, if that line begins with #!.
struct ScriptFlags {
  bool no_writes = false;
  std::size_t code_at = 0;  ///< index at which the code begins
};
/// Parses the flags of a script. Returns Redis's error if the first line is invalid.
Result<ScriptFlags> flags_of(Bytes body);
/// Returns a script's name: its SHA-1 as 40 hex digits.
std::string sha1_hex(Bytes text);

// sandbox.cc
/// Fills a new Lua state with the libraries, behind read-only proxies.
void open_sandbox(lua_State* lua);
/// Sets KEYS or ARGV to the table on top of the stack, for one execution.
void set_script_global(lua_State* lua, const char* name);
void clear_script_global(lua_State* lua, const char* name);
/// Compiles Lua text. Returns 0 and leaves the function on the stack; otherwise leaves the error there.
int load_text(lua_State* lua, Bytes text, const char* name);
/// Makes the table on top of the stack a read-only library, which scripts see under this name.
void add_library(lua_State* lua, const char* name);

// patterns.cc
/// Adds the functions for patterns (string.find, match, gmatch, gsub) to the table on top of the stack.
void set_patterns(lua_State* lua);

// redis_api.cc, bit.cc, cjson.cc, cmsgpack.cc, struct.cc
void open_redis(lua_State* lua);
void open_bit(lua_State* lua);
void open_cjson(lua_State* lua);
void open_cmsgpack(lua_State* lua);
void open_struct(lua_State* lua);
/// Handles errors of a script: converts any error to a table that also has the source and line of the error.
int script_error_handler(lua_State* lua);

// values.cc
/// Pushes the first reply in `text` as a Lua value. Returns the rest.
Bytes push_reply(lua_State* lua, Bytes text);
/// Writes the value on top of the stack as a reply. If the whole reply is an error, sets `*error` to its text.
Status write_value(lua_State* lua, ScriptRun& run, std::string* error);

}  // namespace ebbtide
