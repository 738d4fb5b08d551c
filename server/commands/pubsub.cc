// Publish and subscribe: channels, patterns, shard channels, and PUBSUB. The server is one node, so every shard channel is here.
#include <memory>
#include <string>
#include <utility>

#include "commands/families.h"
#include "commands/help_spec.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "pubsub/pubsub.h"

namespace ebbtide {
namespace {

using Kind = PubSub::Kind;

Subscriptions& subscriptions_of(const Ctx& ctx) {
  auto& state = state_of(*ctx.client).subscriptions;
  if (state == nullptr) {
    state = std::make_unique<Subscriptions>(*env_of(ctx).pubsub, PubSub::Subscriber{ctx.client->loop, ctx.client_id});
  }
  return static_cast<Subscriptions&>(*state);
}

/// Updates the counts that CLIENT LIST shows, and the session's mode, which dispatch checks.
void note_counts(Ctx& ctx, const Subscriptions& subscriptions) {
  Session& session = ctx.session;
  session.wrote_pushes = is_quiet(session) && !ctx.in_exec();
  session.channels = static_cast<std::uint32_t>(subscriptions.names(Kind::kChannel).size());
  session.patterns = static_cast<std::uint32_t>(subscriptions.names(Kind::kPattern).size());
  session.shard_channels = static_cast<std::uint32_t>(subscriptions.names(Kind::kShard).size());
  ctx.client->subscriber = !subscriptions.empty() || state_of(*ctx.client).monitored != nullptr;
  ctx.client->state_bytes = state_of(*ctx.client).memory();
  if (subscriptions.empty()) {
    session.modes &= static_cast<std::uint8_t>(~Session::kSubscribed);
  } else {
    session.modes |= Session::kSubscribed;
  }
}

void confirm(Ctx& ctx, Bytes word, const Bytes* name, std::size_t count) {
  ctx.reply.push(3);
  ctx.reply.bulk(word);
  name == nullptr ? ctx.reply.null() : ctx.reply.bulk(*name);
  ctx.reply.integer(static_cast<std::int64_t>(count));
}

/// A slice ends after this many bytes of names.
constexpr std::size_t kSliceBytes = std::size_t{1} << 20;

Status subscribe_to(Ctx& ctx, Kind kind, Bytes word) {
  Subscriptions& subscriptions = subscriptions_of(ctx);
  std::size_t i = ctx.slice_begin(), bytes = 0;
  for (; i < ctx.slice_end() && (bytes < kSliceBytes || ctx.in_exec()); ++i) {
    const Bytes name = ctx.arg(i);
    subscriptions.add(kind, name);
    confirm(ctx, word, &name, subscriptions.count(kind));
    bytes += name.size();
  }
  ctx.end_slice(i);
  note_counts(ctx, subscriptions);
  return Status::ok();
}

Status unsubscribe_from(Ctx& ctx, Kind kind, Bytes word) {
  Subscriptions& subscriptions = subscriptions_of(ctx);
  if (ctx.argc() > 1) {
    for (std::size_t i = ctx.slice_begin(); i < ctx.slice_end(); ++i) {
      const Bytes name = ctx.arg(i);
      subscriptions.remove(kind, name);
      confirm(ctx, word, &name, subscriptions.count(kind));
    }
    ctx.end_slice();
  } else if (subscriptions.names(kind).empty()) {
    confirm(ctx, word, nullptr, subscriptions.count(kind));
  } else {
    for (std::size_t n = 0; !subscriptions.names(kind).empty() && !ctx.unfinished; ++n) {
      const std::string name = *subscriptions.names(kind).begin();
      subscriptions.remove(kind, name);
      const Bytes view = name;
      confirm(ctx, word, &view, subscriptions.count(kind));
      ctx.unfinished = !ctx.in_exec() && n >= Ctx::kSliceArguments && !subscriptions.names(kind).empty();
    }
  }
  note_counts(ctx, subscriptions);
  return Status::ok();
}

Status subscribe(Ctx& ctx) { return subscribe_to(ctx, Kind::kChannel, "subscribe"); }
Status psubscribe(Ctx& ctx) { return subscribe_to(ctx, Kind::kPattern, "psubscribe"); }
Status ssubscribe(Ctx& ctx) {
  // Redis refuses only SSUBSCRIBE inside a transaction, not SUBSCRIBE and PSUBSCRIBE.
  if (ctx.in_exec()) return reply_error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
  return subscribe_to(ctx, Kind::kShard, "ssubscribe");
}
Status unsubscribe(Ctx& ctx) { return unsubscribe_from(ctx, Kind::kChannel, "unsubscribe"); }
Status punsubscribe(Ctx& ctx) { return unsubscribe_from(ctx, Kind::kPattern, "punsubscribe"); }
Status sunsubscribe(Ctx& ctx) { return unsubscribe_from(ctx, Kind::kShard, "sunsubscribe"); }

/// Work (Ctx::work), in bytes, of one delivery. 2,048 deliveries take more than a millisecond.
constexpr std::uint64_t kDeliveryBytes = 512;

// The publisher's reply is written before the message that it may get as a subscriber, unless thousands of clients get the
// message. A message may depend on data that its publisher has read or written, so it waits for the log like a reply. Inside EXEC
// the message is sent once the transaction is committed. Its receivers are the clients that were subscribed when PUBLISH ran: a
// publisher that subscribes later in the transaction is none of them.
Status publish_to(Ctx& ctx, Kind kind) {
  PubSub& pubsub = *env_of(ctx).pubsub;
  TRY(ctx.work(pubsub.pattern_work(kind, ctx.arg(1))));
  if (ctx.in_exec() || ctx.off_loop != nullptr) {
    auto audience = std::make_shared<PubSub::Audience>();
    PubSub::Search search(pubsub, kind, ctx.arg(1));
    const auto cancelled = [&ctx] { return ctx.is_cancelled(); };
    if (!search.go_on(audience.get(), ~std::size_t{0}, cancelled)) return Status::aborted("the client has disconnected");
    TRY(ctx.work(kDeliveryBytes * audience->size()));
    ctx.reply.integer(static_cast<std::int64_t>(audience->size()));
    MemoryCharge charge;
    if (Db* const db = env_of(ctx).db; db != nullptr) {
      if (!db->try_charge(MemoryAccount::Kind::kCommands, audience->memory()))
        return refused_charge(db->memory(), audience->memory());
      charge.took(db->memory(), MemoryAccount::Kind::kCommands, audience->memory());
    }
    struct Publication {
      MemoryCharge charge;
      PubSub::Sending sending;
    };
    // The arguments are stored in the queue or with the connection, both of which outlive the effects.
    const std::shared_ptr<Publication> publication(new Publication{
        std::move(charge), PubSub::Sending(pubsub, std::move(*audience), kind, ctx.arg(1), ctx.arg(2), ctx.shared_arg(2))});
    Effects& effects = ctx.in_exec() ? *ctx.exec->effects : *ctx.off_loop->effects;
    effects.push_back([publication](const Origin& origin, const Slice& slice) {
      return publication->sending.go_on(origin.loop, origin.seen_seq, [&slice] { return slice.over(); });
    });
    return Status::ok();
  }
  PubSub::Audience audience = pubsub.audience(kind, ctx.arg(1));
  TRY(ctx.work(kDeliveryBytes * audience.size()));
  const bool quiet = is_quiet(ctx.session);
  if (quiet) ctx.session.wrote_pushes = true;
  if (!quiet) ctx.reply.integer(static_cast<std::int64_t>(audience.size()));
  pubsub.send(std::move(audience), kind, ctx.arg(1), ctx.arg(2), ctx.client->loop, ctx.client->seen_seq, ctx.shared_arg(2));
  return Status::ok();
}

Status publish(Ctx& ctx) { return publish_to(ctx, Kind::kChannel); }
Status spublish(Ctx& ctx) { return publish_to(ctx, Kind::kShard); }

Status list_names(Ctx& ctx, Kind kind) {
  if (ctx.argc() > 3) return wrong_subcommand_arguments(ctx.command, ctx.args);
  const auto names =
      env_of(ctx).pubsub->names(kind, ctx.argc() == 3 ? ctx.arg(2) : Bytes("*"), [&ctx] { return ctx.is_cancelled(); });
  ctx.reply.array(names.size());
  for (const std::string& name : names) {
    ctx.reply.bulk(name);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status count_subscribers(Ctx& ctx, Kind kind) {
  ctx.reply.array(2 * (ctx.argc() - 2));
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    ctx.reply.bulk(ctx.arg(i));
    ctx.reply.integer(static_cast<std::int64_t>(env_of(ctx).pubsub->count(kind, ctx.arg(i))));
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status pubsub_channels(Ctx& ctx) { return list_names(ctx, Kind::kChannel); }
Status pubsub_shardchannels(Ctx& ctx) { return list_names(ctx, Kind::kShard); }
Status pubsub_numsub(Ctx& ctx) { return count_subscribers(ctx, Kind::kChannel); }
Status pubsub_shardnumsub(Ctx& ctx) { return count_subscribers(ctx, Kind::kShard); }
Status pubsub_numpat(Ctx& ctx) {
  ctx.reply.integer(static_cast<std::int64_t>(env_of(ctx).pubsub->size(Kind::kPattern)));
  return Status::ok();
}

constexpr auto kMany = ArgDoc::kMultiple;
constexpr auto kMaybeMany = ArgDoc::kOptional | ArgDoc::kMultiple;
constexpr ArgDoc kChannels[] = {{.name = "channel", .flags = kMany}};
constexpr ArgDoc kMaybeChannels[] = {{.name = "channel", .flags = kMaybeMany}};
constexpr ArgDoc kShardChannels[] = {{.name = "shardchannel", .flags = kMany}};
constexpr ArgDoc kMaybeShardChannels[] = {{.name = "shardchannel", .flags = kMaybeMany}};
constexpr ArgDoc kPatterns[] = {{.name = "pattern", .type = ArgDoc::Type::kPattern, .flags = kMany}};
constexpr ArgDoc kMaybePatterns[] = {{.name = "pattern", .type = ArgDoc::Type::kPattern, .flags = kMaybeMany}};
constexpr ArgDoc kMaybePattern[] = {{.name = "pattern", .type = ArgDoc::Type::kPattern, .flags = ArgDoc::kOptional}};
constexpr ArgDoc kPublish[] = {{.name = "channel"}, {.name = "message"}};
constexpr ArgDoc kSpublish[] = {{.name = "shardchannel"}, {.name = "message"}};

constexpr auto kListen = kPubSub | kNoScript | kLoading | kStale | kSubscriber | kSliced;
constexpr auto kAsk = kPubSub | kLoading | kStale;
constexpr auto kGroup = Group::kPubSub;
constexpr Bytes kContainer = "pubsub";

constexpr CommandSpec kSubcommands[] = {
    {.name = "channels",
     .arity = at_least(2),
     .flags = kAsk | kOffload | kLong,
     .run = pubsub_channels,
     .since = "2.8.0",
     .complexity = "O(N) where N is the number of channels with subscribers.",
     .summary = "Lists the channels that have subscribers.",
     .group = kGroup,
     .arguments = kMaybePattern,
     .container = kContainer},
    {.name = "numpat",
     .arity = exactly(2),
     .flags = kAsk,
     .run = pubsub_numpat,
     .since = "2.8.0",
     .complexity = "O(1)",
     .summary = "Returns the number of patterns with subscribers.",
     .group = kGroup,
     .container = kContainer},
    {.name = "numsub",
     .arity = at_least(2),
     .flags = kAsk,
     .run = pubsub_numsub,
     .since = "2.8.0",
     .complexity = "O(N) where N is the number of channels asked for.",
     .summary = "Returns the number of subscribers of channels, without those of patterns.",
     .group = kGroup,
     .arguments = kMaybeChannels,
     .container = kContainer},
    {.name = "shardchannels",
     .arity = at_least(2),
     .flags = kAsk | kOffload | kLong,
     .run = pubsub_shardchannels,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of shard channels with subscribers.",
     .summary = "Lists the shard channels that have subscribers.",
     .group = kGroup,
     .arguments = kMaybePattern,
     .container = kContainer},
    {.name = "shardnumsub",
     .arity = at_least(2),
     .flags = kAsk,
     .run = pubsub_shardnumsub,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of shard channels asked for.",
     .summary = "Returns the number of subscribers of shard channels.",
     .group = kGroup,
     .arguments = kMaybeShardChannels,
     .container = kContainer},
    help_of(kContainer, "6.2.0", kGroup),
};

constexpr CommandSpec kPubSubCommands[] = {
    {.name = "subscribe",
     .arity = at_least(2),
     .flags = kListen,
     .run = subscribe,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of channels.",
     .summary = "Makes the connection receive the messages published to channels.",
     .group = kGroup,
     .arguments = kChannels},
    {.name = "psubscribe",
     .arity = at_least(2),
     .flags = kListen,
     .run = psubscribe,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of patterns.",
     .summary = "Makes the connection receive the messages published to channels that match patterns.",
     .group = kGroup,
     .arguments = kPatterns},
    {.name = "ssubscribe",
     .arity = at_least(2),
     .flags = kListen,
     .run = ssubscribe,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of shard channels.",
     .summary = "Makes the connection receive the messages published to shard channels.",
     .group = kGroup,
     .arguments = kShardChannels},
    {.name = "unsubscribe",
     .arity = at_least(1),
     .flags = kListen,
     .run = unsubscribe,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of channels.",
     .summary = "Ends subscriptions to channels; to all channels if none is named.",
     .group = kGroup,
     .arguments = kMaybeChannels},
    {.name = "punsubscribe",
     .arity = at_least(1),
     .flags = kListen,
     .run = punsubscribe,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of patterns.",
     .summary = "Ends subscriptions to patterns; to all patterns if none is named.",
     .group = kGroup,
     .arguments = kMaybePatterns},
    {.name = "sunsubscribe",
     .arity = at_least(1),
     .flags = kListen,
     .run = sunsubscribe,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of shard channels.",
     .summary = "Ends subscriptions to shard channels; to all shard channels if none is named.",
     .group = kGroup,
     .arguments = kMaybeShardChannels},
    {.name = "publish",
     .arity = exactly(3),
     .flags = kPubSub | kLoading | kStale | kFast | kAnyThread | kMayLeave | kLong,
     .run = publish,
     .since = "2.0.0",
     .complexity = "O(N+M) where N is the number of subscribers to the channel and M the number of patterns.",
     .summary = "Sends a message to the subscribers of a channel, and of the patterns that match it.",
     .group = kGroup,
     .arguments = kPublish},
    {.name = "spublish",
     .arity = exactly(3),
     .flags = kPubSub | kLoading | kStale | kFast | kOnLoop | kAnyThread,
     .run = spublish,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of subscribers to the shard channel.",
     .summary = "Sends a message to the subscribers of a shard channel.",
     .group = kGroup,
     .arguments = kSpublish},
    {.name = kContainer,
     .arity = at_least(2),
     .since = "2.8.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for commands about subscriptions.",
     .group = kGroup,
     .subcommands = kSubcommands},
};

}  // namespace

std::span<const CommandSpec> pubsub_commands() { return kPubSubCommands; }

}  // namespace ebbtide
