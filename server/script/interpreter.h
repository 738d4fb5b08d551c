// Runs Lua scripts for EVAL: one interpreter a thread, in which each script finds the same clean state.
//
// The Lua library is the one that is built as C++: its errors are exceptions, so objects in the frames that an error crosses are
// destroyed.
//
// A run may be abandoned at any point: because a page is missing, because it takes too long for an event loop, because its memory
// does not fit, because it was killed. Its script cannot catch that: from then on every instruction outside a protected call
// raises an error, so the script ends. A run has no effects outside its transaction, so an abandoned one can be repeated.
//
// No script may leave anything behind for the next one, which may belong to another user. All tables that outlive a run are
// behind proxies that refuse writes (sandbox.cc). A state whose memory has grown is closed after the run.
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

/// The settings of cjson. In Redis they stay for all scripts; here they end with the run.
struct JsonSettings {
  int encode_depth = 1000, decode_depth = 1000;
  int precision = 14;
  bool sparse_convert = false;
  int sparse_ratio = 2, sparse_safe = 10;
  int encode_invalid = 0;  ///< 0: an error; 1: as numbers; 2: as null
  bool decode_invalid = true;
};

/// The state of one run.
struct ScriptRun {
  Ctx* ctx = nullptr;
  ScriptCalls* calls = nullptr;
  bool read_only = false;
  std::string sha = {};
  std::uint64_t begun = 0;  ///< monotonic ns
  int protocol = 2;         ///< redis.setresp
  Status failure;           ///< not OK: the run is abandoned
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

  /// Runs the script with its keys and arguments, and writes its reply. `first_key`: the argument of ctx at which the keys begin.
  Status run(Ctx& ctx, const Script& script, std::size_t first_key, std::size_t keys, bool read_only);
  /// Returns the error if the script cannot be compiled.
  Status check(Ctx& ctx, const Script& script);

  /// Returns the interpreter of a Lua state.
  static Interpreter& of(lua_State* lua);
  /// The current run.
  [[nodiscard]] ScriptRun& current() { return *run_; }
  /// Abandons the run: raises an error that the script can catch only until its next instruction. Does not return.
  int abandon(lua_State* lua, Status why);
  /// Takes work (Ctx::work) of the run; abandons it if that fails.
  void work(lua_State* lua, std::uint64_t bytes);
  /// Like work(), for instructions or steps. Also abandons the run if it was killed, or is too long for a loop.
  void tick(lua_State* lua, std::uint64_t bytes);
  /// Counts steps of a library function, of about a nanosecond each, and calls tick() from time to time.
  void took_steps(lua_State* lua, std::uint64_t steps) {
    steps_ += steps;
    if (steps_ >= kStepsAtOnce) tick(lua, std::exchange(steps_, 0));
  }
  [[nodiscard]] bool on_loop() const { return run_->ctx->off_loop == nullptr; }

 private:
  static void* allocate(void* self, void* block, std::size_t old_bytes, std::size_t new_bytes);
  static void on_count(lua_State* lua, lua_Debug*);
  /// Called before an allocation. Returns false if it is refused, since the run has to leave its loop.
  bool count_allocation(std::size_t bytes);
  /// Charges the memory of the state. Returns false if the budget has no room for it.
  bool charge_up_to(std::size_t bytes);
  Status open();
  void close();
  /// Leaves the script's function on the stack, or returns the error.
  Status load(const Script& script);
  /// Sets KEYS and ARGV.
  void set_arguments(std::size_t first_key, std::size_t keys);
  void write_failure(Ctx& ctx, const Script& script);
  void end_run();

  lua_State* lua_ = nullptr;
  std::unordered_map<std::string, int> compiled_;  ///< references to functions
  ScriptRun* run_ = nullptr;
  static constexpr std::uint64_t kStepsAtOnce = 4096;
  std::uint64_t steps_ = 0;
  std::size_t used_ = 0;  ///< memory of the state
  std::size_t charged_ = 0;
  MemoryCharge charge_;
};

/// Returns the interpreter of this thread.
Interpreter& interpreter();

/// The flags of a script's first line, if that begins with #!.
struct ScriptFlags {
  bool no_writes = false;
  std::size_t code_at = 0;  ///< where the code begins
};
/// Parses the flags of a script. Returns Redis's error if its first line is wrong.
Result<ScriptFlags> flags_of(Bytes body);
/// Returns the name of a script: 40 hex digits.
std::string sha1_hex(Bytes text);

// sandbox.cc
/// Fills a new state with the libraries, behind proxies.
void open_sandbox(lua_State* lua);
/// Sets KEYS or ARGV, the table on top of the stack, for one run.
void set_script_global(lua_State* lua, const char* name);
void clear_script_global(lua_State* lua, const char* name);
/// Loads a chunk of Lua text. Returns 0 and leaves the function, or leaves the error.
int load_text(lua_State* lua, Bytes text, const char* name);
/// Makes the table on top of the stack a library that scripts see under this name, read-only.
void add_library(lua_State* lua, const char* name);

// patterns.cc
/// Sets the functions of patterns in the table on top of the stack.
void set_patterns(lua_State* lua);

// redis_api.cc, bit.cc, cjson.cc, cmsgpack.cc, struct.cc
void open_redis(lua_State* lua);
void open_bit(lua_State* lua);
void open_cjson(lua_State* lua);
void open_cmsgpack(lua_State* lua);
void open_struct(lua_State* lua);
/// Handles errors of a script: turns any error into a table that also has its place.
int script_error_handler(lua_State* lua);

// values.cc
/// Pushes the first reply in `text` as a Lua value. Returns the rest.
Bytes push_reply(lua_State* lua, Bytes text);
/// Writes the value on top of the stack as a reply. `error`: set to the error's text if the whole reply is an error.
Status write_value(lua_State* lua, ScriptRun& run, std::string* error);

}  // namespace ebbtide
