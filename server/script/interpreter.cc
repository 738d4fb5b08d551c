#include "script/interpreter.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// A Lua state of up to this size is not charged, and is kept between executions.
constexpr std::size_t kFreeBytes = std::size_t{1} << 20;
/// Memory is charged in steps of this many bytes.
constexpr std::size_t kChargeStep = std::size_t{1} << 20;
/// A script whose Lua state exceeds this size leaves the event loop, where one slow instruction would delay other clients.
constexpr std::size_t kLoopBytes = std::size_t{8} << 20;
/// The hook is called after this many instructions. Each one counts as kInstructionWork bytes of Ctx::work.
constexpr int kHookInstructions = 100;
constexpr std::uint64_t kInstructionWork = 4;
/// An execution leaves its loop after this time, even if it has executed few instructions: comparing long strings, for example,
/// takes long.
constexpr std::uint64_t kLoopNanos = 5'000'000;
/// On a loop, larger allocations count as work, since writing and collecting these bytes takes time.
constexpr std::size_t kCountedBytes = 16 << 10;
/// The most compiled scripts that a Lua state keeps.
constexpr std::size_t kMostCompiled = 512;

}  // namespace

Interpreter& interpreter() {
  static thread_local Interpreter instance;
  return instance;
}

Interpreter& Interpreter::of(lua_State* lua) {
  void* self = nullptr;
  lua_getallocf(lua, &self);
  return *static_cast<Interpreter*>(self);
}

bool Interpreter::count_allocation(std::size_t bytes) {
  if (bytes < kCountedBytes || run_ == nullptr || !on_loop()) return true;
  if (run_->failure.is_ok()) run_->failure = run_->ctx->work(bytes);
  return run_->failure.is_ok();
}

bool Interpreter::charge_up_to(std::size_t bytes) {
  if (bytes <= charged_ + kFreeBytes || run_ == nullptr) return true;
  Db* const db = env_of(*run_->ctx).db;
  if (on_loop() && bytes > kLoopBytes) {
    if (run_->failure.is_ok()) run_->failure = run_->ctx->work(~std::uint64_t{0});
    return false;
  }
  if (db == nullptr) return true;
  const std::size_t more = (bytes - charged_ - kFreeBytes + kChargeStep - 1) / kChargeStep * kChargeStep;
  if (!db->try_charge(MemoryAccount::Kind::kCommands, more)) {
    run_->out_of_memory = true;
    return false;
  }
  charge_.took(db->memory(), MemoryAccount::Kind::kCommands, more);
  charged_ += more;
  return true;
}

void* Interpreter::allocate(void* self, void* block, std::size_t old_bytes, std::size_t new_bytes) {
  auto& interpreter = *static_cast<Interpreter*>(self);
  if (block == nullptr) old_bytes = 0;
  if (new_bytes == 0) {
    std::free(block);
    interpreter.used_ -= old_bytes;
    return nullptr;
  }
  if (new_bytes > old_bytes && !interpreter.count_allocation(new_bytes)) return nullptr;
  if (new_bytes > old_bytes && !interpreter.charge_up_to(interpreter.used_ - old_bytes + new_bytes)) return nullptr;
  void* const moved = std::realloc(block, new_bytes);
  if (moved == nullptr) return new_bytes <= old_bytes ? block : nullptr;
  interpreter.used_ += new_bytes;
  interpreter.used_ -= old_bytes;
  return moved;
}

int Interpreter::abandon(lua_State* lua, Status why) {
  if (run_->failure.is_ok()) run_->failure = std::move(why);
  lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
  lua_pushliteral(lua, "the script was abandoned");
  return lua_error(lua);
}

void Interpreter::work(lua_State* lua, std::uint64_t bytes) {
  Status status = run_->ctx->work(bytes);
  if (!status.is_ok()) abandon(lua, std::move(status));
}

void Interpreter::on_count(lua_State* lua, lua_Debug*) { of(lua).tick(lua, kHookInstructions * kInstructionWork); }

void Interpreter::tick(lua_State* lua, std::uint64_t bytes) {
  ScriptRun& run = *run_;
  if (!run.failure.is_ok()) abandon(lua, run.failure);
  if (run.running && run.running->is_killed()) {
    if (run.calls != nullptr) run.calls->note_killed();
    lua_Debug at;
    bool known = false;  // a function of a library has no line number
    for (int i = 0; !known && lua_getstack(lua, i, &at) != 0; ++i) {
      known = lua_getinfo(lua, "Sl", &at) != 0 && at.currentline > 0;
    }
    abandon(lua, Status::invalid_argument("ERR Script killed by user with SCRIPT KILL... script: " + run.sha +
                                          (known ? ", on " + std::string(at.source) + ":" + std::to_string(at.currentline) : "") +
                                          "."));
  }
  if (on_loop() && env_of(*run.ctx).control->mono_nanos() - run.begun > kLoopNanos) work(lua, ~std::uint64_t{0});
  work(lua, bytes);
}

