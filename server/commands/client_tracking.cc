#include "commands/client_tracking.h"

#include <algorithm>
#include <string>

#include "dispatch/arg_cursor.h"
#include "dispatch/blocked_clients.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// The most prefixes of a client, since checking and storing prefixes keeps its loop busy. A client with more should track all
/// keys.
constexpr std::size_t kMostPrefixes = 32'768;

Status too_many_prefixes() { return reply_error("ERR A client can have at most " + std::to_string(kMostPrefixes) + " prefixes"); }

Result<Tracking> parse_tracking(const Ctx& ctx) {
  Tracking wanted;
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    Bytes value;
    if (cursor.take_option("REDIRECT", &value)) {
      if (wanted.redirect != 0) return reply_error("ERR A client can only redirect to a single other client");
      TRY_ASSIGN(id, integer_argument(value));
      if (!ctx.server().has_client(static_cast<std::uint64_t>(id)))
        return reply_error("ERR The client ID you want redirect to does not exist");
      wanted.redirect = static_cast<std::uint64_t>(id);
    } else if (cursor.take_word("BCAST")) {
      wanted.broadcast = true;
    } else if (cursor.take_word("OPTIN")) {
      wanted.opt_in = true;
    } else if (cursor.take_word("OPTOUT")) {
      wanted.opt_out = true;
    } else if (cursor.take_word("NOLOOP")) {
      wanted.no_loop = true;
    } else if (cursor.take_option("PREFIX", &value)) {
      wanted.prefixes.emplace_back(value);
      if (wanted.prefixes.size() > kMostPrefixes) return too_many_prefixes();
    } else {
      return syntax_error();
    }
  }
  return wanted;
}

/// Returns true if a prefix equals another one or begins with it. If any two do, two neighbors in sorted order do, too.
bool any_overlap(const std::vector<std::string>& have, const std::vector<std::string>& added) {
  std::vector<Bytes> all(have.begin(), have.end());
  all.insert(all.end(), added.begin(), added.end());
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end(), [](Bytes a, Bytes b) { return b.starts_with(a); }) != all.end();
}

/// Fails if prefixes of one client overlap, since the client would get two invalidations for one key.
Status check_prefixes(const std::vector<std::string>& have, const std::vector<std::string>& added) {
  if (have.size() + added.size() > kMostPrefixes) return too_many_prefixes();
  if (!any_overlap(have, added)) return Status::ok();
  // with more prefixes the error names none, since finding the two that overlap takes quadratic time
  constexpr std::size_t kNamed = 1024;
  if (have.size() + added.size() > kNamed) return reply_error("ERR Prefixes for a single client must not overlap.");
  const auto overlap = [](const std::string& a, const std::string& b) { return a.starts_with(b) || b.starts_with(a); };
  for (std::size_t i = 0; i < added.size(); ++i) {
    for (const std::string& other : have) {
      if (overlap(added[i], other)) {
        return reply_error("ERR Prefix '" + added[i] + "' overlaps with an existing prefix '" + other +
                           "'. Prefixes for a single client must not overlap.");
      }
    }
    for (std::size_t j = i + 1; j < added.size(); ++j) {
      if (overlap(added[i], added[j])) {
        return reply_error("ERR Prefix '" + added[i] + "' overlaps with another provided prefix '" + added[j] +
                           "'. Prefixes for a single client must not overlap.");
      }
    }
  }
  return Status::ok();
}

Status check_tracking(const Tracking& have, const Tracking& wanted) {
  if (!wanted.broadcast && !wanted.prefixes.empty()) return reply_error("ERR PREFIX option requires BCAST mode to be enabled");
  if (have.on && have.broadcast != wanted.broadcast) {
    return reply_error(
        "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a "
        "different mode.");
  }
  if (wanted.broadcast && (wanted.opt_in || wanted.opt_out)) {
    return reply_error("ERR OPTIN and OPTOUT are not compatible with BCAST");
  }
  if (wanted.opt_in && wanted.opt_out) return reply_error("ERR You can't specify both OPTIN mode and OPTOUT mode");
  if ((wanted.opt_in && have.opt_out) || (wanted.opt_out && have.opt_in)) {
    return reply_error(
        "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a "
        "different mode.");
  }
  return check_prefixes(have.prefixes, wanted.prefixes);
}

}  // namespace

Status client_tracking(Ctx& ctx) {
  TRY_ASSIGN(wanted, parse_tracking(ctx));
  const Tracking& have = tracking_of(*ctx.client);
  if (equal_ignoring_case(ctx.arg(2), "on")) {
    TRY(check_tracking(have, wanted));
    wanted.on = true;
    // A client without a prefix tracks all keys. Redis shows this as an empty prefix.
    const bool all = wanted.broadcast && wanted.prefixes.empty();
    if (all && std::find(have.prefixes.begin(), have.prefixes.end(), "") == have.prefixes.end()) wanted.prefixes.emplace_back();
    wanted.prefixes.insert(wanted.prefixes.begin(), have.prefixes.begin(), have.prefixes.end());
    std::sort(wanted.prefixes.begin(), wanted.prefixes.end());
  } else if (equal_ignoring_case(ctx.arg(2), "off")) {
    wanted = Tracking{};
  } else {
    return syntax_error();
  }
  set_tracking(*ctx.client, *env_of(ctx).observers, wanted);
  ctx.reply.ok();
  return Status::ok();
}

Status client_caching(Ctx& ctx) {
  Tracking& tracking = tracking_of(*ctx.client);
  if (!tracking.on) {
    return reply_error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");
  }
  if (equal_ignoring_case(ctx.arg(2), "yes")) {
    if (!tracking.opt_in) return reply_error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
    tracking.caching = true;
  } else if (equal_ignoring_case(ctx.arg(2), "no")) {
    if (!tracking.opt_out) return reply_error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
    tracking.caching = false;
  } else {
    return syntax_error();
  }
  ctx.reply.ok();
  return Status::ok();
}

Status client_getredir(Ctx& ctx) {
  const Tracking& tracking = tracking_of(*ctx.client);
  ctx.reply.integer(tracking.on ? static_cast<std::int64_t>(tracking.redirect) : -1);
  return Status::ok();
}

Status client_trackinginfo(Ctx& ctx) {
  const Tracking& tracking = tracking_of(*ctx.client);
  std::vector<Bytes> flags;
  flags.push_back(tracking.on ? "on" : "off");
  if (tracking.broadcast) flags.push_back("bcast");
  if (tracking.opt_in) flags.push_back("optin");
  if (tracking.opt_in && tracking.caching) flags.push_back("caching-yes");
  if (tracking.opt_out) flags.push_back("optout");
  if (tracking.opt_out && tracking.caching) flags.push_back("caching-no");
  if (tracking.no_loop) flags.push_back("noloop");
  if (tracking.redirect != 0 && !ctx.server().has_client(tracking.redirect)) flags.push_back("broken_redirect");
  Reply& reply = ctx.reply;
  reply.map(3);
  reply.bulk("flags");
  reply.set(flags.size());
  for (const Bytes flag : flags) reply.bulk(flag);
  reply.bulk("redirect");
  reply.integer(tracking.on ? static_cast<std::int64_t>(tracking.redirect) : -1);
  reply.bulk("prefixes");
  reply.array(tracking.prefixes.size());
  for (const std::string& prefix : tracking.prefixes) reply.bulk(prefix);
  return Status::ok();
}

Status client_pause(Ctx& ctx) {
  bool all = true;
  if (ctx.argc() > 4) return wrong_subcommand_arguments(ctx.command, ctx.args);
  if (ctx.argc() == 4) {
    all = equal_ignoring_case(ctx.arg(3), "all");
    if (!all && !equal_ignoring_case(ctx.arg(3), "write")) return reply_error("ERR CLIENT PAUSE mode must be WRITE or ALL");
  }
  TRY_ASSIGN(ms, timeout_argument(ctx.arg(2), ctx.now));
  const std::uint64_t now_ms = ctx.server().mono_nanos() / 1'000'000;
  (void)env_of(ctx).observers->pause.wait_ms(now_ms, true);  // if the pause's time is over, wait_ms() ends the pause
  env_of(ctx).observers->pause.begin(now_ms + ms, all);
  ctx.reply.ok();
  return Status::ok();
}

Status client_unpause(Ctx& ctx) {
  env_of(ctx).observers->pause.end();
  ctx.reply.ok();
  return Status::ok();
}

Status client_unblock(Ctx& ctx) {
  if (ctx.argc() > 4) return wrong_subcommand_arguments(ctx.command, ctx.args);
  auto end = BlockedClients::End::kTimeout;
  if (ctx.argc() == 4 && !equal_ignoring_case(ctx.arg(3), "timeout")) {
    if (!equal_ignoring_case(ctx.arg(3), "error")) return reply_error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    end = BlockedClients::End::kError;
  }
  TRY_ASSIGN(id, integer_argument(ctx.arg(2)));
  ctx.reply.integer(env_of(ctx).blocked->unblock(static_cast<std::uint64_t>(id), end) ? 1 : 0);
  return Status::ok();
}

}  // namespace ebbtide