Status Interpreter::open() {
  if (lua_ != nullptr && compiled_.size() < kMostCompiled) return Status::ok();
  close();
  lua_ = lua_newstate(allocate, this);
  if (lua_ == nullptr) return Status::out_of_memory("no memory for a Lua state");
  const auto fill = [](lua_State* lua) {
    open_sandbox(lua);
    return 0;
  };
  if (lua_cpcall(lua_, fill, nullptr) != 0) {
    close();
    return Status::out_of_memory("no memory for a Lua state");
  }
  return Status::ok();
}

void Interpreter::close() {
  if (lua_ != nullptr) lua_close(lua_);
  lua_ = nullptr;
  compiled_.clear();
}

void Interpreter::end_run() {
  if (lua_ == nullptr) return;
  lua_sethook(lua_, nullptr, 0, 0);
  lua_settop(lua_, 0);
  // A failed execution may have left objects that only the garbage collector would find. A new state costs a tenth of a
  // millisecond.
  if (used_ > kFreeBytes || !run_->failure.is_ok() || run_->out_of_memory) close();
  run_ = nullptr;
  charged_ = 0;
  charge_.release();
}

Status Interpreter::load(const Script& script) {
  if (const auto it = compiled_.find(script.sha); it != compiled_.end()) {
    lua_rawgeti(lua_, LUA_REGISTRYINDEX, it->second);
    return Status::ok();
  }
  Result<ScriptFlags> flags = flags_of(script.body);
  if (!flags.is_ok()) return flags.status();
  const int failed = load_text(lua_, Bytes(script.body).substr((*flags).code_at), "@user_script");
  if (!run_->failure.is_ok()) return run_->failure;
  if (failed == LUA_ERRMEM) return Status::out_of_memory("the script did not fit into memory");
  if (failed != 0) return reply_error(std::string("ERR Error compiling script (new function): ") + lua_tostring(lua_, -1));
  struct Kept {
    static int keep(lua_State* lua) {
      lua_pushinteger(lua, luaL_ref(lua, LUA_REGISTRYINDEX));
      return 1;
    }
  };
  lua_pushvalue(lua_, -1);
  lua_pushcfunction(lua_, Kept::keep);
  lua_insert(lua_, -2);
  if (lua_pcall(lua_, 1, 1, 0) != 0) return Status::out_of_memory("the script did not fit into memory");
  compiled_.emplace(script.sha, static_cast<int>(lua_tointeger(lua_, -1)));
  lua_pop(lua_, 1);
  return Status::ok();
}

Status Interpreter::check(Ctx& ctx, const Script& script) {
  ScriptRun run{.ctx = &ctx, .begun = env_of(ctx).control->mono_nanos()};
  run_ = &run;
  struct Body {
    Interpreter& self;
    const Script& script;
    Status status;
    static int run(lua_State* lua) {
      auto& body = *static_cast<Body*>(lua_touserdata(lua, 1));
      body.status = body.self.load(body.script);
      return 0;
    }
  };
  Body body{*this, script, open()};
  if (body.status.is_ok()) {
    lua_sethook(lua_, on_count, LUA_MASKCOUNT, kHookInstructions);
    const int failed = lua_cpcall(lua_, Body::run, &body);
    if (failed != 0 && run.failure.is_ok()) body.status = Status::out_of_memory("the script did not fit into memory");
    if (!run.failure.is_ok()) body.status = run.failure;
  }
  end_run();
  run_ = nullptr;
  return body.status;
}

void Interpreter::set_arguments(std::size_t first_key, std::size_t keys) {
  const Ctx& ctx = *run_->ctx;
  const auto fill = [&](std::size_t from, std::size_t to, const char* name) {
    lua_createtable(lua_, static_cast<int>(to - from), 0);
    for (std::size_t i = from; i < to; ++i) {
      lua_pushlstring(lua_, ctx.arg(i).data(), ctx.arg(i).size());
      lua_rawseti(lua_, -2, static_cast<int>(i - from) + 1);
    }
    set_script_global(lua_, name);
  };
  fill(first_key, first_key + keys, "KEYS");
  fill(first_key + keys, ctx.argc(), "ARGV");
}

// Everything that may allocate Lua memory runs inside lua_cpcall: outside, Lua ends the process if memory is short.
Status Interpreter::run(Ctx& ctx, const Script& script, std::size_t first_key, std::size_t keys, bool read_only) {
  std::uint64_t bytes = script.body.size();
  for (std::size_t i = first_key; i < ctx.argc(); ++i) bytes += ctx.arg(i).size();
  TRY(ctx.work(bytes));
  ScriptRun run{.ctx = &ctx,
                .calls = ctx.exec->calls,
                .read_only = read_only,
                .sha = script.sha,
                .begun = env_of(ctx).control->mono_nanos()};
  if (ctx.off_loop != nullptr) run.running.emplace(*env_of(ctx).scripts);
  run_ = &run;
  struct Body {
    Interpreter& self;
    Ctx& ctx;
    const Script& script;
    std::size_t first_key, keys;
    Status status;
    int failed = 0;
    std::string error = {};
    static int run(lua_State* lua) {
      auto& body = *static_cast<Body*>(lua_touserdata(lua, 1));
      lua_settop(lua, 0);
      lua_pushcfunction(lua, script_error_handler);
      body.status = body.self.load(body.script);
      if (!body.status.is_ok()) return 0;
      body.self.set_arguments(body.first_key, body.keys);
      body.failed = lua_pcall(lua, 0, 1, 1);
      if (!body.self.current().failure.is_ok() || body.failed == LUA_ERRMEM) return 0;
      if (body.failed == 0) {
        body.status = write_value(lua, body.self.current(), &body.error);
      } else {
        body.self.write_failure(body.ctx, body.script);
      }
      if (!body.error.empty()) body.self.current().calls->note_error(body.error);
      clear_script_global(lua, "KEYS");
      clear_script_global(lua, "ARGV");
      return 0;
    }
  };
  Body body{*this, ctx, script, first_key, keys, open()};
  if (body.status.is_ok()) {
    lua_sethook(lua_, on_count, LUA_MASKCOUNT, kHookInstructions);
    const int failed = lua_cpcall(lua_, Body::run, &body);
    if (failed != 0 || body.failed == LUA_ERRMEM) {
      run.out_of_memory = true;
      body.status = Status::out_of_memory("the script did not fit into memory");
    }
    if (!run.failure.is_ok()) body.status = run.failure;
  }
  end_run();
  run_ = nullptr;
  return body.status;
}

void Interpreter::write_failure(Ctx& ctx, const Script& script) {
  std::string text = "ERR unknown error";
  const auto field = [this](const char* name) -> std::string {
    lua_pushstring(lua_, name);
    lua_rawget(lua_, -2);
    std::size_t n = 0;
    const char* const value = lua_isstring(lua_, -1) != 0 ? lua_tolstring(lua_, -1, &n) : nullptr;
    std::string copy = value == nullptr ? std::string() : std::string(value, n);
    lua_pop(lua_, 1);
    return copy;
  };
  if (lua_istable(lua_, -1)) {
    text = field("err");
    if (text.empty()) text = "ERR unknown error";
    const std::string source = field("source"), line = field("line");
    if (!source.empty() && !line.empty()) text += " script: " + script.sha + ", on " + source + ":" + line + ".";
  } else if (lua_isstring(lua_, -1) != 0) {
    text = "ERR " + std::string(lua_tostring(lua_, -1));
  }
  ctx.reply.error(text);
  run_->calls->note_error(text);
}

Result<ScriptFlags> flags_of(Bytes body) {
  ScriptFlags flags;
  if (body.substr(0, 2) != "#!") return flags;
  const std::size_t end = body.find('\n');
  if (end == Bytes::npos) return reply_error("ERR Invalid script shebang");
  flags.code_at = end;
  Bytes line = body.substr(2, end - 2);
  const auto word = [&line] {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\r' || line.front() == '\t')) line.remove_prefix(1);
    const Bytes taken = line.substr(0, line.find_first_of(" \r\t"));
    line.remove_prefix(taken.size());
    return taken;
  };
  const Bytes engine = word();
  if (engine.empty()) return reply_error("ERR Invalid engine in script shebang");
  if (engine != "lua") return reply_error("ERR Unexpected engine in script shebang: #!" + std::string(shown(engine)));
  for (Bytes option = word(); !option.empty(); option = word()) {
    if (option.substr(0, 6) != "flags=") {
      return reply_error("ERR Unknown lua shebang option: " + std::string(shown(option)));
    }
    for (Bytes list = option.substr(6); !list.empty();) {
      const Bytes flag = list.substr(0, list.find(','));
      list.remove_prefix(std::min(flag.size() + 1, list.size()));
      constexpr Bytes kAccepted[] = {"allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"};
      if (flag == "no-writes") {
        flags.no_writes = true;
      } else if (!flag.empty() && std::find(std::begin(kAccepted), std::end(kAccepted), flag) == std::end(kAccepted)) {
        return reply_error("ERR Unexpected flag in script shebang: " + std::string(shown(flag)));
      }
    }
  }
  return flags;
}

std::string sha1_hex(Bytes text) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string out;
  for (const unsigned char byte : digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace ebbtide
